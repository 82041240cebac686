"""Record intents and settle deliveries on PostgreSQL, which executes statements while the worker renders.

The driver takes a microsecond for each value of a list, so a list is sent as one string, which the server splits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import Any

from sqlalchemy.orm import Session

from digest import db, failpoints
from digest.db.postgresql import driver_connection
from digest.delivery.outbox.transitions import AcceptedWindow, FetchReply, Intent, NextWindow, Outbox


def split_list(name: str) -> str:
    """Return the SQL that converts the text of `db.join_values` to an array."""
    return f"string_to_array(%({name})s, E'\\x{ord(db.UNIT):02x}', E'\\x{ord(db.NULL_MARK):02x}')"


LETTER_COLUMNS = {
    "id": "CAST(%(ids)s AS bigint[])",
    "message_id": split_list("message_ids"),
    "content_hash": split_list("content_hashes"),
    "version": "CAST(%(versions)s AS xid[])",
    "address": split_list("addresses"),
}


def intend_sql(guards: str) -> str:
    """Return the statement that records an intent for each letter that we hold and that is not blocked.

    A suppressed address, or a condition in `guards`, blocks a letter. The condition on the range of ids makes
    the planner expect few rows, like `db.hint_few_rows`.
    """
    return f"""UPDATE delivery SET state = 'sending', attempts = attempts + 1, leased_until = %(until)s,
        message_id = new.message_id, content_hash = new.content_hash
    FROM unnest({", ".join(LETTER_COLUMNS.values())}) AS new ({", ".join(LETTER_COLUMNS)})
    WHERE delivery.id = new.id AND new.id BETWEEN -{db.LAST_KEY} AND {db.LAST_KEY}
        AND delivery.state = 'claimed' AND delivery.lease = %(lease)s
        AND NOT EXISTS (SELECT FROM suppression WHERE suppression.hmac = new.address) {guards}
    RETURNING delivery.id"""  # noqa: S608 - constants only


INTEND = intend_sql(
    """AND NOT EXISTS (
            SELECT FROM subscriber
            WHERE subscriber.id = delivery.subscriber_id AND subscriber.xmin <> new.version
        )"""
)
INTEND_UNBLOCKED = intend_sql(
    f"""AND EXISTS (
            SELECT FROM subscriber
            WHERE subscriber.id = delivery.subscriber_id AND subscriber.xmin = new.version
        )
        AND NOT EXISTS (SELECT FROM emergency_stop WHERE emergency_stop.lifted_at IS NULL)
        AND NOT EXISTS (
            SELECT FROM domain_pause AS pause
            WHERE pause.scope = ANY ({split_list("paused")}) AND pause.until > %(now)s
        )""",  # noqa: S608
)
#: The statement that settles the previous window. The two windows have no letter in common, so the order of
#: the statements does not matter.
SETTLE_ACCEPTED = f"""ended AS (
    UPDATE delivery SET state = 'sent', reason = '', settled_at = %(settled_at)s, lease = NULL, leased_until = NULL
    WHERE id = ANY (CAST(%(settled)s AS bigint[])) AND state = 'sending' AND lease = %(settled_lease)s
    RETURNING id
), kept AS (
    INSERT INTO attempt (delivery_id, lease, began_at, ended_at, verdict, phase, code, reply)
    SELECT new.id, %(settled_lease)s, %(began_at)s, %(settled_at)s, 'accepted', %(phase)s, %(code)s, coalesce(new.reply, '')
    FROM unnest(CAST(%(settled)s AS bigint[]), {split_list("replies")}) AS new (id, reply)
)"""  # noqa: S608 - constants only
INTENDED_IDS = "ARRAY(SELECT id FROM intended)"
INTEND_STATEMENT = f"WITH intended AS ({INTEND_UNBLOCKED}) SELECT 0, {INTENDED_IDS}"
SETTLE_AND_INTEND_STATEMENT = (
    f"WITH {SETTLE_ACCEPTED}, intended AS ({INTEND_UNBLOCKED})"  # noqa: S608
    f" SELECT (SELECT count(*) FROM ended), {INTENDED_IDS}"
)


class PostgresqlOutbox(Outbox):
    """The outbox on PostgreSQL, which executes statements while our process continues."""

    def intend(self, intents: Sequence[Intent], *, lease: str, until: datetime) -> set[int]:
        """Record the intent to send these letters; return the ids of those that may be sent until `until`."""
        if not intents:
            return set()
        given = {**intent_params(intents), "lease": lease, "until": until}
        return set(self.session.connection().exec_driver_sql(INTEND, given).scalars())

    @contextmanager
    def settle_and_intend(
        self, accepted: AcceptedWindow | None, following: NextWindow
    ) -> Iterator[FetchReply]:
        """Settle an accepted window and record the intents of the next window in one statement.

        The statement is committed while the block runs. The session keeps its connection without an open
        transaction, because taking a new connection for each window would cost as much as the statement.
        """
        given = {
            **intent_params(following.intents),
            "paused": db.join_values(following.paused),
            "lease": following.lease,
            "until": following.until,
            "now": following.now,
        }
        statement = INTEND_STATEMENT
        if accepted:
            statement, given = SETTLE_AND_INTEND_STATEMENT, given | accepted_params(accepted)
        with pipelined_query(self.session, statement, given) as cursor:
            failpoints.reach("settling")
            failpoints.reach("intending")
            yield partial(fetch_reply, cursor)
        failpoints.reach("settled")
        failpoints.reach("intended")


def fetch_reply(cursor: Any) -> tuple[int, set[int]]:
    """Return the number of settled letters, and the ids of the letters that may be sent."""
    ended, held = cursor.fetchone()
    return ended, set(held)


def intent_params(intents: Sequence[Intent]) -> dict[str, Any]:
    """Return the columns of the intents, each column as one text."""
    return {
        "ids": db.array_literal(each.id for each in intents),
        "message_ids": db.join_values([each.message_id for each in intents]),
        "content_hashes": db.join_values([each.content_hash for each in intents]),
        "versions": db.array_literal(each.recipient_version or "NULL" for each in intents),
        "addresses": db.join_values([each.address_hash or None for each in intents]),
    }


def accepted_params(accepted: AcceptedWindow) -> dict[str, Any]:
    """Return the parameters that settle an accepted window."""
    first = accepted.attempts[0]
    return {
        "settled": db.array_literal(each.delivery_id for each in accepted.attempts),
        "settled_lease": accepted.lease,
        "settled_at": accepted.ended_at,
        "began_at": first.began_at,
        "phase": first.phase,
        "code": first.code,
        "replies": db.join_values([each.reply[:500] or None for each in accepted.attempts]),
    }


@contextmanager
def pipelined_query(session: Session, statement: str, parameters: Mapping[str, Any]) -> Iterator[Any]:
    """Execute a statement in its own transaction and yield its cursor; read the result after the block.

    No transaction may be open. The statement is committed while the block runs, not at its end.
    """
    with driver_connection(session) as raw:
        try:
            raw.autocommit = True  # otherwise the driver sends BEGIN and waits for the reply
            with raw.pipeline():
                raw.execute("BEGIN")
                cursor = raw.execute(statement, parameters, prepare=True)
                raw.execute("COMMIT")
                raw.pgconn.flush()  # otherwise the driver sends nothing until it waits for the result
                yield cursor
        finally:
            if not raw.closed:
                raw.rollback()  # ends the transaction of a failed statement
                raw.autocommit = False
