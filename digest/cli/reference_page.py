"""Generate docs/reference.md, which documents every command, from the commands themselves."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from digest.cli import PANELS, build_command
from digest.cli.command_help import EXAMPLES

INTRODUCTION = """# Every command

`make reference` generates this page from the code, and a test checks that the page is current.
[cli.md](cli.md) explains how the commands work together. Every command also has `--help`. Options before the
command: `--data-dir DIR`, `--quiet`, `--version`.

<!-- not run: the examples name invented papers and readers; tests/cli/test_contract.py parses every line -->
"""
HIDDEN = frozenset({"help", "install_completion", "show_completion"})


def reference_page() -> str:
    """Return the whole page as Markdown."""
    command = build_command()
    parts = [INTRODUCTION]
    for panel in PANELS:
        parts.append(f"## {panel}\n")
        for name, below in command.commands.items():
            if below.rich_help_panel == panel:
                parts += sections(below, name)
    return "\n".join(parts).rstrip() + "\n"


def sections(command: Any, name: str) -> Iterator[str]:
    """Yield the section of a command, or of each command in a group."""
    if name in EXAMPLES:
        yield section(command, name)
    for word, below in getattr(command, "commands", {}).items():
        yield from sections(below, f"{name} {word}")


def section(command: Any, name: str) -> str:
    """Return the section of one command: usage, purpose, options, examples."""
    rows = [row for param in command.params if (row := param_row(param))]
    arguments = [argument(param) for param in command.params if param.param_type_name == "argument"]
    usage = " ".join(["digest", name, *(["[OPTIONS]"] if len(rows) > len(arguments) else []), *arguments])
    examples = "\n".join(f"digest {example}" for example in EXAMPLES[name])
    table = "\n".join(["| argument or option | meaning |", "|---|---|", *rows]) + "\n\n" if rows else ""
    return f"### {name}\n\n`{usage}`\n\n{one_paragraph(command.help)}\n\n{table}```sh\n{examples}\n```\n"


def argument(param: Any) -> str:
    """Return an argument as it is written in a usage line."""
    shown = str(param.display_name_raw).strip("[]")
    return shown if param.required else f"[{shown}]"


def param_row(param: Any) -> str:
    """Return an argument or option as a row of the table, or "" if every command has the option."""
    if param.name in HIDDEN:
        return ""
    if param.param_type_name == "argument":
        return f"| `{str(param.display_name_raw).strip('[]')}` | {cell(param.help)} |"
    names = ", ".join([*param.opts, *param.secondary_opts])
    value = "" if param.is_flag else f" {param.metavar or ''}".rstrip()
    return f"| `{names}{value}` | {cell(param.help)} |"


def cell(text: str | None) -> str:
    """Return text on one line, escaped for a cell of a Markdown table."""
    return " ".join((text or "").split()).replace("|", "\\|")


def one_paragraph(text: str | None) -> str:
    """Return a help text with one line for each paragraph."""
    return "\n\n".join(" ".join(part.split()) for part in (text or "").split("\n\n"))


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(reference_page(), encoding="utf-8")
