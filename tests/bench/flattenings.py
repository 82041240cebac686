"""Convert pages of invented papers to text with every installed tool, and read the copies.

Each cell shows `right/phantoms` for a page with this many papers: the papers with every field right, and the
records that are not papers. For a copy that is not loaded, the reason is shown. Missing tools are listed.
Tools written in Python run in the interpreter that FLATTENING_PYTHON names, otherwise in this interpreter.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.support import paper_pages
from tests.support.flattening_scores import FlatteningScore, score
from tests.support.paper_pages import CARDS, InventedPaper

MIN_RIGHT = 0.96
MAX_HELD_TOOLS = 2  #: maximum number of tools without addresses whose copies are held
#: Tools that drop titles or bylines, or join the fields of a card to one word.
LOSSY_TOOLS = frozenset(
    ("trafilatura", "trafilatura-markdown", "readability", "readability-markdown", "beautifulsoup-plain")
)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A copy of a page, and how it was read."""

    tool: str
    shape: str
    papers: int
    score: FlatteningScore
    keeps_addresses: bool
    seconds: float

    @property
    def is_right(self) -> bool:
        """Return whether a loaded copy is read well enough; data that a lossy tool drops is not required."""
        is_enough = self.score.right >= MIN_RIGHT * self.papers or self.tool in LOSSY_TOOLS
        return bool(self.score.refused) or (self.score.phantoms == 0 and is_enough)


def main(full: bool) -> int:
    """Measure, print, and return 0 if every copy is read correctly or held."""
    sizes = (10, 49, 200) if full else (10, 49)
    python = os.environ.get("FLATTENING_PYTHON", sys.executable)
    print(f"   {'tool':22}" + "".join(f"{f'{shape} {size}':>15}" for shape in CARDS for size in sizes))
    found: list[Measured] = []
    for tool in ("html", *paper_pages.ALL_TOOLS):
        row = list(measured(tool, sizes, python))
        found += row
        cells = "".join(f"{cell(one):>15}" for one in row)
        print(f"   {tool:22}{cells or ' absent'}", flush=True)
    return 0 if print_verdict(found) else 1


def measured(tool: str, sizes: Sequence[int], python: str) -> Iterator[Measured]:
    """Yield the results of one tool, or none if it is absent."""
    for shape in CARDS:
        for size in sizes:
            papers = paper_pages.invented_papers(size)
            content = copied(tool, paper_pages.page(shape, papers), python)
            if content is None:
                return
            yield measure(tool, shape, papers, content)


def copied(tool: str, page: str, python: str) -> str | None:
    """Return what a tool makes of a page, or None if the tool is absent."""
    return page if tool == "html" else paper_pages.copied(tool, page, python=python)


def measure(tool: str, shape: str, papers: Sequence[InventedPaper], content: str) -> Measured:
    """Read a copy and compare it with the papers."""
    begun = time.process_time()
    found = score(content, papers, shape)
    seconds = time.process_time() - begun
    keeps = sum(paper.arxiv in content for paper in papers) > len(papers) / 2
    return Measured(
        tool=tool, shape=shape, papers=len(papers), score=found, keeps_addresses=keeps, seconds=seconds
    )


def cell(one: Measured) -> str:
    """Return the result of a copy in a few words."""
    return ("held" if one.score.refused else str(one.score)) + ("" if one.is_right else " !")


def print_verdict(found: Sequence[Measured]) -> bool:
    """Print how many copies are right, held or wrong; return whether the promises hold."""
    held = [one for one in found if one.score.refused]
    wrong = [one for one in found if not one.is_right]
    loaded = [one for one in found if not one.score.refused]
    right, papers = sum(one.score.right for one in loaded), sum(one.papers for one in loaded)
    phantoms = sum(one.score.phantoms for one in loaded)
    print(
        f"   {len(found)} copies: {len(loaded)} loaded, {len(held)} held; {right:,} of {papers:,} papers fully right, {phantoms} phantoms"
    )
    for one in wrong[:5]:
        print(f"   wrong: {one.tool}, {one.shape}, {one.papers} papers: {'; '.join(one.score.wrong[:3])}")
    for one in held:
        print(f"   held: {one.tool}, {one.shape}, {one.papers} papers: {one.score.refused[:150]}")
    slowest = max(found, key=lambda one: one.seconds)
    print(f"   slowest: {slowest.tool}, {slowest.shape}, {slowest.papers} papers in {slowest.seconds:.2f} s")
    others = {one.tool for one in held} - LOSSY_TOOLS
    with_addresses = {one.tool for one in held if one.keeps_addresses} - LOSSY_TOOLS
    return not wrong and not with_addresses and len(others) <= MAX_HELD_TOOLS


if __name__ == "__main__":
    sys.exit(main(full="--full" in sys.argv))
