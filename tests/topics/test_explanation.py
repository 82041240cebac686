"""Explanations say why a paper matches, with positions, or why it does not."""

from __future__ import annotations

import pytest

from digest.papers.display_text import display
from digest.topics import explanation, filter_parser
from digest.topics.explanation import Explainer
from digest.topics.paper_index import PaperIndex
from tests.topics.invented_papers import KITCHEN, paper


def explained(written, of=KITCHEN):
    return explanation.explain(filter_parser.parse(written), of)


def test_the_strongest_reason_comes_first():
    found = explained('cups OR "score-based" OR robot* OR cat:cs.RO OR au:ito OR graphs')

    assert found.matched
    assert found.why == (
        "robot* in the title and abstract",
        "cups in the abstract",
        "score-based in the abstract",
        "in cs.RO",
        "by Yuki Ito",
    )
    assert found.failed == ()


def test_words_are_marked_in_the_text_that_is_shown():
    raw = paper(r"On $\alpha$-divergence", "We``use'' the $\\alpha$ divergence.  Alpha–divergence!")

    words = explained("alpha-divergence", raw).words

    assert [(word.field, word.text) for word in words] == [
        ("title", "α-divergence"),
        ("abstract", "α divergence"),
        ("abstract", "Alpha–divergence"),
    ]
    shown = {"title": display(raw.title), "abstract": display(raw.abstract)}
    assert all(shown[word.field][word.start : word.end] == word.text for word in words)


def test_each_paper_of_a_batch_is_explained_by_its_own_words():
    papers = [paper(f"Cup number {number}", f"It holds {number} drops.") for number in range(600)]

    pages = Explainer(PaperIndex(papers))

    for number in (0, 255, 256, 599):
        assert (
            pages.explain(filter_parser.parse(f'"holds {number}"'), number).words[0].text == f"holds {number}"
        )
        assert not pages.explain(filter_parser.parse('"holds 7"'), number).matched


def test_words_inside_others_are_not_marked_twice():
    found = explained('"robotic arms" OR robot* OR "arms learn"')

    assert [word.text for word in found.words] == ["Robots", "Robotic arms"]


def test_near_words_are_marked_only_where_they_are_near():
    tea = paper("robot tea tea tea tea cup", "robot tea tea robot cup")

    words = explained('"robot cup"~1', tea).words

    assert [(word.field, word.text) for word in words] == [("abstract", "robot cup")]


def test_near_words_are_looked_for_only_in_texts_that_exist():
    words = explained('"robot cup"~2', paper("A robot and a cup", "")).words

    assert [(word.field, word.text) for word in words] == [("title", "robot and a cup")]


def test_the_whole_stretch_of_a_near_match_is_marked():
    words = explained('"policy grasps"~4').words

    assert [word.text for word in words] == ["policy on 3.5 million grasps"]


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("upvotes:>=20", "42 upvotes"),
        ("is:cross", "announced as cross"),
        ("date:2024", "published 2024-11-03"),
        ('source:"daily papers"', "from daily papers"),
        ("1au:ito", "by Yuki Ito"),
        ("all:okafor", "by Ada Okafor"),
        ("co:workshop", "workshop in the comment"),
        ('"grasps policy"~4', "grasps policy~4 in the abstract"),
        ("id:2411.01234", "id:2411.01234"),
    ],
)
def test_every_clause_has_its_reason(written, why):
    assert explained(written).why == (why,)


@pytest.mark.parametrize(
    ("written", "failed"),
    [
        ("robot AND survey", ("no survey in the title or abstract",)),
        ("ti:cups", ("no cups in the title",)),
        ("graph* OR survey", ("none of graph*, survey",)),
        ("ti:cups OR survey", ("none of cups in the title, survey",)),
        ("robot ANDNOT cups", ("excluded: cups in the abstract",)),
        ("robot ANDNOT (cat:cs.RO graph*) ANDNOT cat:cs.RO", ("excluded: in cs.RO",)),
        ("robot ANDNOT all:arms", ("excluded: arms in the abstract",)),
        ("robot ANDNOT (cups ANDNOT survey)", ("excluded: cups in the abstract",)),
        ("robot AND cat:cs.CL AND upvotes:>100", ("no cat:cs.CL", "no upvotes:>=101")),
    ],
)
def test_the_clause_that_excluded_a_paper_is_named(written, failed):
    found = explained(written)

    assert not found.matched
    assert found.failed == failed
    assert (found.why, found.words) == ((), ())


@pytest.mark.parametrize(
    ("written", "words", "authors", "others"),
    [
        ('robot* OR "score-based"', ("robot*", "score-based"), (), ()),
        ('au:"Yuki Ito"', (), ("Yuki Ito",), ()),
        ('au:"Ito, Y"', (), (), ("by Yuki Ito",)),  # perhaps another Y. Ito
        ("robot AND cat:cs.RO AND au:lind", ("robot",), (), ("in cs.RO", "by Jean-Pierre Lind")),
    ],
)
def test_the_clauses_of_a_match_are_told_apart_by_kind(written, words, authors, others):
    pages = Explainer(PaperIndex([paper("Quiet cups"), KITCHEN]))
    clauses = pages.matched_clauses(filter_parser.parse(written).canonical, [0, 1])

    found = pages.finding(clauses[1], 1)

    assert list(clauses) == [1]
    assert (found.words, found.authors, found.others) == (words, authors, others)
