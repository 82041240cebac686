"""Define the interface of transports, and open the transport for a mail URL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from digest.delivery.transports.mail_url import MailServer, MailUrl
from digest.errors import SetupMismatch
from digest.site.site_profile import Site


class Verdict(StrEnum):
    """The result of one attempt at a message."""

    ACCEPTED = "accepted"  #: the server accepted responsibility (250 after the dot)
    DEFERRED = "deferred"  #: the server asked us to try later (4xx)
    REFUSED = "refused"  #: the server permanently refused the message (5xx)
    IN_DOUBT = "in doubt"  #: no reply to the body, so it is unknown whether it was accepted (RFC 1047)
    UNTRIED = "untried"  #: nothing of the body was sent: the connection failed or the time limit was reached


class Message(Struct, frozen=True, kw_only=True):
    """A rendered message and its envelope; `content` has CRLF line endings and an ASCII body, not dot-stuffed."""

    delivery_id: int
    sender: str  #: the envelope sender
    recipient: str
    content: bytes
    may_have_dots: bool = True  #: whether a line may begin with a dot, which SMTP doubles
    server: str = ""  #: the server that must send the message; if empty, any server may


class Outcome(Struct, frozen=True, kw_only=True):
    """The verdict on one message, and the server's reply."""

    delivery_id: int
    verdict: Verdict
    phase: str = ""  #: the phase of the reply: connect, mail, rcpt, data or dot
    code: int | None = None
    reply: str = ""
    provider_id: str = ""  #: the id that the provider assigned


def make_outcome(
    message: Message, verdict: Verdict, phase: str, reply: str, code: int | None = None
) -> Outcome:
    """Return the outcome of one message."""
    return Outcome(
        delivery_id=message.delivery_id, verdict=verdict, phase=phase, code=code, reply=reply[:500]
    )


class Transport(Protocol):
    """The interface for sending windows of messages.

    A transport can be used again after any failure. An error with one message is an outcome, never an
    exception.
    """

    def send(self, window: Sequence[Message]) -> Iterator[Outcome]:
        """Try every message once and yield exactly one outcome for each, as soon as it is known."""
        ...

    def close(self) -> None:
        """Close all connections, without raising errors."""
        ...


def open_transport(mail: MailUrl, *, site: Site) -> Transport:
    """Return the transport for this mail URL (memory, a folder, one server or several) without connecting to one.

    Raises SetupMismatch if mail would leave this machine with links that are local or not https.
    """
    match mail.folder_format:
        case "memory":
            from digest.delivery.transports.memory import MemoryTransport

            return MemoryTransport()
        case "maildir":
            from digest.delivery.transports.maildir import MaildirTransport

            return MaildirTransport(mail.folder)
        case "eml":
            from digest.delivery.transports.eml_folder import EmlFolderTransport

            return EmlFolderTransport(mail.folder)
    if len(mail.servers) == 1:
        return open_server_transport(mail.servers[0], site=site)
    from digest.delivery.transports.server_pool import PoolMember, ServerPool

    return ServerPool(
        [
            PoolMember(
                transport=open_server_transport(server, site=site), weight=server.weight, name=server.name
            )
            for server in mail.servers
        ]
    )


def open_server_transport(server: MailServer, *, site: Site) -> Transport:
    """Return the transport to one mail server."""
    from digest.delivery.transports.smtp import SmtpTransport

    if not server.is_local:
        check_links(site, server.host)
    return SmtpTransport(server, helo=site.domain)


def check_links(site: Site, host: str) -> None:
    """Raise SetupMismatch if our links would not work outside this machine, or are not https."""
    if site.is_local or not site.is_https:
        raise SetupMismatch(
            f"Mail would leave through {host}, but its links would start with {site.url}, which readers cannot"
            " open safely. Set DIGEST_BASE_URL to your public https address."
        )
