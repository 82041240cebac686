"""Read a Hugging Face paper page saved by a browser ("hf-page") from the JSON in its HTML."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from typing import Any

from digest.dumps.formats import json_stream, service_json, xml_stream
from digest.dumps.formats.reader_interface import DumpInput, Header, Items
from digest.errors import UnreadableDump

NAME = "hf-page"

MAX_PAGE_BYTES = 32 * 1024 * 1024
PAPER_PROPS = re.compile(r"""data-props=(?:"([^"]*&quot;summary&quot;[^"]*)"|'([^']*"summary"[^']*)')""")
LISTS = ("dailyPapers", "papers")


def recognises(head: str) -> bool:
    """Return whether the dump is a Hugging Face web page."""
    return xml_stream.root_element_name(head).casefold() == "html" and "huggingface.co" in head


def has_papers(source: DumpInput) -> bool:
    """Return whether the dump is a Hugging Face web page that contains the papers as JSON."""
    if not recognises(source.head) or source.size_up_to(MAX_PAGE_BYTES) > MAX_PAGE_BYTES:
        return False
    page = source.rewind().read().decode(errors="replace")
    return next(papers_in_page(page), None) is not None


def read(source: DumpInput) -> tuple[Header, Items]:
    """Read the papers in the page's data; raise UnreadableDump if there are none or the page is too large."""
    found = list(papers_in_page(source.read_all(MAX_PAGE_BYTES).decode(errors="replace")))
    if not found:
        raise UnreadableDump(
            "The file is a web page that does not contain the papers' data. Save its text, or download the papers as JSON:"
            " https://huggingface.co/api/daily_papers"
        )
    return Header(), json_stream.convert_objects(
        ((1, paper) for paper in found), service_json.huggingface_record
    )


def papers_in_page(page: str) -> Iterator[Any]:
    """Yield the papers in a page's data: either the papers in its lists or the single paper on the page."""
    for props in PAPER_PROPS.finditer(page):
        try:
            data = json.loads(html.unescape(props[1] or props[2]))
        except (ValueError, RecursionError):
            continue
        if isinstance(data, dict):
            lists = [data[name] for name in LISTS if isinstance(data.get(name), list)]
            yield from (paper for one in lists for paper in one)
            if not lists and isinstance(data.get("paper"), dict):
                yield data
