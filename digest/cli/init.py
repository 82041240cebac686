"""`digest init`: ask eight questions, write the settings file, load a first list, send a test mail and start."""

from __future__ import annotations

import json
import os
import sys
import tomllib
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from digest.cli import command_context, terminal
from digest.cli.frame import command, with_options
from digest.cli.options import AsJson, option
from digest.cli.results import CommandResult
from digest.errors import BadField, UsageError

if TYPE_CHECKING:
    from digest.settings import Settings

NAME = "digest.toml"
HEADING = (
    "# Settings of Digest; the README lists them all. The environment (DIGEST_...) overrides this file.\n"
)


#: The settings that the command stores: what their options take, and what they mean.
SETTINGS = {
    "site_name": ("NAME", "Name of the site, on pages and in letters"),
    "base_url": ("URL", "Public address"),
    "mail_url": (
        "URL",
        "Mail server, as smtp://user:secret@host:587?starttls=true (empty: keep mail on this machine)",
    ),
    "sender": ("SENDER", "Sender of the letters, as Name <address>"),
    "postal_address": ("TEXT", "Postal address for the footer of every letter"),
    "signup": ("WHO", "Who may sign up: open (anyone), closed (nobody), or a list of email domains"),
    "database_url": ("URL", "PostgreSQL database instead of SQLite"),
    "broker_url": ("URL", "Redis server instead of the embedded broker"),
}
#: The settings that the command asks for, and the answer that Enter gives.
DEFAULTS = {
    "site_name": "Digest", "base_url": "http://127.0.0.1:8000", "mail_url": "",
    "sender": "Digest <digest@localhost>", "postal_address": "", "signup": "open",
}  # fmt: skip
PAPERS_QUESTION = (
    "Where papers come from: arXiv categories (cs.CL+cs.LG), hf-daily (the daily list of huggingface.co), an https"
    " address,\nor a folder (empty: the folder dumps in the data directory)"
)
LAST_QUESTION = "Your email address, for a test mail (leave empty to skip)"
START_QUESTION = "Start the service now"
START_LATER = "Start it with: digest up"

SETTING_OPTIONS = {
    name: Annotated[str | None, option(f"--{name.replace('_', '-')} {metavar}", f"{meaning}.", ...)]
    for name, (metavar, meaning) in SETTINGS.items()
}


@command()
@with_options("answers", SETTING_OPTIONS)
def init(
    answers: dict[str, Any],
    papers: str | None = option(
        "--papers SOURCE", "Where papers come from: a source, as in digest sources add, or a folder."
    ),
    test_to: str | None = option("--test-to EMAIL", "Send a test mail to EMAIL."),
    start: bool = option("--start", "Start the service afterwards, as digest up does."),
    as_json: AsJson = False,
) -> CommandResult:
    """Ask eight questions, write the settings file, load a first list of papers, send a test mail and start the service.

    It asks questions only in a terminal, and only if no option is given. Settings in the file are kept unless you give new values.

    Examples:
        digest init
        digest init --site-name 'Lab Papers' --base-url https://papers.example.org
        digest init --test-to you@example.org --start
    """
    data_dir, here = command_context.read_settings(makes_service=True).data_dir, Path(NAME)
    path = here.absolute() if here.is_file() else data_dir.absolute() / NAME
    kept = read_settings_file(path)
    is_asking = not (answers or papers or test_to or start or as_json) and sys.stdin.isatty()
    if is_asking:
        answers, papers, test_to = ask_questions(kept)
    source, folder = source_or_folder(papers or "")
    answers |= {"dumps_dir": str(folder)} if folder else {}
    settings = store_answers(path, kept | answers, answers)
    loaded = load_first_list(source) if papers else []
    tested = send_test(test_to) if test_to else None
    report = {"file": str(path), "changed": sorted(answers), "papers": loaded, "test_mail_to": tested}
    sent = f"Sent a test mail to {tested}." if tested else ()
    if start or is_asking:
        CommandResult(report, sent).show(as_json=as_json)
        if start or typer.confirm(START_QUESTION, default=True, err=True):
            from digest.cli import up

            raise typer.Exit(up.run(settings))
        return CommandResult(report, START_LATER)
    return CommandResult(report, (sent, START_LATER))


def store_answers(path: Path, values: Mapping[str, Any], answers: Collection[str]) -> Settings:
    """Write the settings file, and note which answers the environment overrides; return the settings."""
    kept = {name: value for name, value in values.items() if value != ""}
    settings = command_context.read_settings(makes_service=True, **kept)
    write(path, kept)
    terminal.print_note(f"Settings are in {path}.")
    for name in answers:
        if f"DIGEST_{name.upper()}" in os.environ:
            terminal.print_note(
                f"note: DIGEST_{name.upper()} is set in the environment, which overrides the file."
            )
    return settings


def source_or_folder(text: str) -> tuple[str, Path | None]:
    """Return the name of a source, or the folder in which lists arrive; arXiv categories need no prefix.

    Raises BadField if the text is neither.
    """
    from digest.dumps.sources import source_presets

    if not text:
        return "", None
    if text.startswith(("/", "./", "~")):
        folder = Path(text).expanduser().absolute()
        if not folder.is_dir():
            raise BadField("papers", f"{folder} is not a folder.")
        return "", folder
    name = (
        f"arxiv:{text}" if source_presets.ARCHIVE.fullmatch(text) and ("." in text or "+" in text) else text
    )
    source_presets.preset_for(name)
    return name, None


def load_first_list(source: str) -> list[str]:
    """Add a source and load its past and its latest list, or load the lists in the folder; return the results.

    A source that cannot be reached stays: the scheduler tries again.
    """
    from digest.cli import dumps
    from digest.cli.publishing import load_dumps_folder

    now = datetime.now(UTC)
    with command_context.open_context(makes_service=True) as context:
        if source:
            row, filled, _days = dumps.add_source(context, source, now)
            found = dumps.poll_with_progress(context, now, [row["name"]])
            lines = [
                f"{row['name']}: {filled.result} (history)",
                *(f"{one.source}: {one.result}" for one in found),
            ]
        else:
            loads = load_dumps_folder(context, now)
            lines = [f"{Path(one['path']).name}: {one['papers']} papers, {one['new']} new" for one in loads]
    for line in lines:
        terminal.print_note(line)
    return lines


def read_settings_file(path: Path) -> dict[str, Any]:
    """Return the settings in a file, or none if the file does not exist."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise UsageError(f"{path} cannot be read: {error}. Correct the file, or move it elsewhere.") from None


def ask_questions(current: Mapping[str, Any]) -> tuple[dict[str, Any], str, str]:
    """Ask the eight questions; return the settings, where papers come from, and the address for a test mail."""
    terminal.print_note(
        "Eight questions. Enter keeps the value in brackets. Nothing is sent before the last question."
    )
    answers = {
        name: ask_setting(name, SETTINGS[name][1], str(current.get(name, default)))
        for name, default in DEFAULTS.items()
    }
    papers = ask(PAPERS_QUESTION, "", source_or_folder)
    return answers, papers, typer.prompt(LAST_QUESTION, default="", show_default=False, err=True)


def ask_setting(name: str, prompt: str, default: str) -> str:
    """Ask for a setting until the answer is valid, and return the answer."""
    from digest.settings import load_settings

    return ask(prompt, default, lambda text: load_settings({name: text or None}))


def ask(prompt: str, default: str, check: Callable[[str], object]) -> str:
    """Ask a question until the check raises no BadField, and return the answer."""
    while True:
        text = str(typer.prompt(prompt, default=default, show_default=bool(default), err=True)).strip()
        try:
            check(text)
        except BadField as error:
            terminal.print_note(str(error))
        else:
            return text


def write(path: Path, values: Mapping[str, Any]) -> None:
    """Replace the settings file in one step, readable only by its owner: it may contain passwords."""
    from digest.settings import write_private

    text = HEADING + "".join(
        f"{name} = {json.dumps(value, ensure_ascii=False)}\n" for name, value in values.items()
    )
    write_private(path, text, replaces=True)


def send_test(email: str) -> str:
    """Send a test letter and return its recipient; raise DigestError with the server's reply if it is not accepted."""
    from digest.mail import addresses
    from digest.monitoring import letter_checks

    with command_context.open_context(makes_service=True) as context:
        letter_checks.send_test_letter(context, email)
    return addresses.parse_address(email).email
