"""A line of Markdown without its markup, and what the markup said: links inline or by reference, images."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from digest.dumps.reading import Source

IMAGE = re.compile(
    r"!\[([^\]\[]*)\](?:\([^)\s]{0,500}\)|\[\d{1,5}\])?|\[(?:图片：|[Ii]mage:?\s*)([^\]\[]*)\](?![(\[])"
)
HOVER = r"(?:\s+\"[^\"\n]{0,500}\")?"  #: what a link shows under a pointer
LINK = re.compile(
    rf"\[([^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)?)\](?:\((\S{{0,500}}?){HOVER}\)|\[([^\[\]\n]{{0,300}})\])"
)
LEFT_OPEN = re.compile(
    rf"(?P<text>.*)\](?:\((?P<url>\S{{0,500}}?){HOVER}\)|\[(?P<reference>\d{{1,5}})\])[\\\s]*"
)
REFERENCE = re.compile(rf"\s*(?:\[([^\[\]\n]{{1,300}})\]:?|(\d{{1,5}})[.:])\s+<?(\S+?)>?{HOVER}\s*")
ADDRESS = re.compile(r"https?://|/papers/")
ESCAPED = re.compile(r"\\([\[\]*_#~>+.!-])")
INNER_IMAGE = re.compile(r"^\[([^\]\[]*)\]\s*")
WRAP = re.compile(r"(?<!\\)\\+(?:\s+|$)")
BARE_URL = re.compile(r"\s*<?(https?://[^\s<>]+)>?\s*")
SITE = "https://huggingface.co"
LONGEST_REFERENCE = 500
MOST_REFERENCES = 100_000
ALT = "\N{OBJECT REPLACEMENT CHARACTER}"  #: where an image stood
NO_TEXT = ("无替代文本", "no alt text", "alt text")


@dataclass(kw_only=True, slots=True)
class Line:
    """A line without its markup."""

    text: str
    urls: list[str] = field(default_factory=list)
    handle: str = ""  #: the text of an image in front of a name
    had_image: bool = False
    parts: list[tuple[str, str]] = field(default_factory=list)  #: (text, address) of its links


def references_of(source: Source) -> dict[str, str]:
    """Return the addresses that stand in a page under a number or a name, for links to refer to."""
    found: dict[str, str] = {}
    for _, line, _ in source.lines():
        told = REFERENCE.fullmatch(line) if len(line) < LONGEST_REFERENCE else None
        if told and ADDRESS.match(told[3]) and len(found) < MOST_REFERENCES:
            found[(told[1] or told[2]).casefold()] = told[3]
    return found


class Inline:
    """Takes the markup off lines, knowing what their links refer to."""

    def __init__(self, references: dict[str, str]):
        self.references = references

    def bare(self, raw: str) -> Line:
        """Return a line without its markup, and what the markup said."""
        line = Line(text=raw)
        line.text = IMAGE.sub(lambda found: self.on_image(found, line), line.text)
        line.text = LINK.sub(lambda found: self.on_link(found, line), line.text)
        if found := LEFT_OPEN.fullmatch(line.text):
            self.add_url(line, found["url"], found["reference"])
            line.text = found["text"]
        if found := BARE_URL.fullmatch(line.text):
            line.urls.append(found[1])
            line.text = ""
        line.text = WRAP.sub(" ", line.text.removeprefix("[")).strip()
        return line

    def on_image(self, found: re.Match[str], line: Line) -> str:
        """Note an image; only its place remains."""
        alt = (found[1] or found[2] or "").strip()
        line.had_image = True
        if alt and alt.casefold() not in NO_TEXT:
            line.handle = line.handle or alt
            return ALT
        return ""

    def on_link(self, found: re.Match[str], line: Line) -> str:
        """Note a link; its text remains."""
        text = found[1]
        url = self.add_url(line, found[2], found[3] or (text if found[3] == "" else None))
        if not url and found[3] is not None and not found[3].isdecimal():
            return found[0]  # brackets, and no link
        if inner := INNER_IMAGE.match(text):
            line.had_image, line.handle = True, line.handle or inner[1].strip()
            text = ALT + text[inner.end() :]
        line.parts.append((text, url))
        return text

    def add_url(self, line: Line, url: str | None, reference: str | None) -> str:
        """Note an address, given itself or by the number of a reference."""
        address = url or self.references.get((reference or "").casefold(), "")
        address = SITE + address if address.startswith("/papers/") else address
        if address.startswith(("http://", "https://")):
            line.urls.append(address)
        return address


def unwrapped(text: str) -> str:
    """Return a text without the signs that some copies put at line ends."""
    return ESCAPED.sub(r"\1", " ".join(WRAP.sub(" ", text.replace(ALT, "")).split()))
