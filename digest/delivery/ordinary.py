"""The ordinary window: its letters were all accepted, and nothing speaks against sending the next ones.

Then the fate of the one and the intent to send the other are one transaction, in which PostgreSQL itself looks
whether anybody has changed their mind. It takes one question, and while it is answered and goes to the disk
the letters after those are written. What is not ordinary is left as it is, for `looking`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from digest import bounces, db, rates
from digest.delivery.settling import Settlement
from digest.delivery.writing import Written
from digest.links import Site

Question = tuple[str, dict[str, Any]]

LIST = f"string_to_array(%({{}})s, E'\\x{ord(db.UNIT):02x}', E'\\x{ord(db.NONE):02x}')"

#: The intent of those that are still ours, whose reader is as the letter says, and that nothing holds up. That
#: their ids are keys is said as in `db.looked_up`.
INTENDED = f"""intended AS (
    UPDATE delivery SET state = 'sending', attempts = attempts + 1, leased_until = %(until)s,
        message_id = new.message_id, content_hash = new.content_hash
    FROM unnest(
        CAST(%(ids)s AS bigint[]), {LIST.format("message_ids")}, {LIST.format("content_hashes")},
        CAST(%(versions)s AS xid[]), {LIST.format("addresses")}
    ) AS new (id, message_id, content_hash, version, address)
    WHERE delivery.id = new.id AND new.id BETWEEN -{db.LAST_KEY} AND {db.LAST_KEY}
        AND delivery.state = 'claimed' AND delivery.lease = %(lease)s
        AND EXISTS (
            SELECT FROM subscriber
            WHERE subscriber.id = delivery.subscriber_id AND subscriber.xmin = new.version
        )
        AND NOT EXISTS (SELECT FROM suppression WHERE suppression.hmac = new.address)
        AND NOT EXISTS (SELECT FROM stop WHERE stop.lifted_at IS NULL)
        AND NOT EXISTS (SELECT FROM pace WHERE pace.name = ANY ({LIST.format("pauses")}) AND pace.at > %(now)s)
    RETURNING delivery.id
)"""  # noqa: S608 - our own words
#: The fate of the window before. It shares no letter with the next, so it does not matter which comes first.
TOLD = f"""ended AS (
    UPDATE delivery SET state = 'sent', reason = '', settled_at = %(told_at)s, lease = NULL, leased_until = NULL
    WHERE id = ANY (CAST(%(told)s AS bigint[])) AND state = 'sending' AND lease = %(told_under)s
    RETURNING id
), kept AS (
    INSERT INTO attempt (delivery_id, lease, began_at, ended_at, verdict, phase, code, reply)
    SELECT new.id, %(told_under)s, %(began_at)s, %(told_at)s, 'accepted', %(phase)s, %(code)s, coalesce(new.reply, '')
    FROM unnest(CAST(%(told)s AS bigint[]), {LIST.format("replies")}) AS new (id, reply)
)"""  # noqa: S608 - our own words
IDS = "ARRAY(SELECT id FROM intended)"
INTENDING = f"WITH {INTENDED} SELECT 0, {IDS}"
TELLING = f"WITH {TOLD}, {INTENDED} SELECT (SELECT count(*) FROM ended), {IDS}"  # noqa: S608 - our own words


def telling(settlement: Settlement, intending: Question) -> Question:
    """Return what tells the fate of a window that was accepted as well: how many of it were still ours."""
    first = settlement.outcomes[0]
    fate = {
        "told": db.braced(settlement.accepted),
        "told_under": settlement.lease,
        "told_at": settlement.now,
        "began_at": settlement.began_at,
        "phase": first.phase,
        "code": first.code,
        "replies": db.spelled([each.reply[:500] or None for each in settlement.outcomes]),
    }
    return TELLING, intending[1] | fate


def intending(
    site: Site,
    going: Mapping[int, Written],
    versions: Mapping[int, str],
    *,
    lease: str,
    until: datetime,
    now: datetime,
) -> Question:
    """Return what keeps the intent to send these, as far as nothing speaks against it: which are ours to send."""
    letters = list(going.values())
    emails = [each.delivery.email or "" for each in letters]
    given = {
        "ids": db.braced(going),
        "message_ids": db.spelled([each.intent.message_id for each in letters]),
        "content_hashes": db.spelled([each.intent.content_hash for each in letters]),
        "versions": db.braced(versions[each.delivery.subscriber_id or 0] for each in letters),
        "addresses": db.spelled([bounces.hashed(site, email) for email in emails]),
        "pauses": db.spelled(rates.pauses(emails)),
        "lease": lease,
        "until": until,
        "now": now,
    }
    return INTENDING, given


def is_on_postgresql(session: Session) -> bool:
    """Return whether there is somebody to work meanwhile: SQLite is in this very process."""
    return session.get_bind().dialect.name == "postgresql"
