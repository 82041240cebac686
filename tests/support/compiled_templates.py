"""Compile each template once per test process: otherwise each app context compiles its own twenty."""

from __future__ import annotations

from types import CodeType
from typing import Any

import jinja2

CompiledTemplate = CodeType | str

compiled: dict[object, CompiledTemplate] = {}
compile_template = jinja2.Environment.compile


def compile_each_once() -> None:
    """Make Jinja keep the code of every template, which depends on its source and the kind of its environment."""
    jinja2.Environment.compile = compile_once  # type: ignore[method-assign, assignment]


def compile_once(
    environment: jinja2.Environment, source: Any, *details: Any, **options: Any
) -> CompiledTemplate:
    """Return the code of a template."""
    kind = environment.autoescape, getattr(environment, "is_cutting", None)
    key = source, details, tuple(options.items()), kind
    if key not in compiled:
        compiled[key] = compile_template(environment, source, *details, **options)
    return compiled[key]
