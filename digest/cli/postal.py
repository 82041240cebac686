"""The doctor's look at the way of a letter: servers, TLS and password, our headers, and what the DNS says of us."""

from __future__ import annotations

import smtplib
import socket
import ssl
from collections.abc import Iterator, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING

from digest import probes
from digest.cli import status
from digest.errors import BadField, DigestError
from digest.transport.servers import Server

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from digest.cli.seals import Told
    from digest.house import House
    from digest.links import Site
    from digest.probes import Reflection
    from digest.rendering.dkim import Signer

LOOKUP_SECONDS = 3.0


def server_told(url: str) -> Told:
    """Go as far with a mail server as the first letter would; nothing is sent."""
    where = status.masked(url)
    try:
        client, steps = probes.logged_in(Server.from_url(url))
    except smtplib.SMTPAuthenticationError:
        return False, f"{where} does not take our password.", "Look at user and password in DIGEST_MAIL_URL."
    except smtplib.SMTPNotSupportedError as error:
        return False, f"{where}: {error}", "Look at starttls and the port in DIGEST_MAIL_URL."
    except ssl.SSLCertVerificationError as error:
        says = f"{where} has a certificate that is not to be trusted: {error.verify_message}."
        return (
            False,
            says,
            "Name it as its certificate does; one of your own goes into ?cafile= of DIGEST_MAIL_URL.",
        )
    except ssl.SSLError as error:
        says = f"{where} answers, and not with TLS ({error.reason or error})."
        return False, says, "Look at smtps, starttls and the port in DIGEST_MAIL_URL."
    except (OSError, smtplib.SMTPException) as error:
        return False, f"{where} does not answer ({error}).", "Start the mail server, or set DIGEST_MAIL_URL."
    offers = ", ".join(sorted(client.esmtp_features)) or "nothing special"
    client.close()
    return True, f"{where} {', '.join(steps)}; it offers {offers}", ""


# ── our headers ─────────────────────────────────────────────────────────────────────────────────


def letter_told(site: Site, signers: Sequence[Signer]) -> Iterator[Told]:
    """Look at the headers that every digest carries."""
    from digest import links
    from digest.rendering import list_headers

    names = dict(list_headers(site, links.unsubscribe_url(site, 1, 0)))
    if "List-Unsubscribe-Post" not in names:
        yield False, "Letters go without the one-click button.", "It needs https: set DIGEST_BASE_URL."
    else:
        yield True, "letters carry the one-click button (RFC 8058)", ""
    if not signers:
        mend = "digest dkim keygen makes a key; or see that your relay signs List-Unsubscribe-Post, too."
        yield False, "Letters leave unsigned by us.", mend
    for signer in signers:
        if signer.domain.lower() != site.domain.lower():
            yield (
                False,
                f"Letters are signed for {signer.domain}, and come from {site.domain}.",
                "Use one domain.",
            )


# ── our own address ─────────────────────────────────────────────────────────────────────────────


def front_told(site: Site, mirrored: Reflection) -> Told:
    """Tell what stands in front of the web door, by what it made of a question of ours."""
    if mirrored.leads_to:
        says = f"{site.url} sends us on to {mirrored.leads_to}; a one-click unsubscribe must not be sent on."
        return False, says, "Set DIGEST_BASE_URL to the address at which the pages really are."
    if mirrored.status != HTTPStatus.OK:
        says = f"{site.url} is answered by somebody else, or by a door with other keys ({mirrored.status})."
        return False, says, "Look at where the proxy leads, and at DIGEST_SECRET_KEY of the web door."
    return proxies_told(site, mirrored)


def proxies_told(site: Site, mirrored: Reflection) -> Told:
    """Compare the proxies that our request has passed with those that the web door believes."""
    seen, believed = mirrored.seen, mirrored.proxies
    if site.is_https and seen == 0:
        says = "What takes https for us does not tell the web door who is asking."
        return False, says, "Let it add to X-Forwarded-For, and set DIGEST_PROXIES=1."
    if seen > believed:
        says = (
            f"DIGEST_PROXIES is {believed}, and the web door stands behind {seen}: all readers look like one."
        )
        return False, says, f"Set DIGEST_PROXIES={seen} where digest web runs."
    if seen < believed:
        says = f"DIGEST_PROXIES is {believed}, and the web door stands behind {seen}: anybody can claim any address."
        return False, says, f"Set DIGEST_PROXIES={seen} where digest web runs."
    return True, f"{seen or 'none'} in front of the web door, as DIGEST_PROXIES says", ""


# ── what the DNS says of us ─────────────────────────────────────────────────────────────────────


class Unanswered(Exception):
    """The DNS could not be asked."""


def texts(name: str) -> list[str]:
    """Return the TXT records of a name; raise Unanswered where nobody can be asked."""
    import dns.exception
    import dns.resolver

    try:
        found = dns.resolver.resolve(name, "TXT", lifetime=LOOKUP_SECONDS)
    except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer):
        return []
    except (dns.exception.DNSException, OSError) as error:
        raise Unanswered(str(error).splitlines()[0] if str(error) else type(error).__name__) from error
    return [b"".join(record.strings).decode("utf-8", "replace") for record in found]


def names_told(site: Site, signers: Sequence[Signer]) -> Iterator[Told]:
    """Look up what others will look up before they believe our mail."""
    try:
        yield spf_told(site)
        for signer in signers:
            yield dkim_told(signer)
        yield dmarc_told(site)
    except Unanswered as reason:
        yield (
            False,
            f"Could not look up SPF, DKIM and DMARC ({reason}).",
            "Ask again where the DNS can be reached.",
        )


def spf_told(site: Site) -> Told:
    """Look for the record that says who may send for the domain that mail comes back to."""
    domain = site.inbound_domain or site.domain
    found = [text for text in texts(domain) if text.lower().startswith("v=spf1")]
    if len(found) == 1:
        return True, f"SPF of {domain}: {found[0]}", ""
    says = f"{domain} has {len(found) or 'no'} SPF record{'s' if found else ''}."
    return False, says, f"TXT of {domain}: v=spf1 a -all (or your relay's include)."


def dkim_told(signer: Signer) -> Told:
    """Look whether the DNS has the key that we sign with."""
    found = "".join(texts(signer.dns_name)).replace(" ", "")
    wanted = signer.dns_record.replace(" ", "").partition("p=")[2]
    if wanted and f"p={wanted}" in found:
        return True, f"DKIM: {signer.dns_name} has our key", ""
    says = f"DKIM: {signer.dns_name} has {'another key than ours' if found else 'no key'}."
    return False, says, "What it must say: digest dkim list"


def dmarc_told(site: Site) -> Told:
    """Look for the record that says what to do with mail that proves nothing."""
    parts = site.domain.split(".")
    for start in range(max(1, len(parts) - 1)):
        name = f"_dmarc.{'.'.join(parts[start:])}"
        if any(text.lower().startswith("v=dmarc1") for text in texts(name)):
            return True, f"DMARC: {name} is there", ""
    mend = f"TXT of _dmarc.{site.domain}: v=DMARC1; p=none"
    return False, f"DMARC: there is no record for {site.domain}.", mend


def reverse_told(host: str) -> Told:
    """Look whether the address that a name leads to leads back to it, as receivers of mail want."""
    try:
        address = socket.getaddrinfo(host, 25, proto=socket.IPPROTO_TCP)[0][4][0]
        name, others, _ = socket.gethostbyaddr(str(address))
    except OSError as error:
        return False, f"Could not look up the reverse name of {host} ({error.strerror or error}).", ""
    if host.lower() in {name.lower(), *(other.lower() for other in others)}:
        return True, f"{address} is called {host}, and {host} is {address}", ""
    return (
        False,
        f"{host} is {address}, and that is called {name}.",
        "Ask whoever gave you the address for a PTR.",
    )


# ── for real ────────────────────────────────────────────────────────────────────────────────────


def trial_told(email: str, arrived_at: Path | None) -> Iterator[Told]:
    """Send a letter with all that a digest carries, as the workers would, and look at it: as it arrived, if we may.

    Raise DigestError with what the server said if it does not take it, and Unanswered where the DNS does not say
    whether its signatures are ours.
    """
    from digest import addresses
    from digest.cli import rooms, seals
    from digest.cli.options import clock
    from digest.links import envelope_sender
    from digest.transport import Message, Verdict

    address, now = addresses.checked(email), clock(None)
    with rooms.opened() as house, house.transport() as opened:
        content = trial_letter(house, address.email, now)
        sender = envelope_sender(house.site, 0)
        message = Message(delivery_id=0, sender=sender, recipient=address.email, content=content)
        (outcome,) = opened.send([message])
        signers, site = house.signers, house.site
    if outcome.verdict is not Verdict.ACCEPTED:
        told = " ".join(str(part) for part in (outcome.code, outcome.reply) if part)
        raise DigestError(f"The test letter was not taken ({outcome.verdict}, {outcome.phase}): {told}")
    yield True, f"the server took a letter to {email}; look there", ""
    yield from seals.headers_told(content, site, is_signed=bool(signers))
    if arrived_at is None:
        yield from seals.verified_told(content, site, texts)
        return
    names = (trial_name(site, now), outcome.provider_id)
    yield from arrival_told(arrived_at, names, site, is_signed=bool(signers))


def arrival_told(path: Path, names: tuple[str, ...], site: Site, *, is_signed: bool) -> Iterator[Told]:
    """Look at a letter of ours as it arrived: what the way has left of it, and what its receiver says."""
    from digest.cli import arrived, seals

    content = arrived.letter(path, names)
    if content is None:
        says = f"The letter did not come to {path} within {arrived.PATIENCE:.0f} seconds."
        yield False, says, "See what the mail server did with it: its log, or its queue."
        return
    if "from" not in dict(seals.Letter.of(content).fields):
        raise BadField("--arrived", seals.NO_LETTER)
    yield True, f"it arrived in {path}", ""
    yield from seals.headers_told(content, site, is_signed=is_signed)
    yield from seals.receiver_told(content)
    yield from seals.verified_told(content, site, texts)


def trial_name(site: Site, now: datetime) -> str:
    """Return the Message-ID of a letter to try the way with."""
    from digest import links

    return links.message_id(site, f"test-{now.isoformat()}")


def trial_letter(house: House, email: str, now: datetime) -> bytes:
    """Return a letter to try the way with, signed, with the headers of a digest; its link unsubscribes nobody."""
    from digest import links, rendering
    from digest.rendering import dkim

    site = house.site
    said = {"wrong": "A test: this letter arrived", "mend": "Nothing is wrong.", "since": "", "facts": []}
    context = {
        "site": site, "email": email, "subscriber_id": None, "epoch": 0, "timezone": "UTC", "key": None,
        "dated_at": now, **said,
    }  # fmt: skip
    content = rendering.message(
        rendering.letter(house.templates, "alarm", context),
        site=site,
        recipient=email,
        message_id=trial_name(site, now),
        dated_at=now,
        headers=rendering.list_headers(site, links.unsubscribe_url(site, 0, 0)),
    )
    return dkim.signed(content, house.signers, dated_at=now) if house.signers else content
