"""Write the "nothing today" letter for an edition without papers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy.orm import Session

from digest import links, papers
from digest.db.tables import Lane
from digest.delivery import outbox
from digest.letters import figures_in_words
from digest.publishing.match_index import MatchIndex, parse_or_none
from digest.publishing.paper_updates import last_mail_at
from digest.publishing.reader_values import Decision, PendingFollowups, Topic
from digest.site_profile import Site
from digest.topics.filter_tree import And, Node, Not, TextClause

SILENT_DAYS = timedelta(days=14)  #: after this period without mail, every reader gets the letter
MAX_CLAUSE_LENGTH = 60  #: characters; a longer clause is not quoted


def needs_letter(decision: Decision, now: datetime) -> bool:
    """Return whether this edition without papers gets a letter.

    It does if updates are overdue, or if papers were checked and the reader either wants the letter or
    got no mail for 14 days.
    """
    if decision.digest.sections:
        return False
    if decision.pending is not None and decision.pending.is_overdue(now):
        return True
    if decision.is_too_few or not decision.digest.checked:
        return False
    return decision.reader.wants_nothing_today_letters or now - last_mail_at(decision.reader) >= SILENT_DAYS


def queue_nothing_today_letters(
    session: Session,
    match_index: MatchIndex,
    decisions: Iterable[tuple[Decision, Sequence[Topic], datetime]],
    *,
    site: Site,
    now: datetime,
) -> dict[int, int]:
    """Queue nothing-today letters in the bulk lane for these decisions.

    Returns {subscriber id: delivery id}. Each edition gets one letter at most: the dedupe key is the
    subscriber and the edition.
    """
    queued = {}
    for decision, topics, next_due_at in decisions:
        reader, edition = decision.reader, decision.edition
        number = outbox.queue_letter(
            session,
            letter="nothing_today",
            subscriber_id=reader.id,
            email=reader.email,
            decision=checked_summary(match_index, decision, topics, site=site, next_due_at=next_due_at),
            dedupe_key=f"nothing-today-{reader.id}-{edition.name}",
            site=site,
            now=now,
            expires_at=edition.closes_at,
            lane=Lane.BULK,
        )
        if number is not None:
            queued[reader.id] = number
    return queued


def checked_summary(
    match_index: MatchIndex,
    decision: Decision,
    topics: Sequence[Topic],
    *,
    site: Site,
    next_due_at: datetime | None,
) -> dict[str, Any]:
    """Return the content of a nothing-today letter: the papers checked, the closest miss, the updates."""
    return {
        "checked": 0 if decision.is_too_few else decision.digest.checked,  # if too few, some papers matched
        "nearest": None
        if decision.is_too_few
        else nearest_miss(match_index, decision.eligible, topics, site),
        "next_due_at": next_due_at.isoformat() if next_due_at else None,
        "news": followup_items(decision.pending, site),
    }


def followup_items(pending: PendingFollowups | None, site: Site) -> list[dict[str, str]]:
    """Return the updates in the form that letter templates need."""
    return [
        {
            "title": one.title,
            "href": links.paper_url(site, one.paper),
            "text": figures_in_words.followup_text(one.kind, one.detail),
        }
        for one in (pending.news if pending is not None else ())
    ]


def nearest_miss(
    match_index: MatchIndex, eligible: int, topics: Sequence[Topic], site: Site
) -> dict[str, Any] | None:
    """Return the closest miss, a paper and the clause of a topic that it does not match, or None.

    Papers that fail one of several clauses come first; among equals, the most trending paper is
    returned.
    """
    found = [
        one for _, number in topics if (one := near_miss_of_filter(match_index, number, eligible)) is not None
    ]
    if not found:
        return None
    _, number, clause, is_text = min(found)
    paper = match_index.press.papers[number]
    return {
        "title": papers.display(paper.title),
        "href": links.paper_url(site, paper.id),
        "lacked": f"'{clause}'" if len(clause) <= MAX_CLAUSE_LENGTH else "",
        "is_text": is_text,  # "does not mention" fits only clauses on any text of the paper
    }


def near_miss_of_filter(
    match_index: MatchIndex, filter_id: int, eligible: int
) -> tuple[bool, int, str, bool] | None:
    """Return (is far, paper number, clause, is text) of the paper that came closest to matching a filter.

    Papers that the filter excludes with NOT are left out.
    """
    filter_ = (
        parse_or_none(match_index.canonicals[filter_id]) if filter_id in match_index.canonicals else None
    )
    if filter_ is None:
        return None
    clauses = filter_.tree.children if isinstance(filter_.tree, And) else (filter_.tree,)
    positive = [clause for clause in clauses if not isinstance(clause, Not)]
    for clause in clauses:
        if isinstance(clause, Not):
            eligible &= match_index.index.matches_of_node(clause)
    near = [
        one
        for clause in positive
        if (one := best_paper_lacking(match_index, clause, positive, eligible)) is not None
    ]
    return min(near, default=None)


def best_paper_lacking(
    match_index: MatchIndex, clause: Node, clauses: Sequence[Node], eligible: int
) -> tuple[bool, int, str, bool] | None:
    """Return the most trending paper that fails this clause, preferably one that matches the others."""
    pool = eligible & ~match_index.index.matches_of_node(clause)
    close = pool
    for other in clauses:
        close &= match_index.index.matches_of_node(other) if other is not clause else -1
    best = close or pool
    if not best:
        return None
    is_far = not close or len(clauses) == 1
    is_text = isinstance(clause, TextClause) and ":" not in clause.canonical
    return is_far, (best & -best).bit_length() - 1, clause.canonical.replace('"', ""), is_text
