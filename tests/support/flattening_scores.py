"""Compare the papers read from a copy of a page with the invented papers on the page."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass

from digest.dumps import laws
from digest.dumps.formats import recognition
from digest.dumps.formats.reader_interface import RecordProblem
from digest.errors import UnreadableDump
from digest.papers.paper_record import Record, title_key
from tests.support.paper_pages import PAGE_DAY, SHAPES_WITH_STARS, InventedPaper

MAX_BAD_SHARE = 0.5


@dataclass(frozen=True, kw_only=True, slots=True)
class FlatteningScore:
    """The result of reading a copy of a page."""

    right: int  #: papers of which every field is right
    phantoms: int  #: records that are not papers on the page, or repeat a paper
    refused: str = ""  #: the reason why the copy is not loaded
    wrong: tuple[str, ...] = ()  #: the wrong fields of the other papers

    def __str__(self) -> str:
        return "not loaded" if self.refused else f"{self.right}/{self.phantoms}"


def score(content: str, papers: Sequence[InventedPaper], shape: str) -> FlatteningScore:
    """Read a copy of a page as intake does, and count correct papers and records that are no papers."""
    stream = io.BytesIO(content.encode())
    try:
        found = list(laws.checked(recognition.read(stream, name="copy", observed_on=PAGE_DAY)))
    except UnreadableDump as error:
        return FlatteningScore(right=0, phantoms=0, refused=str(error))
    problems = [one for one in found if isinstance(one, RecordProblem)]
    records = [one for one in found if isinstance(one, Record)]
    bad = sum(not one.is_remark for one in problems)
    doubts = [one.reason for one in problems if one.is_doubt]
    if not records or bad > MAX_BAD_SHARE * len(found) or doubts:
        return FlatteningScore(right=0, phantoms=0, refused=next(iter(doubts), "most records are bad"))
    has_ids = sum(paper.arxiv in content for paper in papers) > len(papers) / 2
    return compare(records, {title_key(paper.title): paper for paper in papers}, shape, has_ids=has_ids)


def compare(
    records: Sequence[Record], papers: dict[str, InventedPaper], shape: str, *, has_ids: bool
) -> FlatteningScore:
    """Return the score of the records of a copy."""
    right, phantoms = 0, 0
    wrong: list[str] = []
    seen: set[str] = set()
    for record in records:
        key = title_key(record.title)
        paper = papers.get(key)
        if paper is None or key in seen:
            phantoms += 1
            wrong.append(f"phantom {record.title[:60]!r}")
            continue
        seen.add(key)
        fields = wrong_fields(record, paper, has_stars=shape in SHAPES_WITH_STARS, has_ids=has_ids)
        right += not fields
        wrong += [f"{record.title[:30]!r}: {name}" for name in fields]
    return FlatteningScore(right=right, phantoms=phantoms, wrong=tuple(wrong))


def wrong_fields(record: Record, paper: InventedPaper, *, has_stars: bool, has_ids: bool) -> list[str]:
    """Return the names of the fields that differ from those of the paper."""
    organization = record.organization.name if record.organization else None
    pairs = {
        "title": (record.title, paper.title),
        "abstract": (record.abstract, paper.abstract),
        "number of authors": (record.n_authors, paper.n_authors),
        "organization": (organization, paper.organization and paper.organization[1]),
        "date": (record.published, paper.published),
        "upvotes": (record.signals.get("upvotes"), paper.upvotes),
        "comments": (record.signals.get("comments"), paper.comments),
        "stars": (record.signals.get("stars"), paper.stars[0] if paper.stars and has_stars else None),
        "id": (record.ids.get("arxiv"), paper.arxiv if has_ids else None),
    }
    return [f"{name} is {found!r}" for name, (found, expected) in pairs.items() if found != expected]
