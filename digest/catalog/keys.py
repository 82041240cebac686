"""What a record is known by: its ids of the world, and the strict key of its title."""

from __future__ import annotations

import hashlib

from digest.papers import STRENGTH, Record, fold, title_key

Key = tuple[str, str]

TITLE = "title"  #: the alias scheme of strict title keys
LONGEST_KEY = 400

#: Titles that many papers bear; they say nothing about which paper it is.
GENERIC = frozenset(
    [
        "abstract",
        "author correction",
        "book review",
        "comment",
        "commentary",
        "conclusion",
        "contents",
        "correction",
        "corrections",
        "corrigendum",
        "discussion",
        "editorial",
        "errata",
        "erratum",
        "foreword",
        "highlights",
        "in memoriam",
        "introduction",
        "letter to the editor",
        "news",
        "notes",
        "obituary",
        "preface",
        "publisher correction",
        "reply",
        "response",
        "retraction",
        "review",
        "reviews",
        "summary",
        "title",
        "untitled",
    ]
)


def keys_of(record: Record) -> list[Key]:
    """Return the ids of a record, the strongest first."""
    keys = list(record.ids.items())
    return sorted(keys, key=lambda item: strength(item[0])) if len(keys) > 1 else keys


def strength(scheme: str) -> int:
    """Return how much an id of this scheme decides; less is stronger."""
    return STRENGTH.index(scheme) if scheme in STRENGTH else len(STRENGTH)


def title_alias(record: Record) -> Key | None:
    """Return the strict title key as an alias; None for a title that tells nothing."""
    key = title_key(record.title)
    if key in GENERIC:
        if record.ids or not record.abstract:
            return None
        key = f"{key} {hashed(fold(record.abstract))}"
    if len(key) > LONGEST_KEY:
        key = f"{key[:LONGEST_KEY]} {hashed(key)}"
    return (TITLE, key) if key else None


def hashed(value: str) -> str:
    """Return a short fingerprint of `value`."""
    return hashlib.sha256(value.encode()).hexdigest()[:16]
