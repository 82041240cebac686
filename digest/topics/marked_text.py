"""Mark the words of a text that a filter matches, as HTML for web pages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from markupsafe import Markup, escape

from digest.topics.explanation import MatchedWord


def marked_html(text: str, field: str, words: Iterable[MatchedWord]) -> Markup:
    """Return the text of a paper's field as HTML with `<mark>` around the matched words of this field.

    The words are in reading order and do not overlap. If the text was shortened, matched words after its end
    are ignored.
    """
    kept = (word for word in words if word.field == field and text[word.start : word.end] == word.text)
    return Markup("").join(marked_pieces(text, kept))


def marked_pieces(text: str, words: Iterable[MatchedWord]) -> Iterator[Markup]:
    """Yield the escaped pieces of `text`: the text before a matched word, the marked word, and so on."""
    end = 0
    for word in words:
        yield escape(text[end : word.start])
        yield Markup('<mark class="mark">%s</mark>') % word.text
        end = word.end
    yield escape(text[end:])
