"""Turn the segments of a page into papers: a segment's passages are its title, texts, figures and links."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from itertools import groupby
from urllib.parse import unquote, urlsplit

from digest.dumps.formats import clean_values, field_parsing, page_layout
from digest.dumps.formats.page_layout import LONGEST_TITLE, PageHeader
from digest.dumps.formats.page_lines import PageLine
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
from digest.dumps.formats.reader_interface import Items, RecordProblem, excerpt
from digest.papers.identifiers import id_in
from digest.papers.paper_record import Organization, Record

IN_BRACKETS = re.compile(r"\[([^\[\]]+)\]")  #: a title in the brackets that Textile needs around some links
LEADING_DASHES = re.compile(r"\A(?:[-:–—]+\s+)+")
BRACKETED_HANDLE = re.compile(r"\[([\w.-]{1,60})\]\s+(\S.*)")
GLUED_VOTES = re.compile(r"(?:\d[\d,]*(?:\.\d+)?k?|-)(?=[^\W\d_])")
NUMBER_BEFORE = re.compile(r"#?\d{1,4}[.):]?\s+")
POINTS_BEHIND = re.compile(r"\s*\((\d[\d,.]*[kK]?) (?:points?|(?:up)?votes?|likes?)\)$")
ABSTRACT_LABEL = re.compile(r"[*_]{0,2}Abstract[*_]{0,2}[:.]?\s+[*_]{0,2}(?=[A-Z])")
WORDS_OF_NAME = 9
LONGEST_NAME, LONGEST_NAMES = 200, 4_000  #: characters
LONG_PARAGRAPH = 200
LONGEST_SUMMARY = 400  #: a shorter abstract on a page of trending papers is an AI summary; in characters
MAX_PASSAGES = 1_000  #: maximum number of passages below a title that may contain its abstract
MIN_PAPERS = 4  #: minimum number of papers from which a page's layout is inferred


@dataclass(kw_only=True, slots=True)
class PaperDraft:
    """A paper that is being assembled from its texts, metadata and links."""

    line: int
    title: str
    abstract: str | None = None
    authors: tuple[str, ...] = ()
    byline: tuple[str, ...] = ()  #: the only name directly below the title, which may be the author
    n_authors: int | None = None
    organization: Organization | None = None
    published: date | None = None
    inferred: bool = False
    signals: dict[str, float] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    urls: list[str] = field(default_factory=list)  #: URLs in addition to those in the abstract
    fault: str = ""

    def record(self, page: PageHeader) -> Record | RecordProblem:
        """Return the finished record, or a problem if the paper cannot be read."""
        if not self.fault and self.abstract is None and len(self.title) > LONGEST_TITLE:
            self.fault = "an abstract with no title above it"
        if self.fault:
            return RecordProblem(line=self.line, reason=self.fault, excerpt=excerpt(self.title))
        urls = dict.fromkeys((*self.urls, *page_layout.urls_in(self.abstract or "")))
        is_summary = page.is_trending and 0 < len(self.abstract or "") < LONGEST_SUMMARY
        authors, number = clean_values.clean_names(self.authors)
        return Record(
            title=self.title,
            abstract=self.abstract or "",
            ids=self.ids,
            authors=authors,
            n_authors=self.n_authors or number,
            organization=self.organization,
            published=self.published,
            published_inferred=self.inferred,
            urls=tuple(urls),
            signals=self.signals,
            summary_by=page_layout.SUMMARY_BY if is_summary else "",
            line=self.line,
        )


def records_of(drafts: Iterable[PaperDraft], page: PageHeader) -> Items:
    """Yield each paper once; trending pages list every paper twice."""
    number = 1
    seen: set[int] = set()
    for draft in drafts:
        bracketed = IN_BRACKETS.fullmatch(draft.title)
        bare = bracketed[1] if bracketed else draft.title
        title = page_layout.without_leading_sign(bare if "]" in bare else bare.lstrip("["))
        draft.title, number = page_layout.without_number(title, number)
        record = draft.record(page)
        if isinstance(record, Record):
            if (key := hash((record.title, record.ids.get("arxiv") or record.abstract))) in seen:
                continue
            seen.add(key)
        yield record


def drafts_of(lines: Sequence[PageLine], found: PageHeader) -> Iterator[PaperDraft]:
    """Yield the papers on the given lines in order."""
    segments = segments_of(passages_of(lines))
    drafts = [draft_of(segment, found) for segment in segments]
    if drafts and is_cut(segments[-1]) and any(draft.abstract for draft in drafts):
        drafts[-1].fault = drafts[-1].fault or "the file ends before this paper's abstract"
    take_bylines(drafts)
    split_votes(drafts)
    split_points(drafts)
    remove_labels(drafts)
    yield from drafts


def take_bylines(drafts: Sequence[PaperDraft]) -> None:
    """Take single names below the titles as authors, if most papers of the page have several authors."""
    if 2 * sum(len(draft.authors) > 1 for draft in drafts) > len(drafts):
        for draft in drafts:
            if not draft.authors and (not draft.organization or draft.organization.name in draft.byline):
                draft.authors, draft.organization = draft.byline, None


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


def is_cut(segment: Segment) -> bool:
    """Return whether a segment has nothing but a title that is not marked as one."""
    (title, *rest) = segment.passages
    return not (rest or title.links or title.heading)


def draft_of(segment: Segment, page: PageHeader) -> PaperDraft:
    """Return the paper of a segment."""
    title = segment.passages[segment.title]
    faults = (f"line {one.number}: {one.fault}" for one in segment.passages if one.fault)
    draft = PaperDraft(line=title.number, title=title.text, fault=next(faults, ""))
    if is_abstract(title.text) and segment.key is None:
        draft.fault = draft.fault or "an abstract with no title above it"
    identify(draft, segment)
    behind = split_title(draft, title, segment)
    draft.byline = (behind,) if field_parsing.is_person_name(behind) else ()
    for passage in segment.passages[: segment.title]:
        apply_found(draft, passage, page, is_above=True)
    for one in (phrases_of(behind) or parse_metadata_line(behind)) if behind else ():
        apply_one(draft, one, page, is_above=False)
        behind = ""
    take_texts(draft, segment, behind)
    for passage in segment.passages[segment.title + 1 :]:
        apply_found(draft, passage, page, is_above=False)
        for link in passage.links if passage.label == "link" else ():
            if (named := id_in(link.url)) is not None:
                draft.ids.setdefault(*named)
            else:
                draft.urls.append(link.url)
    return draft


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
    rest = take_names(draft, rest, segment)
    counts_authors = any(one.has(MetadataKind.AUTHORS) for one in segment.passages)
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
        is_company = draft.organization is None and not (draft.authors or counts_authors)
        if is_company and (named := organization_in(segment, index)):
            draft.organization = named
        elif draft.abstract is None and (
            len(passage.text.split()) > 3 or segment.key is None or passage.text[-1] == "."
        ):
            draft.abstract = passage.text


def take_names(
    draft: PaperDraft, texts: list[tuple[int, Passage]], segment: Segment
) -> list[tuple[int, Passage]]:
    """Store the authors' names in the draft, even if they span several lines; return the other texts.

    Names below other texts must stand together, or directly above the number of authors.
    """
    rest = []
    for index, passage in texts:
        text = passage.text.strip("/ ")  # italics in some wikis
        may_name = len(text) < LONGEST_NAMES and all(
            part.count(" ") < WORDS_OF_NAME * (1 + sum(map(part.count, ",;·"))) for part in (text[:400], text)
        )
        names = field_parsing.person_names(text) if may_name else ()
        if not draft.authors and len(names) > 1:
            draft.authors = names
        else:
            rest.append((index, passage))
    for (is_name, _), group in groupby(
        enumerate(rest), lambda one: (names_person(one[1][1]), one[1][0] - one[0])
    ):
        run = [text for _, text in group] if is_name and not draft.authors else []
        names = tuple(passage.text.strip(" ,&/") for _, passage in run)
        below = segment.passages[run[-1][0] + 1 :][:1] if run else ()
        if len(names) > 1 or any(one.has(MetadataKind.AUTHORS) for one in below):
            draft.authors = names
            return [one for one in rest if one not in run]
        draft.byline = names if run[:1] == rest[:1] else draft.byline
    return rest


def names_person(passage: Passage) -> bool:
    """Return whether a passage is the name of a person, not that of an organisation with a profile."""
    return (
        len(passage.text) < LONGEST_NAME
        and field_parsing.is_person_name(passage.text.strip(" ,&/"))
        and not any(profile_name_in(link.url) for link in passage.links)
    )


def organization_in(segment: Segment, index: int) -> Organization | None:
    """Return the organisation that a passage names, or None."""
    passage = segment.passages[index]
    image = next(filter(None, passage.images), "")
    is_sentence = passage.text.endswith(".") and passage.text.count(" ") > 8
    is_above = any(one.is_text and is_abstract(one.text) for one in segment.passages[index + 1 :])
    is_named = is_organization(segment.passages, index) or not is_above
    if len(passage.text) > LONGEST_ORGANIZATION or is_sentence or not is_named:
        return None
    profiles = [link for link in passage.links if profile_name_in(link.url) and link.label]
    if profiles:
        handle = profile_name_in(profiles[0].url)
        name = (profiles[0].label if profiles[0].is_bounded else passage.text).removeprefix(f"{handle} ")
        return Organization(handle=handle, name=name) if " " in name or image else None
    if not is_organization(segment.passages, index) or (passage.links and not image):
        return None
    if image and not passage.text.startswith(image):
        return Organization(handle=image, name=passage.text)
    return page_layout.organization(BRACKETED_HANDLE.sub(r"\1 \2", passage.text))


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


def profile_name_in(url: str) -> str:
    """Return the name in the URL of a profile page of Hugging Face or of the page's own site, or ""."""
    try:
        parts = urlsplit(url)
    except ValueError:  # for example an incomplete IPv6 address
        return ""
    name = unquote(parts.path.strip("/"))
    plain = parts.hostname in ("huggingface.co", None) and "/" not in name and not parts.query
    return name if plain and name not in ("papers", "login", "join", "") else ""
