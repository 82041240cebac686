"""Rate how well a format reader has read a page, based on the records that it found."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice

from digest.dumps.formats.field_parsing import MONTHS
from digest.dumps.formats.page_layout import LONGEST_TITLE
from digest.dumps.formats.page_metadata import parse_metadata_line
from digest.dumps.formats.page_passages import ID_LINE, SUBMITTER, is_placeholder
from digest.dumps.formats.reader_interface import Items, RecordProblem, excerpt
from digest.papers import Record, title_key

#: Metadata that a copying tool joined to the abstract above it.
METADATA_AT_END = re.compile(r"\d authors?\s*·|·\s*[A-Z][a-z]{2} \d{1,2}(?:, \d{4})?(?: \d+)?$|\d comments?$")
DATE_AT_END = re.compile(rf"\W\d{{1,2}} {MONTHS} (?:19|20)\d\d$")
LINK = re.compile(r"\[([^\[\]]{0,300})\]\([^()\s]{0,500}\)")
METADATA_IN_TITLE = re.compile(r"\d authors?\s*·")
MIN_SIZE = 4_000  #: a page with more bytes than this is checked against `MIN_SHARE`
MIN_SHARE = 0.04  #: minimum share of a page that its titles and abstracts must make up
MIN_AGREEMENT = 0.9
MIN_MARKED = 0.25  #: minimum share of papers that must have an id, a date, a number or a link to a paper
MIN_FAULTS = 3
MAX_FAULTS_SHARE = 0.1  #: maximum share of a page's papers that may have faults
#: A text with fewer characters that does not end with a full stop, `!` or `…` is not an abstract.
SHORTEST_ABSTRACT = 80
LONGEST_SITE_TEXT = 48  #: maximum number of characters in a menu item, a date or a submitter's name
MAX_JUDGED = 5_000  #: only this many items at the beginning of a page are rated


def with_doubts(
    found: Items, *, size: int, announced: int | None = None, may_be_other_text: bool = False
) -> Items:
    """Yield the items of a page, then a problem with the reasons, if any, to suspect a misreading.

    `announced` is the number of papers that the page says it lists. Set `may_be_other_text` for a reader
    that also finds titles and abstracts in texts that list no papers.
    """
    judged = list(islice(found, MAX_JUDGED))
    yield from judged
    used = sum(text_length(one) for one in judged)
    papers = sum(isinstance(one, Record) for one in judged)
    for one in found:
        used += text_length(one)
        papers += isinstance(one, Record)
        yield one
    reasons = [
        doubt_about(judged, used=used, size=size),
        miscount(papers, announced),
        repeated_ids_text(judged),
        other_text(judged) if may_be_other_text else "",
    ]
    if reason := "; ".join(filter(None, reasons)):
        yield RecordProblem(line=0, reason=reason, is_remark=True, is_doubt=True)


def with_repeated_ids(found: Items, *, may_be_other_text: bool = False) -> Items:
    """Yield the items of a list, then a problem if many papers share ids or few look like papers."""
    judged = list(islice(found, MAX_JUDGED))
    yield from judged
    yield from found
    reasons = [repeated_ids_text(judged), other_text(judged) if may_be_other_text else ""]
    if reason := "; ".join(filter(None, reasons)):
        yield RecordProblem(line=0, reason=reason, is_remark=True, is_doubt=True)


def other_text(found: Sequence[Record | RecordProblem]) -> str:
    """Return a sentence if too few papers have an id, a date or another sign of a paper; else return ""."""
    papers = [one for one in found if isinstance(one, Record)]
    marked = sum(map(is_marked, papers))
    if not papers or marked >= MIN_MARKED * len(papers):
        return ""
    return (
        f"only {marked:,} of its {len(papers):,} papers have an id, a date, a number or a link to a paper, "
        f'so that it may be another text, for example on line {papers[0].line}: "{excerpt(papers[0].title)}"'
    )


def is_marked(paper: Record) -> bool:
    """Return whether a paper has a value that ordinary text does not have, such as an id or a date."""
    return bool(
        paper.ids
        or paper.published
        or paper.signals
        or paper.organization
        or (paper.n_authors and not paper.authors)
        or paper.journal
        or any(url.endswith(".pdf") for url in paper.urls)
    )


def miscount(papers: int, announced: int | None) -> str:
    """Return a sentence if far more or fewer papers were found than announced, or an empty string."""
    if announced is None or abs(papers - announced) <= max(MIN_FAULTS - 1, MAX_FAULTS_SHARE * announced):
        return ""
    return f"the page says that it lists {announced:,} papers, but {papers:,} were found"


def repeated_ids_text(found: Sequence[Record | RecordProblem]) -> str:
    """Return a sentence about ids that several papers share, or an empty string if few papers share ids."""
    papers = [one for one in found if isinstance(one, Record)]
    repeated = list(repeated_ids(papers))
    if len(repeated) < MIN_FAULTS or len(repeated) <= MAX_FAULTS_SHARE * len(papers):
        return ""
    scheme, value, first, second = repeated[0]
    return (
        f"{len(repeated):,} of its {len(papers):,} papers have the id of a paper with another title, for example {scheme} {value}"
        f' on line {first.line} ("{excerpt(first.title)}") and line {second.line} ("{excerpt(second.title)}")'
    )


def repeated_ids(papers: Sequence[Record]) -> Iterator[tuple[str, str, Record, Record]]:
    """Yield (scheme, id, first paper, later paper) for papers that share an id but have different titles."""
    first: dict[tuple[str, str], Record] = {}
    for one in papers:
        for scheme, value in one.ids.items():
            known = first.setdefault((scheme, value), one)
            if known is not one and title_key(known.title) != title_key(one.title):
                yield scheme, value, known, one
                break


def text_length(found: Record | RecordProblem) -> int:
    """Return the length of a paper's title and abstract, or 0 for a problem."""
    return len(found.title) + len(found.abstract) if isinstance(found, Record) else 0


def doubt_about(found: Sequence[Record | RecordProblem], *, used: int, size: int) -> str:
    """Return the reason why a page may have been misread, or an empty string."""
    papers = [one for one in found if isinstance(one, Record)]
    is_whole = not any(isinstance(one, RecordProblem) and one.reason.startswith("line ") for one in found)
    if is_whole and papers and size > MIN_SIZE and used < MIN_SHARE * size:
        return f"its titles and abstracts make up only {used:,} of the {size:,} characters"
    faults = faults_in(found)
    if not faults:
        return ""
    wrong = sum(is_site_text(one.title) or is_glued(one) or has_stub(one) for one in papers)
    is_nothing = 2 * wrong >= len(papers) > 0
    if not is_nothing and (faults < MIN_FAULTS or faults <= MAX_FAULTS_SHARE * len(papers)):
        return ""
    worst = next(faulty(papers), None)
    sample = f', for example on line {worst.line}: "{excerpt(worst.title)}"' if worst else ""
    return f"{faults:,} of its {len(found):,} papers lack a title or abstract of their own, contain parts of the page or contradict its counts{sample}"


def faulty(papers: Sequence[Record]) -> Iterator[Record]:
    """Yield the papers without an abstract or with a wrong title or abstract, the worst first."""
    seen: set[str] = set()
    yield from (one for one in papers if is_site_text(one.title))
    for one in papers:
        key = title_key(one.title)
        if not one.abstract or key in seen or is_glued(one) or has_surplus_authors(one) or has_stub(one):
            yield one
        seen.add(key)


def appraise(found: Sequence[Record | RecordProblem]) -> tuple[int, int]:
    """Return a sort key that is greater for fewer faults and, if the faults are equal, for more fields."""
    return -faults_in(found), sum(fields_of(one) for one in found if isinstance(one, Record))


def papers_lost(theirs: Sequence[Record | RecordProblem], ours: Sequence[Record | RecordProblem]) -> int:
    """Return the number of papers with metadata that are in `theirs` but not in `ours`.

    Returns 0 if fewer than 90% of the papers in `ours` have the same title and abstract in `theirs`.
    """
    found = {(one.title, one.abstract) for one in theirs if isinstance(one, Record)}
    papers = [one for one in ours if isinstance(one, Record)]
    if sum((one.title, one.abstract) in found for one in papers) < MIN_AGREEMENT * len(papers):
        return 0
    kept = {title_key(one.title) for one in papers}
    others = [one for one in theirs if isinstance(one, Record) and title_key(one.title) not in kept]
    return sum(has_metadata(one) and not is_site_text(one.title) for one in others)


def has_doubts(found: Sequence[Record | RecordProblem]) -> bool:
    """Return whether the papers read from a page have faults, or have signals that may be misassigned."""
    return faults_in(found) > 0 or any(isinstance(one, Record) and one.signals for one in found)


def faults_in(found: Sequence[Record | RecordProblem]) -> int:
    """Return the number of faults in what was read: problems, missing abstracts, repeated titles, ..."""
    papers = [one for one in found if isinstance(one, Record)]
    repeated = len(papers) - len({one.title.casefold() for one in papers})
    bare = sum(not one.abstract for one in papers)
    bare = bare if bare < len(papers) else 0  # some pages list only titles
    alone = sum(not has_metadata(one) for one in papers)
    alone = alone if 3 * alone < len(papers) else 0  # some pages have no metadata
    glued = sum(map(is_glued, papers))
    return (
        repeated
        + bare
        + glued
        + alone
        + sum(map(has_surplus_authors, papers))
        + sum(map(has_stub, papers))
        + sum(is_site_text(one.title) for one in papers)
        + sum(isinstance(one, RecordProblem) and not one.is_remark for one in found)
        + (not papers)
    )


def has_metadata(paper: Record) -> bool:
    """Return whether a paper has more than a title and an abstract."""
    return bool(paper.published or paper.signals or paper.ids or paper.n_authors or paper.organization)


def is_glued(paper: Record) -> bool:
    """Return whether the copy joined metadata to a paper's title or abstract, or the abstract to the title."""
    return (
        len(paper.title) > LONGEST_TITLE
        or ("·" in paper.title and METADATA_IN_TITLE.search(paper.title) is not None)
        or (paper.abstract[-1:] not in ".!?" and METADATA_AT_END.search(paper.abstract[-60:]) is not None)
    )


def has_surplus_authors(paper: Record) -> bool:
    """Return whether a paper names more authors than the page says it has."""
    return paper.n_authors is not None and len(paper.authors) > paper.n_authors


def has_stub(paper: Record) -> bool:
    """Return whether a paper has only a short text, such as a title, instead of an abstract."""
    return 0 < len(paper.abstract) < SHORTEST_ABSTRACT and paper.abstract[-1] not in ".!…"


def is_site_text(title: str) -> bool:
    """Return whether a title is in fact text of the site: a menu word, a symbol, an image or a submitter."""
    title = LINK.sub(r"\1", title) if "](" in title else title
    return (
        is_placeholder(title)
        or (len(title) <= LONGEST_SITE_TEXT and bool(SUBMITTER.match(title) or parse_metadata_line(title)))
        or (title[-1:].isdigit() and DATE_AT_END.search(title[-30:]) is not None)
        or (":" in title and ID_LINE.fullmatch(title) is not None)
        or not any(char.isalpha() for char in title)
    )


def fields_of(paper: Record) -> int:
    """Return the number of fields that a paper has."""
    optional = (paper.abstract, paper.published, paper.n_authors or paper.organization)
    return sum(map(bool, optional)) + len(paper.ids) + len(paper.signals) + bool(paper.authors)
