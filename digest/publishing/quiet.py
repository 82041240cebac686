"""Quiet days: where nothing matched, a short letter with proof, to who wants it or has heard nothing for long."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy.orm import Session

from digest import links, outbox, papers
from digest.editions import Edition
from digest.links import Site
from digest.model import Lane
from digest.publishing.desk import Desk, read
from digest.publishing.followups import last_heard
from digest.publishing.values import Decision, Pending, Topic
from digest.rendering import words
from digest.topics.tree import And, Node, Not

SILENCE = timedelta(days=14)  #: after so long a word is due, wanted or not
LONGEST_LACKED = 60  #: characters of a clause that are worth naming


def is_told(decision: Decision, now: datetime) -> bool:
    """Return whether this empty edition is worth a letter.

    It is where news of earlier papers have waited long, or where something was checked and silence was long.
    """
    if decision.digest.sections:
        return False
    if decision.pending is not None and decision.pending.is_overdue(now):
        return True
    if decision.is_held or not decision.digest.checked:
        return False
    return decision.reader.wants_quiet_letters or now - last_heard(decision.reader) >= SILENCE


def put_letters(
    session: Session,
    desk: Desk,
    decisions: Iterable[tuple[Decision, Sequence[Topic], datetime]],
    *,
    site: Site,
    now: datetime,
) -> dict[int, int]:
    """Write these quiet letters into the bulk lane, each with the reader's topics and next edition.

    Returns {whom it goes to: delivery id}. An edition's letter is written once: its key is the reader and
    the edition.
    """
    told = {}
    for decision, topics, next_due_at in decisions:
        reader, edition = decision.reader, decision.edition
        number = outbox.put_letter(
            session,
            letter="quiet",
            subscriber_id=reader.id,
            email=reader.email,
            decision=proof(desk, decision, topics, site=site, next_due_at=next_due_at),
            dedupe_key=key_of(reader.id, edition),
            site=site,
            now=now,
            expires_at=edition.closes_at,
            lane=Lane.BULK,
        )
        if number is not None:
            told[reader.id] = number
    return told


def key_of(subscriber_id: int, edition: Edition) -> str:
    """Return what makes a quiet letter itself."""
    return f"quiet-{subscriber_id}-{edition.name}"


def proof(
    desk: Desk, decision: Decision, topics: Sequence[Topic], *, site: Site, next_due_at: datetime | None
) -> dict[str, Any]:
    """Return what a quiet letter tells: how many papers were checked, and which came nearest."""
    return {
        "checked": 0 if decision.is_held else decision.digest.checked,  # of held ones some did match
        "nearest": None if decision.is_held else nearest(desk, decision.eligible, topics, site),
        "next_due_at": next_due_at.isoformat() if next_due_at else None,
        "news": news(decision.pending, site),
    }


def news(pending: Pending | None, site: Site) -> list[dict[str, str]]:
    """Return what became of papers of earlier digests, as letters say it."""
    return [
        {
            "title": one.title,
            "href": links.paper_url(site, one.paper),
            "says": words.became(one.kind, one.says),
        }
        for one in (pending.news if pending is not None else ())
    ]


def nearest(desk: Desk, eligible: int, topics: Sequence[Topic], site: Site) -> dict[str, str] | None:
    """Return the paper that came nearest to one of the topics, and what it lacked; None if none can be told.

    Nearest is who lacks one clause of several; among equals, and where no topic has several, what trends most.
    """
    found = [one for _, number in topics if (one := misses(desk, number, eligible)) is not None]
    if not found:
        return None
    _, number, lacked = min(found)
    paper = desk.press.papers[number]
    return {
        "title": papers.display(paper.title),
        "href": links.paper_url(site, paper.id),
        "lacked": f"'{lacked}'" if len(lacked) <= LONGEST_LACKED else "",
    }


def misses(desk: Desk, filter_id: int, eligible: int) -> tuple[bool, int, str] | None:
    """Return (is it far, number, clause) of the paper that came nearest to a filter.

    What must not be in a paper is no near miss: such papers are passed over.
    """
    filter_ = read(desk.canonicals[filter_id]) if filter_id in desk.canonicals else None
    if filter_ is None:
        return None
    clauses = filter_.tree.children if isinstance(filter_.tree, And) else (filter_.tree,)
    wanted = [clause for clause in clauses if not isinstance(clause, Not)]
    for clause in clauses:
        if isinstance(clause, Not):
            eligible &= desk.index.value(clause)
    near = [one for clause in wanted if (one := lacking(desk, clause, wanted, eligible)) is not None]
    return min(near, default=None)


def lacking(desk: Desk, clause: Node, wanted: Sequence[Node], eligible: int) -> tuple[bool, int, str] | None:
    """Return the most trending paper that lacks this clause, if possible no other."""
    pool = eligible & ~desk.index.value(clause)
    close = pool
    for other in wanted:
        close &= desk.index.value(other) if other is not clause else -1
    best = close or pool
    if not best:
        return None
    is_far = not close or len(wanted) == 1
    return is_far, (best & -best).bit_length() - 1, clause.canonical.replace('"', "")
