"""The terms of a score add up to it."""

from __future__ import annotations

import pytest
from hypothesis import given

from digest.errors import BadFilter
from digest.topics import filter_parser, relevance_terms
from digest.topics.paper_index import PaperIndex
from tests.topics.invented_papers import KITCHEN, paper
from tests.topics.strategies import batches, filters

BATCH = [
    KITCHEN,
    paper("Robots grasp cups", "robots, cups and robots in a kitchen; a score-based policy", id=1),
    paper("Cups", "a robot of the kitchen", id=2),
    paper("Tea", "leaves and cups", comment="a robot", id=3),
]


def terms_of(written, index):
    filter_ = filter_parser.parse(written)
    fit = index.relevance(filter_, index.matches(filter_))
    return fit, relevance_terms.score_terms(index, filter_, fit)


@pytest.mark.parametrize(
    "written",
    [
        "robot OR cup OR kitchen",
        "(robot OR grasp*) AND cup ANDNOT tea",
        'ti:robot OR abs:"score-based" OR co:robot',
        '"robots cups"~5',
        'about:"robots that grasp cups in a kitchen"',
        'about:"robots^3 cups^2" OR ti:tea',
        "all:robot",
        "cat:cs.RO",
    ],
)
def test_the_terms_add_up_to_the_score(written):
    fit, terms = terms_of(written, PaperIndex(BATCH))

    assert fit
    for number, score in fit.items():
        assert sum(term.value for term in terms[number]) == pytest.approx(score, abs=1e-12)


@given(batches, filters)
def test_the_terms_of_any_filter_add_up_to_the_score(batch, written):
    try:
        fit, terms = terms_of(written, PaperIndex(batch))
    except BadFilter:
        return  # it only excludes papers

    for number, score in fit.items():
        assert sum(term.value for term in terms[number]) == pytest.approx(score, abs=1e-12)


def test_the_arithmetic_of_a_word_shows_counts_weight_and_the_best_total():
    _, terms = terms_of("robot OR cup", PaperIndex(BATCH[1:3]))

    robot, cup = terms[0]
    assert (robot.words, cup.words) == ("robot", "cup")
    assert robot.arithmetic == "(1 in title × 5 + 2 in abstract) ÷ (7 + 6) ÷ 0.7385"
    assert cup.arithmetic == "0.4 × (1 in title × 5 + 1 in abstract) ÷ (6 + 6) ÷ 0.7385"


@pytest.mark.parametrize("written", ['about:"robots that grasp cups"', "robot OR cup", "ti:tea"])
def test_the_formula_of_a_term_gives_its_value(written):
    _, terms = terms_of(written, PaperIndex(BATCH))

    for term in (term for row in terms.values() for term in row):
        formula = term.arithmetic.replace("×", "*").replace("÷", "/")
        for words in (" in title", " in abstract", " bits"):
            formula = formula.replace(words, "")
        assert eval(formula) == pytest.approx(term.value, rel=2e-3)  # noqa: S307  (figures of this test, rounded)


def test_words_of_a_description_are_shown_as_written():
    _, terms = terms_of('about:"robots that grasp cups"', PaperIndex(BATCH))

    assert [term.words for term in terms[1]] == ["robots", "grasp", "cups", "robots grasp", "grasp cups"]
