"""A narrower filter keeps the best papers of a topic and leaves most of the others out."""

from __future__ import annotations

from datetime import date, timedelta

from digest import topics
from digest.papers import Paper
from digest.topics import Narrowing, filter_tree
from tests.topics.invented_papers import paper

PAPERS_A_DAY = 6
DAYS = [date(2026, 11, 1) + timedelta(days=n // PAPERS_A_DAY) for n in range(5 * PAPERS_A_DAY)]


def batch(best: str = "folded", others: str = "sparse") -> list[Paper]:
    """Return six papers on graphs for each of five days; the first two of a day have another word."""
    return [
        paper(f"Graph {n}", f"It is {best if n % PAPERS_A_DAY < 2 else others}.", id=n + 1)
        for n in range(len(DAYS))
    ]


def narrowing(written: str, papers: list[Paper], *, best: int | None = None, capacity: int = 3):
    """Return the narrowing of a filter that keeps the first two papers of each day, if there is one."""
    if best is None:
        best = sum(1 << n for n in range(len(papers)) if n % PAPERS_A_DAY < 2)
    index = topics.PaperIndex(papers)
    return topics.find_narrowing(topics.parse(written), papers, index, DAYS, best=best, capacity=capacity)


def test_the_clause_that_the_best_papers_share_is_proposed_with_its_figures():
    assert narrowing("graph", batch()) == Narrowing(clause="folded", before=6.0, after=2.0)


def test_a_clause_that_the_other_papers_share_is_never_proposed():
    others = sum(1 << n for n in range(len(DAYS)) if n % PAPERS_A_DAY >= 2)

    found = narrowing("graph", batch(), best=others, capacity=4)

    assert found is None  # `sparse` leaves four a day, which is more than half


def test_without_best_papers_or_without_others_nothing_is_proposed():
    assert narrowing("graph", batch(), best=0) is None
    assert narrowing("graph", batch(), best=(1 << len(DAYS)) - 1) is None


def test_a_word_that_all_papers_share_narrows_nothing():
    assert narrowing("graph", batch(best="sparse")) is None


def test_a_clause_that_leaves_more_than_a_digest_holds_is_not_proposed():
    assert narrowing("graph", batch(), capacity=1) is None


def test_a_filter_that_has_no_space_for_another_clause_is_not_narrowed():
    full = " OR ".join(["graph", *(f"unheard{n}" for n in range(63))])

    assert len(list(filter_tree.leaves(topics.parse(full).tree))) == 64
    assert narrowing(full, batch()) is None
