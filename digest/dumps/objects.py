"""JSON as a stream of objects: one a line, the elements of a list, or a single one.

A list is cut into its elements as it is read, so that its length costs no memory. What is too
deep, too long or not JSON is told with its line; NaN and numbers of a thousand digits are nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from digest.dumps.reading import MAX_LINE, Items, Problem, Source, excerpt
from digest.errors import Unreadable
from digest.papers import Record

CHUNK = 1024 * 1024
WHOLE = 32 * 1024 * 1024  #: a single object may be so large
BETWEEN = re.compile(r"[\s,]*")
UNFINISHED = re.compile(r"[\w.+-]*\s*")  #: what a number or a word cut short may look like
KEY = re.compile(r'"([^"\\]{1,40})"\s*:')

Convert = Callable[[dict[str, Any], int, int], Record]
Found = tuple[int, Any]  #: line, and an object or a Problem


def keys_in(head: str) -> frozenset[str]:
    """Return the names that the beginning of a JSON dump uses, or nothing if it is none."""
    return frozenset(KEY.findall(head)) if head.lstrip()[:1] in ("{", "[") else frozenset()


def records(source: Source, convert: Convert, *, at: tuple[str, ...] = ()) -> Items:
    """Yield every object as a record; one that does not fit becomes a problem.

    `at` are the names under which a wrapping object keeps its list.
    """
    position = 0
    for line, found in objects(source, at):
        if isinstance(found, Problem):
            yield found
            continue
        if not isinstance(found, dict):
            yield Problem(line=line, reason="not an object", excerpt=excerpt(str(found)[:200]))
            continue
        try:
            record = convert(found, position + 1, line)
        except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
            yield Problem(line=line, reason=f"a field does not fit: {error}")
            continue
        position += 1
        yield record


def objects(source: Source, at: tuple[str, ...]) -> Iterator[Found]:
    """Yield (line, object) for everything in the dump."""
    head = source.head.lstrip()
    if head.startswith("["):
        yield from elements(source, source.head.index("[") + 1)
        return
    for name in at:
        if opened := re.search(rf'"{name}"\s*:\s*\[', source.head):
            yield from elements(source, opened.end())
            return
    if is_one_a_line(source):
        yield from lines(source)
    else:
        yield 1, single(source)


def is_one_a_line(source: Source) -> bool:
    """Return whether the first line is an object by itself."""
    first = next((text for _, text, fault in source.lines() if text.strip() or fault), "")
    first = first.strip()
    return not first or (first.startswith("{") and first.endswith("}")) or "\n" not in source.head.strip()


def lines(source: Source) -> Iterator[Found]:
    """Yield the object on each line."""
    loads = json.loads
    for number, text, fault in source.lines():
        if fault:
            yield number, Problem(line=number, reason=fault)
        elif text and not text.isspace():
            try:
                yield number, loads(text)
            except (ValueError, RecursionError) as error:
                yield number, Problem(line=number, reason=said(error), excerpt=excerpt(text))


def said(error: Exception) -> str:
    """Return what is wrong with a piece of JSON, in a few words."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, json.JSONDecodeError):
        return f"not JSON: {error.msg} at column {error.colno}"
    return f"not JSON: {error}"


def single(source: Source) -> Any:
    """Return a document that is one object."""
    try:
        return json.loads(source.whole(WHOLE).decode("utf-8-sig"), parse_constant=nothing, parse_int=integer)
    except UnicodeDecodeError as error:
        raise Unreadable(f"It is not UTF-8 (byte {error.start + 1}).") from error
    except RecursionError as error:
        raise Unreadable("It is nested too deeply.") from error
    except json.JSONDecodeError as error:
        raise Unreadable(f"It is not JSON: {error.msg} at line {error.lineno}.") from error


def nothing(_constant: str) -> None:
    """Read NaN and Infinity, which JSON has not, as nothing."""


def integer(digits: str) -> int | None:
    """Read an integer; one of a thousand digits is nothing."""
    return int(digits) if len(digits) < 40 else None


def elements(source: Source, start: int) -> Iterator[Found]:
    """Yield the elements of the list that begins `start` characters into the dump, one by one."""
    decoder = json.JSONDecoder(parse_constant=nothing, parse_int=integer)
    text = Buffer(source, start)
    while True:
        text.skip(BETWEEN)
        if text.rest.startswith("]", text.at):
            return
        if text.at >= len(text.rest):
            if text.more():
                continue
            yield text.line, cut_off(text.line)
            return
        try:
            element, end = decoder.raw_decode(text.rest, text.at)
        except RecursionError:
            raise Unreadable(f"It is nested too deeply (line {text.line}).") from None
        except json.JSONDecodeError as error:
            if len(text.rest) - text.at > MAX_LINE:
                raise Unreadable(
                    f"Line {text.line}: a record is longer than {MAX_LINE // 2**20} MiB."
                ) from None
            place = text.line_of(error.pos)
            if error.pos < len(text.rest) - 16 and not error.msg.startswith("Unterminated"):
                raise Unreadable(f"It is not JSON: {error.msg} at line {place}.") from None
            unfinished = UNFINISHED.fullmatch(text.rest, error.pos) or error.msg.startswith("Unterminated")
            if text.more():
                continue
            if not unfinished:
                raise Unreadable(f"It is not JSON: {error.msg} at line {place}.") from None
            yield text.line, cut_off(text.line)
            return
        if end == len(text.rest) and text.more():
            continue  # a number might go on
        yield text.line, element
        text.advance(end)


def cut_off(line: int) -> Problem:
    """Return the problem of a list that is never closed."""
    return Problem(line=line, reason="the file ends in the middle of its list", is_truncation=True)


class Buffer:
    """A window on the text of a dump, which knows its line."""

    def __init__(self, source: Source, start: int):
        self.stream = source.rewound()
        self.decoder = None
        self.rest = ""
        self.at = 0
        self.line = 1
        self.pending = b""
        while len(self.rest) < start and self.more():
            pass
        self.advance(start)

    def more(self) -> bool:
        """Read on; False at the end."""
        chunk = self.stream.read(CHUNK)
        raw = self.pending + chunk
        try:
            text, self.pending = raw.decode(), b""
        except UnicodeDecodeError as error:
            if error.reason != "unexpected end of data" or not chunk:
                raise Unreadable(f"It is not UTF-8 (after line {self.line}).") from error
            text, self.pending = raw[: error.start].decode(), raw[error.start :]
        if not self.rest:
            text = text.removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}")
        self.rest = self.rest[self.at :] + text
        self.at = 0
        return bool(chunk)

    def skip(self, pattern: re.Pattern[str]) -> None:
        """Pass over what the pattern matches here."""
        found = pattern.match(self.rest, self.at)
        if found:
            self.advance(found.end())

    def advance(self, end: int) -> None:
        """Go on to `end`, counting lines."""
        self.line += self.rest.count("\n", self.at, end)
        self.at = end

    def line_of(self, place: int) -> int:
        """Return the line of a place in the window."""
        return self.line + self.rest.count("\n", self.at, place)
