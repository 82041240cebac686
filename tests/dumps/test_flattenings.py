"""Every paper of a page is read completely, and nothing else, from copies that real tools made of the page."""

from __future__ import annotations

from itertools import product

from tests.support.flattening_scores import score
from tests.support.paper_pages import CARDS, COPIED, FOLDER, invented_papers

PAPERS = invented_papers(10)

#: Tools that drop titles or join them to their abstracts: what they make of a page cannot be read.
NOT_LOADED = frozenset(
    [("results", "trafilatura"), ("results", "readability"), ("pictures", "trafilatura"), ("pictures", "readability"), ("lines", "trafilatura")]
)  # fmt: skip
#: What a tool itself leaves out: readability drops the figures of one paper.
INCOMPLETE = {("lines", "readability"): 9}


def test_every_paper_of_a_copied_page_is_read_or_the_page_is_not_loaded() -> None:
    wrong = {}
    for shape, tool in product(CARDS, COPIED):
        found = score((FOLDER / shape / f"{tool}.txt").read_text(), PAPERS, shape)
        expected = 0 if (shape, tool) in NOT_LOADED else INCOMPLETE.get((shape, tool), len(PAPERS))
        if (found.right, found.phantoms, bool(found.refused)) != (expected, 0, expected == 0):
            wrong[shape, tool] = (str(found), found.wrong)

    assert wrong == {}
