"""Pages copied as Markdown or as text with link references: every paper under a heading ("markdown").

Around the heading stand figures, in front of it (upvotes) or behind the text (authors, date,
comments, stars). Links come inline, as numbered references, or as bare addresses on their own
lines; texts come whole or wrapped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import unquote, urlsplit

from digest.dumps import fields, page
from digest.dumps.blocks import MOST_TEXT, Draft
from digest.dumps.inline import ALT, LINK, Inline, Line, references_of, unwrapped
from digest.dumps.marks import Kind, Mark, addressed, authors, figure, is_navigation, labelled, marks
from digest.dumps.page import LONGEST_TITLE, Page
from digest.dumps.reading import Header, Items, Source
from digest.papers import Organization, Record, id_in

NAME = "markdown"

HEADING = re.compile(r"\s{0,3}(#{2,6})\s+(\S.*)")
ITS_PAGE = r"(?:\S*(?:huggingface\.co/papers|arxiv\.org/abs)|/papers)/"
PAPER = re.compile(rf"\]\({ITS_PAGE}")
#: A title in bold, in a list or in a table, linked to its paper; what stands behind it.
LINKED = re.compile(
    r"\s{0,3}(?:(?:\d{1,3}[.)]|[-*•])\s+)?(?:\*\*|__)\s*(?P<bold>\[.+\]\(PAPER\))\s*(?:\*\*|__)\s*(?P<after>.*)"
    r"|\s{0,3}(?:\d{1,3}[.)]|[-*•])\s+(?:\[[ xX]\]\s+)?(?P<listed>\[.+\]\(PAPER\))\s*(?P<behind>.*)"
    r"|\s{0,3}\|(?:[^|\[]{0,20}\|)*\s*(?P<cell>\[[^|]+\]\(PAPER\))\s*\|(?P<cells>.*)".replace(
        "PAPER", ITS_PAGE + r"\S+?"
    )
)
EMPHASISED = re.compile(r"(\*\*|__|[*_])(?P<text>\S.*\S)\1")
CLOSED = re.compile(r"\s+#+\s*$")
LEADING = re.compile(r"(?:[-:–—]+\s+)+")
STARS = re.compile(r"GitHub\s+(\d[\d.,]*[kKmM]?)\b")
LEAST_CELL = 40  #: characters: a shorter cell of a table is no abstract
MOST_LINES = 2_000  #: of one text


def recognises(head: str) -> bool:
    """Return whether papers stand under headings on what is otherwise such a page."""
    titles = [line for line in head.splitlines() if heading_in(line)[0]]
    if not titles:
        return False
    return any(PAPER.search(line) for line in titles) or page.is_page(head)


def read(source: Source) -> tuple[Header, Items]:
    """Read the page: a heading begins a paper."""
    found = page.survey(source)
    return found.header, papers(source, found, Inline(references_of(source)))


def papers(source: Source, found: Page, inline: Inline) -> Items:
    """Yield the papers; one that is told twice in the very same words is told once."""
    position, number = 0, 1
    told: set[int] = set()
    for draft in Reader(found, inline).drafts(page.bounded(source)):
        draft.title, number = page.unnumbered(page.unadorned(draft.title), number)
        record = draft.record(position + 1)
        if isinstance(record, Record):
            if (key := hash((record.title, record.abstract))) in told:
                continue
            told.add(key)
            position += 1
        yield record


class Reader:
    """Reads one page, line by line, holding one paper at a time."""

    def __init__(self, found: Page, inline: Inline):
        self.page = found
        self.inline = inline
        self.draft: Draft | None = None
        self.text: list[str] = []  #: the lines of the paragraph at hand
        self.count: float | None = None  #: a figure whose meaning comes later
        self.after_upvote = False
        self.leads: bool | None = None  #: whether this page tells of upvotes in front of a heading
        self.heading: list[str] = []  #: a heading whose link is not closed yet
        self.begun_at = 0
        self.is_below_heading = False  #: nothing stood between the heading and this line
        self.may_be_title = False  #: what is taken for the abstract may be the rest of a wrapped title

    def drafts(self, lines: Iterator[tuple[int, str, str]]) -> Iterator[Draft]:
        """Yield the papers of the page in order."""
        for number, raw, fault in lines:
            if fault:
                if self.draft is not None:
                    self.draft.fault = f"line {number}: {fault}"
            elif self.heading or heading_in(raw)[0]:
                title, behind = (raw, "") if self.heading else heading_in(raw)
                finished = self.on_heading(number, title)
                if finished is not None:
                    yield finished
                if behind := LEADING.sub("", behind, count=1):
                    self.is_below_heading = False
                    self.on_line(behind)
            else:
                self.on_line(raw)
        self.end_paragraph()
        if self.draft is not None:
            yield self.draft

    def on_heading(self, number: int, raw: str) -> Draft | None:
        """Begin a paper once its heading is whole; return the one before it."""
        if not self.heading:
            self.begun_at = number
        self.heading.append(raw.strip())
        title = " ".join(self.heading)
        if is_open(title) and len(self.heading) < 8:
            return None
        self.heading = []
        self.end_paragraph()
        finished, line = self.draft, self.inline.bare(CLOSED.sub("", title))
        emphasised = EMPHASISED.fullmatch(line.text)
        self.draft = Draft(
            line=self.begun_at, title=unwrapped(emphasised["text"] if emphasised else line.text)
        )
        self.is_below_heading = True
        self.identify(line.urls)
        if self.count is not None:
            self.draft.signals["upvotes"] = self.count
        self.count, self.after_upvote = None, False
        return finished

    def on_line(self, raw: str) -> None:
        """Take in a line that is no heading."""
        stripped = " ".join(raw.split()).removeprefix("> ")
        if not stripped or set(stripped) <= set("[]`\\"):
            if not stripped:
                self.end_paragraph()
                self.is_below_heading = False
            return
        named = () if self.text else authors(LINK.sub(r"\1", stripped))
        if named:
            if self.draft is not None and not self.draft.authors:
                self.draft.authors = named
            return
        kind, text = labelled(stripped)
        if kind == "abstract":
            self.end_paragraph()
            stripped = text
        elif not self.text and self.on_address(*addressed(stripped)):
            return
        if found := marks(stripped):
            self.end_paragraph()
            for one in found:
                self.apply(one)
            return
        line = self.inline.bare(stripped)
        if not any(char.isalnum() for char in line.text):
            self.on_signs(line)
            return
        for part in self.parts_of(line):
            self.on_part(part.strip(), line)

    def parts_of(self, line: Line) -> list[str]:
        """Return what dots part on a line; bars do where nothing stands between them but figures and links."""
        barred = [part.strip() for part in line.text.split("|")]
        links = {text.strip() for text, _ in line.parts}
        if len(barred) > 1 and all(marks(part) or part in links for part in barred):
            self.note(line)
            return [part for part in barred if part not in links]
        return re.split(r"\s+·\s+|^·\s*", line.text)

    def on_address(self, kind: str, address: str) -> bool:
        """Take in an address after the word for it (`**arXiv:** [2611.01234](...)`); return whether it was one."""
        line = self.inline.bare(address)
        named = fields.ids_from(*line.urls) or (
            fields.ids([(kind, address)]) if kind in ("arxiv", "doi") else {}
        )
        if self.draft is not None:
            self.draft.ids |= named
            self.draft.urls += [] if named else line.urls
        return bool(named or line.urls)

    def on_signs(self, line: Line) -> None:
        """Take in a line without words: an address, a closed bracket, or the dash that means none."""
        self.note(line)
        if line.text.strip(" \\") == "-" and not line.had_image:
            self.end_paragraph()
            self.apply(Mark(kind=Kind.COUNT, number=0.0), line.urls)
        elif line.text.strip() == "·":
            self.end_paragraph()

    def on_part(self, text: str, line: Line) -> None:
        """Take in what stands between two middle dots."""
        if not text:
            return
        found = marks(text)
        if found and found[0].kind is not Kind.STARS:  # a repository comes with its address
            self.end_paragraph()
            for one in found:
                self.apply(one, line.urls)
        elif line.handle and ALT in text:
            self.end_paragraph()
            self.on_organization(text.replace(ALT, "").strip(), line)
        elif (
            line.parts
            and "".join(label for label, _ in line.parts).strip() == "".join(text.split(" ")).strip()
        ):
            self.note(line)
        elif line.parts and is_only_links(text, line):
            self.note(line)
            self.on_organization(text, line)
        else:
            self.note(line)
            if len(self.text) < MOST_LINES:
                self.text.append(text)

    def apply(self, found: Mark, urls: list[str] | None = None) -> None:
        """Write what a mark says into the paper at hand, or remember a figure for the next."""
        draft = self.draft
        if found.kind is Kind.UPVOTE or found.kind is Kind.UPVOTES:
            self.after_upvote = True
            self.leads = draft is None if self.leads is None else self.leads
        if found.kind is Kind.COUNT or found.kind is Kind.UPVOTES:
            if draft is not None and self.after_upvote and not self.leads and found.number is not None:
                draft.signals["upvotes"] = found.number
                self.after_upvote = False
            elif draft is not None and is_community(urls) and found.number is not None:
                draft.signals["comments"] = found.number
            else:
                self.count = found.number
        elif draft is None:
            return
        elif found.kind in (Kind.COMMENTS, Kind.STARS) and found.number is not None:
            draft.signals[found.kind.name.casefold()] = found.number
        elif found.kind is Kind.AUTHORS and found.number is not None:
            draft.n_authors, draft.has_meta = int(found.number), True
        elif found.kind is Kind.DATE:
            draft.published, draft.inferred = page.paper_date(found, self.page)
            draft.has_meta = True
            if found.number is not None:
                draft.signals["comments"] = found.number

    def on_organization(self, name: str, line: Line) -> None:
        """Take in who stands behind the paper: an image with a name, linked to a page of one word."""
        handle = next(filter(None, map(handle_in, line.urls)), "") or line.handle
        if self.draft is None or self.draft.abstract is None or not (handle and name):
            return
        if self.draft.organization is None and self.draft.n_authors is None:
            self.draft.organization = Organization(handle=handle, name=name)
            self.draft.has_meta = True

    def note(self, line: Line) -> None:
        """Keep what the addresses on a line tell: ids, repositories and their stars, comments."""
        draft = self.draft
        if draft is None:
            return
        if is_community(line.urls) and self.count is not None:
            draft.signals["comments"], self.count = self.count, None
        self.identify(line.urls)
        for label, url in line.parts:
            if (stars := STARS.search(label)) and (number := figure(stars[1])) is not None:
                draft.signals["stars"] = number
                draft.urls.append(url)

    def identify(self, urls: list[str]) -> None:
        """Take the paper's id from the first address that has one."""
        for url in urls:
            if self.draft is not None and not self.draft.abstract and (found := id_in(url)):
                self.draft.ids.setdefault(*found)

    def end_paragraph(self) -> None:
        """Give the paragraph at hand to the paper: the first is its abstract."""
        text, self.text = unwrapped(" ".join(self.text)), []
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
            draft.is_summary = self.page.is_trending and len(text) < page.SHORT
            is_short = len(draft.title) + len(text) < LONGEST_TITLE and not text.endswith((".", ":"))
            self.may_be_title = self.is_below_heading and is_short
        elif MOST_TEXT > len(draft.abstract) > page.SHORT < len(text):
            draft.abstract += "\n" + text
        self.is_below_heading = False


def heading_in(line: str) -> tuple[str, str]:
    """Return the heading on a line and what stands behind it; nothing for the page's own."""
    title, behind = "", ""
    if found := HEADING.fullmatch(line):
        title = found[2]
    elif linked := LINKED.fullmatch(line):
        title = linked["bold"] or linked["listed"] or linked["cell"]
        cells = max((linked["cells"] or "").split("|"), key=len).strip()
        behind = linked["after"] or linked["behind"] or (cells if len(cells) > LEAST_CELL else "")
    return ("", "") if is_navigation(re.sub(r"[\[\]#*]", "", title).strip()) else (title, behind)


def is_open(title: str) -> bool:
    """Return whether a heading's link goes on in the next line."""
    return title.startswith("[") and title.count("[") > title.count("]")


def is_community(urls: list[str] | None) -> bool:
    """Return whether one of the addresses leads to a paper's comments."""
    return any(url.endswith("#community") for url in urls or ())


def is_only_links(text: str, line: Line) -> bool:
    """Return whether a text is nothing but the name in one link."""
    return len(line.parts) == 1 and line.parts[0][0].strip() == text and handle_in(line.parts[0][1]) != ""


def handle_in(url: str) -> str:
    """Return the name in an address of somebody's page on Hugging Face, or nothing."""
    try:
        parts = urlsplit(url)
    except ValueError:  # half an IPv6 address, say
        return ""
    name = unquote(parts.path.strip("/"))
    plain = parts.hostname == "huggingface.co" and "/" not in name and not parts.query
    return name if plain and name not in ("papers", "login", "join", "") else ""
