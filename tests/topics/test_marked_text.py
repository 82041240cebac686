"""Matched words are marked in the HTML of a text, and nothing else of the text changes."""

from __future__ import annotations

import re
from html import unescape

from hypothesis import given
from hypothesis import strategies as st

from digest.papers.display_text import display
from digest.topics import explanation, filter_parser
from digest.topics.explanation import MatchedWord
from digest.topics.marked_text import marked_html
from tests.topics.invented_papers import KITCHEN, paper


def marked(field: str, filter_: str, of=KITCHEN) -> str:
    words = explanation.explain(filter_parser.parse(filter_), of).words
    text = display(getattr(of, field))
    return str(marked_html(text, field, words))


def test_every_occurrence_of_a_matched_word_is_marked() -> None:
    found = marked("title", "cup*", paper("Cups & a cup", "No other."))

    assert found == '<mark class="mark">Cups</mark> &amp; a <mark class="mark">cup</mark>'


def test_a_text_without_a_match_is_only_escaped() -> None:
    assert marked("abstract", "ti:cups", paper("Cups", "a < b")) == "a &lt; b"


def test_a_filter_that_does_not_match_marks_nothing() -> None:
    assert "<mark" not in marked("title", "zebras")


def test_a_word_after_the_cut_of_a_text_is_not_marked() -> None:
    words = explanation.explain(filter_parser.parse("ask"), paper("Robots that ask", "Nothing.")).words

    assert str(marked_html("Robots that a…", "title", words)) == "Robots that a…"


@given(st.text(max_size=60), st.lists(st.integers(0, 60), max_size=6, unique=True))
def test_marking_changes_nothing_but_the_tags(text: str, cuts: list[int]) -> None:
    inside = sorted(cut for cut in cuts if cut <= len(text))
    words = [
        MatchedWord("title", start, end, text[start:end])
        for start, end in zip(inside[0::2], inside[1::2], strict=False)
    ]

    found = str(marked_html(text, "title", words))

    assert unescape(re.sub("</?mark[^>]*>", "", found)) == text
    assert re.findall('<mark class="mark">([^<]*)</mark>', found) == [
        str(marked_html(word.text, "title", ())) for word in words
    ]
