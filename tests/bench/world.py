"""Build the data for benchmarks: invented papers and readers with topics, the same in every run."""

from __future__ import annotations

import json
import random
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any

from sqlalchemy import Engine

from digest import db
from digest.dumps.intake import load_dump
from digest.site.site_profile import Site
from digest.subscribers.csv_import import import_list
from digest.topics import filter_parser
from tests.support.product_processes import ROOT

NOW = datetime(2026, 11, 20, 8, 0, tzinfo=UTC)
SAMPLE = ROOT / "digest" / "dumps" / "sample" / "invented-papers.txt"
SITE = Site(
    name="Example Digest",
    url="https://digest.example.org",
    sender_name="Example Digest",
    sender_address="digest@example.org",
    postal_address="Example Lab, 1 Example Street, 0150 Oslo, Norway",
    keys=(b"the key of the benchmarks",),
    pepper=b"the pepper of the benchmarks",
)


#: The shapes of the filters in all benchmarks, with about three clauses each.
SHAPES = (
    "{0}", "{0} AND {1}", "{0} OR {1}", "{0} OR {1} OR {2}", "{0} AND ({1} OR {2})", "{0} ANDNOT {1}",
    "({0} OR {1}) ANDNOT {2}", "({0} OR {1} OR {2}) AND ({3} OR {4})", "({0} AND {1}) OR ({2} AND {3})",
    "{0} AND {1} ANDNOT ({2} OR {3})",
)  # fmt: skip
MAX_CLAUSES = 5


def clause(chance: random.Random, words: Sequence[str], phrases: Sequence[str]) -> str:
    """Return one clause: exact words 54%, phrases 29%, beginnings 17%; one in four looks in one field."""
    field = "" if chance.random() > 0.25 else chance.choice(("ti:", "abs:"))
    kind = chance.random()
    if kind < 0.54:
        return f'{field}"{chance.choice(words)}"'
    if kind < 0.83:
        return f'{field}"{chance.choice(phrases)}"'
    return f"{field}{chance.choice(words)[:5]}*"


@dataclass(frozen=True, kw_only=True)
class World:
    """The size of the world; everything in it follows from these figures."""

    papers: int = 500
    readers: int = 10_000
    kept: int = 100  #: number of first readers, whose letters are kept for comparison
    topics: tuple[int, int] = (3, 3)  #: minimum and maximum number of topics of a reader
    filters: int = 1_000
    now: datetime = NOW
    at: str = "06:00"  #: the local time of every reader's digest

    # ── papers ──────────────────────────────────────────────────────────────────────────────────

    @cached_property
    def texts(self) -> list[tuple[str, str]]:
        """Return titles and abstracts, made by recombining the sentences of the sample."""
        chance = random.Random(1)
        titles, sentences = self.sentences
        made: dict[str, str] = {}
        while len(made) < self.papers:
            left, right = chance.sample(titles, 2)
            title = f"{left.split(':')[0]}, {right.split(': ')[-1]} {len(made) + 1}"
            made[title] = " ".join(chance.sample(sentences, chance.randint(8, 12)))
        return list(made.items())

    @cached_property
    def sentences(self) -> tuple[list[str], list[str]]:
        blocks = SAMPLE.read_text().split("community\n\n", 1)[1].split("\n\n")
        return blocks[::3], [
            part for block in blocks[1::3] for part in re.split(r"(?<=[.]) (?=[A-Z])", block)
        ]

    @cached_property
    def dump(self) -> bytes:
        """Return the papers as a dump with title and abstract lines, with comments for some."""
        chance = random.Random(2)
        lines = ["new", "Get trending papers in your email inbox!", "Subscribe", "Daily Papers"]
        lines += ["byAK and the research community", f"{self.now:%b} {self.now.day}"]
        for title, abstract in self.texts:
            comments = f" {chance.randint(1, 60)}" if chance.random() < 0.6 else ""
            figures = f"  • {chance.randint(1, 12)} authors\n·\nNov {chance.randint(1, 19)}, 2026{comments}"
            lines += [title, abstract, figures]
        return ("\n\n".join(lines) + "\n").encode()

    # ── readers ─────────────────────────────────────────────────────────────────────────────────

    @cached_property
    def interests(self) -> list[str]:
        """Return distinct filters of about three clauses, the most popular first."""
        chance = random.Random(3)
        words, phrases = self.vocabulary
        made: dict[str, None] = {}
        while len(made) < self.filters:
            clauses = [clause(chance, words, phrases) for _ in range(MAX_CLAUSES)]
            made[filter_parser.parse(chance.choice(SHAPES).format(*clauses)).canonical] = None
        return list(made)

    @cached_property
    def vocabulary(self) -> tuple[list[str], list[str]]:
        """Return the words that distinguish papers, and all pairs of adjacent words."""
        seen = Counter[str]()
        phrases: set[str] = set()
        for _, abstract in self.texts:
            seen.update(set(re.findall(r"[a-z]{4,}", abstract.lower())))
            phrases |= {
                f"{one} {two}" for one, two in re.findall(r"\b([a-z]{4,}) (?=([a-z]{4,})\b)", abstract)
            }
        words = [word for word, count in seen.items() if 0.01 < count / len(self.texts) < 0.2]
        return sorted(words), sorted(phrases)

    def reader_rows(self) -> Iterator[dict[str, Any]]:
        """Yield the readers as rows of an import; few filters are popular, most are rare."""
        chance = random.Random(4)
        weights = list(accumulate(1 / rank for rank in range(1, len(self.interests) + 1)))
        for number in range(self.readers):
            name = "kept" if number < self.kept else "reader"
            chosen = chance.choices(self.interests, cum_weights=weights, k=chance.randint(*self.topics))
            topics = {f"Topic {place}": text for place, text in enumerate(dict.fromkeys(chosen), start=1)}
            yield {
                "email": f"{name}-{number}@example.org",
                "at": self.at,
                "state": "active",
                "topics": json.dumps(topics),
            }

    # ── as rows ─────────────────────────────────────────────────────────────────────────────────

    def build(self, engine: Engine) -> None:
        """Fill an empty database through the ordinary use cases."""
        db.upgrade(engine)
        with tempfile.TemporaryDirectory() as folder, db.write_session(engine) as session:
            path = Path(folder) / "dump.txt"
            path.write_bytes(self.dump)
            loaded = load_dump.load(session, path, now=self.now)
            assert loaded.new == self.papers, loaded
            imported = import_list.import_in_batches(
                session, SITE, self.reader_rows(), consent="a benchmark", now=self.now
            )
            assert imported.added == self.readers, imported.problems[:3]
            session.commit()
