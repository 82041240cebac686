"""Check the setup of the service: files, templates, public address, proxies, headers and DNS.

These checks take seconds and query other servers, so only `digest doctor` runs them.
"""

from __future__ import annotations

import os
import shlex
import socket
import ssl
from collections.abc import Iterator, Sequence
from datetime import datetime
from http import HTTPStatus
from urllib.parse import urlsplit

from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError

from digest import db
from digest.app_context import AppContext
from digest.delivery.transports import open_transport
from digest.errors import DigestError, SetupMismatch
from digest.letters.dkim_signing import Signer
from digest.letters.headers import list_headers
from digest.letters.press.load_templates import compile_and_check
from digest.mail import dns_records
from digest.mail.dns_records import DnsUnavailable
from digest.monitoring import probes
from digest.monitoring.check_results import Check, failed, passed, run_check, warning
from digest.monitoring.probes import WebReply
from digest.monitoring.supervisor import find_supervisor
from digest.settings import Settings, templates_dir
from digest.site import links
from digest.site.site_profile import LOCAL_URL, Site
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


# ── this machine ────────────────────────────────────────────────────────────────────────────────


def check_secrets(settings: Settings) -> Iterator[Check]:
    """Check that other users of this machine cannot read the keys or the database, or list their folder."""
    settings.site()
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
    templates = settings.templates()
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
    yield from check_list_headers(site, signers)
    try:
        yield from check_dns(site, signers)
    except DnsUnavailable as reason:
        message = f"Could not look up SPF, DKIM and DMARC ({reason})."
        yield warning("names", message, "Run this again on a machine that can reach the DNS.")
    yield check_reverse_dns(urlsplit(site.url).hostname or "")


def check_list_headers(site: Site, signers: Sequence[Signer]) -> Iterator[Check]:
    """Check the list headers of digests, and the domains of the DKIM signatures."""
    if "List-Unsubscribe-Post" in dict(list_headers(site, links.unsubscribe_url(site, 1, 0))):
        yield passed("letter", "letters have one-click unsubscribe (RFC 8058)")
    else:
        fix = "One-click needs https: set DIGEST_BASE_URL."
        yield warning("letter", "Letters have no one-click unsubscribe.", fix)
    if not signers:
        fix = "Make a key: digest dkim keygen. If your relay signs, it must also sign List-Unsubscribe-Post."
        yield warning("letter", "Digest does not sign letters.", fix)
    for signer in signers:
        if signer.domain.lower() != site.domain.lower():
            message = f"Letters are signed for {signer.domain}, but come from {site.domain}."
            yield warning("letter", message, "Use the same domain for both.")


def check_dns(site: Site, signers: Sequence[Signer]) -> Iterator[Check]:
    """Check the SPF, DKIM and DMARC records, as receivers do; raise DnsUnavailable if there is no answer."""
    domain = site.inbound_domain or site.domain
    records = [text for text in dns_records.txt_records(domain) if text.lower().startswith("v=spf1")]
    if len(records) == 1:
        yield passed("names", f"SPF of {domain}: {records[0]}")
    else:
        message = f"{domain} has {len(records) or 'no'} SPF record{'s' if records else ''}."
        fix = f"Add a TXT record for {domain}: v=spf1 a -all (or your relay's include)."
        yield warning("names", message, fix)
    for signer in signers:
        found = "".join(dns_records.txt_records(signer.dns_name)).replace(" ", "")
        public_key = signer.dns_record.replace(" ", "").partition("p=")[2]
        if public_key and f"p={public_key}" in found:
            yield passed("names", f"DKIM: {signer.dns_name} has the key")
        else:
            message = f"DKIM: {signer.dns_name} has {'another key' if found else 'no key'}."
            yield warning("names", message, "Set the record that this prints: digest dkim keygen --list")
    yield check_dmarc(site)


def check_dmarc(site: Site) -> Check:
    """Check that the sender's domain, or a parent domain, has a DMARC record."""
    parts = site.domain.split(".")
    for start in range(max(1, len(parts) - 1)):
        name = f"_dmarc.{'.'.join(parts[start:])}"
        if any(text.lower().startswith("v=dmarc1") for text in dns_records.txt_records(name)):
            return passed("names", f"DMARC: {name} exists")
    fix = f"Add a TXT record for _dmarc.{site.domain}: v=DMARC1; p=none"
    return warning("names", f"DMARC: there is no record for {site.domain}.", fix)


def check_reverse_dns(host: str) -> Check:
    """Check that the host's address has the host's name in reverse DNS, as mail receivers require."""
    try:
        address = socket.getaddrinfo(host, 25, proto=socket.IPPROTO_TCP)[0][4][0]
        name, others, _ = socket.gethostbyaddr(str(address))
    except OSError as error:
        message = f"Could not look up the reverse name of {host} ({error.strerror or error})."
        return warning("names", message, "")
    if host.lower() in {name.lower(), *(other.lower() for other in others)}:
        return passed("names", f"the reverse name of {address} is {host}")
    message = f"{host} is {address}, but the reverse name of that address is {name}."
    return warning("names", message, "Ask your hosting provider to set the PTR record.")


def check_web_access(settings: Settings) -> Iterator[Check]:
    """Check that the web server responds at our public URL; a local URL need not respond."""
    site = settings.site()
    try:
        reply = probes.probe_web(site.url)
    except OSError as error:
        reason = error.strerror or error
        if isinstance(error, ssl.SSLCertVerificationError):
            message, fix = (
                f"The certificate of {site.url} is not valid: {error.verify_message}.",
                CERTIFICATE_FIX,
            )
        elif isinstance(error, socket.gaierror):
            message = f"The name in {site.url} cannot be resolved from this machine ({reason})."
            fix = "Add its A and AAAA records to the DNS, or correct DIGEST_BASE_URL."
        else:
            start = find_supervisor(settings.data_dir).restart("web")
            message = f"{site.url} does not respond from this machine ({reason})."
            fix = f"No link in a letter works without the web server. Start it: {start}, and the proxy in front of it."
        if not site.is_local or isinstance(error, ssl.SSLCertVerificationError):
            yield warning("proxies", message, fix)
        return
    # At the default URL, another service may respond.
    if settings.base_url != LOCAL_URL or reply.status == HTTPStatus.OK:
        yield check_front(site, reply, proxies=settings.proxies)


def check_front(site: Site, reply: WebReply, *, proxies: int) -> Check:
    """Check the reply at the web address, and that an https address has a proxy that is counted."""
    if reply.redirects_to:
        message = (
            f"{site.url} redirects to {reply.redirects_to}; a one-click unsubscribe must not be redirected."
        )
        return failed("proxies", message, "Set DIGEST_BASE_URL to the address that it redirects to.")
    if (reply.status, reply.content) != (HTTPStatus.OK, b"ok\n"):
        message = f"Another service responds at {site.url} ({reply.status})."
        return failed("proxies", message, "Check the target of the proxy, or correct DIGEST_BASE_URL.")
    if site.is_https and not proxies:
        message = "A proxy serves https, but DIGEST_PROXIES is 0: all visitors look like one network."
        fix = "Set DIGEST_PROXIES to the number of your proxies; nginx alone is 1."
        return failed("proxies", message, fix)
    return passed("proxies", f"{site.url} responds")


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
