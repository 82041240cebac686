"""`digest doctor`: what is wrong, and how to mend it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import unquote, urlsplit

import typer

from digest import probes
from digest.cli import postal, rooms, screen, status
from digest.cli.options import AsJson, Now, clock
from digest.errors import DigestError
from digest.links import LOCAL_URL

if TYPE_CHECKING:
    from digest.cli.seals import Told
    from digest.settings import Settings

FACTS = 3  #: of a trouble that are shown; the letter about it has them all
ROOM = 500_000_000  #: free bytes below which a disk is called nearly full


class Health(StrEnum):
    """How a thing is."""

    FINE = "fine"  #: nothing to do
    HINT = "hint"  #: works, and could be better
    WRONG = "wrong"  #: does not work


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """One thing that was looked at."""

    thing: str
    health: Health
    says: str
    mend: str = ""


def doctor(
    send_to: Annotated[
        str | None,
        typer.Option(
            "--send-test", metavar="EMAIL", help="Send a test letter there, too.", show_default=False
        ),
    ] = None,
    arrived: Annotated[
        Path | None,
        typer.Option(
            "--arrived",
            metavar="PATH",
            help="Look at a letter as it arrived: a saved one, or with --send-test the Maildir where it is waited for.",
            show_default=False,
        ),
    ] = None,
    now: Now = None,
    as_json: AsJson = False,
) -> None:
    """Check every part, and say how to mend what is wrong.

    Exits with 1 if something is wrong.
    """
    findings = list(examine(rooms.read_settings(), clock(now)))
    if send_to is not None or arrived is not None:
        findings.extend(tried(send_to, arrived))
    if as_json:
        screen.lines(asdict(finding) for finding in findings)
    else:
        for finding in findings:
            show(finding)
    if any(finding.health is Health.WRONG for finding in findings):
        raise typer.Exit(1)


def tried(email: str | None, arrived: Path | None) -> Iterator[Finding]:
    """Send a test letter as the workers would, and look at the very bytes: those that were sent, or that arrived."""
    try:
        for told in letters_told(email, arrived):
            yield found("test", told)
    except postal.Unanswered as reason:
        says = f"Could not look up the keys of its signatures ({reason})."
        yield Finding(
            thing="test", health=Health.HINT, says=says, mend="Ask again where the DNS can be reached."
        )
    except DigestError as error:
        yield Finding(thing="test", health=Health.WRONG, says=str(error))


def letters_told(email: str | None, arrived: Path | None) -> Iterator[Told]:
    """Return what there is to say of a letter that is sent now, or of one that was kept."""
    if email is not None:
        return postal.trial_told(email, arrived)
    with rooms.opened() as house:
        return postal.arrival_told(arrived or Path(), (), house.site, is_signed=bool(house.signers))


def show(finding: Finding) -> None:
    """Show one finding to a person."""
    mark = {Health.FINE: "ok", Health.HINT: "--", Health.WRONG: "!!"}[finding.health]
    screen.paragraph(f"{mark}  {finding.thing.ljust(10)} ", finding.says)
    if finding.mend:
        screen.paragraph(" " * 15, finding.mend)


def examine(settings: Settings, now: datetime) -> Iterator[Finding]:
    """Look at one thing after the other; a thing that cannot be looked at is itself a finding."""
    checks: tuple[tuple[str, Callable[[], Iterator[Finding]]], ...] = (
        ("data", lambda: check_data(settings)),
        ("secrets", lambda: check_secrets(settings)),
        ("dumps", lambda: check_dumps(settings)),
        ("templates", lambda: check_templates(settings)),
        ("database", lambda: check_database(settings, now)),
        ("broker", lambda: check_broker(settings)),
        ("mail", lambda: check_mail(settings)),
        ("address", lambda: check_address(settings)),
        ("proxies", lambda: check_front(settings)),
        ("names", lambda: check_way(settings)),
    )
    for thing, check in checks:
        try:
            yield from check()
        except DigestError as error:
            yield Finding(thing=thing, health=Health.WRONG, says=str(error))
        except OSError as error:
            yield Finding(
                thing=thing, health=Health.WRONG, says=f"{error.filename or thing}: {error.strerror}"
            )


# ── this machine ────────────────────────────────────────────────────────────────────────────────


def check_data(settings: Settings) -> Iterator[Finding]:
    """Look at the data directory and the room left beside it."""
    folder = settings.data_dir.absolute()
    if not os.access(folder, os.W_OK | os.X_OK):
        mend = "Give it to the user who runs digest, or set DIGEST_DATA_DIR to another folder."
        yield Finding(thing="data", health=Health.WRONG, says=f"{folder} cannot be written to.", mend=mend)
        return
    free = shutil.disk_usage(folder).free
    if free < ROOM:
        mend = "Make room: a full disk stops the database in mid-sentence."
        yield Finding(thing="data", health=Health.HINT, says=f"{folder}: {free // 10**6} MB free.", mend=mend)
        return
    yield Finding(thing="data", health=Health.FINE, says=f"{folder}, {free / 10**9:.1f} GB free")


def check_secrets(settings: Settings) -> Iterator[Finding]:
    """Look at who may read the keys."""
    settings.site()
    for name in ("secret_key", "pepper", "digest.toml"):
        path = settings.data_dir / name
        if path.exists() and path.stat().st_mode & 0o077:
            yield Finding(
                thing="secrets",
                health=Health.WRONG,
                says=f"Others on this machine may read {path}.",
                mend=f"chmod 600 {path}",
            )
            return
    yield Finding(thing="secrets", health=Health.FINE, says="readable by us alone")


def check_dumps(settings: Settings) -> Iterator[Finding]:
    """Look at the folder where dumps are dropped."""
    folder = settings.dumps
    if not folder.is_dir():
        says, mend = f"{folder} is not there yet.", f"mkdir -p {folder}; digest up makes it, too."
        yield Finding(thing="dumps", health=Health.HINT, says=says, mend=mend)
    elif not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        mend = "We move dumps that were read to done/ beside them: give us the right to write there."
        yield Finding(thing="dumps", health=Health.WRONG, says=f"{folder} cannot be written to.", mend=mend)
    else:
        yield Finding(thing="dumps", health=Health.FINE, says=str(folder))


def check_templates(settings: Settings) -> Iterator[Finding]:
    """Look at the templates of the letters."""
    from digest.rendering import Templates
    from digest.settings import templates_dir

    templates = Templates(templates_dir(), settings.overrides)
    ours = f", and before them {settings.overrides}" if settings.overrides.is_dir() else ""
    says = f"{templates_dir()}{ours} ({templates.fingerprint[:12]})"
    yield Finding(thing="templates", health=Health.FINE, says=says)


# ── what we stand on ────────────────────────────────────────────────────────────────────────────


def check_database(settings: Settings, now: datetime) -> Iterator[Finding]:
    """Look at the database, its schema, and what it tells of the house: what the operator is written to about."""
    from digest import watching

    with rooms.opened() as house, house.reading() as session:
        where = status.masked(settings.database)
        yield Finding(thing="database", health=Health.FINE, says=f"{where}, schema up to date")
        broken = [*watching.idle(session, now), *watching.stopped(session)]
        for trouble in watching.troubles(session, now=now):
            facts = [*trouble.facts[:FACTS], *(["..."] if len(trouble.facts) > FACTS else [])]
            says = f"{trouble.wrong}: {'; '.join(facts)}" if facts else f"{trouble.wrong}."
            health = Health.WRONG if trouble in broken else Health.HINT
            yield Finding(thing="house", health=health, says=says, mend=trouble.mend)


def check_broker(settings: Settings) -> Iterator[Finding]:
    """Ask the broker whether it is there; the embedded one runs only while `digest up` does."""
    where = status.masked(settings.broker)
    try:
        answer = probes.ask_broker(settings.broker)
    except OSError as error:
        if settings.broker_url is None:
            says = "the embedded one is not running; digest up starts it"
            yield Finding(thing="broker", health=Health.FINE, says=says)
            return
        says = f"{where} does not answer ({error.strerror or error})."
        yield Finding(
            thing="broker", health=Health.WRONG, says=says, mend="Start Redis, or set DIGEST_BROKER_URL."
        )
        return
    if answer.startswith("+PONG"):
        yield Finding(thing="broker", health=Health.FINE, says=where)
    else:
        mend = "Set user and password in DIGEST_BROKER_URL: redis://user:password@host:6379/0"
        yield Finding(thing="broker", health=Health.WRONG, says=f"{where} says: {answer}", mend=mend)


def check_mail(settings: Settings) -> Iterator[Finding]:
    """Go as far with the mail server as the first letter would; nothing is sent."""
    from digest import transport

    transport.open(settings.mail, site=settings.site()).close()
    parts = urlsplit(settings.mail)
    if parts.scheme not in transport.SERVERS:
        folder = unquote(parts.path)
        wrong = probes.folder_trouble(Path(folder))
        told = (not wrong, f"{wrong}." if wrong else f"kept in {folder}; nobody is written to",
                "Give it to the user who runs digest, or set DIGEST_MAIL_URL." if wrong else "")  # fmt: skip
        yield found("mail", told)
        return
    for url in transport.parted(settings.mail):
        yield found("mail", postal.server_told(url))


def check_way(settings: Settings) -> Iterator[Finding]:
    """Look at what receivers will look at, once mail leaves this machine for real readers."""
    site = settings.site()
    if site.is_local or urlsplit(settings.mail).scheme not in {"smtp", "smtps", "lmtp"}:
        return
    with rooms.opened() as house:
        signers = house.signers
    for told in postal.letter_told(site, signers):
        yield found("letter", told, otherwise=Health.HINT)
    for told in postal.names_told(site, signers):
        yield found("names", told, otherwise=Health.HINT)
    yield found("names", postal.reverse_told(urlsplit(site.url).hostname or ""), otherwise=Health.HINT)


def found(thing: str, told: Told, *, otherwise: Health = Health.WRONG) -> Finding:
    """Return what was told as a finding."""
    is_well, says, mend = told
    return Finding(thing=thing, health=Health.FINE if is_well else otherwise, says=says, mend=mend)


def check_front(settings: Settings) -> Iterator[Finding]:
    """Ask our own address what stands in front of the web door; where mail stays here, nobody need answer."""
    site = settings.site()
    try:
        mirrored = probes.reflection(site, clock(None))
    except OSError as error:
        if not site.is_local:
            says = f"{site.url} does not answer from here ({error.strerror or error})."
            mend = "No link in a letter works without it. Start digest web, and what stands in front of it."
            yield Finding(thing="proxies", health=Health.HINT, says=says, mend=mend)
        return
    if (
        settings.base_url != LOCAL_URL or mirrored.status == HTTPStatus.OK
    ):  # or nobody said where our pages are
        yield found("proxies", postal.front_told(site, mirrored))


def check_address(settings: Settings) -> Iterator[Finding]:
    """Look at what readers will see of us."""
    site = settings.site()
    if site.is_local:
        says = f"{site.url} works on this machine only; fine while mail stays here."
        mend = "For real readers: set DIGEST_BASE_URL to your public https address."
        yield Finding(thing="address", health=Health.HINT, says=says, mend=mend)
    elif not site.is_https:
        says, mend = f"{site.url} is not https.", "Mail programs want https behind the unsubscribe button."
        yield Finding(thing="address", health=Health.WRONG, says=says, mend=mend)
    else:
        yield Finding(thing="address", health=Health.FINE, says=site.url)
    if settings.mail_url is not None and not site.postal_address:
        says = "No postal address stands in the letters."
        mend = "Many countries want one: set DIGEST_POSTAL_ADDRESS."
        yield Finding(thing="address", health=Health.HINT, says=says, mend=mend)
    if settings.mail_url is not None and not settings.operator_email:
        says = "Nobody is written to when something stops or mail is refused."
        mend = "Set DIGEST_OPERATOR_EMAIL to an address of yours."
        yield Finding(thing="operator", health=Health.HINT, says=says, mend=mend)
