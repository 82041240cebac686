"""Split a copied page into lines of plain text with their links, whichever tool made the copy.

A link is written inline (`[text](address)`), as a reference (`[text][12]`), with a number before its text
(`[12]text`, as text browsers write it, with a list of addresses at the end), with its address after its text
(`text <address>`, `text [address]`, as in pages that tools save as text), or in other markup. A link may span
several lines.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from digest.dumps.formats import markup
from digest.dumps.formats.page_links import LinkFinder

LISTED_ADDRESS = re.compile(
    r"[ \t>]*(?:\[(?P<name>[^\[\]\n]{1,300})\]:?|(?P<number>\d{1,5})[.:])\s+<?(?P<url>(?:https?|file):/\S+|/\S+)>?(?:\s+\"[^\"\n]*\")?\s*"
)
#: An address after the text of its link; the address may be wrapped.
TRAILING_ADDRESS = re.compile(
    r"<(https?:/(?:[^\s<>]|\n {0,40}(?=\S)){1,1000})>|[(\[]((?:https?:/)?/[^\s()\[\]<>|]{2,1000})[)\]](?![(\[])"
)
IMAGE_ADDRESS = re.compile(r"\.(?:png|jpe?g|gif|svg|webp)$", re.IGNORECASE)
PAPERS_ADDRESSES = ("/papers/", "%2F", "arxiv.org/", "doi.org/", "openreview.net/")
FENCED_DIV = re.compile(r"^[ \t]*:{3,}.*$", re.MULTILINE)
FORM_FIELD = re.compile(r"_{4,}")
ATTRIBUTES = re.compile(r"\{[^{}]{0,300}\}|\(https?:[^\s()]{0,500}(?:\s+\"[^\"\n]{0,300}\")?\)")
#: A line that consists of emphasised words and, perhaps, an address.
STRONG_LINE = re.compile(r"\s*(\*{1,2}|_{1,2}|'{2,3})(?=[^\s*_'])[^*_']*\1\s*(?:[<(\[\]]|$)")
MIN_TRAILING = 5
MAX_SHORT_LINE = 100  #: in a line with more characters, empty brackets may belong to the text
ESCAPABLE = "$<>^~'\"@|`"


@dataclass(frozen=True, kw_only=True, slots=True)
class PageLink:
    """A link: its text, its address, and the lines that it spans."""

    label: str
    url: str
    first: int  #: the index of the line with the beginning of the link
    last: int
    image: str = ""  #: the alternative text of an image in the link
    is_bounded: bool = True  #: whether the page marks both the beginning and the end of the link
    #: whether the page marks the link's beginning; if not, the link may begin on an earlier line
    has_start: bool = True


@dataclass(kw_only=True, slots=True)
class PageLine:
    """A line of a page without its markup."""

    number: int
    text: str
    length: int  #: number of characters before the markup was removed
    first_word: int  #: number of characters of the first word before the markup was removed
    is_continued: bool = False  #: whether a backslash at the line's end shows that the text is wrapped
    is_strong: bool = False  #: whether the line begins with emphasised words
    links: list[PageLink] = field(default_factory=list)  #: the links that begin on this line
    inside: list[PageLink] = field(default_factory=list)  #: the links that cover a part of this line
    images: list[str] = field(default_factory=list)  #: alternative texts
    fault: str = ""


def page_lines(lines: Sequence[tuple[int, str, str]]) -> list[PageLine]:
    """Return the lines of a page with their links; `lines` are (number, text, fault)."""
    if not lines:
        return []
    raw = [text for _, text, _ in lines]
    listed, list_lines = listed_addresses(raw)
    bare = ["" if index in list_lines else text for index, text in enumerate(raw)]
    whole = markup.as_markdown("\n".join(bare))
    whole = FENCED_DIV.sub("", whole) if ":::" in whole else whole
    if writes_addresses_after_texts(whole):
        whole = TRAILING_ADDRESS.sub(on_one_line, whole)
        bare = [TRAILING_ADDRESS.sub("", line) for line in whole.split("\n")]
        whole = "\n".join(with_bracketed_links(whole.split("\n")))
    escapes = escaped_signs(whole)
    finder = LinkFinder(listed, markup.without_emphasis(whole))
    result = [
        PageLine(
            number=number,
            text=plain_line(text, escapes),
            length=len(written.rstrip()),
            first_word=len(next(iter(written.split(maxsplit=1)), "")),
            is_continued=written.rstrip().endswith("\\"),
            is_strong=STRONG_LINE.match(written) is not None,
            fault=fault,
        )
        for (number, _, fault), text, written in zip(lines, finder.text.split("\n"), bare, strict=True)
    ]
    breaks = [found.start() for found in re.finditer("\n", finder.text)] if finder.marks else []
    for place, alt in finder.images():
        result[bisect_right(breaks, place - 1)].images.append(alt)
    for start, end, url, mark in finder.links():
        label = plain_line(finder.text[start:end], escapes)
        first, last = bisect_right(breaks, start - 1), bisect_right(breaks, max(start, end - 1) - 1)
        images = (alt for one in result[first : last + 1] for alt in one.images)
        link = PageLink(
            label=label, url=url, first=first, last=last, image=next(filter(None, images), ""),
            is_bounded=mark.is_bounded, has_start=mark.has_start,
        )  # fmt: skip
        result[first].links.append(link)
        for one in result[first : last + 1]:
            one.inside.append(link)
    return result


def plain_line(text: str, escapes: str) -> str:
    """Return a line, or the text of a link, on one line without escapes, empty brackets and form fields."""
    text = unescaped(text, escapes)
    if len(text) < MAX_SHORT_LINE and "[]" in text:
        text = text.replace("[]", " ")
    text = FORM_FIELD.sub(" ", text) if "_" in text else text
    is_plain = "  " not in text and "\t" not in text and "\n" not in text and text.isascii()
    return text.strip() if is_plain else " ".join(text.split())


def listed_addresses(lines: Sequence[str]) -> tuple[dict[str, str], set[int]]:
    """Return {number or name: address} of a page's list of links, and the indices of its lines.

    A name with several addresses has none, since it is unknown which one is meant."""
    found: dict[str, str] = {}
    places: set[int] = set()
    for index, line in enumerate(lines):
        listed = LISTED_ADDRESS.fullmatch(line) if "/" in line[:320] else None
        if listed is not None:
            name = (listed["name"] or listed["number"]).casefold()
            found[name] = listed["url"] if found.get(name, listed["url"]) == listed["url"] else ""
            places.add(index)
    return found, places


# ── addresses after the texts of their links ────────────────────────────────────────────────────


def writes_addresses_after_texts(text: str) -> bool:
    """Return whether the copying tool wrote the address of each link after the link's text."""
    if "]" in text and text.count("](") > text.count("]()"):
        return False
    addressed = "\n".join([line for line in text.split("\n") if "/" in line])
    if not any(sign in addressed for sign in PAPERS_ADDRESSES):
        return False
    found = [one[0] for one in TRAILING_ADDRESS.finditer(text)]
    return len(found) >= MIN_TRAILING and 2 * sum(
        any(sign in address for sign in PAPERS_ADDRESSES) for address in found
    ) >= len(found)


def on_one_line(address: re.Match[str]) -> str:
    """Return an address on one line, followed by the line breaks that it contained."""
    return f"<{''.join((address[1] or address[2]).split())}>" + "\n" * address[0].count("\n")


def with_bracketed_links(lines: Sequence[str]) -> list[str]:
    """Rewrite `text <address>` as `text](address)`; the text of a link may be on the line above."""
    found: list[str] = []
    for line in lines:
        *linked, rest = re.split(r"<((?:https?:/)?/[^\s<>]*)>", line)
        pairs = list(zip(linked[::2], linked[1::2], strict=True))
        if pairs and not pairs[0][0].strip() and found and "](" not in found[-1].replace("]()", ""):
            found[-1] += f"]({pairs.pop(0)[1]})"
        written = (
            f"![{text.strip()}]() " if IMAGE_ADDRESS.search(url) else f"{text.rstrip()}]({url}) "
            for text, url in pairs
        )
        found.append("".join(written) + rest)
    return found


# ── escapes ─────────────────────────────────────────────────────────────────────────────────────


def escaped_signs(text: str) -> str:
    """Return the characters that the copying tool always escapes with a backslash."""
    if "\\" not in text or not (("]" in text and "](" in text) or "\n#" in text or text[:1] == "#"):
        return ""
    text = ATTRIBUTES.sub("", text)
    always = "".join(
        sign for sign in ESCAPABLE if f"\\{sign}" in text and text.count(sign) == text.count(f"\\{sign}")
    )
    doubled = len(re.findall(r"\\\\(?=[A-Za-z%&{(])", text))
    single = len(re.findall(r"(?<!\\)\\(?=[A-Za-z%&{(])", text))
    return "[]*_#+.!-" + always + ("\\" if doubled and not single else "")


def unescaped(text: str, signs: str) -> str:
    """Return a line without the backslashes before the characters in `signs` and at the line's end."""
    if not signs or "\\" not in text:
        return text
    text = re.sub(rf"\\([{re.escape(signs)}])", r"\1", text)
    return re.sub(r"\\+(\s{2,}|$)", r" ", text)
