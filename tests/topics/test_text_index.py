"""Texts tokenized in pieces give the same words as texts tokenized as a whole."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from digest.topics import tokenizer
from digest.topics.text_index import TextIndex
from tests.topics import strategies

signs = st.text(st.sampled_from("aZß9.é ́’'-–_ \t  ,(αⅣ深度Ａ/"), max_size=24)
texts = st.lists(st.one_of(strategies.prose(14), signs, st.text(max_size=20)), max_size=4)


def spelled(index, document):
    """Return the words of a document and the separators behind all but the last."""
    start, end = index.spans[document]
    words = list(index.words)
    return [words[number] for number in index.row[start:end]], index.glue[start : max(start, end - 1)]


@given(texts)
@example(["ᏣᎳᎩ"])  # capitals that are folded to themselves
def test_texts_tokenized_in_pieces_equal_texts_tokenized_whole(written):
    index = TextIndex(enumerate(written))

    for document, text in enumerate(written):
        read = tokenizer.read(text)
        words = [
            surface if tokenizer.is_as_typed(surface) else folded
            for surface, folded in zip(read.surfaces, read.folded, strict=True)
        ]
        assert spelled(index, document) == (words, read.glue)
    assert len(index.glue) == len(index.document_at) == sum(map(len, index.positions))


def test_words_with_two_capitals_are_indexed_as_typed_and_found_folded():
    index = TextIndex([(0, "SAM sees (LLM-based) models")])

    assert spelled(index, 0) == (["SAM", "sees", "LLM", "based", "models"], " ,-,")
    assert index.forms("sam", exact=True) == index.forms("SAM", exact=True) == {index.words["SAM"]}
