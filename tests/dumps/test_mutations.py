"""Mutations of dumps in every format and of copies of pages: papers or a reason each, in little memory."""

from __future__ import annotations

import os
import random
import resource
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import settings

from tests.dumps.test_hostile import GOOD, read_whatever
from tests.support import paper_pages

#: Mutations of each format, as many as the profile has examples.
MUTATIONS = settings().max_examples * (100 if os.environ.get("JUDGE") == "full" else 2)
MAX_SIZE = 200_000  #: bytes
MAX_GROWTH = 150  #: MiB that the peak of memory may rise after the first mutations
WARM_UP = 5
COPIES = sorted(paper_pages.FOLDER.glob("*/*.txt"))
PIECES = (
    "\n", "\n\n", " ", "\t", "\r\n", "\0", "\ufeff", "\u2028", "·", "•", "-", "[", "]", "](", "![", "<", ">", "</", "<a ", "<!--",
    "&", "&#0;", "{", "}", '"', "\\", "|", "|-|", "#", "### ", "* ", "> ", "1. ", "12 authors", "Nov 3 2", "http://", "@article{",
    "TY  - ", "https://arxiv.org/abs/2611.00001", "<https://huggingface.co/papers/2611.00001>", "null", "9" * 400, "\x1b[2J", "é",
)  # fmt: skip


def mutated(format: str, chance: random.Random) -> bytes:
    """Return a good dump of a format after some random changes."""
    content = original(format, chance)
    for _ in range(chance.randint(1, 5)):
        content = chance.choice((cut, copied, filled, swapped, spliced, truncated))(content, chance)[
            :MAX_SIZE
        ]
    raw = bytearray(content.encode(chance.choice(("utf-8",) * 6 + ("utf-16", "latin-1")), errors="replace"))
    for _ in range(chance.choice((0, 0, 1, 20)) if raw else 0):
        raw[chance.randrange(len(raw))] = chance.randrange(256)
    return bytes(raw)


def original(format: str, chance: random.Random) -> str:
    """Return a good dump of a format; for pages, the copy that a random tool made."""
    return chance.choice(COPIES).read_text() if format == "page" else GOOD[format]


def span(content: str, chance: random.Random) -> tuple[int, int]:
    """Return the bounds of a random part."""
    first = chance.randrange(len(content) + 1)
    return first, min(len(content), first + chance.choice((1, 10, 100, 1000)))


def cut(content: str, chance: random.Random) -> str:
    """Remove a part."""
    first, last = span(content, chance)
    return content[:first] + content[last:]


def copied(content: str, chance: random.Random) -> str:
    """Repeat a part, perhaps very often."""
    first, last = span(content, chance)
    return content[:first] + content[first:last] * chance.choice((2, 20, 1000)) + content[last:]


def filled(content: str, chance: random.Random) -> str:
    """Insert a piece, perhaps very often."""
    place = chance.randrange(len(content) + 1)
    return content[:place] + chance.choice(PIECES) * chance.choice((1, 30, 10_000)) + content[place:]


def swapped(content: str, chance: random.Random) -> str:
    """Change the order of the lines."""
    lines = content.splitlines(keepends=True)
    for _ in range(chance.choice((1, 10))):
        one, other = chance.randrange(len(lines) or 1), chance.randrange(len(lines) or 1)
        lines[one : one + 1], lines[other : other + 1] = lines[other : other + 1], lines[one : one + 1]
    return "".join(lines)


def spliced(content: str, chance: random.Random) -> str:
    """Insert a part of a dump in another format."""
    other = original(chance.choice(sorted(GOOD)), chance)
    first, last = span(other, chance)
    place = chance.randrange(len(content) + 1)
    return content[:place] + other[first:last] + content[place:]


def truncated(content: str, chance: random.Random) -> str:
    """Remove the end."""
    return content[: chance.randrange(len(content) + 1)] + "\n"


@contextmanager
def named(mutation: str) -> Iterator[None]:
    """Add the name of a mutation to the errors that it causes."""
    try:
        yield
    except Exception as error:
        error.add_note(mutation)
        raise


def peak_memory() -> float:
    """Return the peak of this process's memory in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@pytest.mark.parametrize("format", sorted(GOOD))
def test_every_mutation_is_read_or_refused_in_little_memory(format: str) -> None:
    first_peak = 0.0

    for number in range(MUTATIONS):
        content = mutated(format, random.Random(f"{format} {number}"))
        with named(f"mutation {number} of {format}"):
            read_whatever(content, None)
            read_whatever(content, format)
        if number == WARM_UP:
            first_peak = peak_memory()

    assert peak_memory() - first_peak < MAX_GROWTH
