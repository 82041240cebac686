"""Read pages copied as Markdown or as text with link references, with a heading per paper ("markdown").

Upvotes are before or after a paper; authors, date, comments and stars are after its text. Links are
inline, numbered references, or bare URLs on separate lines. Texts may be wrapped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import unquote, urlsplit

from digest.dumps.formats import ai_summaries, field_parsing, page_layout
from digest.dumps.formats.markdown_inline import (
    IMAGE_MARK,
    LINK,
    MarkdownStripper,
    StrippedLine,
    read_references,
    unwrap,
)
from digest.dumps.formats.page_layout import LONGEST_TITLE, PageHeader
from digest.dumps.formats.page_metadata import (
    MetadataKind,
    MetadataLine,
    is_navigation,
    labelled_address,
    labelled_authors,
    labelled_text,
    parse_figure,
    parse_metadata_line,
)
from digest.dumps.formats.page_text import MAX_TEXT, PaperDraft, records_of
from digest.dumps.formats.reader_interface import DumpInput, Header, Items
from digest.papers import Organization, id_in

NAME = "markdown"

HEADING = re.compile(r"\s{0,3}(#{2,6})\s+(\S.*)")
PAPER_PAGE = r"(?:\S*(?:huggingface\.co/papers|arxiv\.org/abs)|/papers)/"
PAPER_LINK = re.compile(rf"\]\({PAPER_PAGE}")
#: A line whose title links to the paper and is bold, a list item or a table cell.
LINKED_TITLE = re.compile(
    r"\s{0,3}(?:(?:\d{1,3}[.)]|[-*•])\s+)?(?:\*\*|__)\s*(?P<bold>\[.+\]\(PAPER\))\s*(?:\*\*|__)\s*(?P<after>.*)"
    r"|\s{0,3}(?:\d{1,3}[.)]|[-*•])\s+(?:\[[ xX]\]\s+)?(?P<listed>\[.+\]\(PAPER\))\s*(?P<behind>.*)"
    r"|\s{0,3}\|(?:[^|\[]{0,20}\|)*\s*(?P<cell>\[[^|]+\]\(PAPER\))\s*\|(?P<cells>.*)".replace(
        "PAPER", PAPER_PAGE + r"\S+?"
    )
)
EMPHASISED = re.compile(r"(\*\*|__|[*_])(?P<text>\S.*\S)\1")
CLOSING_HASHES = re.compile(r"\s+#+\s*$")
LEADING_DASHES = re.compile(r"\A(?:[-:–—]+\s+)+")
STARS = re.compile(r"GitHub\s+(\d[\d.,]*[kKmM]?)\b")
MIN_CELL = 40  #: minimum number of characters in a table cell that contains an abstract
MAX_LINES = 2_000  #: maximum number of lines of one text


def recognises(head: str) -> bool:
    """Return whether the page has headings that are titles and link to papers."""
    titles = [line for line in head.splitlines() if heading_in(line)[0]]
    if not titles:
        return False
    return any(PAPER_LINK.search(line) for line in titles) or page_layout.is_page(head)


def read(source: DumpInput) -> tuple[Header, Items]:
    """Read the page; each heading begins a paper."""
    found = page_layout.read_page_header(source)
    reader = MarkdownPageReader(found, MarkdownStripper(read_references(source)))
    return found.header, records_of(reader.drafts(page_layout.clean_lines(source)), found)


class MarkdownPageReader:
    """Reads a page line by line, building one paper at a time."""

    def __init__(self, found: PageHeader, inline: MarkdownStripper):
        self.page = found
        self.inline = inline
        self.draft: PaperDraft | None = None
        self.text: list[str] = []  #: the lines of the current paragraph
        self.count: float | None = None  #: the last number whose meaning is not known yet
        self.after_upvote = False
        #: whether upvotes precede each paper's heading; None if not known yet
        self.votes_stand_first: bool | None = None
        self.heading: list[str] = []  #: the lines of a heading that is not complete yet
        self.begun_at = 0
        self.is_below_heading = False  #: whether the current line directly follows the heading
        self.may_be_title = False  #: whether the abstract read so far may be the rest of a wrapped title

    def drafts(self, lines: Iterator[tuple[int, str, str]]) -> Iterator[PaperDraft]:
        """Yield the papers of the page in order."""
        for number, raw, fault in lines:
            if fault:
                self.on_fault(number, fault)
            elif self.heading or (raw and heading_in(raw)[0]):
                title, behind = (raw, "") if self.heading else heading_in(raw)
                finished = self.on_heading(number, title)
                if finished is not None:
                    yield finished
                if behind := LEADING_DASHES.sub("", behind, count=1):
                    self.is_below_heading = False
                    self.on_line(behind)
            else:
                self.on_line(raw)
        if self.heading and (finished := self.begin_paper()) is not None:
            yield finished  # the file ends in the next paper's heading
        self.end_paragraph()
        if self.draft is not None:
            yield self.draft

    def on_fault(self, number: int, fault: str) -> None:
        """Record that the current paper is unreadable; ignore a faulty line before the first paper."""
        if self.draft is not None:
            self.draft.fault = f"line {number}: {fault}"

    def on_heading(self, number: int, raw: str) -> PaperDraft | None:
        """Begin a paper once its heading is complete; return the previous paper."""
        if not self.heading:
            self.begun_at = number
        self.heading.append(raw.strip())
        if is_unfinished_heading(" ".join(self.heading)) and len(self.heading) < 8:
            return None
        return self.begin_paper()

    def begin_paper(self) -> PaperDraft | None:
        """Begin the paper of the current heading; return the previous paper."""
        title, self.heading = " ".join(self.heading), []
        self.end_paragraph()
        finished, line = self.draft, self.inline.strip(CLOSING_HASHES.sub("", title))
        emphasised = EMPHASISED.fullmatch(line.text)
        self.draft = PaperDraft(
            line=self.begun_at, title=unwrap(emphasised["text"] if emphasised else line.text)
        )
        self.is_below_heading = True
        self.identify(line.urls)
        if self.count is not None:
            self.draft.signals["upvotes"] = self.count
        self.count, self.after_upvote = None, False
        return finished

    def on_line(self, raw: str) -> None:  # noqa: PLR0912  (a branch for each kind of line)
        """Process a line that is not a heading."""
        stripped = " ".join(raw.split()).removeprefix("> ")
        if not stripped or set(stripped) <= set("[]`\\"):
            if not stripped:
                self.end_paragraph()
                self.is_below_heading = False
            return
        named = () if self.text else labelled_authors(LINK.sub(r"\1", stripped))
        if named:
            if self.draft is not None and not self.draft.authors:
                self.draft.authors = named
            return
        kind, text = labelled_text(stripped)
        if kind == "abstract":
            self.end_paragraph()
            stripped = text
        elif not self.text and self.on_address(*labelled_address(stripped)):
            return
        if found := parse_metadata_line(stripped):
            self.end_paragraph()
            for one in found:
                self.apply(one)
            return
        line = self.inline.strip(stripped)
        if not any(char.isalnum() for char in line.text):
            self.on_signs(line)
            return
        for part in self.parts_of(line):
            self.on_part(part.strip(), line)

    def parts_of(self, line: StrippedLine) -> list[str]:
        """Split a line at middle dots.

        Split a line of metadata and links at vertical bars, and omit the links.
        """
        barred = [part.strip() for part in line.text.split("|")]
        links = {text.strip() for text, _ in line.parts}
        if len(barred) > 1 and all(parse_metadata_line(part) or part in links for part in barred):
            self.note(line)
            return [part for part in barred if part not in links]
        return re.split(r"\s+·\s+|^·\s*", line.text)

    def on_address(self, kind: str, address: str) -> bool:
        """Process a labelled link (`**arXiv:** [2611.01234](...)`); return whether the line contains one."""
        line = self.inline.strip(address)
        named = field_parsing.ids_in_urls(*line.urls) or (
            field_parsing.normalised_ids([(kind, address)]) if kind in ("arxiv", "doi") else {}
        )
        if self.draft is not None:
            self.draft.ids |= named
            self.draft.urls += [] if named else line.urls
        return bool(named or line.urls)

    def on_signs(self, line: StrippedLine) -> None:
        """Process a line without words: a URL, a closing bracket, or a dash in place of a zero."""
        self.note(line)
        if line.text.strip(" \\") == "-" and not line.had_image:
            self.end_paragraph()
            self.apply(MetadataLine(kind=MetadataKind.COUNT, number=0.0), line.urls)
        elif line.text.strip() == "·":
            self.end_paragraph()

    def on_part(self, text: str, line: StrippedLine) -> None:
        """Process one of the parts into which middle dots split a line."""
        if not text:
            return
        found = parse_metadata_line(text)
        if (
            found and found[0].kind is not MetadataKind.STARS
        ):  # stars are read together with the repository's URL
            self.end_paragraph()
            for one in found:
                self.apply(one, line.urls)
        elif line.handle and IMAGE_MARK in text:
            self.end_paragraph()
            self.on_organization(text.replace(IMAGE_MARK, "").strip(), line)
        elif is_only_links(text, line):
            self.note(line)
            if " " in text and len(line.parts) == 1 and profile_name_in(line.parts[0][1]):
                self.on_organization(text, line)
        else:
            self.note(line)
            if len(self.text) < MAX_LINES:
                self.text.append(text)

    def apply(self, found: MetadataLine, urls: list[str] | None = None) -> None:  # noqa: PLR0912  (a branch for each field)
        """Store metadata in the current paper, or save a number for the next paper."""
        draft = self.draft
        if found.kind is MetadataKind.UPVOTE or found.kind is MetadataKind.UPVOTES:
            self.after_upvote = True
            self.votes_stand_first = (
                draft is None if self.votes_stand_first is None else self.votes_stand_first
            )
        if found.kind is MetadataKind.COUNT or found.kind is MetadataKind.UPVOTES:
            if (
                draft is not None
                and self.after_upvote
                and not self.votes_stand_first
                and found.number is not None
            ):
                draft.signals["upvotes"] = found.number
                self.after_upvote = False
            elif draft is not None and has_comments_link(urls) and found.number is not None:
                draft.signals["comments"] = found.number
            else:
                self.count = found.number
        elif draft is None:
            return
        elif found.kind in (MetadataKind.COMMENTS, MetadataKind.STARS) and found.number is not None:
            draft.signals[found.kind.name.casefold()] = found.number
        elif found.kind is MetadataKind.AUTHORS and found.number is not None:
            draft.n_authors, draft.has_meta = int(found.number), True
        elif found.kind is MetadataKind.DATE:
            draft.published, draft.inferred = page_layout.paper_date(found, self.page)
            draft.has_meta = True
            if found.number is not None:
                draft.signals["comments"] = found.number

    def on_organization(self, name: str, line: StrippedLine) -> None:
        """Store the organisation from a name with an image or a link to a profile page."""
        handle = next(filter(None, map(profile_name_in, line.urls)), "") or line.handle
        if self.draft is None or self.draft.abstract is None or not (handle and name):
            return
        if self.draft.organization is None and self.draft.n_authors is None:
            self.draft.organization = Organization(handle=handle, name=name)
            self.draft.has_meta = True

    def note(self, line: StrippedLine) -> None:
        """Store the data in the links on a line: ids, repositories with their stars, and comments."""
        draft = self.draft
        if draft is None:
            return
        if has_comments_link(line.urls) and self.count is not None:
            draft.signals["comments"], self.count = self.count, None
        self.identify(line.urls)
        for label, url in line.parts:
            if (stars := STARS.search(label)) and (number := parse_figure(stars[1])) is not None:
                draft.signals["stars"] = number
                draft.urls.append(url)

    def identify(self, urls: list[str]) -> None:
        """Set the paper's ids from the URLs, unless its abstract has already begun."""
        for url in urls:
            if self.draft is not None and not self.draft.abstract and (found := id_in(url)):
                self.draft.ids.setdefault(*found)

    def end_paragraph(self) -> None:
        """Add the current paragraph to the paper; the first paragraph becomes the paper's abstract."""
        if not self.text:
            return
        text, self.text = unwrap(" ".join(self.text)), []
        if (emphasised := EMPHASISED.fullmatch(text)) and emphasised[1] not in emphasised["text"]:
            text = emphasised["text"]
        draft = self.draft
        if draft is None or not text or draft.has_meta:
            return
        if draft.abstract is not None and self.may_be_title and len(draft.abstract) < len(text):
            draft.title, draft.abstract = f"{draft.title} {draft.abstract}", None
        self.may_be_title = False
        if draft.abstract is None:
            draft.abstract = text
            is_short = len(draft.title) + len(text) < LONGEST_TITLE and not text.endswith((".", ":"))
            self.may_be_title = self.is_below_heading and is_short
        elif MAX_TEXT > len(draft.abstract) > ai_summaries.MAX_SUMMARY_LENGTH < len(text):
            draft.abstract += "\n" + text
        self.is_below_heading = False


def heading_in(line: str) -> tuple[str, str]:
    """Return (heading, rest of the line), or two empty strings if the line is not the heading of a paper."""
    title, behind = "", ""
    if found := HEADING.fullmatch(line):
        title = found[2]
    elif linked := LINKED_TITLE.fullmatch(line):
        title = linked["bold"] or linked["listed"] or linked["cell"]
        cells = max((linked["cells"] or "").split("|"), key=len).strip()
        behind = linked["after"] or linked["behind"] or (cells if len(cells) > MIN_CELL else "")
    return ("", "") if is_navigation(re.sub(r"[\[\]#*]", "", title).strip()) else (title, behind)


def is_unfinished_heading(title: str) -> bool:
    """Return whether a heading's link continues on the next line."""
    return title.startswith("[") and title.count("[") > title.count("]")


def has_comments_link(urls: list[str] | None) -> bool:
    """Return whether one of the URLs leads to a paper's comments."""
    return any(url.endswith("#community") for url in urls or ())


def is_only_links(text: str, line: StrippedLine) -> bool:
    """Return whether `text` consists only of links and is not an abstract that links to its paper."""
    labels = "".join(label for label, _ in line.parts)
    may_be_abstract = " " in text and any(id_in(url) for _, url in line.parts)
    return bool(labels) and not may_be_abstract and "".join(labels.split()) == "".join(text.split())


def profile_name_in(url: str) -> str:
    """Return the name in the URL of a Hugging Face profile page, or an empty string."""
    try:
        parts = urlsplit(url)
    except ValueError:  # for example an incomplete IPv6 address
        return ""
    name = unquote(parts.path.strip("/"))
    plain = parts.hostname == "huggingface.co" and "/" not in name and not parts.query
    return name if plain and name not in ("papers", "login", "join", "") else ""
