"""Load the templates of letters and pages."""

from __future__ import annotations

import hashlib
from functools import cached_property
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from jinja2.sandbox import SandboxedEnvironment

from digest import plurals
from digest.letters import figures_in_words, line_wrapping
from digest.letters.cards import link_text
from digest.letters.headers import break_addresses
from digest.letters.letter_template import CachedExtension, LetterTemplate


class Templates:
    """The templates of letters and pages; files in `overrides` replace templates of the same name."""

    def __init__(self, directory: Path, overrides: Path | None = None):
        self.directory = directory
        self.overrides = overrides
        self.letters: dict[
            str, LetterTemplate
        ] = {}  #: the compiled HTML of each kind of letter that was used

    @property
    def folders(self) -> list[Path]:
        """Return the template folders, in search order."""
        return [folder for folder in (self.overrides, self.directory) if folder is not None]

    @property
    def has_overrides(self) -> bool:
        """Return whether an operator may have replaced some templates."""
        return self.overrides is not None and self.overrides.is_dir()

    @cached_property
    def html(self) -> Environment:
        """Return the Jinja environment for HTML, which escapes all values."""
        return make_environment(self.folders, escapes=True)

    @cached_property
    def text(self) -> Environment:
        """Return the Jinja environment for plain text, which escapes nothing."""
        return make_environment(self.folders, escapes=False)

    def letter(self, kind: str) -> LetterTemplate:
        """Return the compiled HTML of this kind of letter; premailer runs once for all of its letters."""
        if kind not in self.letters:
            name = f"letters/{kind}/body.html"
            self.letters[kind] = LetterTemplate(self.html, name, {}, is_encoded=False)
        return self.letters[kind]

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


class LetterEnvironment(SandboxedEnvironment):
    """A sandbox in which the declared fields of a value are read without its checks, which take long."""

    def getattr(self, obj: Any, attribute: str) -> Any:
        """Return a field of a value, or whatever else the sandbox allows."""
        if attribute in getattr(type(obj), "__annotations__", ()) and not attribute.startswith("_"):
            return getattr(obj, attribute)
        return super().getattr(obj, attribute)


def make_environment(folders: list[Path], *, escapes: bool) -> Environment:
    """Return a sandboxed Jinja environment: an operator's template cannot reach files or code."""
    made = LetterEnvironment(
        loader=FileSystemLoader(folders),
        autoescape=escapes,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[CachedExtension],
    )
    made.filters.update(
        counted=plurals.count,
        unlinked=break_addresses,
        in_words=figures_in_words.topics_in_words,
        as_text=link_text,
        whole=line_wrapping.keep_figures,
        wrapped=line_wrapping.wrap,
        barred=line_wrapping.wrap_with_bar,
    )
    return made
