"""`like:PAPER` finds similar papers."""

from __future__ import annotations

import pytest

from digest import errors, topics
from digest.papers import Paper, title_key
from digest.topics import similar_papers
from tests.topics.invented_papers import paper
from tests.topics.test_relevance import judged, labelled, means, seeds  # noqa: F401

GRASPS = [
    paper(
        "Grasp Planning for Soft Grippers", "Soft grippers plan a grasp by touch. A soft gripper bends.", id=1
    ),
    paper("Tactile Grasp Planning", "We plan grasps with tactile sensing and a soft gripper.", id=2),
    paper("Planning a Grasp in Clutter", "Clutter makes grasp planning hard; touch helps a gripper.", id=3),
]
OTHERS = [
    paper("Language Models Tell Stories", "Stories told by large language models in planning of plots.", id=4),
    paper("Graph Kernels Revisited", "Kernels on graphs, compared.", id=5),
    paper("A Soft Landing for Drones", "Drones land softly with a model of wind.", id=6),
    *(paper(f"Weather of Year {year}", "Rain and wind.", id=year) for year in range(100, 130)),
]  # fmt: skip
ALL = topics.PaperIndex([*GRASPS, *OTHERS])


def by_id(reference):
    for one in (*GRASPS, *OTHERS):
        if str(one.id) == reference:
            return one
    raise errors.NotFound(f"There is no paper {reference!r} in the catalog.")


def test_a_like_clause_is_replaced_by_words_of_the_paper():
    written = topics.expand_like("like:1 ANDNOT ti:survey", by_id)

    assert written.startswith('about:"grippers^5 soft^5 grasp^4 planning^3 ')
    assert written.endswith('" ANDNOT ti:survey')


def test_a_like_clause_finds_the_paper_and_similar_ones():
    found = ALL.matches(topics.parse(topics.expand_like("like:1", by_id)))

    assert found & 0b111 == 0b111
    assert found.bit_count() <= 4


def test_a_like_clause_keeps_at_most_forty_words_with_most_bits_first():
    long = paper("Grasp", " ".join(f"thing{number}" for number in range(300)), id=1)
    words = topics.expand_like("like:1", lambda _: long).removeprefix('about:"').rstrip('"').split()

    assert len(words) == 40
    assert words[0] == "grasp^3"


def test_several_like_clauses_fit_into_one_filter():
    long = paper("Grasp", " ".join(f"extraordinary{number}" for number in range(300)), id=1)
    written = topics.expand_like(" OR ".join([f"like:{number}" for number in range(4)]), lambda _: long)

    assert topics.parse(written).canonical
    assert len(written) > 800


def test_similar_papers_of_labelled_topics_are_found(seeds, labelled):  # noqa: F811
    at = {title_key(one.title): number for number, one in enumerate(seeds)}
    figures = [judged_examples(topics.PaperIndex(seeds), at, topic) for topic in labelled.values()]

    precision, _, recall, _ = means([means(rows) for rows in figures if rows])

    # Measured with each relevant paper of the 26 topics as the example: .437, .730. With six words: .319, .475.
    assert precision >= 0.43
    assert recall >= 0.72


def judged_examples(index, at, topic):
    """Return the figures of the topic for each of its relevant papers as the example."""
    figures = []
    for key in map(title_key, topic["relevant"]):
        others = [title for title in topic["relevant"] if title_key(title) != key]
        example = index.papers[at[key]]
        filter_ = topics.parse(f'about:"{similar_papers.weighted_words(example, max_characters=900)}"')
        scores = index.relevance(filter_, index.matches(filter_))
        order = sorted(scores, key=lambda number: (-scores[number], number))
        found = [title_key(index.papers[number].title) for number in order if number != at[key]]
        if others:
            figures.append((*judged(found, {**topic, "relevant": others}), len(found)))
    return figures


def test_like_inside_quotes_is_text():
    assert topics.expand_like('"like: this" OR like:"2"', by_id).startswith('"like: this" OR about:"')


def test_an_unknown_paper_in_a_like_clause_is_pointed_at():
    with pytest.raises(errors.BadFilter, match="There is no paper '99'") as caught:
        topics.expand_like("robot OR like:99", by_id)

    assert (caught.value.column, caught.value.length) == (10, 7)


def test_a_like_clause_without_a_catalog_is_refused_with_the_reason():
    with pytest.raises(errors.BadFilter, match="needs the catalog"):
        topics.parse("like:2401.01234")


def test_a_filter_that_is_too_long_is_refused_without_looking_up_its_papers():
    written = "like:2401.01234 " * 1000
    catalog: dict[str, Paper] = {}

    assert similar_papers.expand_like(written, catalog.__getitem__) == written
