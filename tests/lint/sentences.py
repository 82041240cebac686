"""Collect every sentence and name of the code, the templates and the docs."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
CODE = ("digest", "workers")
#: Texts in which any word is allowed: invented papers and fixed spellings.
NOT_OURS = ("digest/dumps/sample/", "docs/examples/", "docs/pictures/", "requirements/", "LICENSE")
TAG = re.compile(
    r"<(style|script|svg)\b.*?</\1>|<!--.*?-->|<[^>]*>|\{#.*?#\}|\{%.*?%\}|\{\{.*?\}\}", re.DOTALL
)
EXPRESSION = re.compile(r"\{[{%].*?[%}]\}", re.DOTALL)
QUOTED = re.compile(r'"((?:[^"\\]|\\.)* (?:[^"\\]|\\.)*)"')  #: several words in an expression of a template
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
CODE_SIGNS = re.compile(r"[\\\\^*]|\(\?|[{}]|::|==|\bSELECT\b|://")  #: a pattern or a query, no sentence
SENTENCE_END = re.compile(r"(?<=[.!?:])\s+|\n\s*\n|\n(?=\s*(?:[*|#-]|\d+\.)\s)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Text:
    """A text in a file, and the line on which it begins."""

    path: str
    line: int
    kind: str  #: "name", "docstring", "comment", "string", "page" or "docs"
    words: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {' '.join(self.words.split())}"


def tracked(*folders: str) -> Iterator[Path]:
    """Yield the files of this repository in these folders, except files in which any word is allowed."""
    listed = subprocess.run(
        ["git", "ls-files", *folders], cwd=ROOT, check=True, capture_output=True, text=True
    )
    for name in listed.stdout.splitlines():
        if not name.startswith(NOT_OURS) and (ROOT / name).is_file():
            yield ROOT / name


def texts() -> Iterator[Text]:
    """Yield every text that an operator, a reader or a contributor may read."""
    for path in tracked(*CODE):
        if path.suffix == ".py":
            yield from texts_of_code(path)
    for path in tracked("templates"):
        if path.suffix in {".html", ".txt"}:
            yield from texts_of_template(path)
    for path in tracked("docs", "*.md"):
        if path.suffix == ".md":
            yield Text(path=named(path), line=1, kind="docs", words=FENCED.sub("\n\n", path.read_text()))


def texts_of_code(path: Path) -> Iterator[Text]:
    """Yield names, docstrings, comments and strings of a module."""
    source = path.read_text()
    docstrings = set(docstring_lines(ast.parse(source)))
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        line = token.start[0]
        if token.type == tokenize.NAME:
            yield Text(path=named(path), line=line, kind="name", words=token.string)
        elif token.type == tokenize.COMMENT:
            yield Text(path=named(path), line=line, kind="comment", words=token.string.lstrip("#: "))
        elif token.type in STRINGS:
            kind = "docstring" if line in docstrings else "string"
            yield Text(path=named(path), line=line, kind=kind, words=unquoted(token.string))


STRINGS = {tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}  # 3.12 cuts f-strings up


def docstring_lines(tree: ast.Module) -> Iterator[int]:
    """Yield the lines on which docstrings begin."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and (
            ast.get_docstring(node, clean=False) is not None
        ):
            yield node.body[0].lineno


def texts_of_template(path: Path) -> Iterator[Text]:
    """Yield the texts in expressions of a page or letter, and its other words without the markup."""
    source = path.read_text()
    for expression in EXPRESSION.finditer(source):
        line = source.count("\n", 0, expression.start()) + 1
        for words in QUOTED.findall(expression[0]):
            yield Text(path=named(path), line=line, kind="page", words=words)
    shown = TAG.sub(lambda tag: "\n" * tag[0].count("\n") + " ", source)
    for number, words in enumerate(shown.splitlines(), start=1):
        if words.strip():
            yield Text(path=named(path), line=number, kind="page", words=words)


def sentences() -> Iterator[Text]:
    """Yield single sentences: of docstrings, comments, messages, pages and docs; no bare names."""
    for text in texts():
        if text.kind == "name":
            continue
        for words in SENTENCE_END.split(text.words):
            if len(re.findall(r"[A-Za-z]{2,}", words)) >= 4 and not CODE_SIGNS.search(words):
                yield Text(path=text.path, line=text.line, kind=text.kind, words=words)


def unquoted(literal: str) -> str:
    """Return a string literal without its quotes."""
    return re.sub(r"^[A-Za-z]{0,2}(\"\"\"|'''|\"|')|(\"\"\"|'''|\"|')$", "", literal)


def named(path: Path) -> str:
    """Return the path as it is written in this repository."""
    return path.relative_to(ROOT).as_posix()
