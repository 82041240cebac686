"""A few papers suggest a topic: a name, and a filter that a person would write."""

from __future__ import annotations

import random

import pytest

from digest import topics
from digest.papers import title_key
from digest.topics.suggested_topics import MAX_CLAUSES
from tests.support.growth import assert_proportional
from tests.topics.invented_papers import paper
from tests.topics.test_relevance import labelled as labelled_topics  # noqa: F401
from tests.topics.test_relevance import means, seeds  # noqa: F401

GRASPS = [
    paper(
        "Grasp Planning for Soft Grippers", "Soft grippers plan a grasp by touch. A soft gripper bends.", id=1
    ),
    paper("Tactile Grasp Planning", "We plan grasps with tactile sensing and a soft gripper.", id=2),
    paper("Grasp Planning in Clutter", "Clutter makes grasp planning hard; touch helps a gripper.", id=3),
]
OTHERS = [
    paper("Language Models Tell Stories", "Stories told by large language models in planning of plots.", id=4),
    paper("Graph Kernels Revisited", "Kernels on graphs, compared.", id=5),
    paper("A Soft Landing for Drones", "Drones land softly with a model of wind.", id=6),
    *(paper(f"Weather of Year {year}", "Rain and wind.", id=year) for year in range(100, 130)),
]  # fmt: skip
CATALOG = topics.PaperIndex([*GRASPS, *OTHERS])


def test_the_filter_finds_the_examples_and_little_else():
    suggested = topics.suggest_topic(GRASPS, CATALOG)

    assert CATALOG.matches(suggested.filter) == 0b111
    assert suggested.missed == ()
    assert topics.parse(suggested.filter.canonical) == suggested.filter


def test_the_name_is_a_noun_phrase_of_the_titles():
    assert topics.suggest_topic(GRASPS, CATALOG).name == "Grasp planning"


def test_each_clause_says_how_many_papers_it_finds():
    suggested = topics.suggest_topic([*GRASPS, OTHERS[1]], CATALOG)

    main, other = suggested.clauses
    assert (main.examples, main.found, main.added) == (3, 3, 3)
    assert (other.examples, other.found, other.added) == (1, 1, 1)
    assert suggested.filter.canonical == f"{main.clause} OR {other.clause}"
    assert suggested.found == 4


def test_the_same_papers_in_any_order_give_the_same_topic():
    assert topics.suggest_topic(GRASPS, CATALOG) == topics.suggest_topic(GRASPS[::-1], CATALOG)


def test_titles_that_are_not_in_the_catalog_are_enough():
    titles = [paper(one.title, id=0) for one in GRASPS]
    suggested = topics.suggest_topic(titles, topics.PaperIndex(OTHERS))

    assert suggested.name == "Grasp planning"
    assert topics.PaperIndex(GRASPS).matches(suggested.filter) == 0b111


def test_a_topic_is_suggested_for_an_empty_catalog():
    suggested = topics.suggest_topic(GRASPS, topics.PaperIndex([]))

    assert suggested.found == 0
    assert topics.PaperIndex(GRASPS).matches(suggested.filter)


def test_a_topic_is_suggested_for_a_single_paper():
    suggested = topics.suggest_topic(GRASPS[:1], CATALOG)

    assert CATALOG.matches(suggested.filter) & 0b001


def test_papers_without_words_of_a_subject_get_a_topic():
    odd = [paper("Of It", "", id=8), paper("量子", "", id=9)]
    suggested = topics.suggest_topic(odd, topics.PaperIndex([*odd, *GRASPS]))

    assert topics.PaperIndex(odd).matches(suggested.filter)
    assert suggested.name


def test_examples_that_no_clause_finds_are_named():
    odd = paper("Of It", "", id=8)

    assert topics.suggest_topic([*GRASPS, odd], CATALOG).missed == (odd,)


def test_a_suggestion_has_at_most_five_clauses():
    subjects = ["tides", "gears", "honey", "comets", "violins", "glaciers", "orchids", "sonnets"]
    examples = [paper(f"{one} {one}".title(), id=n) for n, one in enumerate(subjects * 2, start=1)]

    suggested = topics.suggest_topic(examples, topics.PaperIndex([*examples, *OTHERS]))

    assert len(suggested.clauses) == MAX_CLAUSES
    assert len(suggested.missed) == len(examples) - 2 * MAX_CLAUSES


def test_an_acronym_is_suggested_as_typed():
    batch = [paper("Tea With a SAM", "A SAM pours.", id=1), paper("A SAM for Cups", "Cups for SAM.", id=2)]
    suggested = topics.suggest_topic(batch, topics.PaperIndex([*batch, *OTHERS]))

    assert suggested.clauses[0].clause == "SAM"


def test_a_compound_with_a_function_word_is_a_clause_and_a_name():
    batch = [
        paper("In-Context Learning of Tides", "Tides in context.", id=1),
        paper("How Kites Profit From In-Context Learning", "We fly kites.", id=2),
    ]
    suggested = topics.suggest_topic(batch, topics.PaperIndex([*batch, *OTHERS]))

    assert suggested.clauses[0].clause == '"in-context*"'
    assert suggested.name == "In-context learning"


def test_a_prefix_that_is_another_word_is_not_suggested():
    batch = [paper(f"Contrastive {end}", "It is contrastive.", id=n) for n, end in enumerate(["Tea", "Cups"])]
    other = paper("Kites", "In contrast, kites fly.", id=9)
    index = topics.PaperIndex([*batch, other, *OTHERS])
    suggested = topics.suggest_topic(batch, index)

    assert index.matches(suggested.filter) == 0b11
    assert "contrast*" not in suggested.filter.canonical


def test_a_word_that_many_abstracts_mention_is_limited_to_titles():
    batch = [
        paper(f"{place} Kites", f"We {verb} a tail of string in the sky.", id=n)
        for n, (place, verb) in enumerate([("Oslo", "fly"), ("Bergen", "knot"), ("Bodo", "paint")])
    ]
    like = [paper(f"A Tail {n}", "A tail of string in the sky, a tail of string.", id=n) for n in (40, 41)]
    mentions = [
        paper(f"Weather of {n}", "Rain, hail, fog and wind; kites were lost.", id=n) for n in range(50, 60)
    ]
    suggested = topics.suggest_topic(batch, topics.PaperIndex([*batch, *like, *mentions, *OTHERS]))

    assert suggested.clauses[0].clause == "ti:kite"
    assert (suggested.clauses[0].examples, suggested.found) == (3, 3)


def test_papers_of_another_topic_are_not_found():
    others = [paper(f"Soft Gripper {n}", "A soft gripper bends.", id=40 + n) for n in range(4)]
    index = topics.PaperIndex([*others, *GRASPS, *OTHERS])

    suggested = topics.suggest_topic(GRASPS, index, others=0b1111)

    assert not index.matches(suggested.filter) & 0b1111


def test_a_shared_index_keeps_nothing_of_a_suggestion():
    index = topics.PaperIndex([*GRASPS, *OTHERS])
    topics.suggest_topic(GRASPS, index)

    assert index.clauses_cached == 0
    assert not index._matches_by_clause
    assert not index._scored_sets


def test_a_topic_is_suggested_quickly_for_long_papers():
    def suggest(size):
        topics.suggest_topic([paper("Long", "grasp planning " * size, id=1), *GRASPS], CATALOG)

    assert_proportional(suggest, 500)


def test_the_time_to_suggest_a_topic_grows_with_the_number_of_papers_and_no_faster():
    chance = random.Random(1)
    words = [f"word{number}" for number in range(5000)]
    batch = [paper(f"Title {n}", " ".join(chance.choices(words, k=60)), id=n + 10) for n in range(2000)]
    indexes = {size: topics.PaperIndex([*GRASPS, *batch[:size]]) for size in (500, 2000)}

    assert topics.suggest_topic(GRASPS, indexes[2000]).name == "Grasp planning"
    assert_proportional(lambda size: topics.suggest_topic(GRASPS, indexes[size]), 500)


# ── on labelled topics ──────────────────────────────────────────────────────────────────────────


def f1_of(found, topic, keys, left_out=frozenset()):
    """Return the F1 of a set of papers for a labelled topic; marginal papers and those left out do not count."""
    relevant, marginal = ({*map(title_key, topic[name])} - left_out for name in ("relevant", "marginal"))
    counted = [
        key for number, key in enumerate(keys) if found >> number & 1 and key not in marginal | left_out
    ]
    hits = sum(key in relevant for key in counted)
    return 2 * hits / (len(counted) + len(relevant)) if relevant else 0.0


def draws_of(topic, number):
    """Return draws of three relevant papers of a topic, by title."""
    chance = random.Random(sum(map(len, topic["relevant"])))
    return [chance.sample(sorted(topic["relevant"]), 3) for _ in range(number)]


def test_three_papers_of_a_labelled_topic_give_its_filter_back(seeds, labelled_topics):  # noqa: F811
    keys = [title_key(one.title) for one in seeds]
    at = dict(zip(keys, seeds, strict=True))
    index = topics.PaperIndex(seeds)
    rows = []
    for topic in labelled_topics.values():
        if len(topic["relevant"]) >= 3:
            for titles in draws_of(topic, 5):
                suggested = topics.suggest_topic([at[title_key(title)] for title in titles], index)
                assert 1 <= len(suggested.clauses) <= MAX_CLAUSES
                rows.append((f1_of(index.matches(suggested.filter), topic, keys),))

    assert means(rows)[0] >= 0.6


@pytest.mark.parametrize("title", ["", "!!", "The of and"])
def test_a_title_without_words_is_no_error(title):
    suggested = topics.suggest_topic([paper(title)], CATALOG)

    assert suggested.clauses
