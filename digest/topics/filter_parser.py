"""Parse filters into trees of clauses.

    query   := and ("OR" and)*
    and     := unary (("AND" | "ANDNOT" | nothing) unary)*        nothing means AND
    unary   := ("NOT" | "-" | "!") unary | primary
    primary := "(" query ")" | field ":" "(" query ")" | [field ":"] value
    value   := '"' words '"' ["~" number] | word ["*"]

The language, which combines arXiv's field names with GitHub's search syntax, is documented in docs/filters.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NoReturn

from digest import errors
from digest.topics import arxiv_categories, example_words, filter_tree
from digest.topics.clauses import field_names, parse_clause
from digest.topics.clauses.clause_error import ClauseError
from digest.topics.clauses.field_names import MISTYPED
from digest.topics.clauses.text_words import MAX_CHARACTERS, WIDEST
from digest.topics.filter_tree import Node, PackClause

MAX_CLAUSES = 64
MAX_LEVELS = 8


@dataclass(frozen=True, slots=True)
class PackUse:
    """A reference to a pack in a filter, at `text[start:end]`."""

    leaf: PackClause
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Filter:
    """A parsed filter; filters with equal trees are equal, even if they are spelled differently."""

    tree: Node
    canonical: str  #: the canonical spelling: `parse(canonical)` returns an equal filter
    text: str = field(compare=False)  #: as written
    warnings: tuple[str, ...] = field(compare=False, default=())
    uses: tuple[PackUse, ...] = field(compare=False, default=())  #: references to packs

    @property
    def stored(self) -> str:
        """Return the canonical spelling with the words of the filter's examples."""
        words = {
            reference: words
            for leaf in filter_tree.leaves(self.tree)
            if isinstance(leaf, filter_tree.ExampleClause)
            for reference, words in leaf.references
        }
        return example_words.with_words(self.canonical, words.__getitem__) if words else self.canonical


def parse(written: str) -> Filter:
    """Parse a filter; raise `errors.BadFilter` with the column of the error."""
    if len(written) > MAX_CHARACTERS:
        typed = example_words.without_words(written)
        if len(typed) > MAX_CHARACTERS or len(written) > example_words.MAX_STORED:
            raise errors.BadFilter(
                f"A filter has at most {MAX_CHARACTERS:,} characters; this one has {len(typed):,}.",
                text=on_one_line(typed[: MAX_CHARACTERS + 1]),
                column=MAX_CHARACTERS + 1,
            )
        return _FilterParser(written).filter()
    return _parse_short(written)


@lru_cache(maxsize=16384)  # 13 MB; pages, commands and explanations parse the same filters repeatedly
def _parse_short(written: str) -> Filter:
    return _FilterParser(written).filter()


def any_of(filters: Iterable[Filter]) -> Filter:
    """Return the disjunction of these filters; there must be at least one."""
    tree = filter_tree.disjunction([one.tree for one in filters])
    return Filter(tree=tree, canonical=tree.canonical, text=tree.canonical)


# ── words and signs ─────────────────────────────────────────────────────────────────────────────

#: Maps each typographic character to one ASCII character, so that columns still refer to the original text.
_TYPEWRITER = str.maketrans("“”„‟«»＂（）：＊～＜＞＝", '"""""""():*~<>=')
#: Matches one lexeme of the language; spaces between lexemes are skipped.
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
    |(?P<like>(?i:like):(?P<references>REFERENCES))
    |(?P<field>(?P<name>[A-Za-z0-9_]+):(?P<value>\[[^\]()"]*\]|(?:\\"|[^\s()"])*))
    |(?P<word>(?:\\"|[^\s()"])+)""".replace("REFERENCES", example_words.REFERENCES),
    re.VERBOSE,
)
_OPERATORS = frozenset(("AND", "OR", "NOT", "ANDNOT"))
#: The kinds of lexemes that end a conjunction.
_CONJUNCTION_END = frozenset(("OR", "close", "end"))
_AS_WORDS = {"and": "AND", "or": "OR", "not": "NOT", "andnot": "ANDNOT"}


def on_one_line(written: str) -> str:
    """Replace line breaks and control characters with spaces without changing the columns."""
    return re.sub(r"[\s\x00-\x1f\x7f-\x9f]", " ", written)


class _FilterParser:
    """A parser that reads one filter from left to right; `at` is the index of the next lexeme."""

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
        self.uses: list[PackUse] = []

    def filter(self) -> Filter:
        if not self.lexemes:
            self.fail("A filter needs at least one word", 0, 0)
        node = self.query("tiab")
        if self.kinds[self.at] == "close":
            self.fail("This bracket was never opened", *self.lexemes[self.at].span())
        self.check(node)
        if self.mixed:
            self.warnings.append(f"AND binds before OR; this is read as {node.canonical}")
        warnings = tuple(dict.fromkeys(self.warnings))
        return Filter(node, node.canonical, self.written, warnings, tuple(self.uses))

    def check(self, node: Node) -> None:
        """Reject a filter that matches almost every paper, or whose canonical form is too long to parse."""
        if not filter_tree.is_bounded(node):
            what = "One side of this OR" if isinstance(node, filter_tree.Or) else "This"
            self.fail(
                f"{what} only excludes papers, so it matches almost everything; add a word",
                *self.lexemes[0].span(),
                suggestion=f"cat:cs.LG {node.canonical.replace('NOT ', 'ANDNOT ', 1)}"
                if isinstance(node, filter_tree.Not)
                else None,
            )
        if len(node.canonical) > MAX_CHARACTERS:
            self.fail(
                f"A filter has at most {MAX_CHARACTERS:,} characters; written out, this one has {len(node.canonical):,}",
                len(self.written) - 1,
                len(self.written),
            )

    # ── grammar ─────────────────────────────────────────────────────────────────────────────────

    def query(self, default: str) -> Node:
        """Read conjunctions separated by OR, and return their node."""
        start = self.at
        branches = [self.conjunction(default)]
        while self.kinds[self.at] == "OR":
            self.at += 1
            branches.append(self.conjunction(default))
        if len(branches) == 1:
            return branches[0][0]
        self.mixed = self.mixed or any(is_open for _, is_open in branches)
        return self.shallow(filter_tree.disjunction([node for node, _ in branches]), start)

    def conjunction(self, default: str) -> tuple[Node, bool]:
        """Read clauses joined by AND; return their node, and whether there are several of them."""
        start = self.at
        nodes = [self.unary(default)]
        while (kind := self.kinds[self.at]) not in _CONJUNCTION_END:
            if kind in ("AND", "ANDNOT"):
                self.at += 1
            node = self.unary(default)
            nodes.append(filter_tree.negation(node) if kind == "ANDNOT" else node)
        if len(nodes) == 1:
            return nodes[0], False
        return self.shallow(filter_tree.conjunction(nodes), start), True

    def unary(self, default: str) -> Node:
        """Read a clause and any negations that precede it."""
        negations = 0
        while self.kinds[self.at] in ("minus", "NOT"):
            negations += 1
            self.at += 1
        node = self.primary(default)
        return filter_tree.negation(node) if negations % 2 else node

    def primary(self, default: str) -> Node:  # noqa: PLR0911  (one return for each kind of lexeme)
        kind = self.kinds[self.at]
        if kind == "word":
            return self.word(default)
        if kind == "phrase":
            return self.phrase(default)
        if kind == "like":
            found = self.take()
            return self.leaf("like", found["references"], found.start("references"))
        if kind == "field":
            return self.fielded()
        if kind == "open":
            return self.group(default)
        return self.missing(kind)

    def fielded(self) -> Node:
        """Read `field:value`, `field:"words"` or `field:(query)`."""
        found = self.take()
        try:
            field = field_names.field_named(found["name"])
        except ClauseError as mistake:
            self.fail(mistake.message, *found.span("name"), suggestion=mistake.suggestion, cause=mistake)
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
        if near is not None and (len(near) > 2 or int(near) > WIDEST):
            self.fail(f"At most {WIDEST} words may be in between", *found.span("near"))
        return self.leaf(
            default, found["quoted"], found.start("quoted"), quoted=True, near=int(near) if near else None
        )

    def group(self, default: str) -> Node:
        """Read a query in brackets."""
        opening = self.take()
        self.level += 1
        if self.level > MAX_LEVELS:
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
        if self.clauses > MAX_CLAUSES:
            self.fail(f"A filter has at most {MAX_CLAUSES} clauses", start, start + max(1, len(value)))
        if value in _AS_WORDS and not quoted:
            self.warnings.append(
                f"{value} in lower case is searched for as a word; the operator is {_AS_WORDS[value]}"
            )
        found: Node
        try:
            if field == "like":  # not cached, because its value is long
                found = parse_clause.read_examples(value)
            else:
                found = parse_clause.parse_clause(field, value, quoted=quoted, near=near)
        except ClauseError as mistake:
            begin = start + min(mistake.offset, max(0, len(value) - 1))
            end = begin + mistake.length if mistake.length else start + len(value)
            self.fail(mistake.message, begin, end, suggestion=mistake.suggestion, cause=mistake)
        if isinstance(found, PackClause):
            self.uses.append(PackUse(found, start, start + len(value)))
        return found

    def word(self, default: str) -> Node:
        """Read a word without a field; reject a misspelled operator and warn if the word is a category."""
        found = self.take()
        written = found[0]
        if written[0] == "N" and re.fullmatch(r"NEAR/?\d+", written):
            self.fail(f"{written!r} is not an operator", *found.span(), suggestion='"two words"~5')
        if meant := MISTYPED.get(written):
            self.fail(f"{written!r} is not an operator", *found.span(), suggestion=meant)
        category = arxiv_categories.CODES.get(written.lower())
        if category and set(".-") & set(written):
            self.warnings.append(f"{written} is searched for as words; did you mean cat:{category}?")
        return self.leaf(default, written, found.start())

    # ── auxiliary steps ─────────────────────────────────────────────────────────────────────────

    def take(self) -> re.Match[str]:
        found = self.lexemes[self.at]
        self.at += 1
        return found

    def shallow(self, node: Node, start: int) -> Node:
        if filter_tree.depth_of(node) > MAX_LEVELS:
            self.too_deep(self.lexemes[start].start())
        return node

    # ── errors ──────────────────────────────────────────────────────────────────────────────────

    def too_deep(self, start: int) -> NoReturn:
        self.fail(f"Brackets may be nested at most {MAX_LEVELS} deep", start, start + 1)

    def missing(self, kind: str | None, after: re.Match[str] | None = None) -> NoReturn:
        """Reject the next lexeme, which cannot begin a clause, with a message about the missing part."""
        if kind == "unclosed":
            start = self.lexemes[self.at].start()
            self.fail(
                "This quote is never closed",
                start,
                start + 1,
                suggestion=f'{self.written[start:][:60].rstrip()}"',
            )
        if after is not None:
            self.fail(f"Add a word after {after[0]}", *after.span())
        if kind in _OPERATORS:
            if self.at:
                self.fail(
                    f"{kind} cannot follow {self.lexemes[self.at - 1][0][:40]}", *self.lexemes[self.at].span()
                )
            self.fail(f"{kind} needs something before it", *self.lexemes[self.at].span())
        if self.at:
            before = self.lexemes[self.at - 1]
            self.fail(f"Add a word after {before[0][:40]}", *before.span())
        self.fail("Add a word here", *self.lexemes[self.at].span())

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
            text=on_one_line(example_words.without_words(self.written)),
            column=len(example_words.without_words(self.written[:start])) + 1,
            length=max(1, end - start),
            suggestion=on_one_line(suggestion) if suggestion else None,
        ) from cause
