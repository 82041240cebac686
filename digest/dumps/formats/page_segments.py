"""Split a copied page into one segment per paper: by the papers' own addresses, or else by their abstracts.

Text before the first paper and after the last paper belongs to the site.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from urllib.parse import parse_qs, unquote, urlsplit

from digest.dumps.formats import field_parsing
from digest.dumps.formats.page_lines import PageLink
from digest.dumps.formats.page_metadata import MetadataKind
from digest.dumps.formats.page_passages import Passage
from digest.papers import id_in

LONGEST_TITLE = 350
SURE_ABSTRACT = 240  #: number of characters below which a text is an abstract only if it ends like a sentence
SHORTEST_ABSTRACT = 100
LONGEST_ORGANIZATION = 120
LONGEST_CITING_TITLE = 150
FOOTER = frozenset("previous|next|system theme|company|tos|terms|privacy|careers|back to top|about|website|models".split("|"))  # noqa: SIM905  # fmt: skip
#: The address of every paper contains at least one of these strings.
ADDRESS_PARTS = ("/papers/", "%2F", "xiv", "doi", "id=", "/10.", "acl", "pubmed")

MIN_RUNS = 4  #: minimum number of addresses that show a page's layout

PaperKey = tuple[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Segment:
    """The passages of one paper."""

    passages: Sequence[Passage]
    title: int | None  #: the title's index in `passages`; None without a title
    key: PaperKey | None = None  #: the id in the paper's own address


@dataclass(kw_only=True, slots=True)
class Run:
    """Consecutive passages that link to the same paper."""

    key: PaperKey
    first: int
    last: int
    marks: int = 1


def segments_of(passages: Sequence[Passage]) -> list[Segment]:
    """Return the segments of a page in order."""
    runs = runs_of(passages)
    papers = len({run.key for run in runs})
    abstracts = sum(passage.is_text and is_abstract(passage.text) for passage in passages)
    if papers and 2 * papers >= abstracts:
        if follow_papers(passages, runs):
            return segments_above_addresses(passages, runs)
        return segments_by_address(passages, runs)
    return segments_by_abstract(passages)


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


def is_cited(passage: Passage, link: PageLink) -> bool:
    """Return whether a link is inside a longer text, such as an abstract that links to another paper."""
    if not passage.is_text or passage.heading:
        return False
    inner = len(link.label)
    is_whole = passage.text.startswith(link.label[:60]) and inner > 0
    return not is_whole and len(passage.text) > LONGEST_CITING_TITLE and 2 * inner < len(passage.text)


def runs_of(passages: Sequence[Passage]) -> list[Run]:
    """Return the runs of a page, without citations, such as a single link between two runs of another paper."""
    runs: list[Run] = []
    for index, passage in enumerate(passages):
        for link in passage.links:
            key = paper_key(link.url)
            if key is None or is_cited(passage, link):
                continue
            if runs and runs[-1].key == key:
                runs[-1].last = index
                runs[-1].marks += 1
            else:
                runs.append(Run(key=key, first=index, last=index))
    return merged_runs(without_citations(runs))


def without_citations(runs: list[Run]) -> list[Run]:
    """Return the runs without single addresses between two runs of one paper."""
    count = Counter(run.key for run in runs)
    return [
        run
        for index, run in enumerate(runs)
        if not (
            0 < index < len(runs) - 1
            and runs[index - 1].key == runs[index + 1].key
            and count[run.key] == run.marks == 1
        )
    ]


def merged_runs(runs: list[Run]) -> list[Run]:
    """Return the runs with adjacent runs of one paper joined."""
    merged = []
    for key, group in groupby(runs, key=lambda run: run.key):
        members = list(group)
        merged.append(
            Run(
                key=key,
                first=members[0].first,
                last=members[-1].last,
                marks=sum(one.marks for one in members),
            )
        )
    return merged


def segments_by_address(passages: Sequence[Passage], runs: Sequence[Run]) -> list[Segment]:
    """Return a segment for each run, with the passages around it that have no address of their own."""
    has_votes = precedes_with_number(passages, runs[0].first)
    starts = []
    for index, run in enumerate(runs):
        low = runs[index - 1].last + 1 if index else 0
        starts.append(lead_start(passages, run.first, low, has_votes=has_votes))
    ends = [*starts[1:], end_of_list(passages, runs[-1].last)]
    leveled = heading_level(passages)
    segments = []
    for run, start, end in zip(runs, starts, ends, strict=True):
        own = passages[start:end]
        segments.append(Segment(passages=own, title=linked_title(own, run.key, leveled), key=run.key))
    return segments


def follow_papers(passages: Sequence[Passage], runs: Sequence[Run]) -> bool:
    """Return whether each address is on a separate line below its paper's abstract."""
    starts = [0, *(run.last + 1 for run in runs)]
    return len(runs) >= MIN_RUNS and all(
        run.first == run.last
        and passages[run.first].is_site
        and any(one.is_text and is_abstract(one.text) for one in passages[start : run.first])
        for run, start in zip(runs, starts, strict=False)
    )


def segments_above_addresses(passages: Sequence[Passage], runs: Sequence[Run]) -> list[Segment]:
    """Return a segment for each address: the passages from the title above the address to the address."""
    starts = [0, *(run.last + 1 for run in runs)]
    level = heading_level(passages)
    segments = []
    for run, start in zip(runs, starts, strict=False):
        own = passages[start : run.last + 1]
        headings = [i for i, one in enumerate(own) if level and one.heading == level and one.is_text]
        first = start + next(reversed(headings or titles_above_abstracts(own)), 0)
        segments.append(Segment(passages=passages[first : run.last + 1], title=0, key=run.key))
    return segments


def linked_title(passages: Sequence[Passage], key: PaperKey, level: int) -> int | None:
    """Return the index of the title: a heading, the first text with the paper's address, or the first text."""
    texts = [
        index
        for index, passage in enumerate(passages)
        if passage.is_text and passage.label not in ("abstract", "authors")
    ]
    short = [index for index in texts if len(passages[index].text) <= LONGEST_TITLE]
    labelled = [index for index in texts if passages[index].label == "title"]
    headings = [index for index in short if level and passages[index].heading == level]
    linked = [index for index in texts if any(paper_key(link.url) == key for link in passages[index].links)]
    brief = [
        index
        for index in linked
        if not is_abstract(passages[index].text) or begins_with_link(passages[index], key)
    ]
    return next(iter([*labelled, *headings, *brief, *[i for i in short if not is_abstract(passages[i].text)]]), None)  # fmt: skip


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
    for passage in reversed(passages[max(0, first - 8) : first + 1]):
        if is_vote(passage):
            return True
        if not (passage.is_submitter or passage.is_site or (passage is passages[first] and passage.is_text)):
            return False
    return False


def lead_start(passages: Sequence[Passage], first: int, low: int, *, has_votes: bool) -> int:
    """Return the index of a paper's first passage: its title, or the votes or submitter above the title."""
    start, votes = first, 0
    for index in range(first - 1, low - 1, -1):
        passage = passages[index]
        if passage.is_submitter:
            start = index
        elif is_vote(passage) and has_votes and not votes:
            start, votes = index, 1
        elif not passage.is_site:
            break
    return start


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


def segments_by_abstract(passages: Sequence[Passage]) -> list[Segment]:
    """Return a segment for each title; a title is found above each abstract."""
    titles = titles_above_abstracts(passages)
    if not titles:
        return []
    has_votes = precedes_with_number(passages, titles[0])
    starts, low = [], 0
    for title in titles:
        starts.append(lead_start(passages, title, low, has_votes=has_votes))
        low = title + 1
    last = max(
        (i for i, one in enumerate(passages) if one.is_text and is_abstract(one.text)), default=titles[-1]
    )
    ends = [*starts[1:], end_of_list(passages, max(last, titles[-1]))]
    return [
        Segment(passages=passages[start:end], title=title - start)
        for title, start, end in zip(titles, starts, ends, strict=True)
    ]


def titles_above_abstracts(passages: Sequence[Passage]) -> list[int]:
    """Return the indices of the titles of a page without addresses."""
    level = heading_level(passages)
    headed = [i for i, one in enumerate(passages) if level and one.heading == level and one.is_text]
    abstracts = [
        i for i, one in enumerate(passages) if one.is_text and is_abstract(one.text) and not one.heading
    ]
    if headed and 2 * len(headed) >= len(abstracts):
        return headed
    titles: list[int] = []
    low = 0
    for place in abstracts:
        region = range(low, place)
        names = [i for i in region if is_title_like(passages, i)]
        others = [i for i in names if not is_organization(passages, i)] or names
        others = above_byline(passages, others)
        if low and is_paragraph(passages, low, place) and (not others or place == low):
            low = place + 1
            continue
        if others:
            titles += [i for i in others[:-1] if lacks_abstract(passages, i, low)]
            titles.append(others[-1])
        else:
            titles.append(place)
        low = place + 1
    rest = range(low, end_of_list(passages, low)) if abstracts else ()
    return titles + [i for i in rest if is_title_like(passages, i) and lacks_abstract(passages, i, low)]


def above_byline(passages: Sequence[Passage], texts: list[int]) -> list[int]:
    """Return the texts above the first list of names, or all texts if none is above such a list."""
    named = (place for place, i in enumerate(texts) if len(field_parsing.person_names(passages[i].text)) > 1)
    return texts[: next(named, 0)] or texts


def is_title_like(passages: Sequence[Passage], index: int) -> bool:
    """Return whether a passage may be a title."""
    passage = passages[index]
    return (
        passage.is_text
        and passage.label not in ("abstract", "authors")
        and len(passage.text) <= LONGEST_TITLE
    )


def is_organization(passages: Sequence[Passage], index: int) -> bool:
    """Return whether a passage above a date or a middle dot is the name of an organisation or a person."""
    after = passages[index + 1] if index + 1 < len(passages) else None
    is_short = len(passages[index].text) <= LONGEST_ORGANIZATION
    is_dated = after is not None and after.has(MetadataKind.DOT, MetadataKind.DATE)
    return is_dated and is_short and after is not None and not after.has(MetadataKind.AUTHORS)


def is_paragraph(passages: Sequence[Passage], low: int, place: int) -> bool:
    """Return whether only text of the site is between two texts, so that both belong to one abstract."""
    return all(passages[i].is_site for i in range(low, place))


def lacks_abstract(passages: Sequence[Passage], index: int, low: int) -> bool:
    """Return whether a passage is the title of a paper without an abstract.

    The number of authors directly follows such a title, and the previous paper's metadata, if any, precedes
    the title.
    """
    counts_authors = index + 1 < len(passages) and passages[index + 1].has(MetadataKind.AUTHORS)
    return counts_authors and (
        low == 0 or any(passages[i].has(MetadataKind.DATE, MetadataKind.AUTHORS) for i in range(low, index))
    )
