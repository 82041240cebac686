"""Invented papers for matching."""

from __future__ import annotations

from datetime import UTC, date, datetime

from digest.papers.paper_record import Announcement, Organization, Paper

SEEN = datetime(2026, 11, 20, tzinfo=UTC)


def paper(title="", abstract="", **fields) -> Paper:
    return Paper(**{"id": 1, "title": title, "abstract": abstract, "first_seen_at": SEEN} | fields)


KITCHEN = paper(
    "Diffusion Models for Kitchen Robots",
    "We train a score-based policy on 3.5 million grasps. Robotic arms learn in context. SAM segments the cups.",
    id=7,
    authors=("Yuki Ito", "Ada Okafor", "Jean-Pierre Lind"),
    categories=("cs.RO", "cs.SY", "astro-ph.IM"),
    ids={"arxiv": "2411.01234", "doi": "10.1000/kitchen"},
    published=date(2024, 11, 3),
    comment="12 pages, accepted at a workshop",
    journal="Journal of Cups",
    organization=Organization(handle="cuplab", name="Cup Lab"),
    signals={"upvotes": 42, "comments": 3},
    announcement=Announcement.CROSS,
    sources=("Daily Papers",),
)
