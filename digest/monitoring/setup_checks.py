"""Check the setup of the service: files, templates, public address, proxies, headers and DNS.

These checks take seconds and query other servers, so only `digest doctor` runs them.
"""

from __future__ import annotations

import os
import shlex
import socket
import ssl
from collections.abc import Callable, Iterator
from datetime import datetime
from http import HTTPStatus
from urllib.parse import urlsplit

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from digest import db
from digest.app_context import AppContext
from digest.delivery.transports import open_transport
from digest.errors import DigestError, SetupMismatch
from digest.letters.press.load_templates import compile_and_check
from digest.letters.templates import Templates
from digest.monitoring import mail_path_checks, probes
from digest.monitoring.check_results import Check, Severity, failed, passed, warning
from digest.monitoring.dkim_checks import CheckOutcome
from digest.monitoring.supervisor import find_supervisor
from digest.settings import Settings, templates_dir
from digest.site.site_profile import LOCAL_URL
from digest.subscribers import sign_up_queue

CERTIFICATE_FIX = (
    "Readers' browsers and mail programs refuse the links in letters. Renew the certificate (certbot renew), and reload"
    " the proxy (systemctl reload nginx)."
)


def check_machine(settings: Settings) -> Iterator[Check]:
    """Check the files of this machine.

    Call this before the database is opened, because opening it creates files.
    """
    yield from run_check("secrets", lambda: check_secrets(settings))
    yield from run_check("dumps", lambda: check_dumps(settings))
    yield from run_check("templates", lambda: check_templates(settings))


def check_access(settings: Settings, engine: Engine, now: datetime) -> Iterator[Check]:
    """Check the settings and DNS records that readers and mail servers depend on."""
    yield from run_check("mail", lambda: check_mail_url(settings))
    yield from run_check("address", lambda: check_base_url(settings))
    yield from run_check("proxies", lambda: check_proxy_header(settings, engine, now))
    yield from run_check("proxies", lambda: check_web_access(settings))
    yield from run_check("names", lambda: check_mail_path(settings, engine))


def run_check(subject: str, check: Callable[[], Iterator[Check]]) -> Iterator[Check]:
    """Run a check; a DigestError or OSError that the check raises is reported as a problem."""
    try:
        yield from check()
    except DigestError as error:
        yield failed(subject, str(error), "")
    except OSError as error:
        yield failed(subject, f"{error.filename or subject}: {error.strerror}", "")


# ── this machine ────────────────────────────────────────────────────────────────────────────────


def check_keys(settings: Settings) -> Iterator[Check]:
    """Check that the keys can be read; create keys in an empty data directory."""
    settings.site()
    yield from ()


def check_secrets(settings: Settings) -> Iterator[Check]:
    """Check that other users of this machine cannot read the keys or the database, or list their folder."""
    yield from check_keys(settings)
    folder = settings.data_dir
    private = [folder / name for name in ("secret_key", "pepper", "digest.toml")]
    if (file := db.database_file(settings.database)) is not None:
        private += [file.with_name(file.name + end) for end in ("", "-wal", "-shm")]
    readable = [str(path) for path in private if path.exists() and path.stat().st_mode & 0o077]
    if readable:
        yield failed(
            "secrets",
            f"Other users of this machine can read {', '.join(readable)}.",
            f"chmod 600 {shlex.join(readable)}",
        )
    if folder.exists() and folder.stat().st_mode & 0o077:
        message = f"Other users of this machine can list {folder}, which contains addresses and mail."
        yield warning("secrets", message, f"chmod 700 {shlex.quote(str(folder))}")
    elif not readable:
        yield passed("secrets", "readable only by this user")


def check_dumps(settings: Settings) -> Iterator[Check]:
    """Check that the folder for dumps exists and can be read and written."""
    folder = settings.dumps
    if not folder.is_dir():
        yield warning(
            "dumps",
            f"{folder} does not exist yet.",
            f"mkdir -p {shlex.quote(str(folder))}; digest up also creates it.",
        )
    elif not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        fix = "Give it to the user who runs digest: dumps that were read are moved to its subfolder done/."
        yield failed("dumps", f"{folder} cannot be read or cannot be written to.", fix)
    else:
        yield passed("dumps", str(folder))


def check_templates(settings: Settings) -> Iterator[Check]:
    """Check that the templates can be read, and that each reader would get the letter that they describe."""
    templates = Templates(templates_dir(), settings.template_overrides)
    own = f", overridden in {settings.template_overrides}" if settings.template_overrides.is_dir() else ""
    try:
        compile_and_check(templates, settings.site())
    except SetupMismatch as error:
        fix = f"Correct the file in {settings.template_overrides}, or remove it there; docs/letters.md has the rules."
        yield failed("templates", str(error), fix)
    else:
        yield passed("templates", f"{templates_dir()}{own} ({templates.fingerprint[:12]})")


# ── access from outside ──


def check_mail_url(settings: Settings) -> Iterator[Check]:
    """Check that the mail transport can be opened with these settings, without connecting."""
    open_transport.open_transport(settings.mail, site=settings.site()).close()
    yield from ()


def check_mail_path(settings: Settings, engine: Engine) -> Iterator[Check]:
    """Check headers, signatures and DNS as receivers do, if mail leaves this machine."""
    site = settings.site()
    if site.is_local or not settings.mail.servers:
        return
    signers = AppContext(settings=settings, engine=engine, site=site).signers
    for outcome in mail_path_checks.check_list_headers(site, signers):
        yield check_of("letter", outcome, Severity.WARNING)
    for outcome in mail_path_checks.check_dns(site, signers):
        yield check_of("names", outcome, Severity.WARNING)
    host = urlsplit(site.url).hostname or ""
    yield check_of("names", mail_path_checks.check_reverse_dns(host), Severity.WARNING)


def check_of(subject: str, outcome: CheckOutcome, severity: Severity = Severity.FAILURE) -> Check:
    """Convert the outcome of a mail path check to a check of `subject`."""
    is_ok, message, fix = outcome
    return passed(subject, message) if is_ok else failed(subject, message, fix, severity=severity)


def check_web_access(settings: Settings) -> Iterator[Check]:
    """Check that the web server responds at our public URL; a local URL need not respond."""
    site = settings.site()
    try:
        reply = probes.probe_web(site)
    except ssl.SSLCertVerificationError as error:
        message = f"The certificate of {site.url} is not valid: {error.verify_message}."
        yield warning("proxies", message, CERTIFICATE_FIX)
        return
    except socket.gaierror as error:
        if not site.is_local:
            message = f"The name in {site.url} cannot be resolved from this machine ({error.strerror})."
            yield warning(
                "proxies", message, "Add its A and AAAA records to the DNS, or correct DIGEST_BASE_URL."
            )
        return
    except OSError as error:
        if not site.is_local:
            start = find_supervisor(settings.data_dir).restart("web")
            message = f"{site.url} does not respond from this machine ({error.strerror or error})."
            fix = f"No link in a letter works without the web server. Start it: {start}, and the proxy in front of it."
            yield warning("proxies", message, fix)
        return
    # At the default URL, another service may respond.
    if settings.base_url != LOCAL_URL or reply.status == HTTPStatus.OK:
        yield check_of("proxies", mail_path_checks.check_front(site, reply, proxies=settings.proxies))


def check_proxy_header(settings: Settings, engine: Engine, now: datetime) -> Iterator[Check]:
    """Check whether sign-ups came through a proxy while DIGEST_PROXIES is 0."""
    try:
        with db.read_session(engine) as session:
            is_seen = sign_up_queue.proxy_header_seen(session, now)
    except (DigestError, SQLAlchemyError, OSError):
        return  # the database check reports the error
    if is_seen and not settings.proxies:
        yield warning(
            "proxies",
            "Sign-ups have a proxy's header, but DIGEST_PROXIES is 0: all visitors look like one network.",
            "On the machine of digest web, set DIGEST_PROXIES to the number of your proxies; nginx alone is 1.",
        )


def check_base_url(settings: Settings) -> Iterator[Check]:
    """Check the address in links, the postal address and the operator's address."""
    site = settings.site()
    if site.is_local:
        message = f"{site.url} works on this machine only; fine while mail stays here."
        yield warning(
            "address", message, "For real readers: set DIGEST_BASE_URL to your public https address."
        )
    elif not site.is_https:
        yield failed("address", f"{site.url} is not https.", "One-click unsubscribe needs https.")
    else:
        yield passed("address", site.url)
    if settings.mail_url is not None and not site.postal_address:
        fix = "Many countries require a postal address: set DIGEST_POSTAL_ADDRESS."
        yield warning("address", "Letters have no postal address.", fix)
    if settings.weekly_report == "on" and not settings.operator_email:
        message = "DIGEST_WEEKLY_REPORT is on, but no address is set for it."
        yield warning("operator", message, "Set DIGEST_OPERATOR_EMAIL to your address.")
    elif settings.mail_url is not None and not settings.operator_email:
        message = "No address is set for alarms, such as stopped or refused mail."
        yield warning("operator", message, "Set DIGEST_OPERATOR_EMAIL to your address.")
