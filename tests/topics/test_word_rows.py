"""Texts tokenized in pieces and as a whole give the same words."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from digest.topics import tokenizer, word_rows
from tests.topics import strategies

signs = st.text(st.sampled_from("aZß9.é ́’'-–_ \t  ,(αⅣ深度Ａ/"), max_size=24)
texts = st.lists(st.one_of(strategies.prose(14), signs, st.text(max_size=20)), max_size=4)


def spelled(made):
    """Return the spelling of every word, because word numbers depend on the order of texts."""
    words = list(made.words)
    return [[words[ord(sign)] for sign in row] for row in (made.folded, made.typed)]


@given(texts)
@example(["ᏣᎳᎩ"])  # capitals that are folded to themselves
def test_texts_tokenized_in_pieces_equal_texts_tokenized_whole(written):
    by_pieces = word_rows.rows_of_texts(enumerate(written))
    whole = word_rows.rows_of_words(enumerate(map(tokenizer.read, written)))

    assert spelled(by_pieces) == spelled(whole)
    assert by_pieces.glue == whole.glue
    assert by_pieces.spans == whole.spans
    assert by_pieces.document_at == whole.document_at
    assert by_pieces.words.keys() == whole.words.keys()


def test_words_with_two_capitals_are_indexed_as_typed_and_folded():
    made = word_rows.rows_of_texts([(0, "SAM sees (LLM-based) models")])

    assert spelled(made) == [
        ["", "sam", "sees", "llm", "based", "models", ""],
        ["", "SAM", "sees", "LLM", "based", "models", ""],
    ]
    assert made.glue == ", ,-,,,"
