"""Remove the markup from a line of Markdown and collect its links and images."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from digest.dumps.formats.reader_interface import DumpInput

IMAGE = re.compile(
    r"!\[([^\]\[]*)\](?:\([^)\s]{0,500}\)|\[\d{1,5}\])?|\[(?:图片：|[Ii]mage:?\s*)([^\]\[]*)\](?![(\[])"
)
LINK_TITLE = r"(?:\s+\"[^\"\n]{0,500}\")?"  #: the tooltip of a link
LINK = re.compile(
    rf"\[([^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)?)\](?:\((\S{{0,500}}?){LINK_TITLE}\)|\[([^\[\]\n]{{0,300}})\])"
)
UNOPENED_LINK = re.compile(
    rf"(?P<text>.*)\](?:\((?P<url>\S{{0,500}}?){LINK_TITLE}\)|\[(?P<reference>\d{{1,5}})\])[\\\s]*"
)
REFERENCE = re.compile(rf"\s*(?:\[([^\[\]\n]{{1,300}})\]:?|(\d{{1,5}})[.:])\s+<?(\S+?)>?{LINK_TITLE}\s*")
ADDRESS = re.compile(r"https?://|/papers/")
ESCAPED = re.compile(r"\\([\[\]*_#~>+.!-])")
INNER_IMAGE = re.compile(r"^\[([^\]\[]*)\]\s*")
WRAP_MARK = re.compile(r"(?<!\\)\\+(?:\s+|$)")
BARE_URL = re.compile(r"\s*<?(https?://[^\s<>]+)>?\s*")
HUGGINGFACE_URL = "https://huggingface.co"
LONGEST_REFERENCE = 500
MAX_REFERENCES = 100_000
IMAGE_MARK = "\N{OBJECT REPLACEMENT CHARACTER}"  #: the character that replaces an image in the text
NO_ALT_TEXTS = ("无替代文本", "no alt text", "alt text")


@dataclass(kw_only=True, slots=True)
class StrippedLine:
    """A line of Markdown without its markup."""

    text: str
    urls: list[str] = field(default_factory=list)
    handle: str = ""  #: the alternative text of an image that precedes a name
    had_image: bool = False
    parts: list[tuple[str, str]] = field(default_factory=list)  #: (text, URL) of each link


def read_references(source: DumpInput) -> dict[str, str]:
    """Return {number or name: URL} for the link references of a page."""
    found: dict[str, str] = {}
    for _, line, _ in source.lines():
        reference = REFERENCE.fullmatch(line) if 0 < len(line) < LONGEST_REFERENCE else None
        if reference and ADDRESS.match(reference[3]) and len(found) < MAX_REFERENCES:
            found[(reference[1] or reference[2]).casefold()] = reference[3]
    return found


class MarkdownStripper:
    """Removes the markup from lines, resolving the page's link references."""

    def __init__(self, references: dict[str, str]):
        self.references = references

    def strip(self, raw: str) -> StrippedLine:
        """Return the text of a line without its markup, and the line's links and images."""
        line = StrippedLine(text=raw)
        line.text = IMAGE.sub(lambda found: self.on_image(found, line), line.text)
        line.text = LINK.sub(lambda found: self.on_link(found, line), line.text)
        if found := UNOPENED_LINK.fullmatch(line.text):
            self.add_url(line, found["url"], found["reference"])
            line.text = found["text"]
        if found := BARE_URL.fullmatch(line.text):
            line.urls.append(found[1])
            line.text = ""
        line.text = WRAP_MARK.sub(" ", line.text.removeprefix("[")).strip()
        return line

    def on_image(self, found: re.Match[str], line: StrippedLine) -> str:
        """Record an image and return the text that replaces it."""
        alt = (found[1] or found[2] or "").strip()
        line.had_image = True
        if alt and alt.casefold() not in NO_ALT_TEXTS:
            line.handle = line.handle or alt
            return IMAGE_MARK
        return ""

    def on_link(self, found: re.Match[str], line: StrippedLine) -> str:
        """Record a link and return its text."""
        text = found[1]
        url = self.add_url(line, found[2], found[3] or (text if found[3] == "" else None))
        if not url and found[3] is not None and not found[3].isdecimal():
            return found[0]  # brackets that are not a link
        if inner := INNER_IMAGE.match(text):
            line.had_image, line.handle = True, line.handle or inner[1].strip()
            text = IMAGE_MARK + text[inner.end() :]
        line.parts.append((text, url))
        return text

    def add_url(self, line: StrippedLine, url: str | None, reference: str | None) -> str:
        """Record and return a URL, given directly or by its reference."""
        address = url or self.references.get((reference or "").casefold(), "")
        address = HUGGINGFACE_URL + address if address.startswith("/papers/") else address
        if address.startswith(("http://", "https://")):
            line.urls.append(address)
        return address


def unwrap(text: str) -> str:
    """Return `text` on one line, without backslashes at line ends and before symbols.

    Some copying tools add these backslashes.
    """
    return ESCAPED.sub(r"\1", " ".join(WRAP_MARK.sub(" ", text.replace(IMAGE_MARK, "")).split()))
