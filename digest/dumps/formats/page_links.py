"""Remove the markup of links from a text, and collect the links."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

NO_ALT_TEXTS = ("无替代文本", "no alt text", "alt text")
ADDRESS = r"(?:[^()\s]|\([^()\s]{0,200}\))"
#: An address in parentheses, which some tools wrap after a hyphen, and its tooltip.
TARGET = (
    rf"\(\s{{0,80}}<?(?P<url>{ADDRESS}{{0,700}}(?:-\n[ >]{{0,40}}{ADDRESS}{{1,700}}){{0,3}})>?(?:\s+\"[^\"\n]{{0,500}}\")?\s{{0,80}}\)"
    r"(?:\{[^{}]{0,300}\})?"
)
REFERENCE = r"\[(?P<reference>[^\[\]\n]{0,300})\]"
TOKEN = (
    rf"(?P<image>!\[(?P<alt>[^\[\]]{{0,300}})\](?:{TARGET.replace('url', 'source')}|\[\d{{1,5}}\])?)"
    rf"|(?P<close>\](?:{TARGET}|{REFERENCE}))"
    r"|(?P<number>\[(?P<digits>\d{1,5})\](?!FOLLOWED))|(?P<open>(?<!\\)\[)|(?P<end>(?<!\\)\])"
)
#: In a text browser's copy, `[88][35]` contains the numbers of two links; in other copies, it is one link.
NUMBERED_TOKEN = re.compile(TOKEN.replace("FOLLOWED", r"\("))
BRACKETED_TOKEN = re.compile(TOKEN.replace("FOLLOWED", r"\(|\[\d"))
BRACKETED_NUMBER = re.compile(r"\[(\d{1,5})\](?![(.,;:)])")
LINK_NUMBER = re.compile(r"\[(\d{1,5})\](?![(\[:])")
REFERRED = re.compile(r"[^\[\]\d\s]\]\[\d")  #: a link such as `[text][12]`
MAX_OPEN = 4  #: maximum depth of nested links
MIN_LINK_NUMBERS = 10
LONGEST_LABEL = 60_000
LONGEST_UNBOUNDED = 300


@dataclass(frozen=True, kw_only=True, slots=True)
class LinkMark:
    """A link or an image; `start` and `end` are indices into the pieces of a `LinkFinder`."""

    start: int
    end: int
    url: str = ""
    alt: str | None = None  #: the alternative text of an image
    is_bounded: bool = True
    has_start: bool = True


class LinkFinder:
    """Removes the markup of links from a text and collects the links."""

    def __init__(self, listed: dict[str, str], text: str):
        self.listed = listed
        self.marks: list[LinkMark] = []
        self.pieces: list[str] = []
        self.open: list[int] = []  #: the index of each `[` in `pieces` that is not closed yet
        #: a numbered link, `[12]text`, that is not complete yet: its start and its address
        self.numbered: tuple[int, str] | None = None
        place = 0
        if "]" in text:
            self.numbers_links = numbers_links(text, listed)
            #: where the numbers of links are; other numbers in brackets, as of references, are text
            self.number_places = rising_numbers(text) if self.numbers_links else frozenset()
            for token in tokens(NUMBERED_TOKEN if self.numbers_links else BRACKETED_TOKEN, text):
                self.add(text[place : token.start()])
                self.take(token)
                place = token.end()
        self.add(text[place:])
        self.end_number()
        self.text = "".join(self.pieces)

    def links(self) -> list[tuple[int, int, str, LinkMark]]:
        """Return (start, end, address, mark) for each link; start and end are places in the plain text."""
        places = self.places()
        found = []
        for mark in self.marks:
            if mark.alt is not None:
                continue
            start, end = places[mark.start], places[mark.end]
            if not mark.has_start:
                start = max(self.text.rfind("\n", 0, end) + 1, end - LONGEST_UNBOUNDED)
            label = self.text[start : min(end, start + LONGEST_LABEL)]
            if label.strip():
                start, end = start + len(label) - len(label.lstrip()), start + len(label.rstrip())
            else:
                start = end
            found.append((start, end, mark.url, mark))
        return sorted(found, key=lambda link: link[:2])

    def images(self) -> list[tuple[int, str]]:
        """Return (place, alternative text) for each image."""
        places = self.places()
        return [(places[mark.start], mark.alt) for mark in self.marks if mark.alt is not None]

    def places(self) -> list[int]:
        """Return where each piece begins in the plain text."""
        return list(accumulate(map(len, self.pieces), initial=0))

    def add(self, chunk: str) -> None:
        """Add plain text; a blank line in it ends an open numbered link, `[12]text`."""
        if self.numbered and "\n\n" in chunk:
            head, gap, rest = chunk.partition("\n\n")
            self.pieces.append(head)
            self.end_number()
            chunk = gap + rest
        self.pieces.append(chunk)

    def take(self, token: re.Match[str]) -> None:
        """Process one token of the markup."""
        if token["image"] is not None:
            self.add_image(token["alt"])
        elif token["close"] is not None:
            self.on_close(token)
        elif token["number"] is not None and self.numbers_links and token.start() in self.number_places:
            self.end_number()
            self.numbered = (len(self.pieces), self.listed.get(token["digits"], ""))
        elif token["open"] is not None:
            self.open = [*self.open[-MAX_OPEN + 1 :], len(self.pieces)]
            self.pieces.append("[")
        else:
            self.on_bracket(token[0])
        if token["image"] is not None or token["close"] is not None:
            self.add("\n" * token[0].count("\n"))

    def on_close(self, token: re.Match[str]) -> None:
        """Process a closing bracket with an address or a reference."""
        url: str | None = token["url"]
        if url is None:
            label = "".join(self.pieces[self.open[-1] + 1 :])[:300] if self.open else ""
            url = self.listed.get((token["reference"] or label).casefold())
        if url is None and (token["reference"] == "" or (token["reference"] or "").isdecimal()) and self.open:
            url = ""  # the copy lacks the address of the reference
        if url is None:
            self.on_bracket("]")
            self.pieces.append(token[0][1:].replace("\n", " "))
            return
        url = "".join(url.split()).replace(">", "")
        end = len(self.pieces)
        if not self.open:
            self.marks.append(LinkMark(start=end, end=end, url=url, is_bounded=False, has_start=False))
            return
        place = self.open.pop()
        first = next(filter(None, self.pieces[place + 1 :]), "")
        above = next(filter(None, reversed(self.pieces[max(0, place - MAX_OPEN) : place])), "")
        self.pieces[place] = " " if above[-1:].isalnum() and first[:1].isdigit() else ""
        self.marks.append(LinkMark(start=place, end=end, url=url))

    def on_bracket(self, text: str) -> None:
        """Process a bracket that does not end a link.

        The bracket may end an image's alternative text, or be part of the page's text.
        """
        if text == "]" and self.open:
            place = self.open.pop()
            inner = "".join(self.pieces[place + 1 :])[:LONGEST_LABEL]
            is_first = bool(self.open) and not "".join(self.pieces[self.open[-1] + 1 : place]).strip()
            if is_first and "\n" not in inner:
                self.pieces[place:] = [""] * (len(self.pieces) - place)
                self.add_image(inner)
                return
        self.pieces.append(text)

    def add_image(self, alt: str) -> None:
        """Record an image's alternative text."""
        alt = " ".join(alt.split())
        place = len(self.pieces)
        self.marks.append(LinkMark(start=place, end=place, alt="" if alt.casefold() in NO_ALT_TEXTS else alt))

    def end_number(self) -> None:
        """End the open numbered link, `[12]text`, as text browsers write it."""
        if self.numbered is not None:
            start, url = self.numbered
            self.numbered = None
            if url:
                self.marks.append(LinkMark(start=start, end=len(self.pieces), url=url, is_bounded=False))


def tokens(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """Yield the tokens in a text; to search for brackets alone is much faster than `finditer`."""
    place = 0
    opening, closing = text.find("["), text.find("]")
    while opening >= 0 or closing >= 0:
        bracket = min(opening, closing) if opening >= 0 and closing >= 0 else max(opening, closing)
        start = bracket - (text[bracket - 1 : bracket + 1] == "![")
        token = pattern.match(text, max(start, place))
        if token is not None:
            yield token
        place = token.end() if token is not None else bracket + 1
        opening = text.find("[", place) if 0 <= opening < place else opening
        closing = text.find("]", place) if 0 <= closing < place else closing


def numbers_links(text: str, listed: dict[str, str]) -> bool:
    """Return whether a text browser wrote a number before each link."""
    digits = [found[1] for found in LINK_NUMBER.finditer(text)]
    if len(digits) < min(MIN_LINK_NUMBERS, len(listed) or MIN_LINK_NUMBERS):
        return False
    if 4 * len(REFERRED.findall(text)) > len(digits):
        return False
    has_closers = "](" in text or "][" in text
    return any(number in listed for number in digits) or (not has_closers and is_rising(digits))


def rising_numbers(text: str) -> frozenset[int]:
    """Return the places of the longest series of rising numbers in brackets; a number joined to a text precedes others."""
    brackets = list(BRACKETED_NUMBER.finditer(text))
    joined = {one[1] for one in brackets if not text[one.end() : one.end() + 1].isspace()}
    found = [
        (one.start(), int(one[1]))
        for one in brackets
        if one[1] not in joined or not text[one.end() : one.end() + 1].isspace()
    ]
    lowest: list[int] = []  #: the lowest last number of a series of each length
    ends: list[int] = []  #: the index in `found` of that number
    before: list[int] = []  #: for each number, the index of the number before it in its series
    for index, (_, number) in enumerate(found):
        length = bisect_left(lowest, number)
        lowest[length : length + 1] = [number]
        ends[length : length + 1] = [index]
        before.append(ends[length - 1] if length else -1)
    places, index = [], ends[-1] if ends else -1
    while index >= 0:
        places.append(found[index][0])
        index = before[index]
    return frozenset(places)


def is_rising(digits: Sequence[str]) -> bool:
    """Return whether more than 80% of the numbers are one greater than the number before them."""
    numbers = [int(one) for one in digits]
    rising = sum(after == before + 1 for before, after in pairwise(numbers))
    return rising > 0.8 * (len(numbers) - 1)
