"""Rate how well a format reader has read a page, based on the records that it found."""

from __future__ import annotations

import re
from collections.abc import Sequence

from digest.dumps.formats.field_parsing import MONTHS
from digest.dumps.formats.page_layout import LONGEST_TITLE
from digest.dumps.formats.page_metadata import parse_metadata_line
from digest.dumps.formats.page_passages import ID_LINE, SUBMITTER, is_placeholder
from digest.dumps.formats.reader_interface import RecordProblem
from digest.papers import Record, title_key

#: Metadata that a copying tool joined to the abstract above it.
METADATA_AT_END = re.compile(r"\d authors?\s*·|·\s*[A-Z][a-z]{2} \d{1,2}(?:, \d{4})?(?: \d+)?$|\d comments?$")
DATE_AT_END = re.compile(rf"\W\d{{1,2}} {MONTHS} (?:19|20)\d\d$")
LINK = re.compile(r"\[([^\[\]]{0,300})\]\([^()\s]{0,500}\)")
METADATA_IN_TITLE = re.compile(r"\d authors?\s*·")
MIN_AGREEMENT = 0.9
#: A text with fewer characters that does not end with a full stop, `!` or `…` is not an abstract.
SHORTEST_ABSTRACT = 80
LONGEST_SITE_TEXT = 48  #: maximum number of characters in a menu item, a date or a submitter's name


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
