"""What takes a message: SMTP, a Maildir, or memory. All of them tell how each message fared."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Protocol
from urllib.parse import urlsplit

from msgspec import Struct

from digest.errors import BadField, Misfit
from digest.links import Site
from digest.transport.servers import PROFILES, Server

SERVERS = frozenset({"smtp", "smtps", "lmtp"})  #: the schemes of what answers; the others are folders


class Verdict(StrEnum):
    """What became of one message in one attempt."""

    ACCEPTED = "accepted"  #: the server took responsibility (250 after the dot)
    DEFERRED = "deferred"  #: later (4xx)
    REFUSED = "refused"  #: never (5xx)
    IN_DOUBT = "in doubt"  #: body bytes went out and no reply came: nobody can know (RFC 1047)
    UNTRIED = "untried"  #: no connection, or it broke before this message's body: nothing was sent


class Message(Struct, frozen=True, kw_only=True):
    """A rendered mail and its envelope. `content` is RFC 5322 with CRLF, not dot-stuffed."""

    delivery_id: int
    sender: str  #: the envelope sender
    recipient: str
    content: bytes
    may_have_dots: bool = True  #: at the beginning of a line, where SMTP doubles them
    server: str = ""  #: the one of several that it was paid for; empty: any of them


class Outcome(Struct, frozen=True, kw_only=True):
    """How one message fared, and the server's own words."""

    delivery_id: int
    verdict: Verdict
    phase: str = ""  #: connect, mail, rcpt, data, dot
    code: int | None = None
    reply: str = ""
    provider_id: str = ""  #: what a provider that rewrites the Message-ID calls it instead


class Transport(Protocol):
    """Takes windows of messages. Safe to use again after any failure; never raises for one message."""

    def send(self, window: Sequence[Message]) -> Iterator[Outcome]:
        """Try every message once and yield exactly one outcome for each, as soon as it is known."""
        ...

    def close(self) -> None:
        """Let go of connections; nothing it meets on the way is raised."""
        ...


def open(url: str, *, site: Site) -> Transport:
    """Return the transport that a mail URL names, or several servers as one; nothing is connected yet.

    Raise Misfit where mail would leave this machine with links that work only on it.
    """
    parts = urlsplit(url)
    match parts.scheme:
        case "memory":
            from digest.transport.memory import Memory

            return Memory()
        case "maildir":
            from digest.transport.maildir import Maildir

            return Maildir.from_url(url)
        case "eml":
            from digest.transport.eml import Folder

            return Folder.from_url(url)
    servers = parted(url)
    if len(servers) == 1:
        return open_server(servers[0], site=site)[0]
    from digest.transport.several import Member, Several

    opened = [open_server(each, site=site) for each in servers]
    return Several(
        [Member(transport=each, weight=server.weight, name=server.name) for each, server in opened]
    )


def shares(url: str) -> list[tuple[str, int, str]]:
    """Return the name, the weight and the rates of every server that a mail URL names."""
    if urlsplit(url).scheme not in SERVERS:
        return []
    found = [Server.from_url(each) for each in parted(url)]
    return [(server.name, server.weight, server.rate) for server in found]


def parted(url: str) -> list[str]:
    """Return the servers of a mail URL, which commas part."""
    return re.split(r"\s*,\s*(?=\w+://)", url.strip())


def open_server(url: str, *, site: Site) -> tuple[Transport, Server]:
    """Return the transport to one mail server, and what its URL says of it."""
    scheme = urlsplit(url).scheme
    if scheme not in SERVERS:
        raise BadField("DIGEST_MAIL_URL", f"{scheme or url!r} is no transport; write smtp, lmtp or maildir.")
    from digest.transport.smtp import Smtp

    server = Server.from_url(url)
    if not server.is_local:
        check_links(site, server.host)
    return Smtp(server, helo=site.domain), server


def rewritten(url: str) -> frozenset[str]:
    """Return the headers that whoever takes our mail puts its own in place of."""
    if urlsplit(url).scheme not in SERVERS:
        return frozenset()
    profiles = [Server.from_url(each).profile for each in parted(url)]
    return frozenset().union(*[PROFILES.get(profile, frozenset()) for profile in profiles])


def check_links(site: Site, host: str) -> None:
    """Refuse to write to the world while our own links would not work there."""
    if site.is_local or not site.is_https:
        raise Misfit(
            f"Mail would leave through {host}, but its links would start with {site.url}, which readers cannot"
            " open safely. Set DIGEST_BASE_URL to your public https address."
        )
