"""Invented digests of every kind, to compare two ways of rendering them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date, timedelta
from random import Random

from msgspec import structs

from digest.editions.compose import TRENDING_TOPIC, Digest, FollowUp, Section
from digest.letters.letter_rendering import Personalization
from digest.letters.press.press_value import Press, make_press
from digest.papers.paper_record import Organization, Paper
from digest.papers.trending import Ranked
from tests.letters.invented_papers import NOW, copy_for

HOSTILE = (
    "<script>alert(1)</script>", "</style><b>", "&lt;b&gt;", "a & b < c > d", "\"quotes\" and 'quotes'",
    "{{ 7*7 }} {% raw %}", "=3D =?utf-8?q?x?=", ".", "..leading dots", "From here", "\u00a0", "\u2028", "\x85",
    "emoji 🦜🧑🏽‍🔬", "中文标题。第二句。", "עברית \u202e reversed", "e\u0301\u0301\u0301\u0301\u0301\u0301", "<cup, on, table>",
    "$\\alpha_{i}^2$ \\'e", "javascript:alert(1)", "trailing ", "\ttab", "\x00\x01", "ﬁ", "Dr. A. B. et al. said so.",
)  # fmt: skip
ORDINARY = (
    "flow matching", "robots", "we show that", "twelve lines of code", "are enough.", "Nothing else is needed.",
    "diffusion priors", "fewer steps", "a longer phrase about straight paths between two moons", "in 2026,",
    "40 upvotes", "outperforms", "This paper introduces", "attention that forgets", "word",
)  # fmt: skip
URLS = (
    "https://github.com/example/flow", "javascript:alert(1)", "https://example.org/a?b=1&c=<d>\"'{e}",
    "http://[broken", "https://exämple.org/päper#ä", "ftp://example.org/x", "https://example.org/x y.pdf",
    f"https://example.org/{'long/' * 30}",
)  # fmt: skip
FILTERS = {1: "flow OR robot*", 2: "a", 3: "title:word OR abstract:script"}
TOKEN = "key.7-0.abc"  #: an invented token


@dataclass(frozen=True, kw_only=True)
class VariedDigest:
    """A digest with all that its letter is made from."""

    papers: tuple[Paper, ...]
    reasons: tuple[str, ...]  #: a figure per paper, or ""
    note: str
    digest: Digest
    copy: Personalization

    @property
    def press(self) -> Press:
        """Return the press of these papers."""
        ranked = [
            Ranked(paper=paper, score=-float(place), reasons=tuple(filter(None, [reason])))
            for place, (paper, reason) in enumerate(zip(self.papers, self.reasons, strict=True))
        ]
        return make_press(ranked, as_of=NOW, note=self.note)

    def for_another_reader(self, number: int) -> VariedDigest:
        """Return the same digest for another reader."""
        changes = {
            name: getattr(self.copy, name) and f"https://digest.example.org/{name[0]}/other-{number}"
            for name in ("unsubscribe_url", "manage_url", "browser_url")
        }
        token = self.copy.paper_token and f"key.{number}-0.xyz"
        reader = structs.replace(
            self.copy, recipient=f"o'neil+{number}&co@example.edu", paper_token=token, **changes
        )
        return replace(self, copy=reader)


def varied_digests(count: int, start: int = 0) -> Iterator[VariedDigest]:
    """Yield so many digests; the same numbers give the same digests."""
    for seed in range(start, start + count):
        yield varied_digest(Random(seed))


def varied_digest(random: Random) -> VariedDigest:
    """Return a digest of some kind."""
    size = random.choice((1, 2, 3, 5, 10, 10, 10, 17, 25, 50))
    papers = [varied_paper(random, number) for number in range(1, size + 1)]
    digest = Digest(
        sections=varied_sections(random, [paper.id for paper in papers]),
        checked=random.choice((0, 1, 412, 5000)),
        is_catch_up=random.random() < 0.2,
        matched=random.choice((size, 212)),
        news=tuple(varied_news(random)) if random.random() < 0.2 else (),
        asks_still_reading=random.random() < 0.1,
        abstracts=random.choice(("short", "short", "titles", "full")),
        others=tuple(text(random, 2) for _ in range(random.choice((0, 0, 2)))),
        silent=tuple(text(random, 2) for _ in range(random.choice((0, 0, 1)))),
    )
    return VariedDigest(
        papers=tuple(papers),
        reasons=tuple(
            random.choice(("", "", "40 upvotes since yesterday", "42 votes <today> & more")) for _ in papers
        ),
        note=random.choice(("", "", "Today’s list of papers is incomplete: 3 are missing.")),
        digest=digest,
        copy=varied_copy(random),
    )


def varied_sections(random: Random, ids: list[int]) -> tuple[Section, ...]:
    """Return sections of these papers: the trending papers alone, or papers by topic."""
    if random.random() < 0.2:
        return (Section(TRENDING_TOPIC, None, tuple(ids), random.choice((0, 7))),)
    cuts = sorted(random.sample(range(1, len(ids)), min(len(ids) - 1, random.choice((0, 0, 1, 3, 9)))))
    parts = [ids[start:end] for start, end in zip((0, *cuts), (*cuts, len(ids)), strict=True)]
    return tuple(
        Section(
            text(random, 3)[:80], random.choice((None, 1, 2, 3)), tuple(part), random.choice((0, 0, 1, 37))
        )
        for part in parts
    )


def varied_news(random: Random) -> Iterator[FollowUp]:
    """Yield updates to earlier papers."""
    for kind in random.sample(("withdrawn", "published", "rewritten"), random.choice((1, 3))):
        yield FollowUp(
            random.randrange(100, 200), kind, text(random, 6), random.choice(("", text(random, 3)))
        )


def varied_copy(random: Random) -> Personalization:
    """Return one reader's personal values."""
    is_group, base = random.random() < 0.15, "https://digest.example.org"
    personal = (
        {"manage_url": "", "unsubscribe_url": ""} if is_group else {"paper_token": random.choice(("", TOKEN))}
    )
    return copy_for(
        edition=random.choice(("daily-2026-11-20", "weekly-2026-W47", "monthly-2026-11")),
        next_due_at=random.choice((None, NOW + timedelta(days=3), NOW + timedelta(days=30))),
        timezone=random.choice(("UTC", "Europe/Oslo", "America/New_York")),
        is_group=is_group,
        browser_url=random.choice(("", f"{base}/v/2b4b1c.7-daily.QxM3Yk9wT1pVbGFzZGZnaGpr")),
        unsubscribe_address=random.choice(("", "u+7@example.org")),
        reply_address=random.choice(("", "r+7@example.org")),
        message_id=random.choice(("", "<7@example.org>")),
        filters=FILTERS,
        **personal,
    )  # fmt: skip


def varied_paper(random: Random, number: int) -> Paper:
    """Return a paper, of which much may be missing or hostile."""
    return Paper(
        id=number,
        title=text(random, random.choice((1, 4, 9, 40))).strip() or "Untitled",
        abstract=text(random, random.choice((0, 5, 20, 60))),
        authors=tuple(text(random, 1)[:60].strip() or "Ito, Aki" for _ in range(random.choice((0, 1, 5)))),
        n_authors=random.choice((None, 0, 7, 300)),
        organization=random.choice((None, Organization(handle="lab", name=text(random, 2)))),
        published=random.choice((None, date(1990, 1, 1), date(2026, 11, 19))),
        categories=tuple(random.choice(("cs.LG", text(random, 1))) for _ in range(random.choice((0, 1, 2)))),
        urls=tuple(random.sample(URLS, random.choice((0, 1, 3)))),
        ids=dict(random.sample((("arxiv", "2611.01234"), ("doi", "10.5555/a<b>&c")), random.choice((0, 1, 2)))),
        comment=random.choice(("", "12 pages & a whole note")),
        first_seen_at=NOW,
        is_sample=random.random() < 0.05,
        summary_by=random.choice(("", "", "", "Hugging Face")),
    )  # fmt: skip


def text(random: Random, words: int) -> str:
    """Return so many words or phrases, some of them hostile."""
    return " ".join(random.choice(HOSTILE if random.random() < 0.3 else ORDINARY) for _ in range(words))
