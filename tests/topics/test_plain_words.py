"""Plain words that a reader types are read as a description."""

from __future__ import annotations

from digest.topics import filter_parser, plain_words
from digest.topics.paper_index import PaperIndex
from tests.topics.invented_papers import paper

BATCH = PaperIndex([paper("The Structure of a Protein"), paper("Microscopy"), paper("Protein Soups")])


def test_several_words_are_a_description_and_commas_separate_alternatives() -> None:
    assert plain_words.as_filter("protein structure") == 'about:"protein structure"'
    assert plain_words.as_filter("self-driving cars") == 'about:"self driving cars"'
    read = plain_words.as_filter(" protein  structure, microscopy ")
    assert read == 'about:"protein structure" OR microscopy'
    assert BATCH.matches(filter_parser.parse(read)) == 0b011


def test_one_word_and_everything_with_quotes_operators_or_fields_stays_a_filter() -> None:
    for written in (
        "diffusion", '"protein structure"', "protein AND structure", "protein -soup", "ti:protein structure",
        "(protein structure)", "protein struct*", "cat:cs.LG", "like:1", "", "of the", "a OR b",
    ):  # fmt: skip
        assert plain_words.as_filter(written) == written, written
        assert plain_words.both_readings(written, BATCH) == "", written


def test_both_readings_are_shown_with_what_they_find() -> None:
    assert plain_words.both_readings("protein structure, microscopy", BATCH) == (
        'Read as about:"protein structure" OR microscopy, which 2 of the last 3 papers match;'
        " 0 have all of these words."
    )
