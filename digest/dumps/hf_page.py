"""A page of Hugging Face's papers as a browser saves it ("hf-page"): the papers stand in it once more, as JSON."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from typing import Any

from digest.dumps import hf_json, markup, objects
from digest.dumps.reading import Header, Items, Source
from digest.errors import Unreadable

NAME = "hf-page"

LONGEST = 32 * 1024 * 1024
PROPS = re.compile(r"""data-props=(?:"([^"]*&quot;summary&quot;[^"]*)"|'([^']*"summary"[^']*)')""")
LISTS = ("dailyPapers", "papers")


def recognises(head: str) -> bool:
    """Return whether this is a web page of Hugging Face."""
    return markup.root_of(head).casefold() == "html" and "huggingface.co" in head


def read(source: Source) -> tuple[Header, Items]:
    """Read the papers that the page's own script would show; raise Unreadable for a page without."""
    found = list(papers(source.whole(LONGEST).decode(errors="replace")))
    if not found:
        raise Unreadable(
            "It is a web page without the papers' data in it. Save its text, or ask for them as JSON:"
            " https://huggingface.co/api/daily_papers"
        )
    return Header(), objects.converted(((1, paper) for paper in found), hf_json.record_of)


def papers(page: str) -> Iterator[Any]:
    """Yield the papers in the data of a page: its lists', or the one it is about."""
    for props in PROPS.finditer(page):
        try:
            told = json.loads(html.unescape(props[1] or props[2]))
        except (ValueError, RecursionError):
            continue
        if isinstance(told, dict):
            lists = [told[name] for name in LISTS if isinstance(told.get(name), list)]
            yield from (paper for one in lists for paper in one)
            if not lists and isinstance(told.get("paper"), dict):
                yield told
