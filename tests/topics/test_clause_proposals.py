"""Proposed clauses drop or add papers like the given one, and few others; their effects are counted."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta

from digest import topics
from digest.papers import Paper
from tests.topics.invented_papers import paper

DAYS = [date(2026, 11, 1) + timedelta(days=number // 6) for number in range(36)]


def batch() -> list[Paper]:
    """Return 24 papers on diffusion, four of them on tomography, and 12 others, six of them on flow matching."""
    medical = [paper(f"Diffusion for tomography {n}", "We scan knees.", id=n) for n in range(1, 5)]
    images = [paper(f"Diffusion of pictures {n}", "We draw.", id=n) for n in range(5, 25)]
    flows = [paper(f"Flow matching {n}", "We transport.", id=n) for n in range(25, 31)]
    others = [paper(f"Parsing {n}", "We parse.", id=n) for n in range(31, 37)]
    return [*medical, *images, *flows, *others]


def exclusions(written: str, papers: list[Paper], chosen: Paper) -> tuple[topics.ClauseProposal, ...]:
    index = topics.PaperIndex(papers)
    return topics.propose_exclusions(written, topics.parse(written), chosen, index, DAYS)


def additions(written: str, papers: list[Paper], chosen: Paper) -> tuple[topics.ClauseProposal, ...]:
    index = topics.PaperIndex(papers)
    return topics.propose_additions(written, topics.parse(written), chosen, index, DAYS)


def test_the_best_exclusion_drops_the_paper_and_those_like_it():
    papers = batch()

    best = exclusions("diffusion", papers, papers[0])[0]

    assert best.clause.startswith("ANDNOT ")
    assert best.filter == f"diffusion {best.clause}"
    assert (best.papers, sorted(best.changed)) == (24, [0, 1, 2, 3])


def test_an_exclusion_from_alternatives_is_bracketed():
    papers = batch()

    best = exclusions("diffusion OR parsing", papers, papers[0])[0]

    assert best.filter == f"(diffusion OR parsing) {best.clause}"
    changed = topics.PaperIndex(papers).matches(topics.parse(best.filter))
    assert changed.bit_count() == 30 - len(best.changed)


def test_no_exclusion_drops_a_word_of_the_topic_or_more_than_a_quarter_of_its_papers():
    papers = batch()

    found = exclusions("diffusion", papers, papers[10])

    assert all(one.clause != "ANDNOT diffusion" for one in found)
    assert all(len(one.changed) <= 6 for one in found)


def test_authors_and_categories_are_proposed_and_two_proposals_never_drop_the_same_papers():
    papers = batch()
    papers[0] = replace(papers[0], authors=("Ada Ito", "Ben Okafor"), categories=("cs.CV",))
    papers[7] = replace(papers[7], authors=("Ada Ito",), categories=("cs.CV",))

    found = exclusions("diffusion", papers, papers[0])

    assert any(one.clause in {'ANDNOT au:"Ada Ito"', "ANDNOT cat:cs.CV"} for one in found)
    assert len({one.changed for one in found}) == len(found) <= 3


def test_a_quantity_or_a_general_adjective_is_proposed_only_in_a_phrase():
    papers = [
        paper(f"Heavy tails {n}", "A billion gravel grains are heavy.", id=n) for n in range(1, 4)
    ] + batch()[4:]

    found = [one.clause for chosen in papers[:3] for one in additions("diffusion", papers, chosen)]

    assert found
    assert not {clause.removeprefix("OR ") for clause in found} & {"billion", "heavy"}
    assert 'OR "heavy tail*"' in found


def test_the_best_addition_matches_the_paper_and_those_like_it():
    papers = batch()

    best = additions("diffusion", papers, papers[24])[0]

    assert best.clause.startswith("OR ")
    assert best.filter == f"diffusion {best.clause}"
    assert sorted(best.changed) == [24, 25, 26, 27, 28, 29]


def test_nothing_is_added_if_the_topic_matches_all_papers_like_it():
    papers = batch()

    assert additions("diffusion OR flow OR matching OR transport", papers, papers[24]) == ()


def test_a_paper_older_than_the_tested_days_can_be_excluded_too():
    papers = batch()
    old = paper("Diffusion for tomography of old", "We scan hips.", id=99)

    best = exclusions("diffusion", papers, old)[0]

    assert len(best.changed) == 4


def test_a_filter_that_has_no_space_for_another_clause_gets_no_proposal():
    papers = batch()
    full = " OR ".join(["diffusion", *(f"unheard{n}" for n in range(63))])

    assert exclusions(full, papers, papers[0]) == additions(full, papers, papers[24]) == ()


def test_a_paper_without_any_significant_word_gives_no_proposal():
    assert exclusions("diffusion", batch(), paper("On it", "", id=77)) == ()
