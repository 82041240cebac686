"""Define what a transport is, and open the one that a mail URL names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Protocol
from urllib.parse import urlsplit

from msgspec import Struct

from digest.delivery.transports.mail_url import REWRITTEN_BY_PROFILE, MailServer
from digest.errors import BadField, SetupMismatch
from digest.site_profile import Site

SERVER_SCHEMES = frozenset({"smtp", "smtps", "lmtp"})  #: URL schemes of mail servers; the others are folders


class Verdict(StrEnum):
    """The result of one attempt at a message."""

    ACCEPTED = "accepted"  #: the server took responsibility (250 after the dot)
    DEFERRED = "deferred"  #: later (4xx)
    REFUSED = "refused"  #: never (5xx)
    IN_DOUBT = "in doubt"  #: body bytes went out and no reply came: accepted or not is unknown (RFC 1047)
    UNTRIED = "untried"  #: no connection, or it broke before this message's body: nothing was sent


class Message(Struct, frozen=True, kw_only=True):
    """A rendered mail and its envelope. `content` is RFC 5322 with CRLF, not dot-stuffed."""

    delivery_id: int
    sender: str  #: the envelope sender
    recipient: str
    content: bytes
    may_have_dots: bool = True  #: whether a line may begin with a dot, which SMTP doubles
    server: str = ""  #: the server whose tokens it took; empty: any


class Outcome(Struct, frozen=True, kw_only=True):
    """The verdict on one message, and the server's reply."""

    delivery_id: int
    verdict: Verdict
    phase: str = ""  #: connect, mail, rcpt, data, dot
    code: int | None = None
    reply: str = ""
    provider_id: str = ""  #: the id that the provider gave it


class Transport(Protocol):
    """Takes windows of messages. Safe to use again after any failure; never raises for one message."""

    def send(self, window: Sequence[Message]) -> Iterator[Outcome]:
        """Try every message once and yield exactly one outcome for each, as soon as it is known."""
        ...

    def close(self) -> None:
        """Close connections; never raises."""
        ...


def open_transport(url: str, *, site: Site) -> Transport:
    """Return the transport that a mail URL names, or several servers as one; nothing is connected yet.

    Raise SetupMismatch where mail would leave this machine with links that work only on it.
    """
    parts = urlsplit(url)
    match parts.scheme:
        case "memory":
            from digest.delivery.transports.memory import MemoryTransport

            return MemoryTransport()
        case "maildir":
            from digest.delivery.transports.maildir import MaildirTransport

            return MaildirTransport.from_url(url)
        case "eml":
            from digest.delivery.transports.eml_folder import EmlFolderTransport

            return EmlFolderTransport.from_url(url)
    servers = split_urls(url)
    if len(servers) == 1:
        return open_server_transport(servers[0], site=site)[0]
    from digest.delivery.transports.server_pool import PoolMember, ServerPool

    opened = [open_server_transport(each, site=site) for each in servers]
    return ServerPool(
        [PoolMember(transport=each, weight=server.weight, name=server.name) for each, server in opened]
    )


def server_shares(url: str) -> list[tuple[str, int, str]]:
    """Return the name, weight and rates of every server that a mail URL names."""
    if urlsplit(url).scheme not in SERVER_SCHEMES:
        return []
    found = [MailServer.from_url(each) for each in split_urls(url)]
    return [(server.name, server.weight, server.rate) for server in found]


def split_urls(url: str) -> list[str]:
    """Return the servers of a mail URL, which are separated by commas."""
    return re.split(r"\s*,\s*(?=\w+://)", url.strip())


def open_server_transport(url: str, *, site: Site) -> tuple[Transport, MailServer]:
    """Return the transport to one mail server, and the server that its URL describes."""
    scheme = urlsplit(url).scheme
    if scheme not in SERVER_SCHEMES:
        raise BadField(
            "DIGEST_MAIL_URL", f"{scheme or url!r} is not a transport; write smtp, lmtp or maildir."
        )
    from digest.delivery.transports.smtp import SmtpTransport

    server = MailServer.from_url(url)
    if not server.is_local:
        check_links(site, server.host)
    return SmtpTransport(server, helo=site.domain), server


def rewritten_headers(url: str) -> frozenset[str]:
    """Return the headers that the providers behind a mail URL replace with their own."""
    return frozenset().union(
        *[REWRITTEN_BY_PROFILE.get(profile, frozenset()) for profile in provider_profiles(url)]
    )


def provider_profiles(url: str) -> set[str]:
    """Return the profiles of the providers that a mail URL names."""
    if urlsplit(url).scheme not in SERVER_SCHEMES:
        return set()
    return {MailServer.from_url(each).profile for each in split_urls(url)}


def check_links(site: Site, host: str) -> None:
    """Raise SetupMismatch if our links would not work outside this machine."""
    if site.is_local or not site.is_https:
        raise SetupMismatch(
            f"Mail would leave through {host}, but its links would start with {site.url}, which readers cannot"
            " open safely. Set DIGEST_BASE_URL to your public https address."
        )
