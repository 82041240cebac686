"""The filter language: arXiv's spelling with GitHub's ergonomics, read into a tree.

    query   := and ("OR" and)*
    and     := unary (("AND" | "ANDNOT" | nothing) unary)*        nothing means AND
    unary   := ("NOT" | "-" | "!") unary | primary
    primary := "(" query ")" | field ":" "(" query ")" | [field ":"] value
    value   := '"' words '"' ["~" number] | word ["*"]

The whole language is on one page: docs/filters.md.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NoReturn

from digest import errors
from digest.topics import clauses, taxonomy, tree
from digest.topics.clauses import Mistake
from digest.topics.tree import Node, Use

MOST_CHARACTERS = clauses.MOST_CHARACTERS
MOST_CLAUSES = 64
MOST_LEVELS = 8


@dataclass(frozen=True, slots=True)
class Used:
    """Where a filter names one of a pack: `text[start:end]`."""

    leaf: Use
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Filter:
    """What a topic asks for. Two filters are equal if they are read alike, however they were written."""

    tree: Node
    canonical: str  #: the one spelling: parse(canonical) is this filter again
    text: str = field(compare=False)  #: as written
    warnings: tuple[str, ...] = field(compare=False, default=())
    uses: tuple[Used, ...] = field(compare=False, default=())  #: filters of packs, as it names them


@lru_cache(maxsize=16384)
def parse(written: str) -> Filter:
    """Return the filter that `written` spells; raises `errors.BadFilter` with the column of the mistake."""
    if len(written) > MOST_CHARACTERS:
        _refuse_length(written)
    return _Parser(written).filter()


def _refuse_length(written: str) -> NoReturn:
    raise errors.BadFilter(
        f"A filter has at most {MOST_CHARACTERS:,} characters; this one has {len(written):,}.",
        text=on_one_line(written[: MOST_CHARACTERS + 1]),
        column=MOST_CHARACTERS + 1,
    )


# ── words and signs ─────────────────────────────────────────────────────────────────────────────

#: One character for another, so that columns stay what they are in the text as written.
_TYPEWRITER = str.maketrans("“”„‟«»＂（）：＊～＜＞＝", '"""""""():*~<>=')
#: Everything but blanks, which are passed over.
_LEXEME = re.compile(
    r"""(?P<open>\()
    |(?P<close>\))
    |(?P<AND>AND(?=[\s()"]|$)|&&?(?=[\s(]|$))
    |(?P<OR>OR(?=[\s()"]|$)|\|\|?)
    |(?P<ANDNOT>ANDNOT(?=[\s()"]|$))
    |(?P<NOT>NOT(?=[\s()"]|$))
    |(?P<minus>[-!−–](?=[^\s)]))
    |(?P<phrase>"(?P<quoted>(?:\\"(?=[{A-Za-z])|[^"])*)"(?:~(?P<near>\d+))?)
    |(?P<unclosed>")
    |(?P<field>(?P<name>[A-Za-z0-9_]+):(?P<value>\[[^\]()"]*\]|(?:\\"|[^\s()"])*))
    |(?P<word>(?:\\"|[^\s()"])+)""",
    re.VERBOSE,
)
_OPERATORS = frozenset(("AND", "OR", "NOT", "ANDNOT"))
#: What stands behind clauses that must all hold.
_BEHIND = frozenset(("OR", "close", "end"))
_AS_WORDS = {"and": "AND", "or": "OR", "not": "NOT", "andnot": "ANDNOT"}


def on_one_line(written: str) -> str:
    """Return what was written without line breaks or controls, every character in its place."""
    return re.sub(r"[\s\x00-\x1f\x7f-\x9f]", " ", written)


class _Parser:
    """Reads one filter from left to right; `at` is the next lexeme."""

    def __init__(self, written: str):
        self.written = written
        plain = written if written.isascii() else written.translate(_TYPEWRITER)
        self.lexemes = [*_LEXEME.finditer(plain)]
        self.kinds = [found.lastgroup for found in self.lexemes] + ["end"]
        self.at = 0
        self.level = 0
        self.clauses = 0
        self.mixed = False
        self.warnings: list[str] = []
        self.uses: list[Used] = []

    def filter(self) -> Filter:
        if not self.lexemes:
            self.fail("A filter needs at least one word", 0, 0)
        node = self.query("tiab")
        if self.kinds[self.at] == "close":
            self.fail("This bracket closes nothing", *self.span())
        self.check(node)
        warnings = tuple(dict.fromkeys(self.all_warnings(node)))
        return Filter(node, node.canonical, self.written, warnings, tuple(self.uses))

    def check(self, node: Node) -> None:
        """Refuse what could match everything, and what could not be read again."""
        if not tree.is_bounded(node):
            self.fail(
                "This says only what must not be, so it matches nearly every paper; add what must be",
                *self.lexemes[0].span(),
                suggestion=f"cat:cs.LG {node.canonical.replace('NOT ', 'ANDNOT ', 1)}"
                if isinstance(node, tree.Not)
                else None,
            )
        if len(node.canonical) > MOST_CHARACTERS:
            self.fail(
                f"A filter has at most {MOST_CHARACTERS:,} characters; written out, this one has {len(node.canonical):,}",
                len(self.written) - 1,
                len(self.written),
            )

    def all_warnings(self, node: Node) -> list[str]:
        if self.mixed:
            self.warnings.append(f"AND binds before OR; this is read as {node.canonical}")
        return self.warnings

    # ── grammar ─────────────────────────────────────────────────────────────────────────────────

    def query(self, default: str) -> Node:
        """Read ANDs parted by OR."""
        start = self.at
        branches = [self.conjunction(default)]
        while self.kinds[self.at] == "OR":
            self.at += 1
            branches.append(self.conjunction(default))
        if len(branches) == 1:
            return branches[0][0]
        self.mixed = self.mixed or any(is_open for _, is_open in branches)
        return self.shallow(tree.disjunction([node for node, _ in branches]), start)

    def conjunction(self, default: str) -> tuple[Node, bool]:
        """Read clauses that must all hold, and whether they are several without brackets."""
        start = self.at
        nodes = [self.unary(default)]
        while (kind := self.kinds[self.at]) not in _BEHIND:
            if kind in ("AND", "ANDNOT"):
                self.at += 1
            node = self.unary(default)
            nodes.append(tree.negation(node) if kind == "ANDNOT" else node)
        if len(nodes) == 1:
            return nodes[0], False
        return self.shallow(tree.conjunction(nodes), start), True

    def unary(self, default: str) -> Node:
        """Read a clause and the negations before it."""
        negations = 0
        while self.kinds[self.at] in ("minus", "NOT"):
            negations += 1
            self.at += 1
        node = self.primary(default)
        return tree.negation(node) if negations % 2 else node

    def primary(self, default: str) -> Node:
        kind = self.kinds[self.at]
        if kind == "word":
            return self.word(default)
        if kind == "phrase":
            return self.phrase(default)
        if kind == "field":
            return self.fielded()
        if kind == "open":
            return self.group(default)
        return self.missing(kind)

    def fielded(self) -> Node:
        """Read `field:value`, `field:"words"` or `field:(query)`."""
        found = self.take()
        field = clauses.field_named(found["name"])
        if field is None:
            self.unknown_field(found)
        if found["value"]:
            return self.leaf(field, found["value"], found.start("value"))
        following = self.kinds[self.at]
        if following == "phrase":
            return self.phrase(field)
        if following == "open":
            return self.group(field)
        if following == "word":
            found = self.take()
            return self.leaf(field, found[0], found.start())
        return self.missing(following, after=found)

    def phrase(self, default: str) -> Node:
        found = self.take()
        near = found["near"]
        if near is not None and (len(near) > 2 or int(near) > clauses.WIDEST):
            self.fail(f"At most {clauses.WIDEST} words may stand between", *found.span("near"))
        return self.leaf(
            default, found["quoted"], found.start("quoted"), quoted=True, near=int(near) if near else None
        )

    def group(self, default: str) -> Node:
        """Read a query in brackets."""
        opening = self.take()
        self.level += 1
        if self.level > MOST_LEVELS:
            self.too_deep(opening.start())
        node = self.query(default)
        if self.kinds[self.at] != "close":
            self.fail(
                "This bracket is never closed",
                *opening.span(),
                suggestion=f"{self.written.rstrip()})" if len(self.written) < 200 else None,
            )
        self.at += 1
        self.level -= 1
        return node

    def leaf(
        self, field: str, value: str, start: int, *, quoted: bool = False, near: int | None = None
    ) -> Node:
        self.clauses += 1
        if self.clauses > MOST_CLAUSES:
            self.fail(f"A filter has at most {MOST_CLAUSES} clauses", start, start + max(1, len(value)))
        if value in _AS_WORDS and not quoted:
            self.warnings.append(
                f"{value} in small letters is a word to look for; write {_AS_WORDS[value]} to combine"
            )
        try:
            found = clauses.quoted(field, value, near) if quoted else clauses.clause(field, value)
        except Mistake as mistake:
            begin = start + min(mistake.offset, max(0, len(value) - 1))
            end = begin + mistake.length if mistake.length else start + len(value)
            self.fail(mistake.message, begin, end, suggestion=mistake.suggestion, cause=mistake)
        if isinstance(found, Use):
            self.uses.append(Used(found, start, start + len(value)))
        return found

    def word(self, default: str) -> Node:
        """Read a bare word: refused where it is nearly an operator, with a note where it is a category."""
        found = self.take()
        written = found[0]
        if written[0] == "N" and re.fullmatch(r"NEAR/?\d+", written):
            self.fail(f"{written!r} is not an operator", *found.span(), suggestion='"two words"~5')
        if meant := clauses.MISTYPED.get(written):
            self.fail(f"{written!r} is not an operator", *found.span(), suggestion=meant)
        category = taxonomy.CODES.get(written.lower())
        if category and "." in category:
            self.warnings.append(f"{written} is looked for as words; did you mean cat:{category}?")
        return self.leaf(default, written, found.start())

    # ── small steps ─────────────────────────────────────────────────────────────────────────────

    def take(self) -> re.Match[str]:
        found = self.lexemes[self.at]
        self.at += 1
        return found

    def span(self) -> tuple[int, int]:
        """Return where the next lexeme stands; behind the last one, the end of the filter."""
        if self.at < len(self.lexemes):
            return self.lexemes[self.at].span()
        return len(self.written), len(self.written)

    def shallow(self, node: Node, start: int) -> Node:
        if tree.depth_of(node) > MOST_LEVELS:
            self.too_deep(self.lexemes[start].start())
        return node

    # ── mistakes ────────────────────────────────────────────────────────────────────────────────

    def too_deep(self, start: int) -> NoReturn:
        self.fail(f"Brackets may be nested {MOST_LEVELS} deep", start, start + 1)

    def unknown_field(self, found: re.Match[str]) -> NoReturn:
        if known := clauses.NO_FIELDS.get(found["name"].lower()):
            self.fail(known[0], *found.span("name"), suggestion=known[1])
        self.fail(
            f"There is no field {found['name'][:40]}; put the word in quotes to look for it as it is",
            *found.span("name"),
            suggestion=clauses.field_suggestion(found["name"]),
        )

    def missing(self, kind: str | None, after: re.Match[str] | None = None) -> NoReturn:
        """Say what is missing at the next lexeme, which is none that can begin a clause."""
        if kind == "unclosed":
            start = self.lexemes[self.at].start()
            self.fail(
                "This quote is never closed",
                start,
                start + 1,
                suggestion=f'{self.written[start:][:60].rstrip()}"',
            )
        if after is not None:
            self.fail(f"Something to look for belongs after {after[0]}", *after.span())
        if kind in _OPERATORS:
            if self.at:
                self.fail(f"{kind} cannot follow {self.lexemes[self.at - 1][0][:40]}", *self.span())
            self.fail(f"{kind} needs something before it", *self.span())
        if self.at:
            before = self.lexemes[self.at - 1]
            self.fail(f"Something to look for belongs after {before[0][:40]}", *before.span())
        self.fail("Something to look for belongs here", *self.span())

    def fail(
        self,
        message: str,
        start: int,
        end: int,
        *,
        suggestion: str | None = None,
        cause: Exception | None = None,
    ) -> NoReturn:
        ending = "" if message.endswith((".", "?")) else "."
        raise errors.BadFilter(
            on_one_line(message) + ending,
            text=on_one_line(self.written),
            column=start + 1,
            length=max(1, end - start),
            suggestion=on_one_line(suggestion) if suggestion else None,
        ) from cause
