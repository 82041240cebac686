"""Split a copied page into lines of plain text with their links, whichever tool made the copy.

A link is written inline (`[text](address)`), as a reference (`[text][12]`), with a number before its text
(`[12]text`, as text browsers write it, with a list of addresses at the end), with its address after its text
(`text <address>`, as in pages that browsers save as text), as an HTML tag or as a bare address. A link may
span several lines.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from digest.dumps.formats.markdown_inline import NO_ALT_TEXTS

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
IMAGE_WORDS = re.compile(r"\s*(?:图片：|[Ii]mage:?\s)\s*(.*)", re.DOTALL)
TAG = re.compile(r"<(?P<closing>/?)(?P<name>[A-Za-z][A-Za-z0-9]{0,11})\b(?P<rest>[^<>]{0,4000})>")
KNOWN_TAG = re.compile(
    "a|abbr|article|aside|b|blockquote|body|br|button|center|cite|code|dd|del|details|div|dl|dt|em|figcaption|figure|"
    "font|footer|form|h[1-6]|head|header|hr|html|i|img|input|ins|label|li|main|mark|nav|ol|p|path|picture|pre|s|section|"
    "small|source|span|strong|sub|summary|sup|svg|table|tbody|td|th|thead|time|title|tr|tt|u|ul|video"
)
HREF = re.compile(r"\bhref\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>]+))", re.IGNORECASE)
ALT = re.compile(r"\balt\s*=\s*(?:\"([^\"]*)\"|'([^']*)')", re.IGNORECASE)
#: An address after the text of its link; the address may be wrapped.
TRAILING_ADDRESS = re.compile(r"<(https?:/(?:[^\s<>]|\n {0,40}(?=\S)){1,1000})>")
ADDRESS_AT_END = re.compile(r"<https?:/[^\s<>]*>\s*$")
FENCED_DIV = re.compile(r"^[ \t]*:{3,}.*$", re.MULTILINE)
FORM_FIELD = re.compile(r"_{4,}")
ATTRIBUTES = re.compile(r"\{[^{}]{0,300}\}|\(https?:[^\s()]{0,500}(?:\s+\"[^\"\n]{0,300}\")?\)")
BRACKETS = re.compile(r"[\[\]]")
MAX_OPEN = 4  #: maximum depth of nested links
MIN_LINK_NUMBERS = 10
LONGEST_LABEL = 60_000
MAX_CHUNKS = 8  #: maximum number of text pieces joined to the text of a link whose beginning is not marked
MAX_LABEL = 300
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
    links: list[PageLink] = field(default_factory=list)  #: the links that begin on this line
    inside: list[PageLink] = field(default_factory=list)  #: the links that cover a part of this line
    images: list[str] = field(default_factory=list)  #: alternative texts
    fault: str = ""


def page_lines(lines: Sequence[tuple[int, str, str]]) -> list[PageLine]:
    """Return the lines of a page with their links; `lines` are (number, text, fault)."""
    raw = [text for _, text, _ in lines]
    listed, list_lines = listed_addresses(raw)
    bare = ["" if index in list_lines else text for index, text in enumerate(raw)]
    whole = FENCED_DIV.sub("", without_tags("\n".join(bare)))
    if writes_addresses_after_texts(whole):
        whole = TRAILING_ADDRESS.sub(on_one_line, whole)
        bare = [ADDRESS_AT_END.sub("", line) for line in whole.split("\n")]
        whole = "\n".join(with_bracketed_links(whole.split("\n")))
    found = LinkFinder(listed).read(whole)
    escapes = escaped_signs(whole)
    result = []
    for index, (number, _, fault) in enumerate(lines):
        text = unescaped(found.lines[index], escapes)
        text = text.replace("[]", " ") if len(text) < MAX_SHORT_LINE else text
        result.append(
            PageLine(
                number=number,
                text=" ".join(FORM_FIELD.sub(" ", text).split()),
                length=len(bare[index].rstrip()),
                first_word=len(next(iter(bare[index].split(maxsplit=1)), "")),
                is_continued=bare[index].rstrip().endswith("\\"),
                images=found.images.get(index, []),
                fault=fault,
            )
        )
    for found_link in found.links:
        link = replace(found_link, label=unescaped(found_link.label, escapes))
        for one in result[link.first : link.first + 1]:
            one.links.append(link)
        for one in result[link.first : link.last + 1]:  # if markup is damaged, `last` may be too large
            one.inside.append(link)
    return result


def listed_addresses(lines: Sequence[str]) -> tuple[dict[str, str], set[int]]:
    """Return {number or name: address} of a page's list of links, and the indices of its lines."""
    found: dict[str, str] = {}
    places: set[int] = set()
    for index, line in enumerate(lines):
        listed = LISTED_ADDRESS.fullmatch(line) if ":/" in line[:320] or "/papers/" in line[:320] else None
        if listed is not None:
            found[(listed["name"] or listed["number"]).casefold()] = listed["url"]
            places.add(index)
    return found, places


def writes_addresses_after_texts(text: str) -> bool:
    """Return whether the copying tool wrote the address of each link after the link's text."""
    return "](" not in text and len(TRAILING_ADDRESS.findall(text)) >= MIN_LINK_NUMBERS


def on_one_line(address: re.Match[str]) -> str:
    """Return an address on one line, followed by the line breaks that it contained."""
    return f"<{''.join(address[1].split())}>" + "\n" * address[1].count("\n")


def with_bracketed_links(lines: Sequence[str]) -> list[str]:
    """Rewrite `text <address>` as `text](address)`; the text of a link may be on the line above."""
    found: list[str] = []
    for line in lines:
        *linked, rest = TRAILING_ADDRESS.split(line)
        pairs = list(zip(linked[::2], linked[1::2], strict=True))
        if pairs and not pairs[0][0].strip() and found and "](" not in found[-1]:
            found[-1] += f"]({pairs.pop(0)[1]})"
        found.append("".join(f"{text.rstrip()}]({url}) " for text, url in pairs) + rest)
    return found


def without_tags(text: str) -> str:
    """Return a page with its HTML tags rewritten as Markdown, without changing line breaks."""
    if "</" not in text and "<img" not in text:
        return text
    addresses: list[str] = []
    rewritten = TAG.sub(lambda tag: rewritten_tag(tag, addresses), text)
    return "\n".join(html.unescape(line).replace("\n", " ") for line in rewritten.split("\n"))


def rewritten_tag(tag: re.Match[str], addresses: list[str]) -> str:
    """Return the Markdown for a tag; `addresses` contains the addresses of the open links."""
    name = tag["name"].casefold()
    if not KNOWN_TAG.fullmatch(name):
        return tag[0]
    markdown = " " if name in ("div", "p", "li", "td", "span") else ""
    if name == "a" and not tag["closing"]:
        target = HREF.search(tag["rest"])
        address = next(filter(None, target.groups()), "") if target else ""
        addresses.append("".join(address.split()))
        markdown = "["
    elif name == "a" and addresses:
        markdown = f"]({addresses.pop()})"
    elif name == "img":
        alt = ALT.search(tag["rest"])
        words = BRACKETS.sub("", alt[1] or alt[2] or "") if alt else ""
        markdown = f"![{' '.join(words.split())}]()"
    elif name[0] == "h" and name[1:].isdigit() and not tag["closing"]:
        markdown = "### "
    return markdown + "\n" * tag[0].count("\n")


def escaped_signs(text: str) -> str:
    """Return the characters that the copying tool always escapes with a backslash."""
    if "](" not in text:
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
    if "\\" not in text or not signs:
        return text
    text = re.sub(rf"\\([{re.escape(signs)}])", r"\1", text)
    return re.sub(r"\\+(\s{2,}|$)", r" ", text)


class LinkFinder:
    """Removes the markup of links from a page and collects the links."""

    def __init__(self, listed: dict[str, str]):
        self.listed = listed
        self.links: list[PageLink] = []
        self.images: dict[int, list[str]] = {}
        self.lines: list[str] = []
        self.out: list[str] = []
        self.line = 0
        self.open: list[tuple[int, int]] = []  #: (index in `out`, line) of each `[` that is not closed yet
        #: a numbered link, `[12]text`, that is not complete yet
        self.numbered: tuple[int, int, str] | None = None

    def read(self, text: str) -> LinkFinder:
        """Read the whole page and return this object, which then contains the links."""
        has_closers = bool(re.search(r"\]\(|\]\[", text))
        digits = [found[1] for found in re.finditer(r"\[(\d{1,5})\](?![(\[:])", text)]
        self.numbers_links = len(digits) >= min(MIN_LINK_NUMBERS, len(self.listed) or MIN_LINK_NUMBERS) and (
            any(number in self.listed for number in digits) or (not has_closers and is_rising(digits))
        )
        place = 0
        for token in (NUMBERED_TOKEN if self.numbers_links else BRACKETED_TOKEN).finditer(text):
            self.add(text[place : token.start()])
            self.take(token)
            place = token.end()
        self.add(text[place:])
        self.end_number()
        self.lines = "".join(self.out).split("\n")
        self.links.sort(key=lambda link: (link.first, link.last))
        return self

    def add(self, chunk: str) -> None:
        """Add plain text; a blank line in it ends an open numbered link, `[12]text`."""
        if self.numbered and "\n\n" in chunk:
            head, gap, rest = chunk.partition("\n\n")
            self.out.append(head)
            self.line += head.count("\n")
            self.end_number()
            chunk = gap + rest
        self.out.append(chunk)
        self.line += chunk.count("\n")

    def take(self, token: re.Match[str]) -> None:
        """Process one token of the markup."""
        breaks = "\n" * token[0].count("\n")
        if token["image"] is not None:
            self.on_image(token["alt"])
            self.add(breaks)
        elif token["close"] is not None:
            self.on_close(token)
            self.add(breaks)
        elif token["number"] is not None and self.numbers_links:
            self.end_number()
            self.numbered = (len(self.out), self.line, self.listed.get(token["digits"], ""))
        elif token["open"] is not None:
            self.open = [*self.open[-MAX_OPEN + 1 :], (len(self.out), self.line)]
            self.out.append("[")
        else:
            self.on_bracket(token[0])

    def on_close(self, token: re.Match[str]) -> None:
        """Process a closing bracket with an address or a reference."""
        url: str | None = token["url"]
        if url is None:
            url = self.listed.get((token["reference"] or self.label_of_open() or "").casefold())
        if url is None and (token["reference"] or "").isdecimal() and self.open:
            url = ""  # the copy lacks the address of the reference
        if url is None:
            self.on_bracket("]")
            self.out.append(token[0][1:])
        else:
            self.close("".join(url.split()).replace(">", ""))

    def on_bracket(self, text: str) -> None:
        """Process a bracket that does not end a link.

        The bracket may end an image's alternative text, or be part of the page's text.
        """
        if text == "]" and self.open:
            place, _ = self.open.pop()
            inner = "".join(self.out[place + 1 :])[:LONGEST_LABEL]
            words = IMAGE_WORDS.fullmatch(inner)
            is_first = bool(self.open) and not any(
                self.out[index].strip() for index in range(self.open[-1][0] + 1, place)
            )
            if words or (is_first and "\n" not in inner):
                del self.out[place:]
                self.on_image(words[1] if words else inner)
                self.out.append("\n" * inner.count("\n"))
                return
        self.out.append(text)

    def on_image(self, alt: str) -> None:
        """Record an image's alternative text."""
        alt = " ".join(alt.split())
        self.images.setdefault(self.line, []).append("" if alt.casefold() in NO_ALT_TEXTS else alt)

    def label_of_open(self) -> str:
        """Return the text of the open link."""
        return "".join(self.out[self.open[-1][0] + 1 :])[:300] if self.open else ""

    def close(self, url: str) -> None:
        """End the open link; if its beginning was not found, record it with the text of the current line."""
        if not self.open:
            label = " ".join("".join(self.out[-MAX_CHUNKS:]).rpartition("\n")[2][-MAX_LABEL:].split())
            self.links.append(
                PageLink(
                    label=label, url=url, first=self.line, last=self.line, is_bounded=False, has_start=False
                )
            )
            return
        place, first = self.open.pop()
        joins_digits = self.sign_before(place).isalnum()
        self.out[place] = " " if joins_digits and "".join(self.out[place + 1 :])[:1].isdigit() else ""
        self.add_link("".join(self.out[place:])[:LONGEST_LABEL], url, first)

    def sign_before(self, place: int) -> str:
        """Return the last character before a position in the output."""
        return next(
            (chunk[-1] for chunk in reversed(self.out[max(0, place - MAX_OPEN) : place]) if chunk), ""
        )

    def end_number(self) -> None:
        """End the open numbered link, `[12]text`, as text browsers write it."""
        if self.numbered is not None:
            place, first, url = self.numbered
            self.numbered = None
            if url:
                label = "".join(self.out[place:])[:LONGEST_LABEL]
                self.add_link(label, url, first, is_bounded=False)

    def add_link(self, label: str, url: str, first: int, *, is_bounded: bool = True) -> None:
        """Record a link, with the image that it contains."""
        images = [alt for line in range(first, self.line + 1) for alt in self.images.get(line, [])]
        lead = len(label) - len(label.lstrip())
        skipped = label[:lead].count("\n")
        last = first + label.rstrip().count("\n") if label.strip() else self.line
        self.links.append(
            PageLink(
                label=" ".join(label.split()),
                url=url,
                first=min(first + skipped, self.line) if label.strip() else self.line,
                last=max(last, first),
                image=next(filter(None, images), ""),
                is_bounded=is_bounded,
            )
        )


def is_rising(digits: Sequence[str]) -> bool:
    """Return whether more than 80% of the numbers are one greater than the number before them."""
    numbers = [int(one) for one in digits]
    rising = sum(after == before + 1 for before, after in pairwise(numbers))
    return rising > 0.8 * (len(numbers) - 1)
