"""Compile each template once per test process: otherwise each app context compiles its own twenty.

The templates of digests are also inlined, and checked where a command checks them, once per site; those of other
letters once.
"""

from __future__ import annotations

from dataclasses import replace
from types import CodeType
from typing import Any

import jinja2

from digest.letters.letter_template import LetterTemplate
from digest.letters.press import load_templates
from digest.letters.press.digest_letters import DigestTemplates
from digest.letters.templates import Templates
from digest.site.site_profile import Site

CompiledTemplate = CodeType | str

compiled: dict[object, CompiledTemplate] = {}
compile_template = jinja2.Environment.compile
digest_templates: dict[object, DigestTemplates] = {}
compile_and_check = load_templates.compile_and_check
letters: dict[object, LetterTemplate] = {}
compile_letter = Templates.letter


def compile_each_once() -> None:
    """Make Jinja keep the code of every template, which depends on its source and the kind of its environment."""
    jinja2.Environment.compile = compile_once  # type: ignore[method-assign, assignment]
    load_templates.compile_and_check = compile_and_check_once
    Templates.letter = compile_letter_once  # type: ignore[method-assign, assignment]


def compile_once(
    environment: jinja2.Environment, source: Any, *details: Any, **options: Any
) -> CompiledTemplate:
    """Return the code of a template."""
    kind = environment.autoescape, getattr(environment, "is_cutting", None)
    key = source, details, tuple(options.items()), kind
    if key not in compiled:
        compiled[key] = compile_template(environment, source, *details, **options)
    return compiled[key]


def compile_and_check_once(
    templates: Templates, site: Site, *, checks_letters: bool = True
) -> DigestTemplates:
    """Return the compiled templates of the digest, which contain no key of the site."""
    key = templates.fingerprint, replace(site, keys=(), pepper=b""), checks_letters
    if key not in digest_templates:
        digest_templates[key] = compile_and_check(templates, site, checks_letters=checks_letters)
    return digest_templates[key]


def compile_letter_once(templates: Templates, kind: str) -> LetterTemplate:
    """Return the compiled HTML of this kind of letter."""
    key = templates.fingerprint, kind
    if key not in letters:
        letters[key] = compile_letter(templates, kind)
    return letters[key]
