"""The docs name every setting, command and letter, their examples run, and their links work."""

from __future__ import annotations

import doctest
import io
import itertools
import logging
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from digest import __version__
from digest.cli import main
from digest.db.tables.deliveries import DeliveryState
from digest.db.tables.subscribers import SubscriberState
from digest.settings import NAMES, PREFIX, load_settings
from tests.cli.conftest import every_command
from tests.conftest import ROOT

PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
#: The pages with examples, but for the README: tests/test_readme.py runs its examples.
EXAMPLES = [
    page for page in PAGES if "```console" in page.read_text(encoding="utf-8") and page.name != "README.md"
]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CLI = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


# ── everything is named ─────────────────────────────────────────────────────────────────────────


def test_the_readme_lists_exactly_the_settings_and_ten_of_them_first() -> None:
    listed = re.findall(rf"^\| `{PREFIX}(\w+)` \|", README, flags=re.MULTILINE)

    assert sorted(listed) == sorted(name.upper() for name in NAMES)
    assert len(listed) <= 34
    assert len(re.findall(rf"^\| `{PREFIX}", README.partition("<details>")[0], flags=re.MULTILINE)) == 10


def test_the_defaults_in_the_table_are_the_real_ones() -> None:
    listed = dict(re.findall(rf"^\| `{PREFIX}(\w+)` \| `([^`]+)` \|", README, flags=re.MULTILINE))

    stated = load_settings({name.lower(): text for name, text in listed.items()})
    assert stated == load_settings()
    assert len(listed) >= 7


def test_every_value_of_a_setting_in_the_docs_is_valid() -> None:
    for page in PAGES:
        for name, value in re.findall(rf"`{PREFIX}([A-Z_]+)=([^`]+)`", page.read_text(encoding="utf-8")):
            settings = load_settings({name.lower(): value.strip('"')})
            assert getattr(settings, name.lower()) is not None, (page.name, name, value)


COMMANDS = {("digest", *words.split()): known for words, known in every_command().items()}


def test_every_command_is_named_in_the_docs_and_has_help() -> None:
    assert [words for words in COMMANDS if f"`{' '.join(words)}" not in CLI] == []
    assert [words for words, command in COMMANDS.items() if not command.help] == []


#: A `digest` command line in backquotes, in an example or in a unit file.
COMMAND_LINE = re.compile(
    r"`(digest [a-z][^`]*)`|^\$ (digest [^|\n]+)|-u digest (digest [^\n]+)", re.MULTILINE
)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_command_line_of_a_page_is_valid(page: Path) -> None:
    calls = COMMAND_LINE.findall(page.read_text(encoding="utf-8"))
    lines = [next(part for part in call if part) for call in calls]

    assert [line for line in lines if not is_valid(shlex.split(line))] == []


def is_valid(words: list[str]) -> bool:
    """Return whether the docs may name a command line: one of a command, a group or an option of the root."""
    called = max((known for known in COMMANDS if tuple(words[: len(known)]) == known), key=len, default=None)
    if called is None:
        return words[1].startswith("-") or any(known[1] == words[1] for known in COMMANDS)
    options = {option for parameter in COMMANDS[called].params for option in parameter.opts}
    return {word for word in words if word.startswith("--")} <= options


def test_every_letter_is_in_the_docs() -> None:
    letters = {
        path.name for path in (ROOT / "templates" / "letters").iterdir() if not path.name.startswith("_")
    }

    assert sorted(letter for letter in letters if f"`{letter}`" not in CLI) == []


def test_every_state_is_in_the_docs() -> None:
    assert [state for state in DeliveryState if f"| `{state}` |" not in CLI] == []
    assert [state for state in SubscriberState if f"`{state}`" not in ARCHITECTURE] == []


def test_every_format_is_in_both_tables() -> None:
    from digest.dumps.formats.recognition import FORMATS

    names = sorted(known.NAME for known in FORMATS)
    page = (ROOT / "docs" / "dumps.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    assert sorted(name for row in rows for name in re.findall(r"`([^`]+)`", row)) == names
    ours = README.partition("## What it reads")[2].partition("\n## ")[0]
    assert sorted(re.findall(r"`([a-z-]+)`", ours)) == names


def test_every_package_is_in_the_architecture_diagram() -> None:
    rules = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(rule["layers"] for rule in rules if rule.get("exhaustive"))
    packages = {package.strip() for layer in layers for package in layer.split("|")}

    drawn = ARCHITECTURE.split("```")[1]
    assert sorted(package for package in packages if not re.search(rf"\b{package}\b", drawn)) == []
    assert len(ARCHITECTURE.splitlines()) <= 150


def test_every_file_where_reading_starts_exists() -> None:
    files = re.findall(
        r"`([a-z_/]+\.py)`", ARCHITECTURE.partition("## Where to start reading")[2].partition("\n## ")[0]
    )
    assert len(files) >= 15
    assert [file for file in files if not (ROOT / "digest" / file).is_file()] == []


def test_the_changelog_has_entries() -> None:
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")

    assert "## [Unreleased]" in changes or f"## [{__version__}]" in changes


def test_every_link_inside_the_docs_has_a_target() -> None:
    for page in PAGES:
        links = re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)", page.read_text(encoding="utf-8"))

        inside = [
            (page.parent / link if link else page, anchor) for link, anchor in links if "://" not in link
        ]
        assert [(page, *link) for link in inside if not has_target(*link)] == []


def has_target(target: Path, anchor: str) -> bool:
    """Return whether a file exists and, if the link names one, has the heading."""
    if not anchor:
        return target.exists()
    headings = re.findall(r"^#+ (.+)$", target.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return anchor in {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_deployment_settings_parse_in_a_shell_and_in_digest(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
    settings, _dkim = re.findall(r"environment <<'END'\n(.*?)^END$", page, flags=re.MULTILINE | re.DOTALL)
    (tmp_path / "environment").write_text(settings)
    program = "from digest.settings import load_settings; s = load_settings(); print(s.sender, s.database, s.mail, sep=chr(10))"

    read = subprocess.run(
        [
            "sh",
            "-c",
            f'set -a; . ./environment; PYTHONPATH="{ROOT}" exec "$0" -c "{program}"',
            sys.executable,
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )

    assert read.stdout.splitlines() == [
        "Papers <papers@digest.example.org>",
        "postgresql:///digest?host=/var/run/postgresql",
        "smtp://127.0.0.1:25",
    ]


# ── every example runs ──────────────────────────────────────────────────────────────────────────


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder like a checkout in which `make run` was used once, and `digest` is a command."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "digest-data" / "dumps").mkdir(parents=True)
    shutil.copytree(ROOT / "docs" / "examples", tmp_path / "docs" / "examples")
    command = tmp_path / "bin" / "digest"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m digest "$@"\n')
    command.chmod(0o755)
    for name in os.environ:
        if name.startswith(PREFIX):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(tmp_path)
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield tmp_path
    root.handlers[:], root.level = handlers, level


@pytest.mark.usefixtures("shell")
@pytest.mark.parametrize("page", EXAMPLES, ids=name_of)
def test_every_example_prints_the_output_shown(page: Path) -> None:
    checker = doctest.OutputChecker()

    for command, wanted in examples(page.read_text(encoding="utf-8")):
        code, output = run_example(command)

        assert code == 0, f"$ {command}\n{output}"
        assert checker.check_output(wanted, output, doctest.ELLIPSIS), f"$ {command}\n{output}"


SHELL_SYNTAX = frozenset("|&;<>()$`*?~\n")


def run_example(command: str) -> tuple[int, str]:
    """Run a command in this process, or in a shell if it needs one; return its exit code and output."""
    if not command.startswith("digest ") or SHELL_SYNTAX & set(command):
        ran = subprocess.run(
            ["sh", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        return ran.returncode, ran.stdout
    output = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    with redirect_stdout(output), redirect_stderr(output):
        code = main(shlex.split(command)[1:])
    output.seek(0)
    return code, output.read()


def examples(text: str) -> Iterator[tuple[str, str]]:
    """The commands of every console block in turn, each with the output it should print."""
    for block in re.findall(r"^```console\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *more = part.splitlines(keepends=True)
            continued = list(itertools.takewhile(lambda line: line.startswith("> "), more))
            yield (
                "".join([command, *(line.removeprefix("> ") for line in continued)]).rstrip("\n"),
                "".join(more[len(continued) :]),
            )
