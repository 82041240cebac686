"""Invitations: whom an operator put on the list is asked once, at a gentle pace, and then left alone.

An invitation is the one letter that an unconfirmed address may get. Its key is made from the address
alone, so that no second one is written whatever is imported, removed or imported again.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from digest import db, links, outbox
from digest.links import Site
from digest.model import Confirmation, Delivery, DeliveryState, Lane
from digest.subscriptions.people import one_line

PACE = timedelta(minutes=1)  #: between two invitations, so that a large list is no burst of unasked mail
ANSWER_WITHIN = timedelta(days=14)
INVITED = '{"invited":true}'  #: the wishes of a confirmation that nobody asked for: it is never reminded of
MOST_NAMED = 8  #: topics that an invitation names
LONGEST_NAME = 80


@dataclass(frozen=True, kw_only=True, slots=True)
class Invitee:
    """Somebody whom an operator put on the list, and who has not said yes."""

    id: int
    email: str
    email_key: str
    topics: tuple[str, ...]  #: the names of those that the operator chose for them


def invite(
    session: Session,
    site: Site,
    invitees: Iterable[Invitee],
    *,
    by: str,
    moments: Iterator[datetime],
    now: datetime,
) -> int:
    """Write one invitation to each of these whose address was never written one; return how many.

    `by` says who put them on the list, in the operator's words. Each goes out at the next of the moments.
    """
    by_key = {key(site, one.email_key): one for one in invitees}
    for name in used(session, by_key):
        del by_key[name]
    due = {one.id: next(moments) for one in by_key.values()}
    questions = [
        {"subscriber_id": number, "made_at": due_at, "expires_at": due_at + ANSWER_WITHIN}
        for number, due_at in due.items()
    ]
    asked = db.put_many(
        session, Confirmation, questions, same={"wishes": INVITED}, returning=("id", "subscriber_id")
    )
    numbers = {row.subscriber_id: row.id for row in asked}
    letters = [
        letter(one, name, confirmation_id=numbers[one.id], by=by, due_at=due[one.id])
        for name, one in by_key.items()
    ]
    return outbox.put_notices(session, letters, site=site, now=now)


def letter(one: Invitee, name: str, *, confirmation_id: int, by: str, due_at: datetime) -> dict[str, Any]:
    """Return an invitation as a row of the outbox."""
    decision = {
        "confirmation_id": confirmation_id,
        "by": one_line(by)[:LONGEST_NAME],
        "topics": one.topics[:MOST_NAMED],
        "days": ANSWER_WITHIN.days,
    }
    return {
        "letter": "invite",
        "subscriber_id": one.id,
        "email": one.email,
        "decision": json.dumps(decision, separators=(",", ":")),
        "dedupe_key": name,
        "dated_at": due_at,
        "due_at": due_at,
        "expires_at": due_at + outbox.LETTER_LIFE,
    }


def key(site: Site, email_key: str) -> str:
    """Return what keeps a second invitation to the same address from being written."""
    return f"invite-{links.address_hash(site, email_key)}"


DEDUPE_KEY: Any = Delivery.__table__.c.dedupe_key
USED = select(DEDUPE_KEY).where(db.among(DEDUPE_KEY, db.many("keys", DEDUPE_KEY)))
ASKED_ID: Any = Confirmation.__table__.c.subscriber_id
ASKED = select(ASKED_ID).where(db.among(ASKED_ID, db.many("ids", ASKED_ID)))


def used(session: Session, keys: Collection[str]) -> list[str]:
    """Return those of these keys under which an invitation was written before."""
    return list(session.connection().execute(USED, {"keys": keys}).scalars()) if keys else []


def never_asked(session: Session, invitees: Sequence[Invitee]) -> list[Invitee]:
    """Return those who have had no question of ours, by whichever door they came."""
    if not invitees:
        return []
    ids = [one.id for one in invitees]
    asked = set(session.connection().execute(ASKED, {"ids": ids}).scalars())
    return [one for one in invitees if one.id not in asked]


def free_moments(session: Session, now: datetime) -> Iterator[datetime]:
    """Yield the moments at which the next invitations may go: a minute apart, behind those that wait."""
    last = session.scalar(
        select(func.max(Delivery.due_at)).where(
            outbox.IS_OPEN,
            Delivery.lane == Lane.BULK,
            Delivery.letter == "invite",
            Delivery.state == DeliveryState.QUEUED,
        )
    )
    moment = now if last is None else max(now, last + PACE)
    while True:
        yield moment
        moment += PACE


def withdraw(session: Session, site: Site, email_key: str, *, now: datetime) -> None:
    """Take back an invitation that still waits: its reader has come by themselves."""
    outbox.withdraw(session, key(site, email_key), "they asked by themselves", now=now)
