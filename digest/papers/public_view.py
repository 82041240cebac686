"""Decide which parts of a paper may be shown publicly.

arXiv publishes its metadata, abstracts included, under CC0 1.0 (https://info.arxiv.org/help/api/tou.html). The
abstracts of other sources belong to their authors or publishers, so these papers are shown without abstracts.
A site that only this machine can reach shows all abstracts. The operator can set another rule for a source.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum

from digest.errors import BadField
from digest.papers.paper_record import Paper

OPEN_SCHEMES = frozenset({"arxiv"})  #: id schemes of repositories whose abstracts may be shown
SOURCE_AND_PART = re.compile(r"(?P<source>\S{1,80})\s+(?P<part>abstract|title|no)")

NO_ARCHIVE = "archive off"


class PublicPart(IntEnum):
    """How much of the papers from one source is shown on pages and in feeds."""

    NO = 0  #: nothing
    TITLE = 1  #: everything except the abstract
    ABSTRACT = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class PublicPages:
    """The operator's rules for pages and feeds: what they show of each source, and whether past lists have pages."""

    parts: Mapping[str, PublicPart] = field(default_factory=dict)
    has_archive: bool = True


def parse_public_pages(text: str) -> PublicPages:
    """Parse a string such as `folder title, internal no, archive off`, or raise BadField."""
    parts, pieces = {}, [piece.strip() for piece in text.split(",") if piece.strip()]
    for piece in pieces:
        match = SOURCE_AND_PART.fullmatch(piece)
        if match is not None:
            parts[match["source"]] = PublicPart[match["part"].upper()]
        elif piece != NO_ARCHIVE:
            raise BadField(
                "DIGEST_PUBLIC",
                f"{piece!r} must be a source followed by abstract, title or no (for example: folder title), or {NO_ARCHIVE}.",
            )
    return PublicPages(parts=parts, has_archive=NO_ARCHIVE not in pieces)


@dataclass(frozen=True, slots=True)
class PublicRules:
    """The rules for showing the papers of each source on pages and in feeds."""

    parts: Mapping[str, PublicPart]  #: the operator's rule for each source
    is_local: bool = False  #: whether only this machine can reach the site

    def part_of(self, paper: Paper) -> PublicPart:
        """Return how much of a paper to show; if its sources have different rules, the most open applies."""
        if paper.is_hidden:
            return PublicPart.NO
        is_open = self.is_local or paper.is_sample or bool(OPEN_SCHEMES & paper.ids.keys())
        usual = PublicPart.ABSTRACT if is_open else PublicPart.TITLE
        return max((self.parts.get(source, usual) for source in paper.sources), default=usual)

    def public_copy(self, paper: Paper) -> Paper | None:
        """Return the public view of the paper, or None if the paper is hidden or may not be shown."""
        match self.part_of(paper):
            case PublicPart.ABSTRACT:
                return paper
            case PublicPart.TITLE:
                return replace(paper, abstract="", summary_by="")
            case _:
                return None

    def public_copies(self, papers: Iterable[Paper]) -> list[Paper]:
        """Return the public views of those papers that may be shown."""
        return [shown for shown in map(self.public_copy, papers) if shown is not None]
