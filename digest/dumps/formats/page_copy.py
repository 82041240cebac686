"""Read copies of pages that list papers, made by any tool ("page")."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date
from io import BytesIO
from itertools import takewhile

from digest.dumps.formats import field_parsing, page_appraisal, page_layout
from digest.dumps.formats.markdown_inline import BARE_URL
from digest.dumps.formats.page_layout import PageHeader
from digest.dumps.formats.page_lines import PageLine, page_lines
from digest.dumps.formats.page_markdown import LEADING_DASHES, profile_name_in
from digest.dumps.formats.page_metadata import MetadataKind, MetadataLine, parse_figure, parse_metadata_line
from digest.dumps.formats.page_passages import Passage, passages_of, phrases_of
from digest.dumps.formats.page_segments import (
    LONGEST_ORGANIZATION,
    Segment,
    is_abstract,
    is_organization,
    paper_key,
    segments_of,
)
from digest.dumps.formats.page_text import PaperDraft, records_of
from digest.dumps.formats.reader_interface import DumpInput, Format, Header, Items, RecordProblem
from digest.dumps.formats.rewindable_stream import HEAD_BYTES
from digest.papers import Organization, Record

NAME = "page"

BRACKETED_HANDLE = re.compile(r"\[([\w.-]{1,60})\]\s+(\S.*)")
GLUED_VOTES = re.compile(r"(?:\d[\d,]*(?:\.\d+)?k?|-)(?=[^\W\d_])")
NUMBER_BEFORE = re.compile(r"#?\d{1,4}[.):]?\s+")
POINTS_BEHIND = re.compile(r"\s*\((\d[\d,.]*[kK]?) (?:points?|(?:up)?votes?|likes?)\)$")
ABSTRACT_LABEL = re.compile(r"[*_]{0,2}Abstract[*_]{0,2}[:.]?\s+[*_]{0,2}(?=[A-Z])")
#: A title, its abstract on one line and, optionally, the number of authors or the organisation with a date.
PLAIN_PAPER = re.compile(
    r"^(?![^\n]{0,350}://)[^\n]{1,350}\n{1,2}[^\n]{350,60000}(?:\n{1,2}|\Z)"
    r"(?:(?: {0,4}• \d{1,6} authors?|[^\n]{1,120})\n{1,2}·\n{1,2}[A-Z][a-z]{2} \d{1,2}(?:, \d{4})?(?: \d{1,6})?(?:\n{1,2}|\Z))?",
    re.MULTILINE,
)
MAX_LINES_OF_PAPER = 8  #: maximum number of lines in the incomplete paper at the end of a truncated page
LONG_PARAGRAPH = 200
MAX_PASSAGES = 1_000  #: maximum number of passages below a title that may contain its abstract
MAX_PAGE_BYTES = 8 * 1024 * 1024  #: a larger page is read as a stream, by the reader of a known layout
SAMPLE_BYTES = 192 * 1024  #: number of bytes that are read to choose the reader of a page
MIN_PAPERS = 4  #: minimum number of papers from which a page's layout is inferred


def recognises(head: str) -> bool:
    """Return whether the dump begins with a list of papers that have abstracts."""
    if head.lstrip()[:1] in ("{", "<"):
        return False
    found = sample_items(read, head.encode(errors="replace"), date.min, is_cut=len(head) > HEAD_BYTES // 2)
    papers = [one for one in found if isinstance(one, Record) and one.abstract]
    return len(papers) >= MIN_PAPERS and 4 * page_appraisal.faults_in(found) <= len(papers)


def reads_better(source: DumpInput, known: Format) -> bool:
    """Return whether this reader reads a page better than the reader for the page's known layout.

    Only the beginning of a long page is read, and a very long page is always read by the other reader.
    """
    if source.size_up_to(MAX_PAGE_BYTES) > MAX_PAGE_BYTES:
        return False
    beginning = source.rewind().read(SAMPLE_BYTES)
    is_cut = len(beginning) == SAMPLE_BYTES
    if is_plain(beginning):
        return False
    theirs = sample_items(known.read, beginning, source.observed_on, is_cut=is_cut)
    if known.NAME == "pairs" and not page_appraisal.has_doubts(theirs):
        return False
    ours = sample_items(read, beginning, source.observed_on, is_cut=is_cut)
    is_list = sum(isinstance(one, Record) for one in ours) >= MIN_PAPERS
    faults, fields = page_appraisal.appraise(ours)
    lost = page_appraisal.papers_lost(theirs, ours)
    found = (faults - lost, fields)
    best = page_appraisal.appraise(theirs)
    return is_list and (found > best or (found == best and known.NAME == "markdown"))


def is_plain(beginning: bytes) -> bool:
    """Return whether titles, unwrapped abstracts and lines of metadata alternate, with nothing between them.

    Such a page has neither addresses nor upvotes, so this reader would find nothing more on it.
    """
    text = beginning.decode(errors="replace")
    found = PLAIN_PAPER.search(text)
    end, papers = 0, 0
    while found is not None:
        end, papers = found.end(), papers + 1
        found = PLAIN_PAPER.match(text, end)
    return papers >= MIN_PAPERS and text.count("\n", end) <= MAX_LINES_OF_PAPER


def sample_items(
    read: Callable[[DumpInput], tuple[Header, Items]], beginning: bytes, observed_on: date, *, is_cut: bool
) -> list[Record | RecordProblem]:
    """Return the items that a reader finds at the beginning of a page, without a truncated last item."""
    whole = beginning[: beginning.rfind(b"\n") + 1] if is_cut else beginning
    found = list(read(DumpInput(BytesIO(whole), name="", observed_on=observed_on))[1])
    return found[:-1] if is_cut else found


def read(source: DumpInput) -> tuple[Header, Items]:
    """Read the whole page and split it into papers."""
    found = page_layout.read_page_header(source)
    lines = page_lines(list(without_blank_runs(source.lines())))
    return found.header, records_of(drafts_of(lines, found), found)


def without_blank_runs(lines: Iterable[tuple[int, str, str]]) -> Iterator[tuple[int, str, str]]:
    """Yield the lines without repeated blank lines."""
    was_blank = False
    for line in lines:
        is_blank = not (line[1] or line[2]) or line[1].isspace()
        if not (is_blank and was_blank):
            yield line
        was_blank = is_blank


def drafts_of(lines: Sequence[PageLine], found: PageHeader) -> Iterator[PaperDraft]:
    """Yield the papers on the given lines in order."""
    segments = segments_of(passages_of(lines))
    drafts = [draft for segment in segments if (draft := draft_of(segment, found)) is not None]
    split_votes(drafts)
    split_points(drafts)
    remove_labels(drafts)
    yield from drafts


def split_votes(drafts: Sequence[PaperDraft]) -> None:
    """Move the upvotes at the beginnings of the titles to the signals, if nearly every title has them."""
    glued = [GLUED_VOTES.match(draft.title) for draft in drafts]
    if not is_on_nearly_all(glued):
        return
    for draft, found in zip(drafts, glued, strict=True):
        if found and "upvotes" not in draft.signals:
            draft.title = draft.title[found.end() :]
            draft.signals["upvotes"] = parse_figure(found[0]) or 0.0


def split_points(drafts: Sequence[PaperDraft]) -> None:
    """Move counts such as `(120 points)` from the titles to the upvotes, if nearly every title has one."""
    found = [POINTS_BEHIND.search(draft.title[-30:]) for draft in drafts]
    if is_on_nearly_all(found):
        for draft, points in zip(drafts, found, strict=True):
            if points:
                draft.title = draft.title.removesuffix(points[0])
                draft.signals.setdefault("upvotes", parse_figure(points[1]) or 0.0)


def remove_labels(drafts: Sequence[PaperDraft]) -> None:
    """Remove the word `Abstract` from the beginnings of the abstracts, if nearly every abstract has it."""
    found = [ABSTRACT_LABEL.match(draft.abstract or "") for draft in drafts]
    if is_on_nearly_all(found):
        for draft, label in zip(drafts, found, strict=True):
            draft.abstract = (draft.abstract or "")[label.end() :] if label else draft.abstract


def is_on_nearly_all(found: Sequence[re.Match[str] | None]) -> bool:
    """Return whether there are enough papers and a pattern matched nearly all of them."""
    return len(found) >= MIN_PAPERS and sum(map(bool, found)) >= 0.9 * len(found)


def draft_of(segment: Segment, page: PageHeader) -> PaperDraft | None:
    """Return the paper of a segment, or None if the segment has no text."""
    texts = [one for one in segment.passages if one.is_text]
    faults = [one for one in segment.passages if one.fault]
    if segment.title is None:
        if not texts and not faults:
            return None
        bad = (texts or faults)[0]
        return PaperDraft(
            line=bad.number, title=bad.text, fault=fault_of(faults) or "an abstract with no title above it"
        )
    title = segment.passages[segment.title]
    draft = PaperDraft(line=title.number, title=title.text, fault=fault_of(faults))
    if is_abstract(title.text) and segment.key is None:
        draft.fault = draft.fault or "an abstract with no title above it"
    identify(draft, segment)
    behind = split_title(draft, title, segment)
    for passage in segment.passages[: segment.title]:
        apply_found(draft, passage, page, is_above=True)
    for one in phrases_of(behind) or parse_metadata_line(behind):
        apply_one(draft, one, page, is_above=False)
        behind = ""
    take_texts(draft, segment, behind)
    for passage in segment.passages[segment.title + 1 :]:
        apply_found(draft, passage, page, is_above=False)
        take_links(draft, passage, segment)
    return draft


def fault_of(faults: Sequence[Passage]) -> str:
    """Return why the first unreadable line cannot be read, or "" if all lines are readable."""
    return f"line {faults[0].number}: {faults[0].fault}" if faults else ""


def identify(draft: PaperDraft, segment: Segment) -> None:
    """Store in the draft the id that the paper's own address contains."""
    if segment.key is None:
        return
    scheme, name = segment.key
    if scheme == "openreview":
        draft.urls.append(f"https://openreview.net/forum?id={name}")
    else:
        draft.ids[scheme] = name


def split_title(draft: PaperDraft, title: Passage, segment: Segment) -> str:
    """Remove the text that follows the title's link on the same line, and return the removed text."""
    number = NUMBER_BEFORE.match(title.text)
    start = number.end() if number else 0
    for link in title.links:
        is_own = paper_key(link.url) == segment.key is not None and link.is_bounded
        end = start + len(link.label)
        if is_own and link.label and title.text.startswith(link.label, start) and end < len(title.text):
            draft.title = title.text[:end]
            return LEADING_DASHES.sub("", title.text[end:].strip(" *_"), count=1)
        if not link.has_start and link.label and paper_key(link.url) == segment.key is not None:
            above, found, behind = title.text.partition(link.label)
            draft.title = above + found
            return behind.strip()
    return ""


def take_texts(draft: PaperDraft, segment: Segment, behind: str) -> None:  # noqa: PLR0912  (a branch for each kind of text)
    """Store the abstract, the authors and the organisation of a paper in its draft."""
    start = (segment.title or 0) + 1
    texts = [
        (index, passage)
        for index, passage in enumerate(segment.passages[: start + MAX_PASSAGES])
        if index >= start and passage.is_text and passage.text not in (draft.title, draft.abstract)
    ]
    if behind and len(behind) > 20:
        draft.abstract = behind
    for _, passage in texts:
        if passage.label == "authors" and not draft.authors:
            draft.authors = tuple(passage.text.split(", "))
        elif passage.label == "abstract":
            draft.abstract = passage.text
    rest = [(index, passage) for index, passage in texts if not passage.label]
    rest = take_names(draft, rest)
    chosen = next((i for i, (_, one) in enumerate(rest) if is_abstract(one.text)), None)
    if draft.abstract is None and chosen is not None:
        draft.abstract = rest[chosen][1].text
        for _, further in rest[chosen + 1 :]:
            if len(further.text) <= LONG_PARAGRAPH or further.text in draft.abstract:
                break
            draft.abstract += "\n" + further.text
    for index, passage in rest:
        if draft.abstract is not None and passage.text in draft.abstract:
            continue
        if draft.organization is None and not draft.authors and (named := organization_in(segment, index)):
            draft.organization = named
        elif draft.abstract is None and (len(passage.text.split()) > 3 or segment.key is None):
            draft.abstract = passage.text


def take_names(draft: PaperDraft, texts: list[tuple[int, Passage]]) -> list[tuple[int, Passage]]:
    """Store the authors' names in the draft, even if they span several lines; return the other texts."""
    rest = []
    for index, passage in texts:
        names = field_parsing.person_names(passage.text) if len(passage.text) < 4000 else ()
        if not draft.authors and len(names) > 1:
            draft.authors = names
        else:
            rest.append((index, passage))
    single = list(takewhile(lambda one: field_parsing.is_person_name(one[1].text.strip(" ,&")), rest))
    if not draft.authors and len(single) > 1:
        draft.authors = tuple(one.text.strip(" ,&") for _, one in single)
        rest = rest[len(single) :]
    return rest


def organization_in(segment: Segment, index: int) -> Organization | None:  # noqa: PLR0911  (one return for each shape)
    """Return the organisation that a passage names, or None."""
    passage = segment.passages[index]
    if len(passage.text) > LONGEST_ORGANIZATION or (
        passage.text.endswith(".") and passage.text.count(" ") > 8
    ):
        return None
    for link in passage.links:
        if (handle := profile_name_in(link.url)) and link.label:
            name = (link.label if link.is_bounded else passage.text).removeprefix(f"{handle} ")
            return Organization(handle=handle, name=name)
    if not is_organization(segment.passages, index):
        return None
    if bracketed := BRACKETED_HANDLE.fullmatch(passage.text):
        return Organization(handle=bracketed[1], name=bracketed[2])
    image = next(filter(None, passage.images), "")
    if image and not passage.text.startswith(image):
        return Organization(handle=image, name=passage.text)
    return page_layout.organization(passage.text)


def apply_found(draft: PaperDraft, passage: Passage, page: PageHeader, *, is_above: bool) -> None:
    """Store the metadata of a passage in the draft of its paper."""
    for one in passage.found:
        apply_one(draft, one, page, is_above=is_above)
        if one.kind is MetadataKind.STARS and not is_above:
            draft.urls += [link.url for link in passage.links if "github" in link.label.casefold()]


def apply_one(draft: PaperDraft, one: MetadataLine, page: PageHeader, *, is_above: bool) -> None:
    """Store one item of metadata in the draft of its paper.

    A number without a label counts upvotes if it is above the title, and comments if it is below the date."""
    match one.kind:
        case MetadataKind.AUTHORS if one.number is not None:
            draft.n_authors = draft.n_authors or int(one.number)
        case MetadataKind.DATE:
            if draft.published is None:
                draft.published, draft.inferred = page_layout.paper_date(one, page)
                if one.number is not None:
                    draft.signals.setdefault("comments", one.number)
        case MetadataKind.UPVOTES | MetadataKind.COMMENTS | MetadataKind.STARS if one.number is not None:
            draft.signals.setdefault(one.kind.name.casefold(), one.number)
        case MetadataKind.COUNT if one.number is not None:
            name = "upvotes" if is_above else "comments"
            if is_above or draft.published is not None:
                draft.signals.setdefault(name, one.number)
        case _:
            pass


def take_links(draft: PaperDraft, passage: Passage, segment: Segment) -> None:
    """Store in the draft the ids that the addresses below the paper's title contain."""
    for link in passage.links:
        key = paper_key(link.url)
        if key and segment.key is None and key[0] != "openreview" and BARE_URL.fullmatch(link.url):
            draft.ids.setdefault(*key)
