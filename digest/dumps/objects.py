"""JSON as a stream of objects: one a line, the elements of a list, or one after another.

A list is cut into its elements as it is read, so that its length costs no memory. An object that is
no paper is looked through for the papers in it. What is too deep, too long or not JSON is told with
its line; NaN and numbers of a thousand digits are nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from digest.dumps.reading import MAX_LINE, Header, Items, Problem, Source, cut_at_the_end, excerpt
from digest.errors import Unreadable
from digest.papers import Record

CHUNK = 1024 * 1024
WHOLE = 32 * 1024 * 1024  #: a single object may be so large
BETWEEN = re.compile(r"[\s,\x1e]*")  #: values, the sign of a JSON text sequence included
UNFINISHED = re.compile(r"[\w.+-]*\s*")  #: what a number or a word cut short may look like
FENCE = " \t\r,\x1e"  #: what may stand around the object on a line
TITLES = ("title", "paper_title")
KEY = re.compile(r'"([^"\\]{1,40})"\s*:')

LIST = re.compile(r"\[")
LONGEST_OPENING = 5_000  #: characters between the beginning of an object and that of its list
DEEPEST = 4  #: objects within objects that are looked through for papers

Convert = Callable[[dict[str, Any], int, int], Record]
Found = tuple[int, Any]  #: line, and an object or a Problem


def keys_in(head: str) -> frozenset[str]:
    """Return the names that the beginning of a JSON dump uses, or nothing if it is none."""
    return frozenset(KEY.findall(head)) if head.lstrip()[:1] in ("{", "[") else frozenset()


def read(source: Source, convert: Convert, *, at: tuple[str, ...] = ()) -> tuple[Header, Items]:
    """Return the header, and every object as a record.

    `at` are the names under which a wrapping object keeps its list; one that is empty is a quiet day.
    """
    header = Header(announced=0 if is_empty(source.head, at) else None)
    return header, cut_at_the_end(converted(objects(source, at), convert))


def is_empty(head: str, at: tuple[str, ...]) -> bool:
    """Return whether the dump is a list of nothing, and no complaint."""
    if "".join(head.split()) == "[]":
        return True
    named = list_in(head, at) if head.lstrip().startswith("{") else None
    return bool(named and re.match(r"\s*\]", head[named.end() :]) and not re.search(r'"errors?"\s*:', head))


def list_in(head: str, at: tuple[str, ...]) -> re.Match[str] | None:
    """Return where the list begins that a wrapping object keeps under the first of these names."""
    return next(filter(None, (re.search(rf'"{name}"\s*:\s*\[', head) for name in at)), None)


def converted(found_objects: Iterable[Found], convert: Convert) -> Items:
    """Yield every object as a record; one that does not fit becomes a problem."""
    position = 0
    for line, found in found_objects:
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
        yield from values(source, source.head.index("[") + 1, again=LIST)
    elif is_one_a_line(source):
        yield from looked_through(lines(source))
    elif opened := list_in(source.head, at):
        again = re.compile(rf'\}}\s*\{{.{{0,4000}}?"(?:{"|".join(at)})"\s*:\s*\[', re.DOTALL)
        yield from values(source, opened.end(), again=again)
    else:
        yield from looked_through(values(source, 0))


def looked_through(found_objects: Iterable[Found]) -> Iterator[Found]:
    """Yield the objects, and in the place of one that is no paper those in it."""
    for line, found in found_objects:
        if isinstance(found, dict) and "title" not in found:
            for paper in papers_in(found) or [found]:
                yield line, paper
        else:
            yield line, found


def is_one_a_line(source: Source) -> bool:
    """Return whether the first line is an object by itself, or lost, and there are more lines."""
    filled = ((text.strip(FENCE), fault) for _, text, fault in source.lines() if text.strip() or fault)
    two = list(islice(filled, 2))
    first, fault = two[0] if two else ("", "")
    return len(two) > 1 and (bool(fault) or (first.startswith("{") and first.endswith("}")))


def papers_in(found: Any, depth: int = 0) -> list[Any]:
    """Return the papers that an object holds which is none itself: in a list, or under a name each."""
    if not isinstance(found, dict) or has_title(found) or depth > DEEPEST:
        return []
    named = titled(found.values())
    if named:
        return named if len(named) > 1 else []  # one is the inner part of what we have
    for value in found.values():
        if isinstance(value, list) and any(
            has_title(one) or titled(one.values()) for one in only_objects(value)
        ):
            return value
    return next(filter(None, (papers_in(value, depth + 1) for value in found.values())), [])


def titled(values: Iterable[Any]) -> list[Any]:
    """Return the objects among some values that have a title."""
    return [one for one in only_objects(values) if has_title(one)]


def only_objects(values: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Yield the objects among some values."""
    return (one for one in values if isinstance(one, dict))


def has_title(found: Mapping[str, Any]) -> bool:
    """Return whether an object has a title of its own."""
    return any(key.casefold() in TITLES and isinstance(value, str) for key, value in found.items())


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
                is_cut = breaks_off(error, text)
                problem = Problem(
                    line=number, reason=said(error), excerpt=excerpt(text), is_truncation=is_cut
                )
                yield number, unfenced(text) or problem


def breaks_off(error: Exception, text: str) -> bool:
    """Return whether what is wrong with a piece of JSON is that its end is missing."""
    if not isinstance(error, json.JSONDecodeError):
        return False
    return error.msg.startswith("Unterminated") or error.pos >= len(text.rstrip())


def unfenced(text: str) -> Any:
    """Return the object on a line with a comma behind it or a record separator before it; None for another fault."""
    bare = text.strip(FENCE)
    try:
        return json.loads(bare) if bare and bare != text else None
    except (ValueError, RecursionError):
        return None


def said(error: Exception) -> str:
    """Return what is wrong with a piece of JSON, in a few words."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, json.JSONDecodeError):
        return f"not JSON: {error.msg.removesuffix(' starting at')} at column {error.colno}"
    return f"not JSON: {error}"


def nothing(_constant: str) -> None:
    """Read NaN and Infinity, which JSON has not, as nothing."""


def integer(digits: str) -> int | None:
    """Read an integer; one of a thousand digits is nothing."""
    return int(digits) if len(digits) < 40 else None


def values(source: Source, start: int, *, again: re.Pattern[str] | None = None) -> Iterator[Found]:
    """Yield the values from `start` characters into the dump on, one by one: to the end, or to that of their list.

    `again` is how a further list begins behind such a list, as when several answers were put into one file.
    """
    is_list = again is not None
    longest = MAX_LINE if is_list else WHOLE
    decoder = json.JSONDecoder(parse_constant=nothing, parse_int=integer)
    text = Buffer(source, start)
    while True:
        text.skip(BETWEEN)
        if again and text.rest.startswith("]", text.at):
            text.advance(text.at + 1)
            if text.skip_to(again):
                continue
            return
        if text.at >= len(text.rest):
            if text.more():
                continue
            if is_list:
                yield text.line, cut_off(text.line, "its list")
            return
        try:
            element, end = decoder.raw_decode(text.rest, text.at)
        except RecursionError:
            raise Unreadable(f"It is nested too deeply (line {text.line}).") from None
        except json.JSONDecodeError as error:
            if len(text.rest) - text.at > longest:
                raise Unreadable(
                    f"Line {text.line}: a record is longer than {longest // 2**20} MiB."
                ) from None
            place = text.line_of(error.pos)
            if error.pos < len(text.rest) - 16 and not error.msg.startswith("Unterminated"):
                raise Unreadable(f"It is not JSON: {error.msg} at line {place}.") from None
            unfinished = UNFINISHED.fullmatch(text.rest, error.pos) or error.msg.startswith("Unterminated")
            if text.more():
                continue
            if not unfinished:
                raise Unreadable(f"It is not JSON: {error.msg} at line {place}.") from None
            yield text.line, cut_off(text.line, "its list" if is_list else "a record")
            return
        if end == len(text.rest) and text.more():
            continue  # a number might go on
        yield text.line, element
        text.advance(end)


def cut_off(line: int, what: str) -> Problem:
    """Return the problem of what is never closed."""
    return Problem(line=line, reason=f"the file ends in the middle of {what}", is_truncation=True)


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
        chunk = self.stream.read(
            max(CHUNK, len(self.rest) - self.at)
        )  # a long value is tried a few times only
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

    def skip_to(self, pattern: re.Pattern[str]) -> bool:
        """Pass over everything up to the end of the next match; return whether there is one."""
        while not (found := pattern.search(self.rest, self.at)):
            self.advance(max(self.at, len(self.rest) - LONGEST_OPENING))
            try:
                if not self.more():
                    return False
            except Unreadable:  # what is no text any more, behind all that was wanted
                return False
        self.advance(found.end())
        return True

    def advance(self, end: int) -> None:
        """Go on to `end`, counting lines."""
        self.line += self.rest.count("\n", self.at, end)
        self.at = end

    def line_of(self, place: int) -> int:
        """Return the line of a place in the window."""
        return self.line + self.rest.count("\n", self.at, place)
