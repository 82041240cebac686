"""Check that values between calls are stored only in `Caches`: `python -m tests.lint.process_state`.

A process has one value with bounded caches, which is passed down (digest/process/caches.py). An `lru_cache` is
allowed if it has a bound and a comment that says why the bound is enough.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.lint.sentences import named, tracked

ARMED_BY_TESTS = {"armed_failpoints"}  #: state of the process by nature: the chaos tests arm it
MAKE_EMPTY = frozenset(
    {"Counter", "OrderedDict", "WeakKeyDictionary", "WeakValueDictionary", "defaultdict", "deque"}
)
MAKE_EMPTY_WITHOUT_ARGUMENTS = frozenset({"dict", "list", "set"})


def main() -> int:
    """Print every value that is stored elsewhere; return 1 if there is any."""
    found = [line for path in tracked("digest/", "workers/") for line in kept_elsewhere(path)]
    for line in found:
        print(line)
    print(f"Process state: {len(found) or 'no'} value{'' if len(found) == 1 else 's'} kept outside `Caches`.")
    return 1 if found else 0


def kept_elsewhere(path: Path) -> Iterator[str]:
    """Yield the values that a file stores between calls, other than in `Caches`."""
    if path.suffix != ".py":
        return
    text = path.read_text()
    for line, problem in problems_in(text):
        yield f"{named(path)}:{line}: {problem}"


def problems_in(text: str) -> Iterator[tuple[int, str]]:
    """Yield (line, problem) for each value that a module stores between calls, other than in `Caches`."""
    tree, lines = ast.parse(text), text.splitlines()
    for statement in tree.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and is_empty_collection(statement.value):
            names = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
            if not names & ARMED_BY_TESTS:
                yield statement.lineno, "an empty collection in a module is a cache; use `Caches`"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == "__dict__":
            yield node.lineno, "`__dict__` hides state in another object"
        elif isinstance(node, ast.Call) and called(node.func) == "vars":
            yield node.lineno, "`vars()` reads what another object hides"
        elif isinstance(node, ast.FunctionDef):
            yield from unbounded_decorators(node, lines)
        elif isinstance(node, ast.Call) and called(node.func) == "lru_cache":
            yield from unexplained_bound(node, tree, lines)


def is_empty_collection(value: ast.expr | None) -> bool:
    """Return whether an expression creates an empty mutable collection."""
    match value:
        case ast.Dict(keys=[]) | ast.List(elts=[]):
            return True
        case ast.Call(func=function, args=args):
            name = called(function)
            return name in MAKE_EMPTY or (name in MAKE_EMPTY_WITHOUT_ARGUMENTS and not args)
    return False


def unbounded_decorators(function: ast.FunctionDef, lines: list[str]) -> Iterator[tuple[int, str]]:
    """Yield the decorators of a function that cache without a stated bound."""
    for decorator in function.decorator_list:
        if called(decorator) in {"cache", "lru_cache"}:
            yield decorator.lineno, "a cache without a bound; use `lru_cache(maxsize=...)`"


def unexplained_bound(call: ast.Call, tree: ast.Module, lines: list[str]) -> Iterator[tuple[int, str]]:
    """Yield an `lru_cache` whose bound is not a number, or has no comment that says why it is enough."""
    bound = next((keyword.value for keyword in call.keywords if keyword.arg == "maxsize"), None)
    bound = bound or next(iter(call.args), None)
    match bound:
        case ast.Name(id=name):
            defined = [
                one.lineno for one in tree.body if isinstance(one, ast.Assign) and name in names_of(one)
            ]
        case None | ast.Constant(value=None):
            yield call.lineno, "a cache without a bound; use `lru_cache(maxsize=...)`"
            return
        case _:
            defined = [call.lineno]
    if not any("#" in lines[number - 1] or lines[number - 2].startswith("#") for number in defined):
        yield call.lineno, "say in a comment why this bound is enough"


def names_of(statement: ast.Assign) -> set[str]:
    """Return the names that a statement assigns."""
    return {
        node.id for target in statement.targets for node in ast.walk(target) if isinstance(node, ast.Name)
    }


def called(function: ast.expr) -> str:
    """Return the last name of a called function or a decorator."""
    match function:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


if __name__ == "__main__":
    sys.exit(main())
