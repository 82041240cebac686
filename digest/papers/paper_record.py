"""Define papers, their records in dumps, and their keys and links."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

#: What the order of a dump's papers means: popularity, relevance to an unknown query, or nothing.
DumpOrder: TypeAlias = Literal["ranked", "relevance", "none"]
NO_IDS: Mapping[str, str] = MappingProxyType({})
NO_SIGNALS: Mapping[str, float] = MappingProxyType({})


class Announcement(StrEnum):
    """How a dump announces a paper; a paper announced only as a replacement is not shown as new."""

    NEW = "new"  #: announced for the first time
    CROSS = "cross"  #: announced in an additional category
    REPLACED = "replaced"  #: a later version of a paper that was already announced
    WITHDRAWN = "withdrawn"  #: withdrawn by its authors


@dataclass(frozen=True, kw_only=True, slots=True)
class Organization:
    """The organisation that a page names instead of a paper's authors."""

    handle: str
    name: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """A paper as one dump lists it, with unformatted text; a value is inferred only where its field says so."""

    title: str
    abstract: str = ""
    #: normalised ids, keyed by scheme ("arxiv", "doi", "pmid", ...)
    ids: Mapping[str, str] = field(default_factory=lambda: NO_IDS)
    authors: tuple[str, ...] = ()
    n_authors: int | None = None
    organization: Organization | None = None
    published: date | None = None
    published_inferred: bool = False  #: whether the year is inferred, because the dump does not print it
    posted: date | None = None  #: the day on which a page featured the paper
    categories: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    signals: Mapping[str, float] = field(
        default_factory=lambda: NO_SIGNALS
    )  #: "upvotes", "comments", "stars", ...
    announcement: Announcement = Announcement.NEW
    summary_by: str = ""  #: who wrote the AI summary used as the abstract; "" for the authors' own abstract
    comment: str = ""  #: the authors' comment ("12 pages, accepted at ...")
    journal: str = ""
    line: int = 0  #: 1-based line of the title, for error messages


@dataclass(frozen=True, kw_only=True, slots=True)
class Paper:
    """A research paper; all versions of a paper are the same paper."""

    id: int
    title: str
    abstract: str = ""
    summary_by: str = ""  #: who wrote the AI summary used as the abstract; "" for the authors' own abstract
    ids: Mapping[str, str] = field(default_factory=lambda: NO_IDS)
    authors: tuple[str, ...] = ()
    n_authors: int | None = None
    organization: Organization | None = None
    published: date | None = None
    published_inferred: bool = False
    categories: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    signals: Mapping[str, float] = field(default_factory=dict)  #: the latest value of each signal
    announcement: Announcement = Announcement.NEW
    comment: str = ""
    journal: str = ""
    first_seen_at: datetime
    sources: tuple[str, ...] = ()  #: the sources of the dumps that list this paper
    is_sample: bool = False
    is_hidden: bool = False  #: whether the operator hid the paper from pages, feeds and new digests


#: Letters that NFKD does not decompose, with their usual spellings in ASCII.
EXTRA_FOLDS = str.maketrans(
    {"ł": "l", "ø": "o", "ß": "ss", "ı": "i", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ħ": "h"}
)
LETTERS_AND_DIGITS = b"abcdefghijklmnopqrstuvwxyz0123456789"
#: A translation table that replaces everything but these with spaces; much faster than a regular expression.
KEY_TABLE = bytes(code if code in LETTERS_AND_DIGITS else 0x20 for code in range(256))


def fold(text: str) -> str:
    """Return `text` without differences of case, accents and compatibility forms, for comparisons."""
    if text.isascii():
        return text.casefold()
    return unicodedata.normalize("NFKD", text).casefold().translate(FOLD_TABLE)


def is_ignorable(char: str) -> bool:
    """Return whether a character is an accent or is invisible: a soft hyphen, joiner or direction mark."""
    return unicodedata.combining(char) > 0 or unicodedata.category(char) == "Cf"


class FoldTable(dict[int, str | int | None]):
    """A translation table that adds each character on its first use, because most texts use few characters."""

    def __missing__(self, code: int) -> str | int | None:
        found = self[code] = None if is_ignorable(chr(code)) else EXTRA_FOLDS.get(code, code)
        return found


FOLD_TABLE = FoldTable()


def title_key(title: str) -> str:
    """Return the strict key of a title, equal for all its spellings; "" if it has no letters or digits.

    The title is folded, and every run of characters other than ASCII letters and digits becomes one space.
    A title without ASCII letters and digits (Chinese, Russian, ...) keeps its own letters.
    """
    folded = fold(title)
    ascii_key = " ".join(folded.encode("ascii", "replace").translate(KEY_TABLE).decode().split())
    if ascii_key:
        return ascii_key
    return " ".join("".join(char if char.isalnum() else " " for char in folded).split())


# ── links ────────────────────────────────────────────────────────────────────────────

#: The URL templates of the public pages of ids, keyed by scheme.
PAGES_OF_IDS = {
    "doi": "https://doi.org/{}",
    "pmid": "https://pubmed.ncbi.nlm.nih.gov/{}/",
    "openalex": "https://openalex.org/{}",
    "acl": "https://aclanthology.org/{}",
    "s2": "https://www.semanticscholar.org/paper/{}",
}
CODE_HOSTS = ("github.com", "gitlab.com", "bitbucket.org", "codeberg.org", "sr.ht")


@dataclass(frozen=True, kw_only=True, slots=True)
class PaperLinks:
    """The URLs of a paper's abstract, PDF and code; None if unknown."""

    abstract: str | None = None
    pdf: str | None = None
    code: str | None = None


def links_of(paper: Paper) -> PaperLinks:
    """Return the paper's links, built from its ids or else taken from its URLs."""
    urls = [url for url in paper.urls if is_safe(url)]
    code = next((url for url in urls if is_code(url)), None)
    pdf = next((url for url in urls if urlsplit(url).path.endswith(".pdf")), None)
    if arxiv := paper.ids.get("arxiv"):
        return PaperLinks(
            abstract=f"https://arxiv.org/abs/{arxiv}", pdf=f"https://arxiv.org/pdf/{arxiv}", code=code
        )
    abstract = url_of_ids(paper.ids) or next((url for url in urls if url not in (code, pdf)), None)
    return PaperLinks(abstract=abstract, pdf=pdf, code=code)


def url_of_ids(ids: Mapping[str, str]) -> str | None:
    """Return the URL of the first id that has a public page, or None."""
    known = ((page, ids.get(scheme)) for scheme, page in PAGES_OF_IDS.items())
    return next((page.format(name) for page, name in known if name), None)


def is_safe(url: str) -> bool:
    """Return whether `url` is safe to link to: http or https with a host and no unusual characters."""
    if not url.isprintable() or any(char in url for char in " <>\"'\\`"):
        return False
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.username is None


def is_code(url: str) -> bool:
    """Return whether `url` points to a code host."""
    host = (urlsplit(url).hostname or "").removeprefix("www.")
    return host in CODE_HOSTS or any(host.endswith("." + known) for known in CODE_HOSTS)
