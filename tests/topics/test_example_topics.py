"""`like:` describes a topic by example papers, whose words are stored with the filter."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from digest import errors
from digest.papers import bitsets
from digest.papers.paper_record import title_key
from digest.topics import example_topics, example_words, explanation, filter_parser
from digest.topics.example_topics import ExampleTopic, topic_like, topic_like_library
from digest.topics.example_words import without_words, words_of_paper
from digest.topics.filter_tree import ExampleClause
from digest.topics.paper_index import PaperIndex
from tests.bench import example_topics as judged
from tests.topics.invented_papers import paper
from tests.topics.test_relevance import labelled, means, seeds  # noqa: F401

GRASPS = [
    paper("Grasp Planning for Soft Grippers", "Soft grippers plan a grasp by touch. A gripper bends.", id=1),
    paper("Tactile Grasp Planning", "We plan grasps with tactile sensing and a soft gripper.", id=2),
    paper("Planning a Grasp in Clutter", "Clutter makes grasp planning hard; touch helps a gripper.", id=3),
]
OTHERS = [
    paper("Language Models Tell Stories", "Stories by large language models about planning of plots.", id=4),
    paper("Graph Kernels Revisited", "Kernels on graphs, compared.", id=5),
    paper("A Gentle Landing for Drones", "Drones land gently with a model of wind.", id=6),
    *(paper(f"Weather of Year {year}", "Rain and wind.", id=year) for year in range(100, 130)),
]  # fmt: skip
ALL = PaperIndex([*GRASPS, *OTHERS])


def words_of(reference):
    for one in (*GRASPS, *OTHERS):
        if str(one.id) == reference:
            return words_of_paper(one)
    raise errors.NotFound(f"There is no paper {reference!r} in the catalog.")


def stored(written):
    return filter_parser.parse(example_words.with_words(written, words_of))


def test_a_topic_by_example_finds_similar_papers_and_says_what_they_share():
    filter_ = stored("like:1")

    assert bitsets.members(ALL.matches(filter_)) == [0, 1, 2]
    assert explanation.explain(filter_, GRASPS[2]).why == (
        "Like “Grasp Planning for Soft Grippers”: grasp, touch",
    )
    assert explanation.explain(filter_, OTHERS[1]).failed == ("not similar enough to 1",)


def test_a_stored_filter_has_the_words_of_its_examples_and_a_shown_one_has_not():
    filter_ = stored("like:1,2 ANDNOT ti:survey")

    assert filter_.canonical == "like:1,2 ANDNOT ti:survey"
    assert filter_.stored.startswith("like:1{Grasp Planning for Soft Grippers|grippers^7 ")
    assert without_words(filter_.stored) == filter_.canonical
    assert filter_parser.parse(filter_.stored) == filter_


def test_a_paper_alone_matches_as_it_does_in_a_batch():
    for written in ("like:1", "like:1,2,3", "like:4,6"):
        filter_ = stored(written)
        alone = [explanation.explain(filter_, one).matched for one in ALL.papers]
        assert bitsets.members(ALL.matches(filter_)) == [n for n, matched in enumerate(alone) if matched]


def test_less_like_a_paper_leaves_out_the_papers_similar_to_it():
    assert bitsets.members(ALL.matches(stored("grasp OR kernel ANDNOT like:2"))) == [0, 1, 2, 4]
    written = example_topics.without_similar("grasp OR kernel", GRASPS[1], is_or=True)

    assert written == "(grasp OR kernel) ANDNOT like:2"
    assert bitsets.members(ALL.matches(stored(written))) == [4]


def test_more_like_a_paper_adds_an_example_once():
    extended = example_topics.with_example("like:1 ANDNOT ti:survey", GRASPS[1])

    assert extended == "like:1,2 ANDNOT ti:survey"
    assert example_topics.with_example(extended, GRASPS[1]) == extended
    assert example_topics.with_example("grasp", GRASPS[1]) is None


def test_a_topic_is_named_after_its_first_example():
    assert topic_like(GRASPS[:1]).name == "Like “Grasp Planning for Soft Grippers”"
    assert topic_like(GRASPS) == ExampleTopic(
        "Like “Grasp Planning for Soft Grippers” and 2 more", "like:1,2,3"
    )


def test_a_doi_with_a_comma_is_quoted():
    odd = replace(GRASPS[0], ids={"doi": "10.1000/a,b(c)"})

    assert topic_like([odd, GRASPS[1]]).filter == 'like:"10.1000/a,b(c)",2'
    filter_ = filter_parser.parse(f'like:"10.1000/a,b(c)"{words_of_paper(odd)},2{words_of("2")}')
    assert filter_.canonical == 'like:"10.1000/a,b(c)",2'
    assert filter_parser.parse(filter_.stored) == filter_


def test_the_newest_papers_of_a_library_are_examples_and_none_of_the_library_is_matched():
    library = [replace(one, published=date(2000 + place, 1, 1)) for place, one in enumerate(GRASPS)]
    old = [paper(f"Old {n}", f"Mud and clay {n}.", id=500 + n) for n in range(250)]

    newest = example_topics.newest_of([*old, *library])
    topic = topic_like_library(newest, [*old, *library])
    filter_ = filter_parser.parse(topic.filter)

    assert [one.id for one in newest[:3]] == [3, 2, 1]
    assert len(newest) == 200
    assert without_words(topic.filter).startswith("like:library-")
    fresh = paper("Grasp Planning by a Soft Gripper", "Grasps of grippers by touch and planning.", id=900)
    assert bitsets.members(PaperIndex([*GRASPS, fresh]).matches(filter_)) == [3]


@pytest.mark.parametrize("count", [1, 200])
def test_a_filter_has_room_for_the_words_of_all_examples(count):
    long = paper("A Title of Many Words " * 5, " ".join(f"extraordinary{n}" for n in range(300)), id=1)
    papers = [replace(long, id=n, title=f"{n} {long.title}") for n in range(count)]

    topic = topic_like_library(papers, papers)

    assert len(topic.filter) < example_words.MAX_STORED / 2
    assert filter_parser.parse(topic.filter).canonical == without_words(topic.filter)


def test_two_hundred_examples_cost_no_more_steps_than_a_few_words_each():
    long = [paper(f"Paper {n}", " ".join(f"word{n % 50}x{k}" for k in range(100)), id=n) for n in range(200)]

    clause = filter_parser.parse(topic_like_library(long, long).filter).tree

    assert isinstance(clause, ExampleClause)
    assert sum(len(example.words) for example in clause.examples) <= example_words.MAX_TOPIC_WORDS


def test_an_unknown_paper_is_pointed_at_in_what_was_typed():
    with pytest.raises(errors.BadFilter, match="There is no paper '99'") as caught:
        example_words.with_words("like:1 OR like:99", words_of)

    assert (caught.value.text, caught.value.column, caught.value.length) == ("like:1 OR like:99", 11, 7)


def test_like_in_quotes_is_text_and_without_a_catalog_it_is_refused():
    assert example_words.with_words('"like:1" OR cup', words_of) == '"like:1" OR cup'
    with pytest.raises(errors.BadFilter, match="needs the catalog"):
        filter_parser.parse("like:2401.01234")


@pytest.mark.parametrize("words", ["{T|a^0}", "{T|a^100}", "{T|a}", "{T|a^^1}"])
def test_words_that_nobody_wrote_for_us_are_refused(words):
    with pytest.raises(errors.BadFilter):
        filter_parser.parse(f"like:1{words}")


def test_the_examples_of_labelled_topics_find_the_other_papers(seeds, labelled):  # noqa: F811
    keys, index = [title_key(one.title) for one in seeds], PaperIndex(seeds)
    known = [topic for topic in labelled.values() if len(topic["relevant"]) > 3]

    figures = [means(judged.judged_examples(index, keys, topic, 3, draws=3)) for topic in known]

    _, others, all_f1, _, _ = means(figures)
    assert others >= 0.43
    assert all_f1 >= 0.66
