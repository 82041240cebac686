"""Define the interface of transports: messages, verdicts and outcomes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Protocol

from msgspec import Struct


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
