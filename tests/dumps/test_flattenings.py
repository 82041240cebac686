"""Every paper of a page is read completely, and nothing else, from copies that real tools made of the page."""

from __future__ import annotations

import pytest

from tests.support.flattening_scores import score
from tests.support.paper_pages import CARDS, COPIED, FOLDER, invented_papers

PAPERS = invented_papers(10)

#: Tools that drop titles or join them to their abstracts: what they make of a page cannot be read.
NOT_LOADED = frozenset(
    [("results", "trafilatura"), ("results", "readability"), ("pictures", "trafilatura"), ("pictures", "readability"), ("lines", "trafilatura")]
)  # fmt: skip
#: What a tool itself leaves out: readability drops the figures of one paper.
INCOMPLETE = {("lines", "readability"): 9}


@pytest.mark.parametrize("tool", COPIED)
@pytest.mark.parametrize("shape", CARDS)
def test_every_paper_of_a_copied_page_is_read_or_the_page_is_not_loaded(shape: str, tool: str) -> None:
    found = score((FOLDER / shape / f"{tool}.txt").read_text(), PAPERS, shape)

    print(f"{shape} {tool}: {found}")
    if (shape, tool) in NOT_LOADED:
        assert found.refused
    else:
        right = INCOMPLETE.get((shape, tool), len(PAPERS))
        assert (found.right, found.phantoms) == (right, 0), found.wrong
