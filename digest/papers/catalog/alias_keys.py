"""Compute the keys that identify the paper of a record: its external ids and its strict title key."""

from __future__ import annotations

import hashlib

from digest.papers.identifiers import SCHEMES_BY_STRENGTH
from digest.papers.paper_record import Record, fold, title_key

Key = tuple[str, str]

TITLE_SCHEME = "title"  #: the alias scheme of strict title keys
MAX_KEY_LENGTH = 400

#: Titles that many papers share and that therefore do not identify a paper.
GENERIC_TITLES = frozenset(["abstract", "author correction", "book review", "comment", "commentary", "conclusion", "contents", "correction", "corrections", "corrigendum", "discussion", "editorial", "errata", "erratum", "foreword", "highlights", "in memoriam", "introduction", "letter to the editor", "news", "notes", "obituary", "preface", "publisher correction", "reply", "response", "retraction", "review", "reviews", "summary", "title", "untitled"])  # fmt: skip


def ids_of_record(record: Record) -> list[Key]:
    """Return the ids of a record, the most reliable first."""
    rank = {scheme: place for place, scheme in enumerate(SCHEMES_BY_STRENGTH)}
    return sorted(record.ids.items(), key=lambda item: rank.get(item[0], len(rank)))


def title_alias(record: Record) -> Key | None:
    """Return the strict title key as an alias, or None if the title does not identify a paper."""
    key = title_key(record.title)
    if key in GENERIC_TITLES:
        if record.ids or not record.abstract:
            return None
        key = f"{key} {short_hash(fold(record.abstract))}"
    if len(key) > MAX_KEY_LENGTH:
        key = f"{key[:MAX_KEY_LENGTH]} {short_hash(key)}"
    return (TITLE_SCHEME, key) if key else None


def short_hash(value: str) -> str:
    """Return a short fingerprint of `value`."""
    return hashlib.sha256(value.encode()).hexdigest()[:16]
