"""`digest doctor`: diagnose problems and suggest fixes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import unquote, urlsplit

import typer

from digest.cli import command_context, mail_path_checks, status, terminal
from digest.cli.common_options import AsJson, Now, current_time
from digest.dns_records import DnsUnavailable
from digest.errors import DigestError
from digest.monitoring import probes
from digest.site_profile import LOCAL_URL

if TYPE_CHECKING:
    from digest.cli.dkim_checks import CheckOutcome
    from digest.settings import Settings


class CheckStatus(StrEnum):
    """The result of a check."""

    OK = "ok"  #: nothing to do
    WARNING = "warning"  #: works, but could be better
    ERROR = "error"  #: does not work


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckResult:
    """What one check found, and how to fix it."""

    subject: str
    status: CheckStatus
    message: str
    fix: str = ""


def ok(subject: str, message: str) -> CheckResult:
    """Return a result with nothing to do."""
    return CheckResult(subject=subject, status=CheckStatus.OK, message=message)


def warning(subject: str, message: str, fix: str) -> CheckResult:
    """Return a result that could be better."""
    return CheckResult(subject=subject, status=CheckStatus.WARNING, message=message, fix=fix)


def error(subject: str, message: str, fix: str = "") -> CheckResult:
    """Return a result that must be fixed."""
    return CheckResult(subject=subject, status=CheckStatus.ERROR, message=message, fix=fix)


def doctor(
    send_to: Annotated[
        str | None,
        typer.Option("--send-test", metavar="EMAIL", help="Also send a test letter.", show_default=False),
    ] = None,
    received: Annotated[
        Path | None,
        typer.Option(
            "--received",
            metavar="PATH",
            help="Check a received letter: a saved file, or with --send-test the Maildir it arrives in.",
            show_default=False,
        ),
    ] = None,
    now: Now = None,
    as_json: AsJson = False,
) -> None:
    """Diagnose problems and suggest fixes.

    Exits with 1 if something does not work.
    """
    results = list(run_checks(command_context.read_settings(), current_time(now)))
    if send_to is not None or received is not None:
        results.extend(check_test_letter(send_to, received))
    if as_json:
        terminal.lines(asdict(result) for result in results)
    else:
        for result in results:
            show(result)
    if any(result.status is CheckStatus.ERROR for result in results):
        raise typer.Exit(1)


def check_test_letter(email: str | None, received: Path | None) -> Iterator[CheckResult]:
    """Check a letter that is sent now, or one that was received."""
    try:
        for outcome in test_letter_checks(email, received):
            yield to_result("test", outcome)
    except DnsUnavailable as reason:
        yield warning(
            "test",
            f"Could not look up the keys of its signatures ({reason}).",
            "Run this again where the DNS can be reached.",
        )
    except DigestError as problem:
        yield error("test", str(problem))


def test_letter_checks(email: str | None, received: Path | None) -> Iterator[CheckOutcome]:
    """Return the checks of a letter that is sent now, or of a saved one."""
    if email is not None:
        return mail_path_checks.send_and_check_test_letter(email, received)
    with command_context.open_context() as context:
        return mail_path_checks.check_received_letter(
            received or Path(), (), context.site, is_signed=bool(context.signers)
        )


def show(result: CheckResult) -> None:
    """Print one result."""
    mark = {CheckStatus.OK: "ok", CheckStatus.WARNING: "--", CheckStatus.ERROR: "!!"}[result.status]
    terminal.print_paragraph(f"{mark}  {result.subject.ljust(10)} ", result.message)
    if result.fix:
        terminal.print_paragraph(" " * 15, result.fix)


def run_checks(settings: Settings, now: datetime) -> Iterator[CheckResult]:
    """Run one check after the other; a check that fails is itself a result."""
    checks: tuple[tuple[str, Callable[[], Iterator[CheckResult]]], ...] = (
        ("data", lambda: check_data(settings)),
        ("secrets", lambda: check_secrets(settings)),
        ("dumps", lambda: check_dumps(settings)),
        ("templates", lambda: check_templates(settings)),
        ("database", lambda: check_database(settings, now)),
        ("broker", lambda: check_broker(settings)),
        ("mail", lambda: check_mail(settings)),
        ("address", lambda: check_base_url(settings)),
        ("proxies", lambda: check_web_access(settings)),
        ("names", lambda: check_mail_path(settings)),
    )
    for subject, check in checks:
        try:
            yield from check()
        except DigestError as problem:
            yield error(subject, str(problem))
        except OSError as problem:
            yield error(subject, f"{problem.filename or subject}: {problem.strerror}")


# ── this machine ────────────────────────────────────────────────────────────────────────────────


def check_data(settings: Settings) -> Iterator[CheckResult]:
    """Check the data directory, and the free space on every disk that is written to."""
    from digest.monitoring import readiness

    folder = settings.data_dir.absolute()
    if not os.access(folder, os.W_OK | os.X_OK):
        fix = "Give it to the user who runs digest, or set DIGEST_DATA_DIR to another folder."
        yield error("data", f"{folder} cannot be written to.", fix)
        return
    disks = readiness.writable_disks(settings)
    for problem in readiness.disk_problems(disks):
        result = warning if problem.is_warning else error
        yield result("data", f"{problem.message}.", problem.fix)
    if not any(disk.is_low for disk in disks):
        yield ok("data", f"{folder}: {'; '.join(map(str, disks))}")


def check_secrets(settings: Settings) -> Iterator[CheckResult]:
    """Check that nobody else on this machine can read the keys and the database, or list their folder."""
    settings.site()
    folder = settings.data_dir
    private = [folder / name for name in ("secret_key", "pepper", "digest.toml")]
    if settings.database.startswith("sqlite:///"):
        file = settings.database.removeprefix("sqlite:///")
        private += [Path(file + end) for end in ("", "-wal", "-shm")]
    readable = [str(path) for path in private if path.exists() and path.stat().st_mode & 0o077]
    if readable:
        yield error(
            "secrets",
            f"Other users of this machine can read {', '.join(readable)}.",
            f"chmod 600 {' '.join(readable)}",
        )
    if folder.exists() and folder.stat().st_mode & 0o077:
        message = f"Other users of this machine can list {folder}, which contains addresses and mail."
        yield warning("secrets", message, f"chmod 700 {folder}")
    elif not readable:
        yield ok("secrets", "readable only by this user")


def check_dumps(settings: Settings) -> Iterator[CheckResult]:
    """Check the folder for dumps."""
    folder = settings.dumps
    if not folder.is_dir():
        yield warning(
            "dumps", f"{folder} does not exist yet.", f"mkdir -p {folder}; digest up also creates it."
        )
    elif not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        fix = "Give it to the user who runs digest: dumps that were read are moved to its subfolder done/."
        yield error("dumps", f"{folder} cannot be written to.", fix)
    else:
        yield ok("dumps", str(folder))


def check_templates(settings: Settings) -> Iterator[CheckResult]:
    """Check that the templates of the letters can be read."""
    from digest.letters import Templates
    from digest.settings import templates_dir

    templates = Templates(templates_dir(), settings.template_overrides)
    own = f", overridden in {settings.template_overrides}" if settings.template_overrides.is_dir() else ""
    yield ok("templates", f"{templates_dir()}{own} ({templates.fingerprint[:12]})")


# ── other services ──────────────────────────────────────────────────────────────────────────────


def check_database(settings: Settings, now: datetime) -> Iterator[CheckResult]:
    """Check the database and its schema, and report the problems that the operator is alarmed about."""
    from digest.monitoring import problems

    with command_context.open_context() as context, context.read_session() as session:
        yield ok("database", f"{status.mask_url(settings.database)}, schema up to date")
        for problem in problems.find_problems(session, now=now):
            facts = [*problem.facts[: status.FACTS], *(["..."] if len(problem.facts) > status.FACTS else [])]
            message = f"{problem.message}: {'; '.join(facts)}" if facts else f"{problem.message}."
            result = error if problems.stops_work(problem) else warning
            yield result("service", message, problem.fix)


def check_broker(settings: Settings) -> Iterator[CheckResult]:
    """Check that the broker answers; the embedded one runs only while `digest up` does."""
    where = status.mask_url(settings.broker)
    try:
        answer = probes.ping_broker(settings.broker)
    except OSError as problem:
        if settings.broker_url is None:
            yield ok("broker", "the embedded broker is not running; digest up starts it")
        else:
            message = f"{where} does not answer ({problem.strerror or problem})."
            yield error("broker", message, "Start Redis, or set DIGEST_BROKER_URL.")
        return
    if answer.startswith("+PONG"):
        yield ok("broker", where)
    else:
        fix = "Set user and password in DIGEST_BROKER_URL: redis://user:password@host:6379/0"
        yield error("broker", f"{where} replies: {answer}", fix)


def check_mail(settings: Settings) -> Iterator[CheckResult]:
    """Connect and log in to every mail server, or check the folder that takes the mail; send nothing."""
    from digest.delivery import transports

    transports.open_transport(settings.mail, site=settings.site()).close()
    parts = urlsplit(settings.mail)
    if parts.scheme not in transports.SERVER_SCHEMES:
        folder = unquote(parts.path)
        if problem := probes.folder_problem(Path(folder)):
            fix = "Give it to the user who runs digest, or set DIGEST_MAIL_URL."
            yield error("mail", f"{problem}.", fix)
        else:
            yield ok("mail", f"kept in {folder}; nothing is sent to anybody")
        return
    for url in transports.split_urls(settings.mail):
        yield to_result("mail", mail_path_checks.check_server(url))


def check_mail_path(settings: Settings) -> Iterator[CheckResult]:
    """Check headers, signatures and DNS as receivers do, if mail leaves this machine."""
    site = settings.site()
    if site.is_local or urlsplit(settings.mail).scheme not in {"smtp", "smtps", "lmtp"}:
        return
    with command_context.open_context() as context:
        signers = context.signers
    for outcome in mail_path_checks.check_list_headers(site, signers):
        yield to_result("letter", outcome, otherwise=warning)
    for outcome in mail_path_checks.check_dns(site, signers):
        yield to_result("names", outcome, otherwise=warning)
    host = urlsplit(site.url).hostname or ""
    yield to_result("names", mail_path_checks.check_reverse_dns(host), otherwise=warning)


def to_result(
    subject: str, outcome: CheckOutcome, *, otherwise: Callable[[str, str, str], CheckResult] = error
) -> CheckResult:
    """Return the result of an outcome: OK, or else an error or a warning."""
    is_ok, message, fix = outcome
    return ok(subject, message) if is_ok else otherwise(subject, message, fix)


def check_web_access(settings: Settings) -> Iterator[CheckResult]:
    """Request our own address to find the proxies in front of the web server; it need not answer if mail stays here."""
    yield from check_proxy_header(settings)
    site = settings.site()
    try:
        probe = probes.probe_proxies(site, current_time(None))
    except OSError as problem:
        if not site.is_local:
            message = f"{site.url} does not answer from this machine ({problem.strerror or problem})."
            fix = "No link in a letter works without it. Start digest web, and the proxy in front of it."
            yield warning("proxies", message, fix)
        return
    if settings.base_url != LOCAL_URL or probe.status == HTTPStatus.OK:  # the default may be another service
        yield to_result("proxies", mail_path_checks.check_front(site, probe))


def check_proxy_header(settings: Settings) -> Iterator[CheckResult]:
    """Check whether sign-ups came through a proxy while DIGEST_PROXIES is 0."""
    from digest import subscribers

    try:
        with command_context.open_context() as context, context.read_session() as session:
            is_seen = subscribers.proxy_header_seen(session, current_time(None))
    except (DigestError, OSError):
        return  # check_database reports it
    if is_seen and not settings.proxies:
        yield warning(
            "proxies",
            "Sign-ups have a proxy's header, but DIGEST_PROXIES is 0: all visitors look like one network.",
            "Set DIGEST_PROXIES to the number of your proxies where digest web runs; nginx alone is 1.",
        )


def check_base_url(settings: Settings) -> Iterator[CheckResult]:
    """Check the address in links, the postal address and the operator's address."""
    site = settings.site()
    if site.is_local:
        message = f"{site.url} works on this machine only; fine while mail stays here."
        yield warning(
            "address", message, "For real readers: set DIGEST_BASE_URL to your public https address."
        )
    elif not site.is_https:
        yield error("address", f"{site.url} is not https.", "One-click unsubscribe needs https.")
    else:
        yield ok("address", site.url)
    if settings.mail_url is not None and not site.postal_address:
        fix = "Many countries require one: set DIGEST_POSTAL_ADDRESS."
        yield warning("address", "Letters have no postal address.", fix)
    if settings.mail_url is not None and not settings.operator_email:
        message = "No address is set for alarms, such as stopped or refused mail."
        yield warning("operator", message, "Set DIGEST_OPERATOR_EMAIL to your address.")
