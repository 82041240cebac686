"""Write the "nothing today" letter for an edition without papers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy.orm import Session

from digest.db.tables.deliveries import Lane
from digest.delivery.outbox import enqueue, planned_letters
from digest.letters import figures_in_words
from digest.letters.press.digest_page import filter_in_words
from digest.papers import bitsets, display_text
from digest.publishing.match_index import MatchIndex, parse_or_none
from digest.publishing.pending_updates import are_overdue, last_mail_at
from digest.publishing.reader_values import Decision, GatheredInputs, PendingFollowups, Topic
from digest.site import links
from digest.site.site_profile import Site
from digest.topics.filter_tree import And, Node, Not, TextClause

#: Time without mail after which a reader gets the letter even without asking for it.
SILENT_DAYS = timedelta(days=14)
MAX_CLAUSE_LENGTH = 60  #: a clause with more characters than this is not shown in a letter


def needs_letter(decision: Decision, now: datetime) -> bool:
    """Return whether a letter is sent in place of an edition without papers.

    A letter is sent if updates are overdue, or if papers were checked and the reader either wants the letter
    or got no mail for 14 days.
    """
    if decision.digest.sections:
        return False
    if decision.pending is not None and are_overdue(decision.pending, now):
        return True
    if not decision.digest.checked:
        return False
    return decision.reader.wants_nothing_today_letters or now - last_mail_at(decision.reader) >= SILENT_DAYS


def queue_nothing_today_letters(
    session: Session,
    gathered: GatheredInputs,
    decisions: Iterable[tuple[Decision, datetime]],
    *,
    site: Site,
) -> dict[int, int]:
    """Queue a nothing-today letter in the bulk lane for each decision, with the reader's next due time.

    Returns {subscriber id: delivery id}. The dedupe key contains the subscriber and the edition, so an
    edition leads to at most one letter.
    """
    queued = {}
    for decision, next_due_at in decisions:
        reader, edition = decision.reader, decision.edition
        number = enqueue.queue_letter(
            session,
            letter=planned_letters.NothingTodayLetter(
                subscriber_id=reader.id,
                edition=edition.name,
                contents=checked_summary(gathered, decision, site=site, next_due_at=next_due_at),
            ),
            subscriber_id=reader.id,
            email=reader.owner_email or reader.email,
            site=site,
            now=gathered.now,
            expires_at=edition.closes_at,
            lane=Lane.BULK,
        )
        if number is not None:
            queued[reader.id] = number
    return queued


def checked_summary(
    gathered: GatheredInputs,
    decision: Decision,
    *,
    site: Site,
    next_due_at: datetime | None,
) -> dict[str, Any]:
    """Return the content of a nothing-today letter: the papers checked, a paper to read instead, the updates."""
    reader_id = decision.reader.id
    topics = gathered.topics.get(reader_id, ())
    new = decision.eligible & ~bitsets.bitset_of(gathered.shown.get(reader_id, ()))
    return {
        "checked": decision.digest.checked,
        "has_topics": bool(topics),
        "is_wanted": decision.reader.wants_nothing_today_letters,
        "nearest": paper_instead(gathered.match_index, new, topics, site),
        "next_due_at": next_due_at.isoformat() if next_due_at else None,
        "news": followup_items(decision.pending, site),
    }


def followup_items(pending: PendingFollowups | None, site: Site) -> list[dict[str, str]]:
    """Convert the updates to variables for the letter templates."""
    return [
        {
            "title": one.title,
            "href": links.paper_url(site, one.paper),
            "text": figures_in_words.followup_text(one.kind, one.detail),
        }
        for one in (pending.news if pending is not None else ())
    ]


def paper_instead(
    match_index: MatchIndex, new: int, topics: Sequence[Topic], site: Site
) -> dict[str, Any] | None:
    """Return a new paper that matches all but one clause of a topic, else the most trending new paper.

    Papers that a topic excludes with NOT are left out. Returns None if no new paper remains.
    """
    known = (match_index.canonicals.get(number) for _, number in topics)
    trees = [filter_.tree for text in known if text is not None and (filter_ := parse_or_none(text))]
    clauses = [tree.children if isinstance(tree, And) else (tree,) for tree in trees]
    for clause in (one for some in clauses for one in some if isinstance(one, Not)):
        new &= match_index.press.index.matches_of_node(clause)
    found = [one for some in clauses for one in near_misses(match_index, some, new)]
    if not found and not new:
        return None
    number, lacked, is_text = min(found, default=(lowest(new), "", False))
    paper = match_index.press.papers[number]
    return {
        "title": display_text.display(paper.title),
        "href": links.paper_url(site, paper.id),
        "lacked": lacked,
        "is_text": is_text,  # "does not mention" is true only if the clause searches all text of the paper
    }


def near_misses(
    match_index: MatchIndex, clauses: Sequence[Node], new: int
) -> Iterator[tuple[int, str, bool]]:
    """Yield, for each clause, the most trending paper that matches all clauses but this one, if any.

    Each item is (paper number, clause, whether the clause searches all text of the paper).
    """
    matches_of = match_index.press.index.matches_of_node
    positive = [clause for clause in clauses if not isinstance(clause, Not)]
    for clause in positive if len(positive) > 1 else ():
        close = new & ~matches_of(clause)
        for other in positive:
            close &= matches_of(other) if other is not clause else -1
        lacked = filter_in_words(clause.canonical)
        if close and len(lacked) <= MAX_CLAUSE_LENGTH:
            is_text = isinstance(clause, TextClause) and ":" not in clause.canonical
            yield lowest(close), lacked, is_text


def lowest(numbers: int) -> int:
    """Return the lowest number in a set of paper numbers, which is the most trending paper; -1 if empty."""
    return (numbers & -numbers).bit_length() - 1
