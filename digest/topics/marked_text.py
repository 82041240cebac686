"""Mark the words of a text that a filter matches, as HTML for web pages."""

from __future__ import annotations

from collections.abc import Iterable

from markupsafe import Markup, escape

from digest.topics.explanation import MatchedWord


def marked_html(text: str, field: str, words: Iterable[MatchedWord]) -> Markup:
    """Return the text of a paper's field as HTML with `<mark>` around the matched words of this field.

    The words are in reading order and do not overlap. If the text was shortened, matched words after its end
    are ignored.
    """
    pieces, end = list[str](), 0
    for word in words:
        if word.field == field and text[word.start : word.end] == word.text:
            marked = Markup('<mark class="mark">%s</mark>') % word.text
            pieces += escape(text[end : word.start]), marked
            end = word.end
    return Markup("").join([*pieces, escape(text[end:])])
