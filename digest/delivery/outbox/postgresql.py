"""Record intents and settle deliveries on PostgreSQL, which executes statements while the worker renders.

The driver takes a microsecond for each value in a list, so a list is sent as one string, which the server splits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sqlalchemy.orm import Session

from digest import db
from digest.delivery.outbox.letter_eligibility import recipient_version
from digest.delivery.outbox.transitions import AcceptedWindow, FetchReply, NextWindow, Outbox, intend_sql
from digest.process import failpoints


def split_list(name: str) -> str:
    """Return the SQL that converts the string from `db.join_values` to an array."""
    return f"string_to_array(:{name}, E'\\x{ord(db.UNIT):02x}', E'\\x{ord(db.NULL_MARK):02x}')"


def driver_sql(sql: str) -> str:
    """Return the SQL with its parameters written as the driver expects them."""
    return re.sub(r":(\w+)", r"%(\1)s", sql)


LETTER_COLUMNS = {
    "id": "CAST(:ids AS bigint[])",
    "message_id": split_list("message_ids"),
    "content_hash": split_list("content_hashes"),
    "version": split_list("versions"),
    "address": split_list("addresses"),
}
#: The condition on the range of ids makes the planner expect few rows, like `db.hint_few_rows`.
LETTERS = f"""(
    SELECT * FROM unnest({", ".join(LETTER_COLUMNS.values())}) AS each ({", ".join(LETTER_COLUMNS)})
    WHERE id BETWEEN -{db.LAST_KEY} AND {db.LAST_KEY}
) AS new"""  # noqa: S608 - constants only
#: The SQL that settles the previous window. The two windows have no letter in common, so the order of
#: the statements does not matter.
SETTLE_ACCEPTED = f"""ended AS (
    UPDATE delivery SET state = 'sent', reason = '', settled_at = :settled_at, lease = NULL, leased_until = NULL
    WHERE id = ANY (CAST(:settled AS bigint[])) AND state = 'sending' AND lease = :settled_lease
    RETURNING id
), kept AS (
    INSERT INTO attempt (delivery_id, lease, began_at, ended_at, verdict, phase, code, reply)
    SELECT new.id, :settled_lease, :began_at, :settled_at, 'accepted', :phase, :code, coalesce(new.reply, '')
    FROM unnest(CAST(:settled AS bigint[]), {split_list("replies")}) AS new (id, reply)
)"""  # noqa: S608 - constants only
INTEND = driver_sql(intend_sql(LETTERS, recipient_version("postgresql")))
INTENDED = intend_sql(LETTERS, recipient_version("postgresql"), f"scope = ANY ({split_list('scopes')})")
INTENDED_IDS = "ARRAY(SELECT id FROM intended)"
INTEND_STATEMENT = driver_sql(f"WITH intended AS ({INTENDED}) SELECT 0, {INTENDED_IDS}")
SETTLE_AND_INTEND_STATEMENT = driver_sql(
    f"WITH {SETTLE_ACCEPTED}, intended AS ({INTENDED})"  # noqa: S608
    f" SELECT (SELECT count(*) FROM ended), {INTENDED_IDS}"
)


class PostgresqlOutbox(Outbox):
    """The outbox on PostgreSQL, which executes statements while our process continues."""

    def record_intents(self, window: NextWindow) -> set[int]:
        """Record the intents of a window; return the ids of the letters that may be sent."""
        connection = self.session.connection()
        return set(connection.exec_driver_sql(INTEND, intend_params(window)).scalars())

    @contextmanager
    def settle_and_intend(
        self, accepted: AcceptedWindow | None, following: NextWindow
    ) -> Iterator[FetchReply]:
        """Settle an accepted window and record the intents of the next window in one statement.

        The statement is committed while the block runs. The session keeps its connection without an open
        transaction, because taking a new connection for each window would cost as much as the statement.
        """
        statement, given = INTEND_STATEMENT, intend_params(following)
        if accepted:
            statement, given = SETTLE_AND_INTEND_STATEMENT, given | accepted_params(accepted)

        def fetch() -> tuple[int, set[int]]:
            ended, held = cursor.fetchone()
            return ended, set(held)

        with pipelined_query(self.session, statement, given) as cursor:
            failpoints.reach("settling")
            failpoints.reach("intending")
            yield fetch
        failpoints.reach("settled")
        failpoints.reach("intended")


def intend_params(window: NextWindow) -> dict[str, Any]:
    """Return the parameters that record the intents of a window, each column as one string."""
    intents = window.intents
    return {
        "ids": db.array_literal(each.id for each in intents),
        "message_ids": db.join_values([each.message_id for each in intents]),
        "content_hashes": db.join_values([each.content_hash for each in intents]),
        "versions": db.join_values([each.recipient_version or None for each in intents]),
        "addresses": db.join_values([each.address_hash or None for each in intents]),
        "scopes": db.UNIT.join(window.scopes),
        "lease": window.lease,
        "until": window.until,
        "now": window.now,
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
    with db.driver_connection(session) as raw:
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
