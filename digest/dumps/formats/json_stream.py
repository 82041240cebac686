"""Read JSON as a stream of objects: one per line, the elements of a list, or concatenated.

A list is split into its elements while it is read, so memory use does not depend on its length. An object
that is not a paper is searched for papers. JSON that is nested too deeply, too long or invalid is reported
with its line number. NaN and excessively long integers count as missing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

import msgspec

from digest.dumps.formats.json_papers import is_attachment, papers_in
from digest.dumps.formats.reader_interface import (
    MAX_LINE,
    DumpInput,
    Header,
    Items,
    RecordProblem,
    excerpt,
)
from digest.errors import UnreadableDump
from digest.papers.paper_record import Record

CHUNK = 1024 * 1024
MAX_OBJECT_BYTES = 32 * 1024 * 1024  #: maximum number of bytes in an object that is not in a list
VALUE_SEPARATORS = re.compile(
    r"[\s,\x1e]*"
)  #: the separators between values, including the record separator of JSON text sequences
UNFINISHED_LITERAL = re.compile(
    r"[\w.+-]*\s*"
)  #: a number or word that ends the text read so far, and may therefore be incomplete
LINE_DELIMITERS = " \t\r,\x1e"  #: characters allowed before and after the object on a line
LIST_READ = "the list that was read"
FIRST_KEY = re.compile(r'\s*\{\s*"([^"\\]{1,40})"\s*:')
KEY = re.compile(r'"([^"\\]{1,40})"\s*:')

LIST_START = re.compile(r"\[")
#: maximum number of characters from the beginning of an object to the list in it
LONGEST_OPENING = 5_000
ONLY_A_TITLE = "the object has a title but no other known field"


class NotAPaper(ValueError):
    """Raised for an object that is not a paper; the message states the reason."""


ObjectConverter = Callable[[dict[str, Any], int], Record]
LocatedValue = tuple[int, Any]  #: (line number, JSON value or RecordProblem)


def keys_in(head: str) -> frozenset[str]:
    """Return the keys at the beginning of a JSON dump, or an empty set if the dump is not JSON."""
    return frozenset(KEY.findall(head)) if head.lstrip()[:1] in ("{", "[") else frozenset()


def read(
    source: DumpInput, convert: ObjectConverter, *, list_names: tuple[str, ...] = ()
) -> tuple[Header, Items]:
    """Return the header and a stream with a record for each object.

    `list_names` are the possible keys of the list in a wrapping object. If the list is empty, the header
    announces 0 papers.
    """
    header = Header(announced=0 if is_empty_list(source.head, list_names) else None)
    return header, convert_objects(objects_in_dump(source, list_names), convert)


def is_empty_list(head: str, list_names: tuple[str, ...]) -> bool:
    """Return whether the dump contains an empty list and no error message."""
    if head.lstrip().startswith("["):
        return "".join(head.split()) == "[]"
    named = find_list(head, list_names) if head.lstrip().startswith("{") else None
    return bool(named and re.match(r"\s*\]", head[named.end() :]) and not re.search(r'"errors?"\s*:', head))


def find_list(head: str, list_names: tuple[str, ...]) -> re.Match[str] | None:
    """Return the match for the start of the list under the first of these keys found in `head`, or None."""
    return next(filter(None, (re.search(rf'"{name}"\s*:\s*\[', head) for name in list_names)), None)


def convert_objects(found_objects: Iterable[LocatedValue], convert: ObjectConverter) -> Items:
    """Convert each object to a record, or to a problem if a field is invalid."""
    for line, found in found_objects:
        if isinstance(found, RecordProblem):
            yield found
            continue
        if found is None:
            continue  # the server returns null for a paper that it does not know
        if not isinstance(found, dict):
            yield RecordProblem(line=line, reason="not an object", excerpt=excerpt(str(found)[:200]))
            continue
        try:
            record = convert(found, line)
        except NotAPaper as error:
            yield RecordProblem(line=line, reason=str(error), excerpt=excerpt(str(found)[:200]))
            continue
        except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
            yield RecordProblem(line=line, reason=f"a field is invalid: {error}")
            continue
        yield record


def objects_in_dump(source: DumpInput, list_names: tuple[str, ...]) -> Iterator[LocatedValue]:
    """Yield (line, object) for every object in the dump."""
    head = source.head.lstrip()
    if head.startswith("["):
        yield from nested_papers(values_in_list(source, source.head.index("[") + 1, next_list=LIST_START))
    elif is_one_a_line(source):
        yield from nested_papers(objects_by_line(source))
    elif opened := find_list(source.head, list_names):
        again = re.compile(rf'\}}\s*\{{.{{0,4000}}?"(?:{"|".join(list_names)})"\s*:\s*\[', re.DOTALL)
        yield from nested_papers(values_in_list(source, opened.end(), next_list=again))
    else:
        yield from nested_papers(values_in_list(source, 0))


def nested_papers(found_objects: Iterable[LocatedValue]) -> Iterator[LocatedValue]:
    """Yield the objects, replacing each object that is not a paper with the papers that it contains."""
    for line, found in found_objects:
        if isinstance(found, dict) and not ("abstract" in found or "authors" in found):
            yield from ((line, paper) for paper in papers_in(found) or [found] if not is_attachment(paper))
        else:
            yield line, found


def is_one_a_line(source: DumpInput) -> bool:
    """Return whether each line contains one object, judging by the first line.

    The dump must have at least two lines that are not blank, and the first of them must be a complete object
    or unreadable.
    """
    filled = (
        (text.strip(LINE_DELIMITERS), fault) for _, text, fault in source.lines() if text.strip() or fault
    )
    two = list(islice(filled, 2))
    first, fault = two[0] if two else ("", "")
    return len(two) > 1 and (bool(fault) or (first.startswith("{") and first.endswith("}")))


def check_has_more_than_title(record: Record) -> Record:
    """Return the record; raise NotAPaper if the object has only a title."""
    known = (record.abstract, record.ids, record.n_authors, record.published, record.urls, record.signals)
    if record.title and not any(known):
        raise NotAPaper(ONLY_A_TITLE)
    return record


def objects_by_line(source: DumpInput) -> Iterator[LocatedValue]:
    """Yield the object on each line."""
    for number, text, fault in source.lines():
        if fault:
            yield number, RecordProblem(line=number, reason=fault)
        elif text and not text.isspace():
            try:
                yield number, parse_json(text)
            except (ValueError, RecursionError) as error:
                is_cut = is_cut_off(error, text)
                problem = RecordProblem(
                    line=number, reason=json_error_text(error), excerpt=excerpt(text), is_truncation=is_cut
                )
                yield number, parse_delimited(text) or problem


def parse_json(text: str) -> Any:
    """Return the value of a JSON text, or raise the error of `json.loads`, which also accepts NaN."""
    try:
        return msgspec.json.decode(text)  # three times as fast
    except msgspec.MsgspecError:
        return json.loads(text)


def is_cut_off(error: Exception, text: str) -> bool:
    """Return whether JSON is invalid only because it is truncated."""
    if not isinstance(error, json.JSONDecodeError):
        return False
    return error.msg.startswith("Unterminated") or error.pos >= len(text.rstrip())


def parse_delimited(text: str) -> Any:
    """Return the value on a line that ends in a comma or begins with a record separator, else None."""
    bare = text.strip(LINE_DELIMITERS)
    try:
        return json.loads(bare) if bare and bare != text else None
    except (ValueError, RecursionError):
        return None


def json_error_text(error: Exception) -> str:
    """Return the reason why JSON cannot be parsed, in a few words."""
    if isinstance(error, RecursionError):
        return "the value is nested too deeply"
    if isinstance(error, json.JSONDecodeError):
        return f"not JSON: {error.msg.removesuffix(' starting at')} at column {error.colno}"
    return f"not JSON: {error}"


def read_constant(_constant: str) -> None:
    """Return None for NaN and Infinity, which are not valid JSON."""


def parse_integer(digits: str) -> int | None:
    """Parse an integer; return None if it has forty digits or more."""
    return int(digits) if len(digits) < 40 else None


def values_in_list(  # noqa: PLR0912, PLR0915  (a streaming state machine)
    source: DumpInput, start: int, *, next_list: re.Pattern[str] | None = None
) -> Iterator[LocatedValue]:
    """Yield the values after the first `start` characters, up to the end of the dump or list.

    `next_list` matches the beginning of the next list, for a file that concatenates several responses.
    """
    is_list = next_list is not None
    longest = MAX_LINE if is_list else MAX_OBJECT_BYTES
    decoder = json.JSONDecoder(parse_constant=read_constant, parse_int=parse_integer)
    text = TextWindow(source, start)
    while True:
        text.skip_separators()
        if next_list and text.rest.startswith("]", text.offset):
            text.advance(text.offset + 1)
            yield from papers_beside(text)
            if text.skip_to(next_list):
                continue
            return
        if text.offset >= len(text.rest):
            if text.read_more():
                continue
            if is_list:
                yield text.line, truncation_problem(text.line, "its list")
            return
        try:
            element, end = decoder.raw_decode(text.rest, text.offset)
        except RecursionError:
            raise UnreadableDump(f"The JSON is nested too deeply (line {text.line}).") from None
        except json.JSONDecodeError as error:
            if len(text.rest) - text.offset > longest:
                raise UnreadableDump(
                    f"Line {text.line}: a record is longer than {longest // 2**20} MiB."
                ) from None
            place = text.line_of(error.pos)
            is_cut = error.msg.startswith("Unterminated")
            invalid = f"The file is not valid JSON: {error.msg} at line {place}."
            damage = RecordProblem(line=place, reason=f"not JSON: {error.msg} at line {place}")
            if error.pos < len(text.rest) - 16 and not is_cut:
                if text.object_start is None or not is_list:
                    raise UnreadableDump(invalid) from None
                yield place, damage
                text.advance(error.pos)
                if text.skip_to(text.object_start):
                    continue
                return
            unfinished = UNFINISHED_LITERAL.fullmatch(text.rest, error.pos) or is_cut
            if text.read_more():
                continue
            if not unfinished and (text.object_start is None or not is_list):
                raise UnreadableDump(invalid) from None
            if not unfinished:
                yield place, damage
                return
            yield text.line, truncation_problem(text.line, "its list" if is_list else "a record")
            return
        if end == len(text.rest) and text.read_more():
            continue  # a number may continue in the next chunk
        yield text.line, element
        text.advance(end)


def papers_beside(text: TextWindow) -> Iterator[LocatedValue]:
    """Yield the papers that an object contains in addition to those in the list that was just read."""
    while text.opening and len(text.rest) - text.offset < MAX_OBJECT_BYTES:
        try:
            whole, _ = json.JSONDecoder().raw_decode(
                f'{text.opening}"{LIST_READ}"]{text.rest[text.offset :]}'
            )
        except RecursionError:
            return
        except ValueError:
            if not text.can_read_more():
                return
            continue
        yield from ((text.line, one) for one in papers_in(whole) if [LIST_READ] not in one.values())
        return


def truncation_problem(line: int, what: str) -> RecordProblem:
    """Return the problem for a truncated list or record."""
    return RecordProblem(line=line, reason=f"the file ends in the middle of {what}", is_truncation=True)


def opening_object(text: str) -> str:
    """Return the text from an object's `{` to the `[` of a list in it, or "" without such an object."""
    return text[text.index("{") :] if "{" in text and text.endswith("[") else ""


class TextWindow:
    """A sliding window over the text of a dump that keeps count of the lines."""

    def __init__(self, source: DumpInput, start: int):
        self.stream = source.rewind()
        self.decoder = None
        self.rest = ""
        self.offset = 0
        self.line = 1
        self.pending = b""
        while len(self.rest) < start and self.read_more():
            pass
        self.opening = opening_object(self.rest[:start])
        first = FIRST_KEY.match(self.rest, start)
        #: how the objects in the list begin: with the key of the first one
        self.object_start = re.compile(rf'(?=\{{\s*"{re.escape(first[1])}"\s*:)') if first else None
        self.advance(start)

    def read_more(self) -> bool:
        """Read more text; return False at the end of the dump."""
        chunk = self.stream.read(
            max(CHUNK, len(self.rest) - self.offset)
        )  # the amount read is doubled, so that parsing a long value is retried only a few times
        raw = self.pending + chunk
        try:
            text, self.pending = raw.decode(), b""
        except UnicodeDecodeError as error:
            if error.reason != "unexpected end of data":
                raise UnreadableDump(f"The file is not UTF-8 (after line {self.line}).") from error
            text, self.pending = raw[: error.start].decode(), raw[error.start :] if chunk else b""
        if not self.rest:
            text = text.removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}")
        self.rest = self.rest[self.offset :] + text
        self.offset = 0
        return bool(chunk)

    def skip_separators(self) -> None:
        """Skip any spaces, commas and record separators at the current position."""
        self.advance(next(VALUE_SEPARATORS.finditer(self.rest, self.offset)).end())

    def skip_to(self, pattern: re.Pattern[str]) -> bool:
        """Skip to the end of the pattern's next match; return False if there is no match."""
        while not (found := pattern.search(self.rest, self.offset)):
            self.advance(max(self.offset, len(self.rest) - LONGEST_OPENING))
            if not self.can_read_more():
                return False
        self.opening = opening_object(found[0]) or self.opening
        self.advance(found.end())
        return True

    def can_read_more(self) -> bool:
        """Read more text after a list; return False at the end of the dump, or if the rest is invalid."""
        try:
            return self.read_more()
        except UnreadableDump:
            return False

    def advance(self, end: int) -> None:
        """Move to offset `end`, counting the lines passed."""
        self.line += self.rest.count("\n", self.offset, end)
        self.offset = end

    def line_of(self, place: int) -> int:
        """Return the line number of an offset in the window."""
        return self.line + self.rest.count("\n", self.offset, place)
