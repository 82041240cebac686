"""Name the columns and fields of a dump that hold text and were not used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from digest.dumps.formats.clean_values import clean_text
from digest.dumps.formats.reader_interface import Items, RecordProblem
from digest.papers.paper_record import Record, title_key

MIN_TEXT = 25  #: a value with fewer characters is a number, a code or a word; an address is always named
MAX_NAMED = 8
KEY_LENGTH = 12  #: the beginning of a value, by which it is found in the record; in characters
NAMES = ("author", "authors", "editor", "editors")  #: names, which a record has in another spelling


def remarks(sampled: Sequence[tuple[Mapping[str, Any], Record]]) -> Items:
    """Yield a remark that names the unused fields, the most frequent first."""
    texts: Counter[str] = Counter()
    used: set[str] = set()
    for fields, record in sampled:
        whole = title_key(" ".join(texts_of(record)))
        for name, value in fields.items():
            for text in strings_in(value) if name not in NAMES else ():
                texts[name] += 1
                if name not in used and key_of(text) in whole:
                    used.add(name)
    named = [f"{name} ({number:,})" for name, number in texts.most_common() if name not in used]
    if named:
        more = f" and {len(named) - MAX_NAMED} more" if len(named) > MAX_NAMED else ""
        yield RecordProblem(
            line=0,
            reason=f"not used (number of texts): {', '.join(named[:MAX_NAMED])}{more}",
            is_remark=True,
        )


def key_of(text: str) -> str:
    """Return the beginning of a text, or the end of an address, as it occurs in a record."""
    if "://" in text:
        return title_key(text.partition("?")[0])[-KEY_LENGTH:].strip()
    return title_key(clean_text(text)[: 3 * KEY_LENGTH])[:KEY_LENGTH]


def strings_in(value: Any) -> Iterator[str]:
    """Yield the texts and addresses in a value or a list of values."""
    for one in value if isinstance(value, list) else [value]:
        if isinstance(one, str) and ((len(one) >= MIN_TEXT and " " in one.strip()) or "://" in one):
            yield one


def texts_of(record: Record) -> Iterator[str]:
    """Yield everything that a record has as text."""
    yield from (record.title, record.abstract, record.comment, record.journal)
    yield from (*record.authors, *record.categories, *record.urls, *record.ids.values())
    if record.organization:
        yield record.organization.name
