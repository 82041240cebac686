"""Mark the words of a text that a filter matches, as HTML for web pages; letters mark none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from markupsafe import Markup, escape

from digest.topics.explanation import MatchedWord


def marked_html(text: str, words: Iterable[MatchedWord]) -> Markup:
    """Return a text as HTML with `<mark>` around the matched words, given in reading order without overlaps."""
    return Markup("").join(marked_pieces(text, words))


def marked_pieces(text: str, words: Iterable[MatchedWord]) -> Iterator[Markup]:
    """Yield the pieces of a text, escaped: the text before a matched word, the word, and so on."""
    end = 0
    for word in words:
        yield escape(text[end : word.start])
        yield Markup('<mark class="mark">%s</mark>') % text[word.start : word.end]
        end = word.end
    yield escape(text[end:])
