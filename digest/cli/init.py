"""`digest init`: ask eight questions, write the settings file, load a first list, send a test mail and start."""

from __future__ import annotations

import json
import os
import sys
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formataddr
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from digest.cli import command_context, terminal
from digest.cli.frame import command
from digest.cli.options import AsJson, option
from digest.cli.results import CommandResult
from digest.errors import BadField, DigestError, UsageError

if TYPE_CHECKING:
    from digest.settings import Settings

NAME = "digest.toml"
HEADING = (
    "# Settings of Digest; the README lists them all. The environment (DIGEST_...) overrides this file.\n"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class SetupQuestion:
    """A question, and the setting that stores its answer."""

    setting: str
    prompt: str
    default: str = ""


QUESTIONS = (
    SetupQuestion(setting="site_name", prompt="Name of the site", default="Digest"),
    SetupQuestion(setting="base_url", prompt="Public address (URL)", default="http://127.0.0.1:8000"),
    SetupQuestion(
        setting="mail_url",
        prompt="Mail server, as smtp://user:password@host:587?starttls=true\n(empty: keep mail on this machine)",
    ),
    SetupQuestion(setting="sender", prompt="Sender of the letters", default="Digest <digest@localhost>"),
    SetupQuestion(setting="postal_address", prompt="Postal address for the footer of every letter"),
    SetupQuestion(
        setting="signup",
        prompt="Who may sign up: open (everybody), closed (nobody), or a list of domains",
        default="open",
    ),
)
PAPERS_QUESTION = (
    "Where papers come from: arXiv categories (cs.CL+cs.LG), hf-daily (the daily list of huggingface.co), an https"
    " address,\nor a folder (empty: the folder dumps in the data directory)"
)
LAST_QUESTION = "Your email address, for a test mail (leave empty to skip)"
START_QUESTION = "Start the service now"
START_LATER = "Start it with: digest up"

Text = str | None


@command()
def init(
    site_name: Annotated[Text, option("--site-name NAME", "The name on pages and in letters.")] = None,
    base_url: Annotated[Text, option("--base-url URL", "The public address.")] = None,
    mail_url: Annotated[Text, option("--mail-url URL", "The mail server.")] = None,
    sender: Annotated[Text, option("--sender SENDER", "The sender: Name <address>.")] = None,
    postal_address: Annotated[
        Text, option("--postal-address TEXT", "The postal address in the footer of every letter.")
    ] = None,
    signup: Annotated[
        Text,
        option(
            "--signup WHO", "Who may sign up: open (anyone), closed (nobody), or a list of email domains."
        ),
    ] = None,
    database_url: Annotated[
        Text, option("--database-url URL", "A PostgreSQL database instead of SQLite.")
    ] = None,
    broker_url: Annotated[
        Text, option("--broker-url URL", "A Redis server instead of the embedded broker.")
    ] = None,
    papers: Annotated[
        Text,
        option("--papers SOURCE", "Where papers come from: a source, as in digest sources add, or a folder."),
    ] = None,
    test_to: Annotated[Text, option("--test-to EMAIL", "Send a test mail to EMAIL.")] = None,
    start: Annotated[bool, option("--start", "Start the service afterwards, as digest up does.")] = False,
    as_json: AsJson = False,
) -> CommandResult:
    """Ask eight questions, write the settings file, load a first list of papers, send a test mail and start the service.

    It asks questions only in a terminal, and only if no option is given. Settings in the file are kept unless you give new values.

    Examples:
        digest init
        digest init --site-name 'Lab Papers' --base-url https://papers.example.org
        digest init --test-to you@example.org --start
    """
    given = {
        "site_name": site_name, "base_url": base_url, "mail_url": mail_url, "sender": sender,
        "postal_address": postal_address, "signup": signup, "database_url": database_url, "broker_url": broker_url,
    }  # fmt: skip
    answers: dict[str, Any] = {name: text for name, text in given.items() if text is not None}
    path = settings_file(command_context.read_settings(makes_service=True))
    kept = read_settings_file(path)
    is_asking = not (answers or papers or test_to or start or as_json) and sys.stdin.isatty()
    if is_asking:
        answers, papers, test_to = ask_questions(kept)
    source, folder = source_or_folder(papers or "")
    answers |= {"dumps_dir": str(folder)} if folder else {}
    settings = store_answers(path, kept | answers, answers)
    loaded = load_first_list(source) if papers else []
    tested = send_test(settings, test_to) if test_to else None
    report = {"file": str(path), "changed": sorted(answers), "papers": loaded, "test_mail_to": tested}
    sent = f"Sent a test mail to {tested}." if tested else ()
    if start or is_asking:
        CommandResult(report, sent).show(as_json=as_json)
        if start or typer.confirm(START_QUESTION, default=True, err=True):
            start_service(settings)
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
    from digest.cli import sources
    from digest.cli.publishing import load_dumps_folder

    now = datetime.now(UTC)
    with command_context.open_context(makes_service=True) as context:
        if source:
            row, filled, _days = sources.add_source(context, source, now=now)
            found = sources.poll_with_progress(context, now, [row["name"]])
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


def start_service(settings: Settings) -> NoReturn:
    """Run the service until Ctrl-C."""
    from digest.cli import up

    raise typer.Exit(up.run(settings))


def settings_file(settings: Settings) -> Path:
    """Return the path of the settings file in use, or of a new one."""
    here = Path(NAME)
    return here.absolute() if here.is_file() else settings.data_dir.absolute() / NAME


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
    answers = {}
    for question in QUESTIONS:
        answers[question.setting] = ask_question(
            question, str(current.get(question.setting, question.default))
        )
    return answers, ask_for_papers(), typer.prompt(LAST_QUESTION, default="", show_default=False, err=True)


def ask_for_papers() -> str:
    """Ask where papers come from until the answer is a source or a folder, and return the answer."""
    while True:
        text = str(typer.prompt(PAPERS_QUESTION, default="", show_default=False, err=True)).strip()
        try:
            source_or_folder(text)
        except BadField as error:
            terminal.print_note(str(error))
        else:
            return text


def ask_question(question: SetupQuestion, default: str) -> str:
    """Ask one question until the answer is valid, and return the answer."""
    from digest.settings import load_settings

    while True:
        text = str(
            typer.prompt(question.prompt, default=default, show_default=bool(default), err=True)
        ).strip()
        try:
            load_settings({question.setting: text or None})
        except BadField as error:
            terminal.print_note(str(error))
        else:
            return text


def write(path: Path, values: Mapping[str, Any]) -> None:
    """Replace the settings file in one step, readable only by its owner: it may contain passwords."""
    text = HEADING + "".join(
        f"{name} = {json.dumps(value, ensure_ascii=False)}\n" for name, value in values.items()
    )
    fresh = path.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    with os.fdopen(
        os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8"
    ) as file:
        file.write(text)
    fresh.replace(path)


def send_test(settings: Settings, email: str) -> str:
    """Send one test message and return its recipient.

    Raises BadField if the address is invalid, SetupMismatch if readers could not open our links, and
    DigestError with the server's reply if the message is not accepted.
    """
    from digest.delivery.transports import open_transport
    from digest.delivery.transports.transport import Message, Verdict
    from digest.mail import addresses

    recipient = addresses.parse_address(email).email
    site = settings.site()
    opened = open_transport.open_transport(settings.mail, site=site)
    message = Message(
        delivery_id=0, sender=site.sender_address, recipient=recipient, content=test_mail(settings, recipient)
    )
    try:
        (outcome,) = opened.send([message])
    finally:
        opened.close()
    if outcome.verdict is not Verdict.ACCEPTED:
        reply = f" The server replied: {outcome.code or ''} {outcome.reply}".rstrip()
        raise DigestError(
            f"The test mail to {recipient} was not accepted ({outcome.verdict}, {outcome.phase}).{reply}"
        )
    return recipient


def test_mail(settings: Settings, recipient: str) -> bytes:
    """Return a short test mail."""
    from digest.site.links import message_id

    site, now = settings.site(), datetime.now(UTC)
    mail = EmailMessage(policy=SMTP)
    mail["From"] = formataddr((site.sender_name, site.sender_address))
    mail["To"] = recipient
    mail["Subject"] = f"{site.name} can write to you"
    mail["Date"] = now
    mail["Message-ID"] = message_id(site, f"test-{now.isoformat()}")
    text = f"This is a test from {site.name}, {site.url}.\nIf you can read it, mail works.\n"
    mail.set_content(text, cte="quoted-printable")  # a transport requires an ASCII body
    return bytes(mail)
