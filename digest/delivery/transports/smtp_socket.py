"""Read and write lines over a socket to a mail server, with a deadline for every wait."""

from __future__ import annotations

import re
import select
import socket
import ssl
import struct
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import Any

from msgspec import Struct

from digest.delivery.transports.mail_url import MailServer

MAX_REPLY_BYTES = 65_536  #: a longer reply is invalid
MAX_LINES = 100
BRIEFLY = struct.pack("@ll", 0, 50_000)  #: 50 ms, as the C structure `timeval`

#: The errors that a non-blocking socket raises instead of blocking.
WOULD_BLOCK = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class SmtpReply(Struct, frozen=True):
    """A server's reply to one command."""

    code: int
    lines: list[str]

    @property
    def text(self) -> str:
        """Return the lines of the reply as one line."""
        return " ".join(self.lines)

    @property
    def is_yes(self) -> bool:
        """Return whether the reply is positive."""
        return 200 <= self.code < 300


def printable_line(line: bytes) -> str:
    """Return a reply line as printable text: PostgreSQL cannot store NUL."""
    text = line.decode("utf-8", "replace")
    return (
        text
        if text.isprintable()
        else "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in text)
    )


class ConnectionBroken(Exception):
    """The connection was closed, timed out or refused, or the server broke the protocol."""

    def __init__(self, reason: str, code: int | None = None):
        super().__init__(reason)
        self.reason = reason
        self.code = code


class ProtocolDesync(ConnectionBroken):
    """The server is connected, but its replies are missing or do not match our commands."""


def connection_broken(error: OSError) -> ConnectionBroken:
    """Return a socket error as ConnectionBroken, with a readable reason."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return ConnectionBroken(f"the server's certificate is not trusted: {error.verify_message}")
    if isinstance(error, TimeoutError):
        return ProtocolDesync("the server did not reply in time")
    return ConnectionBroken(error.strerror or str(error))


class SmtpSocket:
    """A connection to a server that reads and writes bytes.

    Every method may raise ConnectionBroken. The socket is non-blocking: most writes and reads are one system
    call, and we wait only if the call would block.
    """

    def __init__(self, server: MailServer, deadline: float):
        self.server = server
        self.received = b""
        self.written = 0  #: number of bytes of the last write that the kernel accepted
        self.socket = open_socket(server, deadline)
        if server.scheme == "smtps":
            self.start_tls(deadline)
        else:
            self.wait_in_kernel()

    @property
    def is_secure(self) -> bool:
        """Return whether the connection is encrypted or local."""
        return isinstance(self.socket, ssl.SSLSocket) or self.server.is_local

    def wait_in_kernel(self) -> None:
        """Let a read or write wait briefly, so that a prompt reply costs one system call instead of three.

        A longer wait raises BlockingIOError, as a non-blocking socket does. TLS sockets have no such timeout.
        """
        self.socket.settimeout(None)
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            self.socket.setsockopt(socket.SOL_SOCKET, option, BRIEFLY)

    def start_tls(self, deadline: float) -> None:
        """Switch to TLS after checking the server's certificate."""
        self.socket.settimeout(max(deadline - monotonic(), 0.001))
        try:
            context = make_ssl_context(self.server.cafile)
            self.socket = context.wrap_socket(self.socket, server_hostname=self.server.host)
        except OSError as error:
            self.close()
            raise connection_broken(error) from error
        self.socket.settimeout(0)

    def write(self, *pieces: bytes, deadline: float) -> None:
        """Write all of these pieces; `written` counts the bytes that the kernel accepted.

        If the kernel has space, the pieces are sent in one call without being copied together.
        """
        self.written = 0
        if len(pieces) > 1 and not isinstance(self.socket, ssl.SSLSocket):
            try:
                self.written = self.socket.sendmsg(pieces)
            except WOULD_BLOCK:
                pass
            except OSError as error:
                raise connection_broken(error) from error
        if self.written < sum(map(len, pieces)):
            self.write_on(b"".join(pieces), deadline)

    def write_on(self, data: bytes, deadline: float) -> None:
        """Write the bytes of `data` from position `written` on, waiting whenever the kernel has no space."""
        with memoryview(data) as view:
            while self.written < len(data):
                try:
                    self.written += self.socket.send(view[self.written :])
                except WOULD_BLOCK as reason:
                    self.wait(reason, select.POLLOUT, deadline)
                except OSError as error:
                    raise connection_broken(error) from error

    def read(self, deadline: float) -> bytes:
        """Wait until the server sends bytes, and return them; return b"" if it closed the connection."""
        while True:
            try:
                return self.socket.recv(MAX_REPLY_BYTES)
            except WOULD_BLOCK as reason:
                self.wait(reason, select.POLLIN, deadline)
            except OSError as error:
                raise connection_broken(error) from error

    def wait(self, reason: Exception, event: int, deadline: float) -> None:
        """Wait until the socket is ready; TLS may have to read before writing, or write before reading."""
        match reason:
            case ssl.SSLWantReadError():
                event = select.POLLIN
            case ssl.SSLWantWriteError():
                event = select.POLLOUT
        poll = select.poll()
        poll.register(self.socket, event)
        if not poll.poll(max(deadline - monotonic(), 0.001) * 1000):
            raise ProtocolDesync("the server did not reply in time")

    def take_expected(self, expected: re.Pattern[bytes]) -> bool:
        """Remove the expected reply from the start of the received bytes; return whether it was there.

        Does not wait for more bytes.
        """
        found = expected.match(self.received)
        if found is None:
            return False
        self.received = self.received[found.end() :]
        return True

    def read_reply(self, deadline: float) -> SmtpReply:
        """Return the server's next reply, with all its lines."""
        found: list[str] = []
        while len(found) < MAX_LINES:
            line = self.read_line(deadline)
            code, mark = line[:3], line[3:4]
            if not (code.isdigit() and b"200" <= code < b"600" and mark in b"- "):
                raise ProtocolDesync(f"the server broke the protocol: {line[:80]!r}")
            found.append(printable_line(line[4:]))
            if mark != b"-":
                return SmtpReply(int(code), found)
        raise ProtocolDesync("the server broke the protocol: a reply of a hundred lines")

    def read_line(self, deadline: float) -> bytes:
        """Return the next line without its line ending."""
        while b"\n" not in self.received:
            more = self.read(deadline)
            if not more:
                raise ConnectionBroken("the server closed the connection")
            self.received += more
            if len(self.received) > MAX_REPLY_BYTES:
                raise ProtocolDesync("the server broke the protocol: a reply without an end")
        line, _, self.received = self.received.partition(b"\n")
        return line.rstrip(b"\r")

    def close(self) -> None:
        """Close the connection; without a final dot, the server discards an unfinished message."""
        self.socket.close()


def make_ssl_context(cafile: str | None) -> ssl.SSLContext:
    """Return a TLS context that trusts the authorities in `cafile`, or public authorities if it is None."""
    try:
        return ssl.create_default_context(cafile=cafile)
    except OSError as error:
        raise OSError(f"the certificates in {cafile} cannot be read: {error.strerror or error}") from error


def open_socket(server: MailServer, deadline: float) -> socket.socket:
    """Return a socket connected to the server."""
    try:
        if server.path:
            return connect_socket(socket.AF_UNIX, server.path, deadline)
        opened = connect_first(
            socket.getaddrinfo(server.host, server.port, type=socket.SOCK_STREAM), deadline
        )
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError as error:
        raise connection_broken(error) from error
    return opened


def connect_first(found: Sequence[tuple[Any, ...]], deadline: float) -> socket.socket:
    """Return a socket connected to the first address that responds.

    Each address gets a share of the time left.
    """
    *others, last = found
    for place, (family, *_, address) in enumerate(others):
        now = monotonic()
        with suppress(OSError):
            return connect_socket(family, address, now + (deadline - now) / (len(found) - place))
    return connect_socket(last[0], last[-1], deadline)


def connect_socket(family: int, address: Any, deadline: float) -> socket.socket:
    """Return a socket connected to one address."""
    opened = socket.socket(family, socket.SOCK_STREAM)
    try:
        opened.settimeout(max(deadline - monotonic(), 0.001))
        opened.connect(address)
    except OSError:
        opened.close()
        raise
    return opened


@dataclass(frozen=True, kw_only=True, slots=True)
class Timeouts:
    """Timeouts in seconds.

    Sending one window takes less in total than the task's time limit of 780 seconds. After the final dot, a
    server may take ten minutes (RFC 5321, 4.5.3.2.6), and giving up earlier would cause duplicates. Before
    the dot, giving up is harmless.
    """

    window: float = 30  #: time after which no further message of the window begins
    connect: float = 30  #: time limit for the greeting, TLS and the login together
    command: float = 30
    body: float = 60
    dot: float = 600
    quit: float = 2
