"""Split a copied page into lines of plain text with their links, whichever tool made the copy.

A link is written inline (`[text](address)`), as a reference (`[text][12]`), with a number before its text
(`[12]text`, as text browsers write it, with a list of addresses at the end), with its address after its text
(`text <address>`, `text [address]`, as in pages that tools save as text), or in other markup. A link may span
several lines.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

from digest.dumps.formats import markup

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
LISTED_ADDRESS = re.compile(
    r"[ \t>]*(?:\[(?P<name>[^\[\]\n]{1,300})\]:?|(?P<number>\d{1,5})[.:])\s+<?(?P<url>(?:https?|file):/\S+|/\S+)>?(?:\s+\"[^\"\n]*\")?\s*"
)
BRACKETED_NUMBER = re.compile(r"\[(\d{1,5})\](?![(.,;:)])")
LINK_NUMBER = re.compile(r"\[(\d{1,5})\](?![(\[:])")
REFERRED = re.compile(r"[^\[\]\d\s]\]\[\d")  #: a link such as `[text][12]`
IMAGE_WORDS = re.compile(r"\s*(?:图片：|[Ii]mage:?\s)\s*(.*)", re.DOTALL)
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
MAX_OPEN = 4  #: maximum depth of nested links
MIN_LINK_NUMBERS = 10
MIN_TRAILING = 5
LONGEST_LABEL = 60_000
LONGEST_UNBOUNDED = 300
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
    breaks = [place for place, sign in enumerate(finder.text) if sign == "\n"] if finder.marks else []
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
    """Return {number or name: address} of a page's list of links, and the indices of its lines."""
    found: dict[str, str] = {}
    places: set[int] = set()
    for index, line in enumerate(lines):
        listed = LISTED_ADDRESS.fullmatch(line) if "/" in line[:320] else None
        if listed is not None:
            found[(listed["name"] or listed["number"]).casefold()] = listed["url"]
            places.add(index)
    return found, places


# ── addresses after the texts of their links ────────────────────────────────────────────────────


def writes_addresses_after_texts(text: str) -> bool:
    """Return whether the copying tool wrote the address of each link after the link's text."""
    if "](" in text and text.count("](") > text.count("]()"):
        return False
    addressed = "\n".join(line for line in text.split("\n") if "/" in line or "%" in line)
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
    if "\\" not in text or not ("](" in text or "\n#" in text or text[:1] == "#"):
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


# ── links ───────────────────────────────────────────────────────────────────────────────────────


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
            words = IMAGE_WORDS.fullmatch(inner)
            is_first = bool(self.open) and not "".join(self.pieces[self.open[-1] + 1 : place]).strip()
            if words or (is_first and "\n" not in inner):
                self.pieces[place:] = [""] * (len(self.pieces) - place)
                self.add_image(words[1] if words else inner)
                self.pieces.append("\n" * inner.count("\n"))
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
