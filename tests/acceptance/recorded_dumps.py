"""Real and invented dumps dated today, with their expected content from an independent source."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.product_processes import ROOT
from tests.support.waiting import current_time

SAMPLE = ROOT / "digest" / "dumps" / "sample" / "invented-papers.txt"
HEADER_DAY = re.compile(rb"(?m)(?<=^byAK and the research community\n\n)[A-Z][a-z]{2} \d{1,2}$")


@dataclass(frozen=True, kw_only=True)
class RecordedPaper:
    """A paper from the truth file beside its dump, not read by the product's code."""

    title: str
    abstract: str


@dataclass(frozen=True, kw_only=True)
class Interest:
    """A topic's filter, and the same interest as a plain condition."""

    filter: str
    means: Callable[[RecordedPaper], object]


def word(pattern: str, text: str) -> object:
    """Return whether the pattern matches whole words of the text, in any case."""
    return re.search(rf"(?<!\w)(?:{pattern})(?!\w)", text, re.IGNORECASE)


def anywhere(pattern: str) -> Callable[[RecordedPaper], object]:
    """Return the condition that the pattern is in title or abstract."""
    return lambda paper: word(pattern, paper.title) or word(pattern, paper.abstract)


#: Interests with matches in the real dumps and in the invented one.
INTERESTS: Mapping[str, Interest] = {
    "Benchmarks": Interest(filter="benchmark*", means=anywhere(r"benchmark\w*")),
    "Titles": Interest(
        filter="ti:language OR ti:learning", means=lambda paper: word("language|learning", paper.title)
    ),
    "Reasons": Interest(
        filter='"language model*" ANDNOT ti:learning',
        means=lambda paper: anywhere(r"language model\w*")(paper) and not word("learning", paper.title),
    ),
    "Nowhere": Interest(filter='"no paper says this"', means=anywhere("no paper says this")),
}


@dataclass(frozen=True, kw_only=True)
class Material:
    """Dumps to load, and every paper in them."""

    name: str
    dumps: Mapping[str, bytes]
    papers: tuple[RecordedPaper, ...]

    def titles_for(self, topic: str) -> set[str]:
        """Return the titles of the papers that match a topic of `INTERESTS`."""
        return {paper.title for paper in self.papers if INTERESTS[topic].means(paper)}


def real(seeds: Path) -> Material:
    """Return the real dumps with their exact truth, dated today where they have a date."""
    lines = [line for truth in sorted(seeds.glob("*.truth.jsonl")) for line in truth.read_text().splitlines()]
    found = (json.loads(line) for line in lines)
    papers = {row["title"]: RecordedPaper(title=row["title"], abstract=row["abstract"]) for row in found}
    dumps = {path.name: captured_today(path.read_bytes()) for path in sorted(seeds.glob("*.txt"))}
    return Material(name="real dumps", dumps=dumps, papers=tuple(papers.values()))


def invented() -> Material:
    """Return the sample dump: blank lines separate title, abstract and figures of its papers."""
    blocks = SAMPLE.read_text().split("community\n\n", 1)[1].split("\n\n")
    papers = tuple(RecordedPaper(title=t, abstract=a) for t, a in zip(blocks[::3], blocks[1::3], strict=True))
    return Material(name="invented dump", dumps={SAMPLE.name: SAMPLE.read_bytes()}, papers=papers)


def captured_today(content: bytes) -> bytes:
    """Return a dump with today's date in its header: papers of an old page would not be new."""
    today = current_time()
    return HEADER_DAY.sub(f"{today:%b} {today.day}".encode(), content)
