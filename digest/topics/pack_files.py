"""Read pack files, which contain the named filters that a group shares.

    # The topics of our reading group. Lines like this one are comments.

    pack: lab
    description: Papers for the reading group on Tuesdays.

    nlp = ("language model*" OR "in-context learning" OR ICL)
          ANDNOT ti:survey

    robots = robot* AND (grasping OR manipulation)

Empty lines separate paragraphs. The first paragraph names the pack, and each further paragraph is a filter.
Other filters refer to a filter of the pack as `use:lab/nlp`, or to any of its filters as `use:lab`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from digest.errors import BadFilter, BadPack
from digest.topics.clauses.labels import LONGEST_NAME, NAME
from digest.topics.filter_parser import on_one_line, parse

MAX_CHARACTERS = 50_000  #: maximum number of characters of a pack file
MAX_FILTERS = 100
LONGEST_DESCRIPTION = 500


@dataclass(frozen=True, kw_only=True, slots=True)
class Pack:
    """A pack: named filters that a group of subscribers shares."""

    name: str
    version: int = 0  #: 0 if not published
    description: str = ""
    filters: Mapping[str, str]  #: the canonical filters, keyed by name, in the order of the file
    #: The versions of other packs that this pack used when it was published. A reference to this version of
    #: the pack still uses them.
    dependency_versions: Mapping[str, int] = field(default_factory=dict)
    text: str = ""  #: the content of the pack file


@dataclass(frozen=True, slots=True)
class _PackLine:
    """A line of a pack file."""

    number: int
    text: str

    def refuse(
        self, message: str, start: int = 0, end: int | None = None, *, suggestion: str | None = None
    ) -> NoReturn:
        """Raise BadPack with the position of the error in this line."""
        raise BadPack(
            message,
            line=self.number,
            text=on_one_line(self.text),
            column=start + 1,
            length=max(1, (len(self.text) if end is None else end) - start),
            suggestion=suggestion,
        )


def read(text: str) -> Pack:
    """Read a pack file; raise BadPack with the line and column of an error."""
    if len(text) > MAX_CHARACTERS:
        _PackLine(1, "").refuse(
            f"A pack has at most {MAX_CHARACTERS:,} characters; this file has {len(text):,}."
        )
    paragraphs = list(_paragraphs(text.removeprefix("\ufeff")))
    if not paragraphs:
        _PackLine(1, "").refuse("This pack is empty.", suggestion="pack: lab")
    head, *others = paragraphs
    name, description = _head(head)
    if not others:
        head[-1].refuse("Add a filter below, after an empty line.", suggestion="nlp = LLM OR ICL")
    filters: dict[str, str] = {}
    for paragraph in others:
        called, canonical = _filter(paragraph)
        if called in filters:
            paragraph[0].refuse(f"Two filters are called {called}.", 0, len(called))
        if len(filters) == MAX_FILTERS:
            paragraph[0].refuse(f"A pack has at most {MAX_FILTERS} filters.")
        filters[called] = canonical
    return Pack(name=name, description=description, filters=filters, text=text)


def _paragraphs(text: str) -> Iterator[list[_PackLine]]:
    """Yield the lines of each paragraph, without comments."""
    paragraph: list[_PackLine] = []
    for number, line in enumerate(re.split(r"\r\n|\r|\n", text), start=1):
        if line.lstrip().startswith("#"):
            continue
        if line.strip():
            paragraph.append(_PackLine(number, line))
        elif paragraph:
            yield paragraph
            paragraph = []
    if paragraph:
        yield paragraph


# ── the first paragraph ─────────────────────────────────────────────────────────────────────────

_ENTRY = re.compile(r"(?P<key>[A-Za-z]+)\s*:\s*(?P<value>.*)")


def _head(lines: Iterable[_PackLine]) -> tuple[str, str]:
    """Return the name and the description of a pack."""
    name, described, last = "", [], ""
    first = None
    for line in lines:
        first = first or line
        entry = _ENTRY.match(line.text)
        if entry and entry["key"].lower() == "pack":
            name, last = entry["value"].strip(), "pack"
            _check_name(line, name, entry.start("value"))
        elif entry and entry["key"].lower() == "description":
            described, last = [entry["value"].strip()], "description"
        elif last == "description" and line.text[0].isspace():
            described.append(line.text.strip())
        elif not name:
            line.refuse("A pack begins with its name.", suggestion="pack: lab")
        else:
            line.refuse(
                "The first paragraph may contain only pack: and description:.", suggestion="pack: lab"
            )
    if not name and first:
        first.refuse("A pack begins with its name.", suggestion="pack: lab")
    return name, " ".join(described)[:LONGEST_DESCRIPTION]


def _check_name(line: _PackLine, name: str, start: int) -> None:
    if not re.fullmatch(NAME, name) or len(name) > LONGEST_NAME:
        plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:LONGEST_NAME].strip("-")
        line.refuse(
            f"A name has at most {LONGEST_NAME} characters: lower-case letters and digits, with - . or _ between them.",
            start,
            start + max(1, len(name)),
            suggestion=plain or None,
        )


# ── a filter ────────────────────────────────────────────────────────────────────────────────────

_NAMED = re.compile(r"(?P<name>[^=:()\"]*?)\s*=(?P<filter>.*)", re.DOTALL)


def _filter(lines: list[_PackLine]) -> tuple[str, str]:
    """Return the name and the canonical filter of a paragraph."""
    first = lines[0]
    found = _NAMED.fullmatch(first.text)
    if found is None:
        first.refuse(
            "Begin each filter with a name and an equals sign.", suggestion=f"nlp = {first.text.strip()[:60]}"
        )
    name = found["name"].strip()
    _check_name(first, name, found.start("name"))
    written = "\n".join([found["filter"], *(line.text for line in lines[1:])])
    try:
        return name, parse(written).canonical
    except BadFilter as mistake:
        line, column = _place(lines, found.start("filter"), mistake.column - 1)
        line.refuse(
            mistake.message, column, min(column + mistake.length, max(len(line.text), column + 1)),
            suggestion=mistake.suggestion,
        )  # fmt: skip


def _place(lines: list[_PackLine], indent: int, offset: int) -> tuple[_PackLine, int]:
    """Return the line and the column of an offset in a filter that begins at column `indent`."""
    offset += indent
    for line in lines[:-1]:
        if offset <= len(line.text):
            return line, offset
        offset -= len(line.text) + 1
    return lines[-1], min(offset, len(lines[-1].text))
