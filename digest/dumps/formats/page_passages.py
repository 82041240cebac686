"""Join the lines of a copied page into passages: texts, and metadata such as dates and counts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from digest.dumps.formats.page_lines import PageLine, PageLink
from digest.dumps.formats.page_metadata import (
    MetadataKind,
    MetadataLine,
    is_navigation,
    is_plain,
    labelled_address,
    labelled_authors,
    labelled_text,
    parse_metadata,
    parse_metadata_line,
    split_name_and_metadata,
    without_emphasis,
)
from digest.dumps.formats.page_wrapping import (
    HEADING,
    LIST_MARK,
    LONG_LINE,
    URL_LINE,
    Wrapping,
    continues,
    join,
    wrapping_of,
)
from digest.papers.identifiers import normalised_id

HEADING_END = re.compile(r" ?\{[^{}]{0,300}\}$")
QUOTE = re.compile(r"^(?:>\s?)+")
SIGNS = re.compile(r"[\W_]*")
CHECKBOX = re.compile(r"^[-*]?\s*(?:\[[ xX_]?\]|\(\)|[☐☑☒])\s*")
#: The texts that copying tools write in place of an image or a form field.
PLACEHOLDER = re.compile(
    r"\W*(?:[\w.-]{1,30}(?:['’]s)?\s)?(?:(?:paper|article|user|author|profile|social)\s)?"
    r"(?:thumbnails?|avatars?|img|inline|image|logo|icon|photo|picture|checkbox|button)\W*\d{0,4}\W*",
    re.IGNORECASE,
)
SUBMITTER = re.compile(r"submitted by(?:\s+(?P<name>\S.{0,60}))?", re.IGNORECASE)
#: A date and the number of comments that a tool joined to it: `Nov 32` is 3 November with 2 comments.
DATE_AND_COMMENTS = re.compile(r"\b([A-Z][a-z]{2} (?:\d{1,2}, (?:19|20)\d\d|[12]\d|3[01]|\d))(\d+)$")
#: A line such as `[1] arXiv:2611.01234 [pdf, html]` in a listing.
ID_LINE = re.compile(
    r"\W{0,4}(?:\[?\d{1,4}[\].]?\s*)?arXiv:\s?(\d{4}\.\d{4,5})(?:v\d+)?\s*(?:\(cross-list[^()]{0,60}\)\s*)?(?:\[[^\[\]]{0,120}\]?)?",
    re.IGNORECASE,
)
#: The end of such a line that a tool wrapped.
ID_LINE_END = re.compile(r"(?:\W*\b(?:pdf|html|other|ps|format|v\d))+\W*", re.IGNORECASE)
DIGIT = re.compile(r"\d")
ID_ADDRESSES = {"arxiv": "https://arxiv.org/abs/", "doi": "https://doi.org/"}
CAPTIONS = {
    "github": MetadataKind.STARS,
    "stars": MetadataKind.STARS,
    "upvote": MetadataKind.UPVOTES,
    "upvotes": MetadataKind.UPVOTES,
    "votes": MetadataKind.UPVOTES,
    "likes": MetadataKind.UPVOTES,
    "comments": MetadataKind.COMMENTS,
}
UNITS = {word: kind for word, kind in CAPTIONS.items() if word != "github"} | {"comment": MetadataKind.COMMENTS, "author": MetadataKind.AUTHORS, "authors": MetadataKind.AUTHORS}  # fmt: skip
MAX_WORDS = 24  #: maximum number of words in a line of metadata
LONGEST_WORDS = 40  #: maximum number of characters of metadata without a digit
MAX_TITLE_LINES = 3
LONGEST_BYLINE = 60
LONGEST_PHRASE = 7  #: words


@dataclass(kw_only=True, slots=True)
class Passage:
    """Text of a paper, a line of metadata, or text of the site around the papers."""

    first: int  #: the index of the passage's first line
    last: int
    number: int  #: the number of the passage's first line in the file
    text: str = ""
    found: tuple[MetadataLine, ...] = ()
    links: list[PageLink] = field(default_factory=list)
    images: list[str] = field(default_factory=list)
    lines: tuple[str, ...] = ()  #: the lines of the passage, if there are several
    heading: int = 0  #: the level of the heading; 0 for other passages
    label: str = ""  #: "title", "abstract" or "authors" if the page labels the passage so
    fault: str = ""
    is_site: bool = False
    is_submitter: bool = False

    @property
    def is_text(self) -> bool:
        """Return whether the passage is text of a paper: not metadata, a fault or text of the site."""
        return not (self.found or self.fault or self.is_site or self.is_submitter)

    def has(self, *kinds: MetadataKind) -> bool:
        """Return whether the passage has metadata of one of these kinds."""
        return any(one.kind in kinds for one in self.found)


def passages_of(lines: Sequence[PageLine]) -> list[Passage]:
    """Return the passages of a page in order."""
    split = list(with_captions(split_passages(lines, wrapping_of(lines))))
    bylines = [
        part for index, one in enumerate(split) for part in without_byline(one, split[index + 1 : index + 2])
    ]
    return list(with_titles(bylines))


def with_titles(passages: Sequence[Passage]) -> Iterator[Passage]:
    """Yield the passages; if dates are usually below titles, split titles off the ends of abstracts."""
    long = [index for index, one in enumerate(passages) if one.is_text and len(one.text) > LONG_LINE]
    below = sum(index > 0 and passages[index - 1].has(MetadataKind.DATE) for index in long)
    for index, passage in enumerate(passages):
        is_dated = stands_above_date(passages[index + 1 : index + 3])
        if passage.lines and is_dated and 2 * below > len(long) and len(passage.text) > LONG_LINE:
            yield from without_title(passage)
        else:
            yield passage


def stands_above_date(after: Sequence[Passage]) -> bool:
    """Return whether the first of these passages has a date, or the second if the first is a name."""
    is_named = len(after) > 1 and after[0].is_text and after[0].first == after[1].first
    return bool(after) and (after[0].has(MetadataKind.DATE) or (is_named and after[1].has(MetadataKind.DATE)))


def without_title(passage: Passage) -> tuple[Passage, ...]:
    """Split the next title off the end of an abstract, if the line above that title ends a sentence."""
    if passage.text.endswith("."):
        return (passage,)
    for start in range(len(passage.lines) - 1, max(0, len(passage.lines) - MAX_TITLE_LINES - 1), -1):
        above = passage.lines[start - 1]
        if above.endswith((".", "!", "?", ".)", '."')) or URL_LINE.fullmatch(above.rsplit(" ", 1)[-1]):
            first = passage.first + start
            links = [link for link in passage.links if link.first >= first]
            kept = [link for link in passage.links if link.first < first]
            abstract = replace(
                passage, text=join(passage.lines[:start]), last=first - 1, links=kept, lines=()
            )
            title = Passage(
                first=first, last=passage.last, number=passage.number + start, text=join(passage.lines[start:]), links=links
            )  # fmt: skip
            return (abstract, title)
    return (passage,)


def without_byline(passage: Passage, after: Sequence[Passage]) -> tuple[Passage, ...]:
    """Split the byline off the last line of a passage, if that line has a date or precedes a middle dot."""
    name = passage.lines[-1] if passage.lines else ""
    if not (passage.is_text and 0 < len(name) < LONGEST_BYLINE < len(passage.text)):
        return (passage,)
    text = passage.text[: -len(name)].rstrip()
    is_complete = text[-1:] in ".!?)\"'" or "://" in text[-80:]
    named, found = split_name_and_metadata(name)
    is_name = found or (bool(after) and after[0].has(MetadataKind.DOT) and name[-1] not in ".!?")
    if not (is_complete and is_name):
        return (passage,)
    kept = [link for link in passage.links if link.last < passage.last]
    links = [link for link in passage.links if link not in kept]
    byline = Passage(
        first=passage.last, last=passage.last, number=passage.number, text=named or name, links=links
    )
    whole = replace(passage, text=text, last=passage.last - 1, links=kept, lines=())
    return (whole, byline, replace(byline, text="", found=found, links=[])) if found else (whole, byline)


def split_passages(lines: Sequence[PageLine], wrapping: Wrapping) -> Iterator[Passage]:
    """Yield a passage for each line of metadata and each text, joining the lines of a wrapped text."""
    text: list[int] = []
    for index, line in enumerate(lines):
        if text and not continues(lines, text, index, wrapping):
            yield from finished(lines, text)
            text = []
        if line.fault:
            yield Passage(first=index, last=index, number=line.number, fault=line.fault)
            continue
        cleaned = QUOTE.sub("", line.text, count=1) if line.text.startswith(">") else line.text
        cleaned = cleaned if text or cleaned[:1].isalnum() else CHECKBOX.sub("", cleaned, count=1)
        if not cleaned:
            if line.links:
                yield Passage(first=index, last=index, number=line.number, links=line.links, is_site=True)
            continue
        others = () if text else other_passages(line, index, cleaned)
        if others:
            yield from others
        elif text or not (SIGNS.fullmatch(cleaned) or PLACEHOLDER.fullmatch(cleaned[:60])):
            text.append(index)
    if text:
        yield from finished(lines, text)


def finished(lines: Sequence[PageLine], indices: list[int]) -> tuple[Passage, ...]:
    """Return the passages of joined lines: a text, or metadata that a tool wrapped."""
    passage = text_passage(lines, indices)
    if len(indices) > 1 and len(passage.text) < LONG_LINE:
        whole = replace(lines[indices[0]], text=passage.text, inside=passage.links, links=passage.links)
        if others := other_passages(whole, indices[0], passage.text):
            return tuple(replace(one, last=indices[-1], images=passage.images) for one in others)
    return (passage,)


def text_passage(lines: Sequence[PageLine], indices: list[int]) -> Passage:
    """Return the passage for the text on these lines."""
    first = lines[indices[0]]
    text = join([lines[index].text for index in indices])
    heading = None
    if not text[0].isalnum():
        text = QUOTE.sub("", text, count=1)
        if heading := HEADING.match(text):
            text = HEADING_END.sub("", text[heading.end() :].rstrip("# ")).rstrip("# ")
        text = LIST_MARK.sub("", CHECKBOX.sub("", text, count=1), count=1)
    label, labelled = labelled_text(text)
    return Passage(
        first=indices[0],
        last=indices[-1],
        number=first.number,
        text=labelled or text,
        label=label,
        links=[link for index in indices for link in lines[index].links],
        images=[alt for index in indices for alt in lines[index].images],
        lines=tuple(lines[index].text for index in indices) if len(indices) > 1 else (),
        heading=len(heading[1]) if heading else 0,
    )


def other_passages(line: PageLine, index: int, text: str) -> tuple[Passage, ...]:  # noqa: PLR0911, PLR0912  (one return for each kind)
    """Return the passages on a line that is not prose."""
    names = labelled_authors(text) if len(text) > LONG_LINE else ()
    if not names and (len(text) > LONG_LINE or is_plain(text)):
        return ()
    base = Passage(
        first=index, last=index, number=line.number, links=line.links, images=line.images, text=text
    )
    if names:
        return (replace(base, text=", ".join(names), label="authors"),)
    if HEADING.match(text):
        return (replace(base, is_site=True),) if is_navigation(HEADING.sub("", text)) else ()
    if submitter := SUBMITTER.fullmatch(text):
        return (replace(base, is_submitter=True, text=submitter["name"] or ""),)
    bare = LIST_MARK.sub("", text, count=1)
    if is_navigation(text) or (bare != text and is_navigation(bare)) or ID_LINE_END.fullmatch(text):
        return (replace(base, is_site=True),)
    if found := metadata_of(text, line):
        *others, last = found
        is_button = bool(line.inside) and figure_kind(line.inside[-1]) is last.kind is MetadataKind.UPVOTES
        if not (others and is_button):
            return (replace(base, found=found),)
        return replace(base, found=tuple(others), links=line.links[:-1]), replace(
            base, found=(last,), links=line.links[-1:]
        )
    if names := labelled_authors(text):
        return (replace(base, text=", ".join(names), label="authors"),)
    if (named := ID_LINE.fullmatch(text)) is not None:
        link = PageLink(label="", url=f"https://arxiv.org/abs/{named[1]}", first=index, last=index)
        return (replace(base, links=[link], is_site=True),)
    if (address := URL_LINE.fullmatch(text)) is not None:
        link = PageLink(label="", url=address[1], first=index, last=index)
        return (replace(base, links=[*line.links, link], is_site=True),)
    if links := labelled_links(line, index, text):
        return (replace(base, links=links, is_site=True, label="link"),)
    return name_and_metadata(base, text)


def labelled_links(line: PageLine, index: int, text: str) -> list[PageLink]:
    """Return the links on a line such as `Code: https://github.com/x/y` or `arXiv: 2611.01234`."""
    kind, address = labelled_address(text)
    if url := URL_LINE.fullmatch(address):
        return [PageLink(label="", url=url[1], first=index, last=index)]
    known = normalised_id(kind, address) if kind in ("arxiv", "doi") and not line.links else None
    if known is not None:
        return [PageLink(label="", url=ID_ADDRESSES[kind] + known[1], first=index, last=index)]
    return line.links if kind else []


def name_and_metadata(base: Passage, text: str) -> tuple[Passage, ...]:
    """Split a line such as `NAME · DATE · COUNT` into the organisation's name and the metadata; else return ()."""
    name, found = split_name_and_metadata(text)
    if found:
        name = LIST_MARK.sub("", name, count=1)
        return replace(base, text=name), replace(base, found=found, links=[], text="")
    return ()


def metadata_of(text: str, line: PageLine) -> tuple[MetadataLine, ...]:
    """Return the metadata that a line consists of; links determine the meaning of the numbers in them."""
    if text == "-" and (line.images or any(len(link.label) > 12 for link in line.inside)):
        return ()  # the bullet of a list
    before, text, after = linked_figures(text, line)
    if len(text) > LONGEST_WORDS and not DIGIT.search(text):
        return ()
    found = parse_metadata_line(text) or phrases_of(text)
    return (*before, *found, *after) if found or not text.strip(" ·|-") else ()


def linked_figures(text: str, line: PageLine) -> tuple[list[MetadataLine], str, list[MetadataLine]]:
    """Return the figures in links at the beginning and at the end of a line, and the text between them."""
    before: list[MetadataLine] = []
    after: list[MetadataLine] = []
    for link in reversed(line.inside):
        kind = figure_kind(link)
        if kind is MetadataKind.COMMENTS and not link.has_start and (glued := DATE_AND_COMMENTS.search(text)):
            return [], f"{glued[1]} {glued[2]}", []
        figure = parse_metadata(link.label) if kind and link.label else None
        if kind is None or figure is None or figure.kind is not MetadataKind.COUNT:
            continue
        if text.endswith(link.label):
            text = text[: -len(link.label)].rstrip()
            after.insert(0, replace(figure, kind=kind))
        elif text.startswith(link.label):
            text = text[len(link.label) :].lstrip()
            before.insert(0, replace(figure, kind=kind))
    return before, text, after


def figure_kind(link: PageLink) -> MetadataKind | None:
    """Return what the number in a link counts: upvotes in the link of the button, or comments."""
    if "/login" in link.url:
        return MetadataKind.UPVOTES
    return MetadataKind.COMMENTS if "#community" in link.url or "#comments" in link.url else None


def phrases_of(text: str) -> tuple[MetadataLine, ...]:
    """Return the metadata of a line that consists of phrases without anything between them."""
    if len(text) > LONG_LINE:
        return ()
    words = without_emphasis(text).replace("·", " · ").replace("|", " | ").split()
    if not 1 < len(words) <= MAX_WORDS or not DIGIT.search(text):
        return ()
    found: list[MetadataLine] = []
    start = 0
    while start < len(words):
        if words[start] in ("·", "|", "•", ",", "-"):
            start += 1
            continue
        for end in range(min(len(words), phrase_end(words, start)), start, -1):
            if (one := parse_metadata(" ".join(words[start:end]))) is not None:
                found.append(one)
                start = end
                break
        else:
            return ()
    return tuple(found)


def phrase_end(words: Sequence[str], start: int) -> int:
    """Return the greatest possible end index (exclusive) of the phrase that begins at `start`.

    In `6 GitHub 3.29k`, the first number is a separate phrase.
    """
    is_apart = words[start + 1 : start + 2] == ["GitHub"] and words[start + 2 : start + 3]
    return start + (1 if is_apart and words[start + 2][0].isdigit() else LONGEST_PHRASE)


def with_captions(passages: Iterator[Passage]) -> Iterator[Passage]:  # noqa: PLR0912, PLR0915  (a state machine over passages)
    """Yield the passages, joining each number with the caption above or below it."""
    caption: MetadataKind | None = None
    before: Passage | None = None
    for passage in passages:
        if before is not None and before.text == "-" and passage.has(MetadataKind.AUTHORS):
            before = None  # a list bullet
        word = passage.text.casefold().rstrip(":")
        is_caption = word in CAPTIONS and (passage.is_text or passage.has(MetadataKind.UPVOTE))
        if before is not None and word in UNITS and passage.is_text and is_number(before):
            yield replace(before, found=(replace(before.found[0], kind=UNITS[word]),))
            before, caption = None, None
            continue
        pointed = next(filter(None, map(figure_kind, passage.links)), None) if passage.is_site else None
        if before is not None and pointed:
            before = replace(before, found=(replace(before.found[0], kind=pointed),))
        elif pointed and not passage.text:
            caption = pointed
            yield passage
            continue
        if before is not None:
            yield before
            before = None
        if is_caption:
            caption = CAPTIONS[word]
            yield replace(passage, is_site=True, found=())
            continue
        if caption is not None and passage.found and passage.found[0].kind is MetadataKind.COUNT:
            first, *rest = passage.found
            passage = replace(passage, found=(replace(first, kind=caption), *rest))  # noqa: PLW2901
        caption = caption if passage.is_site else None
        if is_number(passage):
            before = passage
        else:
            yield passage
    if before is not None:
        yield before


def is_number(passage: Passage) -> bool:
    """Return whether a passage is a number without a caption."""
    return len(passage.found) == 1 and passage.found[0].kind is MetadataKind.COUNT
