"""The templates: one folder, two languages of text, and the marks at which pages are cut into parts."""

from __future__ import annotations

import hashlib
from functools import cached_property
from pathlib import Path
from typing import Any

from jinja2 import BaseLoader, Environment, FileSystemLoader, StrictUndefined, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import SandboxedEnvironment
from markupsafe import Markup

from digest.rendering import words
from digest.rendering.runs import plain

#: A cut page carries these in place of values and around parts; ASCII, since they pass through URLs.
SLOT, OPENS, CLOSES, END = "q9slot.", "q9open.", "q9close.", ".q9z"


class Part(Extension):
    """`{% part NAME %}...{% endpart %}`: shows what it holds; a cut page also marks where it stood."""

    tags = {"part"}  # noqa: RUF012 - Jinja's own attribute

    def parse(self, parser: Parser) -> nodes.Node:
        """Read the tag and what it holds."""
        line = next(parser.stream).lineno
        name = nodes.Const(parser.stream.expect("name").value)
        body = parser.parse_statements(("name:endpart",), drop_needle=True)
        return nodes.CallBlock(self.call_method("shown", [name]), [], [], body).set_lineno(line)

    def shown(self, name: str, caller: Any) -> str:
        """Return what the part holds, between marks if the page is to be cut."""
        body: str = caller()
        if not getattr(self.environment, "is_cutting", False):
            return body
        marked = f"{OPENS}{name}{END}{body}{CLOSES}{name}{END}"
        return Markup(marked) if self.environment.autoescape else marked  # noqa: S704 - body is escaped


class Templates:
    """Every template of letters and pages; a file of the same name in `overrides` comes first."""

    def __init__(self, directory: Path, overrides: Path | None = None):
        self.directory = directory
        self.overrides = overrides
        self.proven: set[str] = set()  #: kinds of letters that may be filled in after inlining
        self.whole: set[str] = set()  #: and those that must be inlined whole

    @property
    def folders(self) -> list[Path]:
        """Return the folders to look in, first to last."""
        return [folder for folder in (self.overrides, self.directory) if folder is not None]

    @cached_property
    def html(self) -> Environment:
        """Return the environment of HTML: everything is escaped."""
        return environment(self.folders, escapes=True)

    @cached_property
    def text(self) -> Environment:
        """Return the environment of plain text: nothing is escaped."""
        return environment(self.folders, escapes=False)

    @cached_property
    def cut_html(self) -> Environment:
        """Return the environment of HTML pages that are to be cut into parts."""
        return environment(self.folders, escapes=True, is_cutting=True)

    @cached_property
    def cut_text(self) -> Environment:
        """Return the environment of texts that are to be cut into parts."""
        return environment(self.folders, escapes=False, is_cutting=True)

    @cached_property
    def fingerprint(self) -> str:
        """Return the hash of what letters are made of: machines that differ must not share a Press.

        Pages are left out: a machine may show them in another dress.
        """
        content = hashlib.sha256()
        for folder in self.folders:
            for path in sorted(path for path in folder.rglob("*") if path.is_file()):
                if path.is_relative_to(folder / "web"):
                    continue
                content.update(f"{path.relative_to(folder).as_posix()}\0".encode())
                content.update(hashlib.sha256(path.read_bytes()).digest())
        return content.hexdigest()


def environment(folders: list[Path], *, escapes: bool, is_cutting: bool = False) -> Environment:
    """Return a sandboxed Jinja environment: an operator's template can show values, not reach the machine."""
    made = SandboxedEnvironment(
        loader=loader(folders),
        autoescape=escapes,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.i18n", Part],
    )
    made.install_null_translations(newstyle=True)  # type: ignore[attr-defined]
    made.extend(is_cutting=is_cutting)
    made.filters.update(
        plain=plain,
        wrapped=str if is_cutting else words.wrapped,  # a slot is filled with lines wrapped before
        barred=str if is_cutting else words.barred,
    )
    return made


def loader(folders: list[Path]) -> BaseLoader:
    """Return what finds templates: the first folder that has one wins."""
    return FileSystemLoader(folders)
