"""Load the templates of letters and pages, and mark the parts into which pages are split."""

from __future__ import annotations

import hashlib
from functools import cached_property
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import SandboxedEnvironment
from markupsafe import Markup

from digest.letters import figures_in_words, line_wrapping
from digest.letters.cards import link_text
from digest.letters.headers import break_addresses

#: Markers that replace values and surround parts. They are ASCII, because some of them are in URLs.
SLOT_MARK, OPEN_MARK, CLOSE_MARK, MARK_END = "q9slot.", "q9open.", "q9close.", ".q9z"


class PartExtension(Extension):
    """Add `{% part NAME %}...{% endpart %}`, which puts markers around its content if the page will be split."""

    tags = {"part"}  # noqa: RUF012 - Jinja's own attribute

    def parse(self, parser: Parser) -> nodes.Node:
        """Parse the tag and its content."""
        line = next(parser.stream).lineno
        name = nodes.Const(parser.stream.expect("name").value)
        body = parser.parse_statements(("name:endpart",), drop_needle=True)
        return nodes.CallBlock(self.call_method("render_part", [name]), [], [], body).set_lineno(line)

    def render_part(self, name: str, caller: Any) -> str:
        """Return the part's content, with markers around it if the page will be split."""
        body: str = caller()
        if not getattr(self.environment, "is_cutting", False):
            return body
        marked = f"{OPEN_MARK}{name}{MARK_END}{body}{CLOSE_MARK}{name}{MARK_END}"
        return Markup(marked) if self.environment.autoescape else marked  # noqa: S704 - body is escaped


class Templates:
    """The templates of letters and pages; files in `overrides` replace templates of the same name."""

    def __init__(self, directory: Path, overrides: Path | None = None):
        self.directory = directory
        self.overrides = overrides
        self.checked_letters: set[str] = set()  #: kinds of letters that can be filled in after inlining
        self.uncut_letters: set[str] = set()  #: kinds of letters that must be inlined with their values

    @property
    def folders(self) -> list[Path]:
        """Return the template folders, in search order."""
        return [folder for folder in (self.overrides, self.directory) if folder is not None]

    @cached_property
    def html(self) -> Environment:
        """Return the Jinja environment for HTML, which escapes all values."""
        return make_environment(self.folders, escapes=True)

    @cached_property
    def text(self) -> Environment:
        """Return the Jinja environment for plain text, which escapes nothing."""
        return make_environment(self.folders, escapes=False)

    @cached_property
    def cut_html(self) -> Environment:
        """Return the Jinja environment for HTML pages that will be split into parts."""
        return make_environment(self.folders, escapes=True, is_cutting=True)

    @cached_property
    def cut_text(self) -> Environment:
        """Return the Jinja environment for plain text that will be split into parts."""
        return make_environment(self.folders, escapes=False, is_cutting=True)

    @cached_property
    def fingerprint(self) -> str:
        """Return the hash of the letter templates; machines with different templates must not share a press.

        Templates of web pages are not part of the hash, because they may differ between machines.
        """
        content = hashlib.sha256()
        for folder in self.folders:
            for path in sorted(path for path in folder.rglob("*") if path.is_file()):
                if path.is_relative_to(folder / "web"):
                    continue
                content.update(f"{path.relative_to(folder).as_posix()}\0".encode())
                content.update(hashlib.sha256(path.read_bytes()).digest())
        return content.hexdigest()


def make_environment(folders: list[Path], *, escapes: bool, is_cutting: bool = False) -> Environment:
    """Return a sandboxed Jinja environment: an operator's template cannot reach files or code."""
    made = SandboxedEnvironment(
        loader=FileSystemLoader(folders),
        autoescape=escapes,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=["jinja2.ext.i18n", PartExtension],
    )
    made.install_null_translations(newstyle=True)  # type: ignore[attr-defined]
    made.extend(is_cutting=is_cutting)
    made.filters.update(
        unlinked=break_addresses,
        in_words=figures_in_words.topics_in_words,
        as_text=mark_link_text if is_cutting else link_text,
        whole=str if is_cutting else line_wrapping.keep_figures,
        wrapped=keep_mark
        if is_cutting
        else line_wrapping.wrap,  # values are wrapped before they are filled in
        barred=str if is_cutting else line_wrapping.wrap_with_bar,
    )
    return made


def keep_mark(mark: object, **_layout: object) -> str:
    """Return the marker of a value on a page that will be split."""
    return str(mark)


def mark_link_text(_link: object) -> str:
    """Return the marker that replaces a link of the text part on a page that will be split."""
    return f"{SLOT_MARK}link_text{MARK_END}"
