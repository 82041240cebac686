"""Split a copied page into one segment per paper: by headings, labels or addresses, or else by the abstracts.

Text before the first paper and after the last paper belongs to the site.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from urllib.parse import parse_qs, unquote, urlsplit

from digest.dumps.formats import field_parsing
from digest.dumps.formats.page_lines import PageLink
from digest.dumps.formats.page_metadata import MetadataKind
from digest.dumps.formats.page_passages import Passage
from digest.papers.identifiers import id_in

LONGEST_TITLE = 350
SURE_ABSTRACT = 240  #: number of characters below which a text is an abstract only if it ends like a sentence
SHORTEST_ABSTRACT = 100
LONGEST_ORGANIZATION = 120
LONGEST_CITING_TITLE = 150
FOOTER = frozenset("previous|next|system theme|company|tos|terms|privacy|careers|back to top|about|website|models".split("|"))  # noqa: SIM905  # fmt: skip
#: The address of every paper contains at least one of these strings.
ADDRESS_PARTS = ("/papers/", "%2F", "xiv", "doi", "id=", "/10.", "acl", "pubmed")

PaperKey = tuple[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Segment:
    """The passages of one paper."""

    passages: Sequence[Passage]
    title: int  #: the title's index in `passages`
    key: PaperKey | None = None  #: the id in the paper's own address


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """Consecutive passages that link to the same paper."""

    key: PaperKey
    first: int
    last: int
    marks: int = 1


def segments_of(passages: Sequence[Passage]) -> list[Segment]:
    """Return the segments of a page in order."""
    runs = runs_of(passages)
    titles = sorted(set(titles_of(passages, runs)))  # a text may link to two papers
    if not titles:
        return []
    has_votes = precedes_with_number(passages, titles[0])
    leads = bool(runs) and runs[0].first < titles[0]  # whether a paper's address is above its title
    starts, low = [], 0
    for title in titles:
        starts.append(lead_start(passages, title, low, has_votes=has_votes, leads=leads))
        low = title + 1
    last = max([titles[-1], *(run.last for run in runs), *abstracts_of(passages)])
    ends = [*starts[1:], end_of_list(passages, last)]
    return [
        Segment(
            passages=passages[start:end], title=title - start, key=own_key(passages[start:end], title - start)
        )
        for title, start, end in zip(titles, starts, ends, strict=True)
    ]


def titles_of(passages: Sequence[Passage], runs: Sequence[Run]) -> list[int]:
    """Return the indices of the titles: headings, labelled or linked texts, or the texts above the abstracts."""
    abstracts = abstracts_of(passages)
    papers = len({run.key for run in runs})
    level = heading_level(passages)
    texts = [index for index, one in enumerate(passages) if one.is_text]
    headed = [
        index
        for index in texts
        if passages[index].heading and (passages[index].heading == level or any(keys_in(passages[index])))
    ]
    linked_headings = [index for index in headed if any(keys_in(passages[index]))]
    if headed[1:] and linked_headings == headed[1:]:
        headed = linked_headings  # the first heading is that of the page
    labelled = [index for index in texts if passages[index].label == "title"]
    for marked in (labelled, headed):
        if marked and 2 * len(marked) >= max(len(abstracts), papers):
            return marked
    linked = list(linked_titles(passages, runs)) if 2 * papers >= len(abstracts) else []
    if linked and (2 * len(linked) >= papers or not abstracts):
        return linked
    return titles_above(passages, abstracts)


# ── addresses ───────────────────────────────────────────────────────────────────────────────────


def paper_key(url: str) -> PaperKey | None:
    """Return the paper's id in the address of a paper page, a comments page or a voting page."""
    if len(url) > 1000 or not any(part in url for part in ADDRESS_PARTS):
        return None
    if "next=" in url:
        url = unquote(url.partition("next=")[2])
    path = url.partition("#")[0]
    if "/papers/" in path and "huggingface.co" not in path:
        path = "https://huggingface.co/papers/" + path.partition("/papers/")[2]
    return id_in(path) or forum_key(path)


def forum_key(url: str) -> PaperKey | None:
    """Return the id in an address of OpenReview."""
    if "openreview.net/" not in url:
        return None
    try:
        named = parse_qs(urlsplit(url).query).get("id", [""])[0]
    except ValueError:
        return None
    return ("openreview", named) if named else None


def keys_in(passage: Passage) -> Iterator[PaperKey]:
    """Yield the papers to which a passage links, unless it only cites them."""
    for link in passage.links:
        key = paper_key(link.url)
        if key is not None and not is_cited(passage, link):
            yield key


def is_cited(passage: Passage, link: PageLink) -> bool:
    """Return whether a link is inside a longer text, such as an abstract that links to another paper."""
    if not passage.is_text or passage.heading:
        return False
    inner = len(link.label)
    is_whole = passage.text.startswith(link.label[:60]) and inner > 0
    return not is_whole and len(passage.text) > LONGEST_CITING_TITLE and 2 * inner < len(passage.text)


def own_key(passages: Sequence[Passage], title: int) -> PaperKey | None:
    """Return the key of a segment's paper: that of its title, or else the first one."""
    ordered = (passages[title], *passages)
    return next((key for passage in ordered for key in keys_in(passage)), None)


def runs_of(passages: Sequence[Passage]) -> list[Run]:
    """Return the runs of a page, without citations, such as a single link between two runs of another paper."""
    marks = [
        Run(key=key, first=index, last=index)
        for index, passage in enumerate(passages)
        if passage.links
        for key in keys_in(passage)
    ]
    runs = merged_runs(marks)
    count = Counter(run.key for run in runs)
    return merged_runs(
        run
        for index, run in enumerate(runs)
        if not (
            0 < index < len(runs) - 1
            and runs[index - 1].key == runs[index + 1].key
            and count[run.key] == run.marks == 1
        )
    )


def merged_runs(runs: Iterable[Run]) -> list[Run]:
    """Return the runs with adjacent runs of one paper joined."""
    merged = []
    for _, group in groupby(runs, key=lambda run: run.key):
        members = list(group)
        merged.append(replace(members[0], last=members[-1].last, marks=sum(one.marks for one in members)))
    return merged


def linked_titles(passages: Sequence[Passage], runs: Sequence[Run]) -> Iterator[int]:
    """Yield the title of each run that has one: its first text with the paper's address that is no abstract."""
    for run in runs:
        for index in range(run.first, run.last + 1):
            passage = passages[index]
            if (
                passage.is_text
                and passage.label not in ("abstract", "authors")
                and run.key in keys_in(passage)
                and (not is_abstract(passage.text) or begins_with_link(passage, run.key))
            ):
                yield index
                break


def begins_with_link(passage: Passage, key: PaperKey) -> bool:
    """Return whether a passage begins with a short link to its paper, as in `[Title](address): a summary`."""
    return any(
        paper_key(link.url) == key
        and link.is_bounded
        and len(link.label) < min(LONGEST_TITLE, len(passage.text))
        and passage.text.startswith(link.label)
        for link in passage.links
        if link.label
    )


# ── around the titles ───────────────────────────────────────────────────────────────────────────


def is_vote(passage: Passage) -> bool:
    """Return whether a passage is a number that may be the upvote count of the paper below."""
    kinds = {one.kind for one in passage.found}
    return bool(kinds) and kinds <= {MetadataKind.COUNT, MetadataKind.UPVOTE, MetadataKind.UPVOTES}


def precedes_with_number(passages: Sequence[Passage], first: int) -> bool:
    """Return whether a number precedes the first paper.

    If so, the number before each title is the number of that paper's upvotes.
    """
    for passage in reversed(passages[max(0, first - 8) : first]):
        if is_vote(passage):
            return True
        if not (passage.is_submitter or passage.is_site):
            return False
    return False


def lead_start(passages: Sequence[Passage], first: int, low: int, *, has_votes: bool, leads: bool) -> int:
    """Return the index of a paper's first passage: its title, or the votes, submitter or address above it."""
    start, votes = first, 0
    for index in range(first - 1, low - 1, -1):
        passage = passages[index]
        if passage.is_submitter or (
            leads and passage.is_site and is_new(passages[max(0, low - 1) : index], passage)
        ):
            start = index
        elif is_vote(passage) and has_votes and not votes:
            start, votes = index, 1
        elif not passage.is_site:
            break
    return start


def is_new(above: Sequence[Passage], passage: Passage) -> bool:
    """Return whether a passage links to a paper to which none of the passages above it links."""
    key = next(keys_in(passage), None)
    return key is not None and all(key not in keys_in(one) for one in above)


def end_of_list(passages: Sequence[Passage], last: int) -> int:
    """Return the index of the first passage below the list that belongs to the site."""
    for index in range(last + 1, len(passages)):
        passage = passages[index]
        if passage.is_site and passage.text.casefold().strip("* -#") in FOOTER:
            return index
        if passage.heading and index > last + 1:
            return index
    return len(passages)


def heading_level(passages: Sequence[Passage]) -> int:
    """Return the most common level of the page's headings, or 0 if the page has no headings."""
    levels = Counter(passage.heading for passage in passages if passage.heading and passage.is_text)
    return levels.most_common(1)[0][0] if levels else 0


# ── without addresses ───────────────────────────────────────────────────────────────────────────


def is_abstract(text: str) -> bool:
    """Return whether `text` is long enough for an abstract."""
    if len(text) >= SURE_ABSTRACT:
        return True
    return len(text) >= SHORTEST_ABSTRACT and text.rstrip("\"”')")[-1:] in ".!" and text.count(" ") > 14


def abstracts_of(passages: Sequence[Passage]) -> list[int]:
    """Return the indices of the abstracts, and of unreadable lines, which may be abstracts.

    A short sentence below a title is an abstract if metadata follows, or if the page has no longer texts.
    """
    texts = [index for index, one in enumerate(passages) if one.fault or (one.is_text and not one.heading)]
    has_long = any(is_abstract(passages[index].text) for index in texts)
    return [
        index
        for index in texts
        if passages[index].fault
        or is_abstract(passages[index].text)
        or is_summary(passages, index, is_alone=not has_long)
    ]


def is_summary(passages: Sequence[Passage], index: int, *, is_alone: bool) -> bool:
    """Return whether a passage is a sentence between a title and metadata, or a long one below a title."""
    text = passages[index].text
    if (
        index == 0
        or text[-1] != "."
        or not passages[index - 1].is_text
        or passages[index - 1].text[-1] == "."
    ):
        return False
    below = passages[index + 1 : index + 2]
    is_dated = bool(below) and below[0].has(MetadataKind.AUTHORS, MetadataKind.DOT, MetadataKind.DATE)
    return is_dated or (is_alone and text.count(" ") > 7)


def titles_above(passages: Sequence[Passage], abstracts: Sequence[int]) -> list[int]:
    """Return the indices of the titles above the given abstracts; an abstract without a title is one itself.

    Of several texts above an abstract, the last one is its title; if there is usually only one, all are titles.
    """
    regions: list[tuple[int, list[int]]] = []
    low = 0
    for place in abstracts:
        region = range(low, place)
        names = [i for i in region if is_title_like(passages, i)]
        others = [i for i in names if not is_organization(passages, i)] or names
        others = above_byline(passages, others)
        is_paragraph = all(passages[i].is_site for i in region) and not passages[place].fault
        if not low or others or not is_paragraph:
            regions.append((low, others or [place]))
        low = place + 1
    is_usual = 2 * sum(len(others) == 1 for _, others in regions) >= len(regions)
    titles = [
        i
        for start, others in regions
        for i in others
        if i == others[-1]
        or lacks_abstract(passages, i, start)
        or (start and is_usual and not passages[i].links and passages[i + 1].is_text)
    ]
    rest = range(low, end_of_list(passages, low)) if abstracts else range(0)
    titles += [i for i in rest if is_title_like(passages, i) and lacks_abstract(passages, i, low)]
    last = len(passages) - 1
    if (
        last in rest
        and last not in titles
        and is_title_like(passages, last)
        and passages[last].text[-1] != "."
    ):
        titles.append(last)  # the file ends in a paper
    return titles


def above_byline(passages: Sequence[Passage], texts: list[int]) -> list[int]:
    """Return the texts above the first list of names, or all texts if none is above such a list."""
    if len(texts) == 1:
        return texts
    named = (place for place, i in enumerate(texts) if len(field_parsing.person_names(passages[i].text)) > 1)
    return texts[: next(named, 0)] or texts


def is_title_like(passages: Sequence[Passage], index: int) -> bool:
    """Return whether a passage may be a title."""
    passage = passages[index]
    return (
        passage.is_text
        and passage.label not in ("abstract", "authors")
        and len(passage.text) <= LONGEST_TITLE
        and any(map(str.isalpha, passage.text))
    )


def is_organization(passages: Sequence[Passage], index: int) -> bool:
    """Return whether a passage above a date or a middle dot is the name of an organisation or a person."""
    below = passages[index + 1 : index + 3]
    is_linked = len(below) > 1 and below[0].is_site and bool(below[0].links) and not any(keys_in(below[0]))
    after = below[1] if is_linked else next(iter(below), None)
    is_short = len(passages[index].text) <= LONGEST_ORGANIZATION
    is_dated = after is not None and after.has(MetadataKind.DOT, MetadataKind.DATE)
    return is_dated and is_short and after is not None and not after.has(MetadataKind.AUTHORS)


def lacks_abstract(passages: Sequence[Passage], index: int, low: int) -> bool:
    """Return whether a passage is the title of a paper without an abstract.

    The number of authors directly follows such a title. The end of an abstract is no title.
    """
    text = passages[index].text
    if not (index + 1 < len(passages) and passages[index + 1].has(MetadataKind.AUTHORS)):
        return False
    is_new = low == 0 or any(
        passages[i].has(MetadataKind.DATE, MetadataKind.AUTHORS) for i in range(low, index)
    )
    return is_new or not (text[-1] in ".!" or "://" in text)
