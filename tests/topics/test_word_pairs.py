"""Phrases are looked up by their rarest word pair and found exactly where a full scan finds them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from digest import bitsets, topics
from tests.topics.invented_papers import paper

WORDS = ("red", "blue", "cup", "SAM", "sam")
#: Beside random texts one for each word, so that the batch knows them all.
texts = st.lists(st.lists(st.sampled_from(WORDS), max_size=30), max_size=4).map(
    lambda rows: rows + [[word] for word in WORDS]
)
phrases = st.lists(st.sampled_from(WORDS), min_size=2, max_size=5)


def stands_at(phrase, row, at):
    """A word typed with capitals matches as typed; any other matches in any case."""
    return len(row) - at >= len(phrase) and all(
        word in (have, have.lower()) for word, have in zip(phrase, row[at:], strict=False)
    )


def prepared(rows):
    index = topics.PaperIndex([paper("", " ".join(row)) for row in rows])
    index.prepare()
    return index


def test_the_table_of_pairs_is_built_once():
    postings = prepared([["red", "cup"]]).postings

    assert postings.list_pairs() is postings.list_pairs()


@given(texts, phrases)
def test_the_documents_with_a_phrase_are_found(rows, phrase):
    index = prepared(rows)
    number_of = index.postings.words
    expected = [
        len(rows) + number
        for number, row in enumerate(rows)
        if any(stands_at(phrase, row, at) for at in range(len(row)))
    ]

    found = index.postings.phrase([number_of[word] for word in phrase])

    assert [number for number in range(2 * len(rows)) if found >> number & 1] == expected


@given(texts, phrases)
def test_every_position_of_a_phrase_is_found_once(rows, phrase):
    index = prepared(rows)
    number_of = index.postings.words
    expected = {
        index.postings.spans[len(rows) + number][0] + at
        for number, row in enumerate(rows)
        for at in range(len(row))
        if stands_at(phrase, row, at)
    }

    away, positions = index.postings._pair_table.in_a_row([number_of[word] for word in phrase])

    assert sorted(at - away for at in positions) == sorted(expected)


def test_a_phrase_that_occurs_often_is_found_in_each_document():
    index = prepared([["red", "blue"] * (bitsets.MANY_NUMBERS + 1), ["cup"], ["red", "blue"]])
    number_of = index.postings.words

    found = index.postings._pair_table.documents_at(
        index.postings._pair_table.places(number_of["red"], number_of["blue"])
    )

    assert found == index.postings.phrase([number_of["red"], number_of["blue"]])
