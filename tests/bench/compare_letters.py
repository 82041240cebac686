"""Check that two implementations write equal letters before either is timed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from email import message_from_bytes, policy
from typing import Any

from lxml import html

HEADERS = ("Subject", "From", "To", "List-Unsubscribe", "List-Unsubscribe-Post", "List-Id")
FEWEST = 50  #: minimum number of letters to compare

Letters = dict[str, bytes]  #: by recipient


def compare(ours: Letters, theirs: Letters) -> None:
    """Raise AssertionError unless both implementations sent the same readers equal letters."""
    assert ours.keys() == theirs.keys(), ours.keys() ^ theirs.keys()
    assert len(ours) > FEWEST
    for name, letter in ours.items():
        for our, their in zip(contents(letter), contents(theirs[name]), strict=True):
            assert our == their, f"{name}: {our!r} is {their!r} with them"


def contents(message: bytes) -> Iterator[Any]:
    """Yield the relevant headers, the text, and every visible element."""
    parsed = message_from_bytes(message, policy=policy.default)
    yield from [str(parsed[name]).strip() for name in HEADERS]
    plain, page = (parsed.get_body((kind,)) for kind in ("plain", "html"))
    assert plain
    assert page
    yield plain.get_content().replace("\r\n", "\n").rstrip()
    yield from elements(page.get_content())


def elements(page: str) -> Iterator[tuple[Any, ...]]:
    """Yield every element of a page as a browser parses it, in one spelling for all inliners.

    One may write `#FFF` and the other `#FFFFFF`, double quotes or single ones, a `tbody` or none.
    """
    for element in html.document_fromstring(page).iter():
        if element.tag in {html.etree.Comment, "style", "tbody"}:
            continue
        attributes = {name: value for name, value in element.attrib.items() if name != "style"}
        yield element.tag, attributes, declarations(element.get("style", "")), text_of(element)


def declarations(style: str) -> set[str]:
    """Return the declarations of a style attribute in a uniform spelling."""
    plain = re.sub(r"#(\w)(\w)(\w)\b", r"#\1\1\2\2\3\3", style.replace('"', "'"))
    return {re.sub(r"\s*([:,])\s*", r"\1", each.strip()).lower() for each in plain.split(";") if each.strip()}


def text_of(element: Any) -> str:
    """Return the text in an element and directly after it."""
    return " ".join(f"{element.text or ''} {element.tail or ''}".split())
