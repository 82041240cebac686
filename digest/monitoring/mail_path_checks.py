"""Check the mail path: headers, web address, DNS and a test letter."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING

from digest.errors import DigestError
from digest.mail.dns_records import DnsUnavailable, txt_records

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from digest.app_context import AppContext
    from digest.letters.dkim_signing import Signer
    from digest.monitoring.dkim_checks import CheckOutcome
    from digest.monitoring.probes import WebReply
    from digest.site.site_profile import Site


# ── headers ─────────────────────────────────────────────────────────────────────────────────────


def check_list_headers(site: Site, signers: Sequence[Signer]) -> Iterator[CheckOutcome]:
    """Check the list headers of digests, and the domains of the DKIM signatures."""
    from digest.letters.headers import list_headers
    from digest.site import links

    names = dict(list_headers(site, links.unsubscribe_url(site, 1, 0)))
    if "List-Unsubscribe-Post" not in names:
        yield False, "Letters have no one-click unsubscribe.", "One-click needs https: set DIGEST_BASE_URL."
    else:
        yield True, "letters have one-click unsubscribe (RFC 8058)", ""
    if not signers:
        fix = "Make a key: digest dkim keygen. If your relay signs, it must also sign List-Unsubscribe-Post."
        yield False, "Digest does not sign letters.", fix
    for signer in signers:
        if signer.domain.lower() != site.domain.lower():
            yield (
                False,
                f"Letters are signed for {signer.domain}, but come from {site.domain}.",
                "Use the same domain for both.",
            )


# ── the web address ─────────────────────────────────────────────────────────────────────────────


def check_front(site: Site, reply: WebReply, *, proxies: int) -> CheckOutcome:
    """Check the reply at the web address, and that an https address has a proxy that is counted."""
    if reply.redirects_to:
        message = (
            f"{site.url} redirects to {reply.redirects_to}; a one-click unsubscribe must not be redirected."
        )
        return False, message, "Set DIGEST_BASE_URL to the address that it redirects to."
    if (reply.status, reply.content) != (HTTPStatus.OK, b"ok\n"):
        message = f"Another service responds at {site.url} ({reply.status})."
        return False, message, "Check the target of the proxy, or correct DIGEST_BASE_URL."
    if site.is_https and not proxies:
        message = "A proxy serves https, but DIGEST_PROXIES is 0: all visitors look like one network."
        return False, message, "Set DIGEST_PROXIES to the number of your proxies; nginx alone is 1."
    return True, f"{site.url} responds", ""


# ── DNS ─────────────────────────────────────────────────────────────────────────────────────────


def check_dns(site: Site, signers: Sequence[Signer]) -> Iterator[CheckOutcome]:
    """Check the SPF, DKIM and DMARC records, as receivers do."""
    try:
        yield check_spf(site)
        for signer in signers:
            yield check_dkim_record(signer)
        yield check_dmarc(site)
    except DnsUnavailable as reason:
        yield (
            False,
            f"Could not look up SPF, DKIM and DMARC ({reason}).",
            "Run this again on a machine that can reach the DNS.",
        )


def check_spf(site: Site) -> CheckOutcome:
    """Check that the domain of the envelope sender has one SPF record."""
    domain = site.inbound_domain or site.domain
    found = [text for text in txt_records(domain) if text.lower().startswith("v=spf1")]
    if len(found) == 1:
        return True, f"SPF of {domain}: {found[0]}", ""
    message = f"{domain} has {len(found) or 'no'} SPF record{'s' if found else ''}."
    return False, message, f"Add a TXT record for {domain}: v=spf1 a -all (or your relay's include)."


def check_dkim_record(signer: Signer) -> CheckOutcome:
    """Check that the DNS contains the public key of this signer."""
    found = "".join(txt_records(signer.dns_name)).replace(" ", "")
    public_key = signer.dns_record.replace(" ", "").partition("p=")[2]
    if public_key and f"p={public_key}" in found:
        return True, f"DKIM: {signer.dns_name} has the key", ""
    message = f"DKIM: {signer.dns_name} has {'another key' if found else 'no key'}."
    return False, message, "Set the record that this prints: digest dkim keygen --list"


def check_dmarc(site: Site) -> CheckOutcome:
    """Check that the sender's domain, or a parent domain, has a DMARC record."""
    parts = site.domain.split(".")
    for start in range(max(1, len(parts) - 1)):
        name = f"_dmarc.{'.'.join(parts[start:])}"
        if any(text.lower().startswith("v=dmarc1") for text in txt_records(name)):
            return True, f"DMARC: {name} exists", ""
    fix = f"Add a TXT record for _dmarc.{site.domain}: v=DMARC1; p=none"
    return False, f"DMARC: there is no record for {site.domain}.", fix


def check_reverse_dns(host: str) -> CheckOutcome:
    """Check that the host's address has the host's name in reverse DNS, as mail receivers require."""
    try:
        address = socket.getaddrinfo(host, 25, proto=socket.IPPROTO_TCP)[0][4][0]
        name, others, _ = socket.gethostbyaddr(str(address))
    except OSError as error:
        return False, f"Could not look up the reverse name of {host} ({error.strerror or error}).", ""
    if host.lower() in {name.lower(), *(other.lower() for other in others)}:
        return True, f"the reverse name of {address} is {host}", ""
    return (
        False,
        f"{host} is {address}, but the reverse name of that address is {name}.",
        "Ask your hosting provider to set the PTR record.",
    )


# ── a test letter ───────────────────────────────────────────────────────────────────────────────


def send_and_check_test_letter(
    context: AppContext, email: str, received_at: Path | None
) -> Iterator[CheckOutcome]:
    """Send a test letter with a digest's headers, and check it as sent, or as received in a file or Maildir.

    Raises BadField if the address or the path is invalid, DigestError with the server's reply if the letter
    is not accepted, and DnsUnavailable if the DNS cannot be queried.
    """
    from digest.delivery.transports.transport import Message, Verdict
    from digest.mail import addresses
    from digest.monitoring import dkim_checks
    from digest.site.links import envelope_sender

    address, now = addresses.parse_address(email), context.clock()
    signers, site = context.signers, context.site
    content = make_test_letter(context, address.email, now)
    message = Message(
        delivery_id=0, sender=envelope_sender(site, 0), recipient=address.email, content=content
    )
    with context.open_transport() as opened:
        (outcome,) = opened.send([message])
    if outcome.verdict is not Verdict.ACCEPTED:
        reply = " ".join(str(part) for part in (outcome.code, outcome.reply) if part)
        raise DigestError(f"The test letter was not accepted ({outcome.verdict}, {outcome.phase}): {reply}")
    yield True, f"the server accepted a letter to {email}; check that it arrives", ""
    yield from dkim_checks.check_headers(content, site, is_signed=bool(signers))
    if received_at is None:
        yield from dkim_checks.verify_signatures(content, site, txt_records)
        return
    message_ids = (test_message_id(site, now), outcome.provider_id)
    yield from check_received_letter(received_at, message_ids, site, is_signed=bool(signers))


def check_received_letter(
    path: Path, message_ids: tuple[str, ...], site: Site, *, is_signed: bool
) -> Iterator[CheckOutcome]:
    """Check the headers and signatures of a received letter, and the receiver's verdict."""
    from digest.monitoring import dkim_checks, received_letter

    content = received_letter.read_letter(path, message_ids)
    if content is None:
        message = f"The letter did not arrive in {path} within {received_letter.WAIT_SECONDS:.0f} seconds."
        yield False, message, "Look for it in the mail server's log and queue."
        return
    dkim_checks.parsed_letter(content)
    yield True, f"received in {path}", ""
    yield from dkim_checks.check_headers(content, site, is_signed=is_signed)
    yield from dkim_checks.check_receiver_verdict(content)
    yield from dkim_checks.verify_signatures(content, site, txt_records)


def test_message_id(site: Site, now: datetime) -> str:
    """Return the Message-ID of a test letter."""
    from digest.site import links

    return links.message_id(site, f"test-{now.isoformat()}")


def make_test_letter(app_context: AppContext, email: str, now: datetime) -> bytes:
    """Return a signed test letter with the headers of a digest; its unsubscribe link does nothing."""
    from digest.letters import dkim_signing, headers, letter_rendering, mime
    from digest.site import links

    site = app_context.site
    alarm = {"message": "A test: this letter arrived", "fix": "Nothing is wrong.", "since": "", "facts": []}
    context = {
        "site": site, "email": email, "subscriber_id": None, "link_version": 0, "timezone": "UTC", "key": None,
        "dated_at": now, **alarm,
    }  # fmt: skip
    content = mime.build_message(
        letter_rendering.render_letter(app_context.templates, "alarm", context),
        site=site,
        recipient=email,
        message_id=test_message_id(site, now),
        dated_at=now,
        headers=headers.list_headers(site, links.unsubscribe_url(site, 0, 0)),
    )
    return (
        dkim_signing.sign_message(content, app_context.signers, dated_at=now)
        if app_context.signers
        else content
    )
