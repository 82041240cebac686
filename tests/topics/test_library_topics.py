"""A library makes topics: clusters with names and filters, and authors to follow."""

from __future__ import annotations

import random
from itertools import combinations

import pytest

from digest import topics
from digest.papers import title_key
from digest.topics import library_topics
from digest.topics.filter_tree import DescriptionClause, TextClause
from digest.topics.library_topics import MAX_TOPICS, JoinedIndexes
from tests.topics.invented_papers import paper
from tests.topics.test_relevance import labelled, seeds  # noqa: F401
from tests.topics.test_suggested_topics import f1_of

ENOUGH = 0.5  #: F1 from which a labelled topic counts as found
LIBRARY_SIZE = 40
LEAST_RELEVANT = 6  #: minimum number of papers of a topic of a library

GRASPS = [
    paper(
        f"{place} Grasp Planning",
        "A gripper plans a grasp by touch.",
        id=n,
        authors=("Ito, Yuki", f"A{n} Lind"),
    )
    for n, place in enumerate(["Tactile", "Soft", "Fast", "Blind", "Safe"], start=1)
]
TIDES = [
    paper(
        f"{place} Tide Tables", "The moon moves the tides of the sea.", id=n, authors=("Yuki Ito", "Madonna")
    )
    for n, place in enumerate(["Northern", "Southern", "Eastern", "Western"], start=11)
]
OTHERS = [paper(f"Weather of Year {year}", "Rain and wind.", id=year) for year in range(100, 130)]
CATALOG = topics.PaperIndex([*GRASPS, *OTHERS])


def test_each_subject_of_a_library_becomes_a_topic():
    found = topics.suggest_from_library([*GRASPS, *TIDES], CATALOG)

    assert [(one.topic.name, one.papers) for one in found.topics] == [
        ("Grasp planning", 5),
        ("Tide tables", 4),
    ]
    assert CATALOG.matches(found.topics[0].topic.filter) == 0b11111
    assert topics.PaperIndex(TIDES).matches(found.topics[1].topic.filter) == 0b1111


def test_authors_of_three_papers_are_suggested_however_they_are_written():
    found = topics.suggest_from_library([*GRASPS, *TIDES], CATALOG)

    (author,) = found.authors
    assert (author.name, author.papers) == ("Ito, Yuki", 9)
    assert topics.PaperIndex(TIDES).matches(author.filter) == 0b1111


def test_words_of_another_topic_of_the_library_are_not_clauses():
    chance = random.Random(3)
    words = ["moon", "harbour", "gull", "sail", "rope", "anchor", "buoy", "lock"]

    def about(subject, start):
        return [
            paper(f"{subject} {n}", f"A shared {subject} pulley. {' '.join(chance.sample(words, 4))}", id=n)
            for n in range(start, start + 5)
        ]

    found = topics.suggest_from_library([*about("Winches", 1), *about("Capstans", 11)], CATALOG)

    assert all("pulley" not in one.topic.filter.canonical for one in found.topics)
    assert {one.topic.name for one in found.topics} == {"Winches", "Capstans"}


def test_a_library_in_another_order_gives_the_same_topics():
    mixed = [*GRASPS, *TIDES]
    random.Random(1).shuffle(mixed)

    filters = {one.topic.filter for one in topics.suggest_from_library(mixed, CATALOG).topics}

    assert filters == {
        one.topic.filter for one in topics.suggest_from_library([*GRASPS, *TIDES], CATALOG).topics
    }


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_small_library_makes_one_topic(size):
    (one,) = topics.suggest_from_library(GRASPS[:size], CATALOG).topics

    assert one.papers == size
    assert CATALOG.matches(one.topic.filter)


def test_an_empty_library_makes_no_topic():
    assert topics.suggest_from_library([], CATALOG) == topics.LibraryTopics((), ())


def test_a_library_without_words_makes_a_topic():
    found = topics.suggest_from_library([paper("!!"), paper("量子")], topics.PaperIndex([]))

    assert 1 <= len(found.topics) <= MAX_TOPICS


def test_a_library_of_many_subjects_makes_only_the_first_topics():
    subjects = ["Tide Tables", "Gear Trains", "Honey Bees", "Comet Tails", "Violin Strings", "Sea Glaciers"]
    library = [
        paper(f"{subject} {year}", f"We study {subject.lower()}.", id=100 * place + year)
        for place, subject in enumerate(subjects)
        for year in range(1, 5)
    ]

    found = topics.suggest_from_library(library, CATALOG)

    assert len(found.topics) == MAX_TOPICS < len(subjects)


def test_clusters_that_keep_changing_are_taken_after_the_last_round(monkeypatch):
    monkeypatch.setattr(library_topics, "MAX_ROUNDS", 0)

    found = topics.suggest_from_library([*GRASPS, *TIDES], CATALOG)

    assert [one.papers for one in found.topics] == [5, 4]


# ── on labelled topics ──────────────────────────────────────────────────────────────────────────


def mixed_library(known, chance, *, with_marginal=False):
    """Return the names of three topics that have 40 papers together, and the keys of 40 of their papers."""
    kinds = ("relevant", "marginal") if with_marginal else ("relevant",)
    keys = {
        name: {title_key(title) for kind in kinds for title in topic[kind]} for name, topic in known.items()
    }
    large = sorted(name for name in keys if len(keys[name]) >= LEAST_RELEVANT)
    mixtures = [
        names
        for names in combinations(large, 3)
        if len(set().union(*(keys[name] for name in names))) >= LIBRARY_SIZE
    ]
    names = chance.choice(mixtures)
    return names, chance.sample(sorted(set().union(*(keys[name] for name in names))), LIBRARY_SIZE)


def best_f1s(found, index, keys, wanted):
    """Return the F1 of the best of the suggested filters for each labelled topic."""
    matches = [index.matches(one.topic.filter) for one in found.topics]
    return [max(f1_of(some, topic, keys) for some in matches) for topic in wanted]


def test_libraries_of_three_labelled_topics_give_them_back(seeds, labelled):  # noqa: F811
    index = topics.PaperIndex(seeds)
    keys = [title_key(one.title) for one in seeds]
    at = dict(zip(keys, seeds, strict=True))
    figures = []
    for draw in range(6):
        names, library = mixed_library(labelled, random.Random(draw))
        found = topics.suggest_from_library([at[key] for key in library], index)
        assert 1 <= len(found.topics) <= MAX_TOPICS
        figures += best_f1s(found, index, keys, [labelled[name] for name in names])

    assert sum(figure >= ENOUGH for figure in figures) >= 0.9 * len(figures)


def test_joined_indexes_answer_like_one_index_of_all_papers():
    joined = JoinedIndexes(topics.PaperIndex(GRASPS), topics.PaperIndex(TIDES))
    whole = topics.PaperIndex([*GRASPS, *TIDES])
    clause, described = topics.parse("tide").tree, topics.parse('about:"grasps of tides"').tree
    assert isinstance(clause, TextClause)
    assert isinstance(described, DescriptionClause)

    assert (joined.size, joined.full) == (whole.size, whole.full)
    assert joined.look_up(clause) == whole.look_up(clause) == 0b1111_00000
    assert joined.description_scores(described) == whole.description_scores(described)
    assert joined.has_word("gripper")
    assert joined.has_word("moon")
    assert not joined.has_word("kite")
