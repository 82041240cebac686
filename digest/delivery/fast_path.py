"""Settle an accepted window and intend the next one in a single PostgreSQL statement.

The fast path is for windows whose letters were all accepted, followed by letters that nothing blocks.
Outcome and intent are one transaction, in which PostgreSQL itself checks whether a recipient, a
suppression, a pause or a stop has changed. While it replies and writes to disk, the worker renders the next
letters. Other windows are left to `window_checks`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from digest import bounces, db
from digest.delivery import limits
from digest.delivery.message_rendering import RenderedDelivery
from digest.delivery.settlement import Settlement
from digest.site_profile import Site

Statement = tuple[str, dict[str, Any]]

SPLIT_LIST = f"string_to_array(%({{}})s, E'\\x{ord(db.UNIT):02x}', E'\\x{ord(db.NULL_MARK):02x}')"

#: The intent of letters that we still hold, whose recipient has not changed, and that nothing blocks.
#: The range of ids hints to the planner that they are keys, as `db.hint_few_rows` does.
INTEND_CTE = f"""intended AS (
    UPDATE delivery SET state = 'sending', attempts = attempts + 1, leased_until = %(until)s,
        message_id = new.message_id, content_hash = new.content_hash
    FROM unnest(
        CAST(%(ids)s AS bigint[]), {SPLIT_LIST.format("message_ids")}, {SPLIT_LIST.format("content_hashes")},
        CAST(%(versions)s AS xid[]), {SPLIT_LIST.format("addresses")}
    ) AS new (id, message_id, content_hash, version, address)
    WHERE delivery.id = new.id AND new.id BETWEEN -{db.LAST_KEY} AND {db.LAST_KEY}
        AND delivery.state = 'claimed' AND delivery.lease = %(lease)s
        AND EXISTS (
            SELECT FROM subscriber
            WHERE subscriber.id = delivery.subscriber_id AND subscriber.xmin = new.version
        )
        AND NOT EXISTS (SELECT FROM suppression WHERE suppression.hmac = new.address)
        AND NOT EXISTS (SELECT FROM emergency_stop WHERE emergency_stop.lifted_at IS NULL)
        AND NOT EXISTS (SELECT FROM domain_pause AS pause WHERE pause.scope = ANY ({SPLIT_LIST.format("paused")}) AND pause.until > %(now)s)
    RETURNING delivery.id
)"""  # noqa: S608 - constants only
#: The outcome of the last window. It shares no letter with the next, so their order does not matter.
SETTLE_CTE = f"""ended AS (
    UPDATE delivery SET state = 'sent', reason = '', settled_at = %(settled_at)s, lease = NULL, leased_until = NULL
    WHERE id = ANY (CAST(%(settled)s AS bigint[])) AND state = 'sending' AND lease = %(settled_lease)s
    RETURNING id
), kept AS (
    INSERT INTO attempt (delivery_id, lease, began_at, ended_at, verdict, phase, code, reply)
    SELECT new.id, %(settled_lease)s, %(began_at)s, %(settled_at)s, 'accepted', %(phase)s, %(code)s, coalesce(new.reply, '')
    FROM unnest(CAST(%(settled)s AS bigint[]), {SPLIT_LIST.format("replies")}) AS new (id, reply)
)"""  # noqa: S608 - constants only
INTENDED_IDS = "ARRAY(SELECT id FROM intended)"
INTEND_STATEMENT = f"WITH {INTEND_CTE} SELECT 0, {INTENDED_IDS}"
SETTLE_AND_INTEND_STATEMENT = (
    f"WITH {SETTLE_CTE}, {INTEND_CTE} SELECT (SELECT count(*) FROM ended), {INTENDED_IDS}"  # noqa: S608 - constants only
)


def settle_and_intend(settlement: Settlement, intending: Statement) -> Statement:
    """Return the statement that also settles an accepted window, and returns how many of its letters we
    still held.
    """
    first = settlement.outcomes[0]
    outcome = {
        "settled": db.array_literal(settlement.accepted_ids),
        "settled_lease": settlement.lease,
        "settled_at": settlement.now,
        "began_at": settlement.began_at,
        "phase": first.phase,
        "code": first.code,
        "replies": db.join_values([each.reply[:500] or None for each in settlement.outcomes]),
    }
    return SETTLE_AND_INTEND_STATEMENT, intending[1] | outcome


def intend_statement(
    site: Site,
    rendered: Mapping[int, RenderedDelivery],
    versions: Mapping[int, str],
    *,
    lease: str,
    until: datetime,
    now: datetime,
) -> Statement:
    """Return the statement that intends those of these letters that nothing blocks, and returns their ids."""
    letters = list(rendered.values())
    emails = [each.delivery.email or "" for each in letters]
    parameters = {
        "ids": db.array_literal(rendered),
        "message_ids": db.join_values([each.intent.message_id for each in letters]),
        "content_hashes": db.join_values([each.intent.content_hash for each in letters]),
        "versions": db.array_literal(versions[each.delivery.subscriber_id or 0] for each in letters),
        "addresses": db.join_values([bounces.address_hmac(site, email) for email in emails]),
        "paused": db.join_values(limits.pause_scopes(emails)),
        "lease": lease,
        "until": until,
        "now": now,
    }
    return INTEND_STATEMENT, parameters


def supports_pipelining(session: Session) -> bool:
    """Return whether the database works in another process: SQLite runs in this one."""
    return session.get_bind().dialect.name == "postgresql"
