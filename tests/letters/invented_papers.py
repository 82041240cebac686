"""Invented papers and digests for tests of letters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

from digest.editions.compose import Digest, Section
from digest.letters.letter_rendering import Personalization
from digest.letters.press.digest_letters import DigestLetters
from digest.letters.press.press_value import Press, make_press
from digest.letters.templates import Templates
from digest.papers.paper_record import Organization, Paper
from digest.papers.trending import Ranked
from digest.site.site_profile import Site
from tests.support.compiled_templates import compile_and_check_once

NOW = datetime(2026, 11, 20, 7, tzinfo=UTC)

FLOW = Paper(
    id=11,
    title="Flow matching in twelve lines",
    abstract=(
        "Flow matching trains a vector field to carry noise to data. We show that twelve lines of code "
        "are enough, e.g. on two moons. The straight paths need fewer steps. Nothing else is needed."
    ),
    ids={"arxiv": "2611.01234"},
    authors=("Ito, Aki", "Okafor, Ngozi", "Lind, Per", "Moreau, Zoé"),
    n_authors=7,
    published=date(2026, 11, 19),
    categories=("cs.LG", "stat.ML"),
    urls=("https://github.com/example/flow",),
    first_seen_at=NOW,
)
ROBOTS = Paper(
    id=12,
    title="Robots that ask first",
    abstract="A robot that asks before it acts breaks fewer cups.",
    n_authors=7,
    published=date(2026, 11, 18),
    first_seen_at=NOW,
)
ATTENTION = Paper(
    id=13,
    title="Attention that forgets",
    abstract="",
    organization=Organization(handle="example-lab", name="Example Lab"),
    ids={"doi": "10.5555/forgetting"},
    first_seen_at=NOW,
)
BARE = Paper(id=14, title="A paper of which we know nothing but this", first_seen_at=NOW)
PAPERS = (FLOW, ROBOTS, ATTENTION, BARE)


def pressed(papers: Sequence[Paper] = PAPERS, **reasons: str) -> Press:
    """Return the press of these papers; reasons are named by the paper's id, as `p11="+42 votes"`."""
    ranked = [
        Ranked(paper=paper, score=-float(place), reasons=tuple(filter(None, [reasons.get(f"p{paper.id}")])))
        for place, paper in enumerate(papers)
    ]
    return make_press(ranked, as_of=NOW)


def letters_of(press: Press, site: Site, templates: Templates) -> DigestLetters:
    """Return the letters of a press; the templates of a site are compiled once for all tests."""
    return DigestLetters(press, site, compile_and_check_once(templates, site, checks_letters=False))


def copy_for(recipient: str = "alice@example.edu", **changes: Any) -> Personalization:
    """Return the personalization of one reader."""
    usual: Mapping[str, Any] = {
        "delivery_id": 7,
        "recipient": recipient,
        "edition": "daily-2026-11-20",
        "day": date(2026, 11, 20),
        "dated_at": NOW,
        "next_due_at": NOW + timedelta(days=3),
        "timezone": "Europe/Oslo",
        "unsubscribe_url": "https://digest.example.org/u/2b4b1c.7-0.QxM3Yk9wT1pVbGFzZGZnaGpr",
        "manage_url": "https://digest.example.org/m/2b4b1c.7-0.Y2hpbmVzZS13YWxsLW9mLWNo",
    }
    return Personalization(**{**usual, **changes})


def trending(*papers: int, checked: int = 412, more: int = 0) -> Digest:
    """Return a digest with only the trending section."""
    section = Section(topic="Trending", filter_id=None, papers=papers, more=more)
    return Digest(sections=(section,), checked=checked)


def by_topic(*sections: tuple[str, int | None, tuple[int, ...]], checked: int = 412) -> Digest:
    """Return a digest of several sections: (topic, filter id, paper ids)."""
    made = tuple(Section(topic=topic, filter_id=filter_id, papers=ids) for topic, filter_id, ids in sections)
    return Digest(sections=made, checked=checked)
