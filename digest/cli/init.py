"""`digest init`: ask seven questions, write the settings file, send a test mail and start the service."""

from __future__ import annotations

import json
import os
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formataddr
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from digest.cli import command_context, terminal
from digest.cli.common_options import AsJson
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
LAST_QUESTION = "Your email address, for a test mail (leave empty to skip)"
START_QUESTION = "Start the service now"

OptionalText = str | None


def option(name: str, metavar: str, help_text: str) -> Any:
    """Return an option of `digest init`; the help does not show its default."""
    return typer.Option(name, metavar=metavar, help=help_text, show_default=False)


def init(
    site_name: Annotated[
        OptionalText, option("--site-name", "NAME", "The name on pages and in letters.")
    ] = None,
    base_url: Annotated[OptionalText, option("--base-url", "URL", "The public address.")] = None,
    mail_url: Annotated[OptionalText, option("--mail-url", "URL", "The mail server.")] = None,
    sender: Annotated[OptionalText, option("--sender", "SENDER", "The sender: Name <address>.")] = None,
    postal_address: Annotated[
        OptionalText, option("--postal-address", "TEXT", "The postal address in the footer of every letter.")
    ] = None,
    signup: Annotated[
        OptionalText,
        option(
            "--signup", "WHO", "Who may sign up: open (anyone), closed (nobody), or a list of email domains."
        ),
    ] = None,
    database_url: Annotated[
        OptionalText, option("--database-url", "URL", "A PostgreSQL database instead of SQLite.")
    ] = None,
    broker_url: Annotated[
        OptionalText, option("--broker-url", "URL", "A Redis server instead of the embedded broker.")
    ] = None,
    test_to: Annotated[OptionalText, option("--test-to", "EMAIL", "Send a test mail to EMAIL.")] = None,
    start: Annotated[
        bool, typer.Option("--start", help="Start the service afterwards, as digest up does.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Ask seven questions, write the settings file, send a test mail and start the service.

    It asks questions only in a terminal, and only if no option is given. Settings in the file are kept unless you give new values.
    """
    given = {
        "site_name": site_name, "base_url": base_url, "mail_url": mail_url, "sender": sender,
        "postal_address": postal_address, "signup": signup, "database_url": database_url, "broker_url": broker_url,
    }  # fmt: skip
    answers: dict[str, Any] = {name: text for name, text in given.items() if text is not None}
    path = settings_file(command_context.read_settings(makes_service=True))
    kept = read_settings_file(path)
    is_asking = not (answers or test_to or start or as_json) and sys.stdin.isatty()
    if is_asking:
        answers, test_to = ask_questions(kept)
    values = {name: value for name, value in (kept | answers).items() if value != ""}
    settings = command_context.read_settings(makes_service=True, **values)
    write(path, values)
    if not as_json:
        terminal.print_line(f"Settings are in {path}.")
    for name in answers:
        if f"DIGEST_{name.upper()}" in os.environ:
            terminal.print_note(
                f"note: DIGEST_{name.upper()} is set in the environment, which overrides the file."
            )
    tested = send_test(settings, test_to) if test_to else None
    if as_json:
        terminal.print_json({"file": str(path), "changed": sorted(answers), "test_mail_to": tested})
    elif tested:
        terminal.print_line(f"Sent a test mail to {tested}.")
    if start or (is_asking and typer.confirm(START_QUESTION, default=True, err=True)):
        start_service(settings)
    if not as_json:
        terminal.print_line("Start it with: digest up")


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


def ask_questions(current: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Ask the seven questions; return the settings, and the address for a test mail."""
    terminal.print_note(
        "Seven questions. Enter keeps the value in brackets. Nothing is sent before the last question."
    )
    answers = {}
    for question in QUESTIONS:
        answers[question.setting] = ask_question(
            question, str(current.get(question.setting, question.default))
        )
    return answers, typer.prompt(LAST_QUESTION, default="", show_default=False, err=True)


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
    from digest import addresses
    from digest.delivery import transports

    recipient = addresses.parse_address(email).email
    site = settings.site()
    opened = transports.open_transport(settings.mail, site=site)
    message = transports.Message(
        delivery_id=0, sender=site.sender_address, recipient=recipient, content=test_mail(settings, recipient)
    )
    try:
        (outcome,) = opened.send([message])
    finally:
        opened.close()
    if outcome.verdict is not transports.Verdict.ACCEPTED:
        reply = f" The server replied: {outcome.code or ''} {outcome.reply}".rstrip()
        raise DigestError(
            f"The test mail to {recipient} was not accepted ({outcome.verdict}, {outcome.phase}).{reply}"
        )
    return recipient


def test_mail(settings: Settings, recipient: str) -> bytes:
    """Return a short test mail."""
    from digest.links import message_id

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
