"""Draw one-line faults in code that promises rest on, the same ones in every checkout."""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

#: Where the code of each promise stands; a pattern may match nothing after a module was renamed.
PLACES = {
    "outbox": ("delivery/outbox/*.py", "delivery/worker_loop.py", "delivery/next_window.py"),
    "settlement": ("delivery/settlement.py", "delivery/window_checks.py"),
    "limits": ("delivery/limits/*.py",),
    "shown": ("editions/shown.py", "publishing/paper_eligibility.py"),
    "publish": ("publishing/*.py", "editions/compose.py"),
    "schedule": ("editions/schedule.py",),
    "suppressions": ("bounces/*.py",),
    "unsubscribe": ("subscribers/unsubscribe*.py", "subscribers/pauses.py", "subscribers/account.py"),
    "confirm": ("subscribers/confirmations.py", "subscribers/sign_up*.py", "inbound/sender_proof.py"),
    "filters": ("topics/filter_*.py", "topics/clauses/*.py", "topics/*_index.py"),
    "intake": ("dumps/intake/*.py",),
    "catalog": ("papers/catalog/*.py",),
    "escaping": (
        "letters/headers.py",
        "letters/mime.py",
        "letters/line_wrapping.py",
        "papers/display_text.py",
    ),
    "signing": ("letters/dkim_signing.py", "links.py"),
    "copies": ("backups/*.py", "db/database_copy.py"),
}
OPERATORS = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"), ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="), ast.Is: ("is", "is not"), ast.IsNot: ("is not", "is"), ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"), ast.And: ("and", "or"), ast.Or: ("or", "and"), ast.Add: ("+", "-"), ast.Sub: ("-", "+"),
}  # fmt: skip
METHODS = {"is_": "is_not", "is_not": "is_", "in_": "not_in", "not_in": "in_", "and_": "or_", "or_": "and_"}
#: Faults in SQL that stands in strings.
SQL = (
    ("NOT EXISTS", "EXISTS"), ("IS NOT NULL", "IS NULL"), ("IS NULL", "IS NOT NULL"), (" AND ", " OR "), (" <= ", " < "),
    (" > :", " < :"), (" + 1", " + 2"),
)  # fmt: skip
IS_SQL = re.compile(r"\b(?:SELECT|UPDATE|DELETE|INSERT|WHERE|AND|SET|ON CONFLICT)\b")


@dataclass(frozen=True, kw_only=True, slots=True)
class CodeFault:
    """One changed line; it is found in any checkout by its function and its words."""

    promise: str
    function: str  #: "" in the body of a module
    before: str  #: without the indentation
    after: str

    def __str__(self) -> str:
        return f"{self.promise}, {self.function or 'module'}: {self.before}  ->  {self.after}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where a line stands in a checkout, and the lines of its statement."""

    path: Path
    line: int
    statement: range


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """A change of the text between two columns of a line."""

    line: int
    first: int
    last: int
    text: str


def draw(checkouts: Sequence[Path], *, seed: int, count: int) -> list[CodeFault]:
    """Return `count` faults that every checkout can have: each promise in turn, at most one in a function."""
    chance = random.Random(seed)
    lines = [lines_of(checkout) for checkout in checkouts]
    found: dict[str, list[CodeFault]] = {promise: [] for promise in PLACES}
    for promise, patterns in PLACES.items():
        modules = {path for pattern in patterns for path in (checkouts[0] / "digest").glob(pattern)}
        for path in sorted(modules):
            found[promise] += faults_in(path.read_text(), promise)
        chance.shuffle(found[promise])
    drawn: dict[str, CodeFault] = {}
    while len(drawn) < count and any(found.values()):
        for faults in found.values():
            usable = (
                fault
                for fault in iter(lambda faults=faults: faults.pop() if faults else None, None)  # type: ignore[misc]
                if fault.function not in drawn
                and all((fault.function, fault.before) in each for each in lines)
            )
            fault = next(usable, None)
            if fault and len(drawn) < count:
                drawn[fault.function or fault.before] = fault
    return list(drawn.values())


def lines_of(checkout: Path) -> dict[tuple[str, str], Place]:
    """Return the place of each line that its function and its words identify."""
    places: dict[tuple[str, str], list[Place]] = {}
    for path in sorted([*(checkout / "digest").rglob("*.py"), *(checkout / "workers").rglob("*.py")]):
        source = path.read_text()
        functions, statements = spans_of(ast.parse(source))
        for number, text in enumerate(source.splitlines(), start=1):
            place = Place(path=path, line=number, statement=statements.get(number, range(number, number + 1)))
            places.setdefault((functions.get(number, ""), text.strip()), []).append(place)
    return {key: found[0] for key, found in places.items() if len(found) == 1 and key[1]}


def spans_of_file(path: Path) -> tuple[dict[int, str], dict[int, range]]:
    """Return the function and the statement of each line of a module."""
    return spans_of(ast.parse(path.read_text()))


def spans_of(tree: ast.Module) -> tuple[dict[int, str], dict[int, range]]:
    """Return the function and the statement of each line."""
    functions: dict[int, str] = {}
    statements: dict[int, range] = {}
    for node in ast.walk(tree):  # outer nodes come first
        if isinstance(node, ast.stmt):
            body: list[ast.stmt] = getattr(node, "body", [])
            last = body[0].lineno if body else (node.end_lineno or node.lineno) + 1
            lines = range(node.lineno, max(last, node.lineno + 1))
            statements |= dict.fromkeys(lines, lines)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            inside = range(node.lineno, (node.end_lineno or node.lineno) + 1)
            functions |= {line: f"{functions.get(line, '')}.{node.name}".lstrip(".") for line in inside}
    return functions, statements


def faults_in(source: str, promise: str) -> Iterator[CodeFault]:
    """Yield every fault of a module."""
    tree, lines = ast.parse(source), source.splitlines()
    functions, _ = spans_of(tree)
    for change in changes_in(tree, lines):
        text = lines[change.line - 1]
        changed = text[: change.first] + change.text + text[change.last :]
        function = functions.get(change.line, "")
        if not function and change.text.isdigit():  # one more of a size is seldom wrong
            continue
        yield CodeFault(promise=promise, function=function, before=text.strip(), after=changed.strip())


def changes_in(tree: ast.Module, lines: Sequence[str]) -> Iterator[Change]:
    """Yield the changes of a module's expressions and statements."""
    ignored = {id(each) for node in ast.walk(tree) for part in unimportant(node) for each in ast.walk(part)}
    for node in ast.walk(tree):
        if id(node) not in ignored:
            yield from changes_of_operators(node, lines)
            yield from changes_of_values(node, lines)


def changes_of_operators(node: ast.AST, lines: Sequence[str]) -> Iterator[Change]:
    """Yield the changes of what a node does with its operands."""
    match node:
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            yield from between(lines, left, operator, right)
        case ast.BoolOp(op=operator, values=[left, right, *_]):
            yield from between(lines, left, operator, right)
        case ast.BinOp(left=left, op=operator, right=right) if not is_text(left, right):
            yield from between(lines, left, operator, right)
        case ast.UnaryOp(op=ast.Not(), operand=operand) if node.lineno == operand.lineno:
            yield Change(line=node.lineno, first=node.col_offset, last=operand.col_offset, text="")
        case ast.Attribute(attr=name, end_lineno=int(line), end_col_offset=int(last)) if name in METHODS:
            yield Change(line=line, first=last - len(name), last=last, text=METHODS[name])


def changes_of_values(node: ast.AST, lines: Sequence[str]) -> Iterator[Change]:
    """Yield the changes of a condition, a constant, SQL or a call whose value is not used."""
    match node:
        case ast.If(test=test) | ast.IfExp(test=test) if isinstance(
            test, ast.Name | ast.Attribute | ast.Call
        ):
            yield from replaced(lines, test, "not {}")
        case ast.Constant(value=bool(value)):
            yield from replaced(lines, node, str(not value))
        case ast.Constant(value=int(value)):
            yield from replaced(lines, node, str(value + 1))
        case ast.Expr(value=ast.Call() as call):
            yield from replaced(lines, call, "pass")
        case ast.Constant(value=str(text)) if IS_SQL.search(text):
            yield from changes_in_sql(lines, node)


def unimportant(node: ast.AST) -> Iterable[ast.AST]:
    """Return the parts of a node that no promise rests on: annotations, decorators, defaults, errors, log lines."""
    match node:
        case ast.FunctionDef(args=arguments, decorator_list=decorators, returns=returns):
            return [arguments, *decorators, *([returns] if returns else [])]
        case ast.AnnAssign(annotation=annotation):
            return [annotation]
        case ast.Raise() | ast.Expr(value=ast.Constant()):
            return [node]
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name)))) if name.lower().startswith(
            "log"
        ):
            return [node]
    return ()


def between(lines: Sequence[str], left: ast.expr, operator: ast.AST, right: ast.expr) -> Iterator[Change]:
    """Yield the change of an operator that stands on one line between its operands."""
    old, new = OPERATORS.get(type(operator), ("", ""))
    if old and left.end_lineno == right.lineno and left.end_col_offset is not None:
        first, last = (
            column(lines, left.end_lineno, left.end_col_offset),
            column(lines, right.lineno, right.col_offset),
        )
        gap = lines[right.lineno - 1][first:last]
        if gap.count(old) == 1:
            yield Change(line=right.lineno, first=first, last=last, text=gap.replace(old, new))


def replaced(lines: Sequence[str], node: ast.expr, text: str) -> Iterator[Change]:
    """Yield the change of a whole expression that stands on one line."""
    if node.lineno == node.end_lineno and node.end_col_offset is not None:
        first, last = (
            column(lines, node.lineno, node.col_offset),
            column(lines, node.lineno, node.end_col_offset),
        )
        yield Change(
            line=node.lineno, first=first, last=last, text=text.format(lines[node.lineno - 1][first:last])
        )


def changes_in_sql(lines: Sequence[str], node: ast.Constant) -> Iterator[Change]:
    """Yield the changes of SQL in a string."""
    for line in range(node.lineno, (node.end_lineno or node.lineno) + 1):
        for old, new in SQL:
            first = lines[line - 1].find(old)
            if first >= 0 and lines[line - 1].count(old) == 1:
                yield Change(line=line, first=first, last=first + len(old), text=new)


def column(lines: Sequence[str], line: int, offset: int) -> int:
    """Convert an offset in bytes, as the syntax tree has it, to one in characters."""
    return len(lines[line - 1].encode()[:offset].decode())


def is_text(*operands: ast.expr) -> bool:
    """Return whether an operand is certainly a text, which cannot be subtracted."""
    return any(isinstance(each, ast.JoinedStr | ast.Constant) and not is_number(each) for each in operands)


def is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)
