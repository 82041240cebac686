"""Print the size of the code by package: `python -m tests.lint.size [CHECKOUT]`.

A code line is one that is neither blank nor a comment alone nor part of a docstring; a statement is a node of the
syntax tree, a docstring included.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.lint.sentences import ROOT

PRODUCT = ("digest", "workers")
#: What is counted in lines alone, blank ones included.
LINES = {
    "templates": ("templates/**/*.*",),
    "scripts": ("Makefile", "Procfile", ".ci/*", "deploy/*", "requirements/*.py"),
    "docs": ("*.md", "docs/*.md"),
}


class CodeSize(NamedTuple):
    """What is counted of a module or a package."""

    code_lines: int = 0
    statements: int = 0
    modules: int = 0


def main(checkout: Path = ROOT) -> None:
    """Print a table of every package, and its totals."""
    print(f"{'':24}{'code lines':>11}{'statements':>11}{'modules':>9}")
    for total, folders in {"digest/ + workers/": PRODUCT, "tests/": ("tests",)}.items():
        packages: dict[str, CodeSize] = {}
        for path in python_files(checkout, folders):
            package = "/".join(path.relative_to(checkout).parts[:-1][:2])
            packages[package] = add(packages.get(package, CodeSize()), size_of(path.read_text()))
        for package, size in sorted(packages.items()):
            print_row(package, size)
        print_row(total, add(*packages.values()))
        print()
    for name, patterns in LINES.items():
        files = [path for pattern in patterns for path in checkout.glob(pattern) if path.is_file()]
        print(f"{name:24}{sum(len(path.read_text().splitlines()) for path in files):11,} lines")


def python_files(checkout: Path, folders: tuple[str, ...]) -> Iterator[Path]:
    """Yield the modules in these folders of a checkout."""
    for folder in folders:
        yield from (checkout / folder).rglob("*.py")


def size_of(source: str) -> CodeSize:
    """Return the size of one module."""
    nodes = list(ast.walk(ast.parse(source)))
    documented = {line for node in nodes for line in docstring_lines(node)}
    code = [
        line
        for number, line in enumerate(source.splitlines(), start=1)
        if number not in documented and line.strip() and not line.lstrip().startswith("#")
    ]
    return CodeSize(len(code), sum(isinstance(node, ast.stmt) for node in nodes), 1)


def docstring_lines(node: ast.AST) -> range:
    """Return the lines of a node's docstring."""
    match node:
        case (
            ast.Module(body=[first, *_])
            | ast.ClassDef(body=[first, *_])
            | ast.FunctionDef(body=[first, *_])
            | ast.AsyncFunctionDef(body=[first, *_])
        ):
            match first:
                case ast.Expr(value=ast.Constant(value=str())):
                    return range(first.lineno, (first.end_lineno or first.lineno) + 1)
    return range(0)


def add(*sizes: CodeSize) -> CodeSize:
    """Return the sum of sizes."""
    return CodeSize(*(sum(column) for column in zip(*sizes, strict=True)))


def print_row(name: str, size: CodeSize) -> None:
    """Print one line of the table."""
    print(f"{name:24}{size.code_lines:11,}{size.statements:11,}{size.modules:9,}")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
