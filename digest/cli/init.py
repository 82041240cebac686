"""`digest init`: seven questions, a settings file, a test mail."""

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
from typing import TYPE_CHECKING, Annotated, Any

import typer

from digest.cli import rooms, screen
from digest.errors import BadField, DigestError, UsageError

if TYPE_CHECKING:
    from digest.settings import Settings

NAME = "digest.toml"
HEADING = (
    "# Settings of Digest; the README's table tells of all of them. The environment (DIGEST_...) wins.\n"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """One thing to ask, and the setting that its answer becomes."""

    setting: str
    asks: str
    default: str = ""


QUESTIONS = (
    Question(setting="site_name", asks="What shall it be called", default="Digest"),
    Question(setting="base_url", asks="Its public address", default="http://127.0.0.1:8000"),
    Question(
        setting="mail_url",
        asks="Its mail server, as smtp://user:password@host:587?starttls=true\n(nothing: keep mail here)",
    ),
    Question(setting="sender", asks="Who writes the letters", default="Digest <digest@localhost>"),
    Question(setting="postal_address", asks="A postal address for the foot of every letter"),
    Question(
        setting="signup", asks="Who may subscribe by themselves: open, closed, or domains", default="open"
    ),
)
LAST_QUESTION = "Your own address, for a test mail (nothing: none)"

Text = str | None


def option(name: str, metavar: str, tells: str) -> Any:
    """Return an option of `digest init`."""
    return typer.Option(name, metavar=metavar, help=tells, show_default=False)


def init(
    site_name: Annotated[Text, option("--site-name", "NAME", "The name on pages and letters.")] = None,
    base_url: Annotated[Text, option("--base-url", "URL", "The public address.")] = None,
    mail_url: Annotated[Text, option("--mail-url", "URL", "Where mail goes.")] = None,
    sender: Annotated[Text, option("--sender", "SENDER", "Who writes: Name <address>.")] = None,
    postal_address: Annotated[
        Text, option("--postal-address", "TEXT", "For the foot of every letter.")
    ] = None,
    signup: Annotated[Text, option("--signup", "WHO", "open, closed, or domains.")] = None,
    database_url: Annotated[Text, option("--database-url", "URL", "PostgreSQL rather than SQLite.")] = None,
    broker_url: Annotated[
        Text, option("--broker-url", "URL", "A Redis rather than the embedded one.")
    ] = None,
    test_to: Annotated[Text, option("--test-to", "EMAIL", "Send a test mail there.")] = None,
) -> None:
    """Ask seven questions, write the settings, send a test mail.

    With any option given, or where nobody sits at a terminal, nothing is asked; what the settings file
    says already stays unless it is answered anew.
    """
    given = {
        "site_name": site_name, "base_url": base_url, "mail_url": mail_url, "sender": sender,
        "postal_address": postal_address, "signup": signup, "database_url": database_url, "broker_url": broker_url,
    }  # fmt: skip
    answers: dict[str, Any] = {name: text for name, text in given.items() if text is not None}
    path = settings_file(rooms.read_settings())
    kept = kept_in(path)
    if not answers and test_to is None and sys.stdin.isatty():
        answers, test_to = asked(kept)
    wanted = {name: value for name, value in (kept | answers).items() if value != ""}
    settings = rooms.read_settings(**wanted)
    write(path, wanted)
    screen.tell(f"Settings are in {path}.")
    for name in answers:
        if f"DIGEST_{name.upper()}" in os.environ:
            screen.say(f"note: DIGEST_{name.upper()} is set in the environment, and that wins over the file.")
    if test_to:
        send_test(settings, test_to)
    screen.tell("Start it: digest up")


def settings_file(settings: Settings) -> Path:
    """Return the settings file in use, or where a new one belongs."""
    here = Path(NAME)
    return here.absolute() if here.is_file() else settings.data_dir.absolute() / NAME


def kept_in(path: Path) -> dict[str, Any]:
    """Return what a settings file says."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise UsageError(f"{path} cannot be read: {error}. Mend it or move it away.") from None


def asked(kept: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Ask the seven questions; what does not fit is asked again."""
    screen.say("Seven questions. Enter takes what stands in brackets; nothing is sent before the last.")
    answers = {}
    for question in QUESTIONS:
        answers[question.setting] = answer(question, str(kept.get(question.setting, question.default)))
    return answers, typer.prompt(LAST_QUESTION, default="", show_default=False, err=True)


def answer(question: Question, default: str) -> str:
    """Ask one question until the answer fits."""
    from digest import settings as knobs

    while True:
        text = str(typer.prompt(question.asks, default=default, show_default=bool(default), err=True)).strip()
        try:
            knobs.load({question.setting: text or None})
        except BadField as error:
            screen.say(str(error))
        else:
            return text


def write(path: Path, values: Mapping[str, Any]) -> None:
    """Write the settings file at once and whole, readable by us alone: it may hold passwords."""
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


def send_test(settings: Settings, email: str) -> None:
    """Send one mail through the transport, and tell how it fared in the server's own words."""
    from digest import addresses, transport

    recipient = addresses.checked(email).email
    site = settings.site()
    opened = transport.open(settings.mail, site=site)
    message = transport.Message(
        delivery_id=0, sender=site.sender_address, recipient=recipient, content=test_mail(settings, recipient)
    )
    try:
        (outcome,) = opened.send([message])
    finally:
        opened.close()
    if outcome.verdict is not transport.Verdict.ACCEPTED:
        reply = f" It said: {outcome.code or ''} {outcome.reply}".rstrip()
        raise DigestError(
            f"The test mail to {recipient} was not taken ({outcome.verdict}, {outcome.phase}).{reply}"
        )
    screen.tell(f"A test mail to {recipient} is on its way.")


def test_mail(settings: Settings, recipient: str) -> bytes:
    """Return a small mail that says its settings work."""
    from digest.links import message_id

    site, now = settings.site(), datetime.now(UTC)
    mail = EmailMessage(policy=SMTP)
    mail["From"] = formataddr((site.sender_name, site.sender_address))
    mail["To"] = recipient
    mail["Subject"] = f"{site.name} can write to you"
    mail["Date"] = now
    mail["Message-ID"] = message_id(site, f"test-{now.isoformat()}")
    mail.set_content(f"This is a test from {site.name}, {site.url}.\nIf you can read it, mail works.\n")
    return bytes(mail)
