"""A paper, and the record of it that a dump holds."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import StrEnum
from types import MappingProxyType

NOTHING: Mapping[str, str] = MappingProxyType({})
NO_SIGNALS: Mapping[str, float] = MappingProxyType({})


class Announcement(StrEnum):
    """How a dump presents a paper; a replacement by itself is never news."""

    NEW = "new"  #: announced for the first time
    CROSS = "cross"  #: listed under a further category
    REPLACED = "replaced"  #: a later version of a paper announced before
    WITHDRAWN = "withdrawn"  #: taken back by its authors


@dataclass(frozen=True, kw_only=True, slots=True)
class Organization:
    """Who stands behind a paper, where a page names them instead of its authors."""

    handle: str
    name: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """A paper as one dump tells of it: raw text, nothing inferred but what is marked so."""

    title: str
    abstract: str = ""
    ids: Mapping[str, str] = field(
        default_factory=lambda: NOTHING
    )  #: scheme ("arxiv", "doi", "pmid", ...) to normalised id
    authors: tuple[str, ...] = ()
    n_authors: int | None = None
    organization: Organization | None = None
    published: date | None = None
    published_inferred: bool = False  #: the year was not printed in the dump
    categories: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    signals: Mapping[str, float] = field(
        default_factory=lambda: NO_SIGNALS
    )  #: "upvotes", "comments", "stars", ...
    announcement: Announcement = Announcement.NEW
    is_summary: bool = False  #: `abstract` is a short summary, never put over a real abstract
    comment: str = ""  #: the authors' remark ("12 pages, accepted at ...")
    journal: str = ""
    position: int = 0  #: 1-based place in the dump
    line: int = 0  #: 1-based line of the title, for error messages


@dataclass(frozen=True, kw_only=True, slots=True)
class Paper:
    """A research paper, identified without its version."""

    id: int
    title: str
    abstract: str = ""
    ids: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    authors: tuple[str, ...] = ()
    n_authors: int | None = None
    organization: Organization | None = None
    published: date | None = None
    published_inferred: bool = False
    categories: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    signals: Mapping[str, float] = field(default_factory=dict)  #: the latest figure of each
    announcement: Announcement = Announcement.NEW
    comment: str = ""
    journal: str = ""
    first_seen_at: datetime
    sources: tuple[str, ...] = ()  #: where dumps with this paper came from
    is_sample: bool = False


#: Letters that NFKD leaves whole; without them keys would not meet those of ASCII sources.
UNDECOMPOSED = str.maketrans(
    {"ł": "l", "ø": "o", "ß": "ss", "ı": "i", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ħ": "h"}
)
NOT_A_LETTER = re.compile(r"[^a-z0-9]+")


def fold(text: str) -> str:
    """Return `text` without case, accents or compatibility forms: what comparisons are made on."""
    decomposed = unicodedata.normalize("NFKD", text).casefold().translate(UNDECOMPOSED)
    return "".join(char for char in decomposed if not unicodedata.combining(char))


def title_key(title: str) -> str:
    """Return the strict key on which two titles are the same paper's; empty if nothing is left of it.

    Folded, every run of anything but letters and digits becomes one space. A title without a
    single ASCII letter (Chinese, Russian, ...) keeps its own letters instead.
    """
    folded = fold(title)
    ascii_key = NOT_A_LETTER.sub(" ", folded).strip()
    if ascii_key:
        return ascii_key
    return " ".join("".join(char if char.isalnum() else " " for char in folded).split())
