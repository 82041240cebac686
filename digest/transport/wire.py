"""The wire: a socket spoken over in lines, with an end to every wait."""

from __future__ import annotations

import re
import select
import socket
import ssl
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic
from typing import Any

from msgspec import Struct

from digest.transport.servers import Server

LONGEST_REPLY = 65_536  #: who says more is not talking SMTP
MOST_LINES = 100

#: What a socket that does not block says instead of blocking.
NOT_YET = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Reply(Struct, frozen=True):
    """What the server answered to one command."""

    code: int
    lines: list[str]

    @property
    def text(self) -> str:
        """Return its words on one line."""
        return " ".join(self.lines)

    @property
    def is_yes(self) -> bool:
        """Return whether the server agreed."""
        return 200 <= self.code < 300


def readable(line: bytes) -> str:
    """Return a server's words as text that can be shown and kept: PostgreSQL keeps no NUL."""
    said = line.decode("utf-8", "replace")
    return (
        said
        if said.isprintable()
        else "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in said)
    )


class Broken(Exception):
    """The conversation cannot go on: the server left, fell silent, sent us away, or talks nonsense."""

    def __init__(self, reason: str, code: int | None = None):
        super().__init__(reason)
        self.reason = reason
        self.code = code


class OutOfStep(Broken):
    """The server is there, and what it says, or keeps to itself, is no answer to what we said."""


def broken(error: OSError) -> Broken:
    """Return a socket's error as a break, in words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return Broken(f"its certificate is not to be trusted: {error.verify_message}")
    if isinstance(error, TimeoutError):
        return OutOfStep("it fell silent")
    return Broken(error.strerror or str(error))


class Wire:
    """A connection to a server as bytes. Every method may raise Broken.

    The socket does not block: most writes and reads are one system call, and only where there is
    something to wait for do we wait.
    """

    def __init__(self, server: Server, deadline: float):
        self.server = server
        self.received = b""
        self.written = 0  #: bytes of the last write that the kernel took
        self.socket = dialled(server, deadline)
        if server.scheme == "smtps":
            self.secure(deadline)
        self.socket.settimeout(0)

    @property
    def is_secure(self) -> bool:
        """Return whether what we say cannot be read on the way."""
        return isinstance(self.socket, ssl.SSLSocket) or self.server.is_local

    def secure(self, deadline: float) -> None:
        """Go on inside TLS, once the server's certificate has been checked."""
        self.socket.settimeout(max(deadline - monotonic(), 0.001))
        try:
            context = trusting(self.server.cafile)
            self.socket = context.wrap_socket(self.socket, server_hostname=self.server.host)
        except OSError as error:
            self.close()
            raise broken(error) from error
        self.socket.settimeout(0)

    def write(self, *pieces: bytes, deadline: float) -> None:
        """Write all of these bytes; `written` tells how far we came.

        Pieces leave in one go and without being copied together first, where the kernel has room for them.
        """
        self.written = 0
        if len(pieces) > 1 and not isinstance(self.socket, ssl.SSLSocket):
            try:
                self.written = self.socket.sendmsg(pieces)
            except NOT_YET:
                pass
            except OSError as error:
                raise broken(error) from error
        if self.written < sum(map(len, pieces)):
            self.write_on(b"".join(pieces), deadline)

    def write_on(self, data: bytes, deadline: float) -> None:
        """Write what is left of `data`."""
        with memoryview(data) as view:
            while self.written < len(data):
                try:
                    self.written += self.socket.send(view[self.written :])
                except NOT_YET as reason:
                    self.wait(reason, select.POLLOUT, deadline)
                except OSError as error:
                    raise broken(error) from error

    def read(self, deadline: float) -> bytes:
        """Return what the server has sent, as soon as it has."""
        while True:
            try:
                return self.socket.recv(LONGEST_REPLY)
            except NOT_YET as reason:
                self.wait(reason, select.POLLIN, deadline)
            except OSError as error:
                raise broken(error) from error

    def wait(self, reason: Exception, event: int, deadline: float) -> None:
        """Wait until the socket can go on; TLS may want to read in order to write, and the reverse."""
        match reason:
            case ssl.SSLWantReadError():
                event = select.POLLIN
            case ssl.SSLWantWriteError():
                event = select.POLLOUT
        poll = select.poll()
        poll.register(self.socket, event)
        if not poll.poll(max(deadline - monotonic(), 0.001) * 1000):
            raise OutOfStep("it fell silent")

    def hears(self, expected: re.Pattern[bytes]) -> bool:
        """Take what was received off the wire and return True, if it begins as expected; never wait."""
        found = expected.match(self.received)
        if found is None:
            return False
        self.received = self.received[found.end() :]
        return True

    def reply(self, deadline: float) -> Reply:
        """Return the server's next reply, all lines of it."""
        found: list[str] = []
        while len(found) < MOST_LINES:
            line = self.line(deadline)
            code, mark = line[:3], line[3:4]
            if not (code.isdigit() and b"200" <= code < b"600" and mark in b"- "):
                raise OutOfStep(f"it talks nonsense: {line[:80]!r}")
            found.append(readable(line[4:]))
            if mark != b"-":
                return Reply(int(code), found)
        raise OutOfStep("it talks nonsense: a reply of a hundred lines")

    def line(self, deadline: float) -> bytes:
        """Return the next line, without its end."""
        while b"\n" not in self.received:
            more = self.read(deadline)
            if not more:
                raise Broken("it hung up")
            self.received += more
            if len(self.received) > LONGEST_REPLY:
                raise OutOfStep("it talks nonsense: a reply without an end")
        line, _, self.received = self.received.partition(b"\n")
        return line.rstrip(b"\r")

    def close(self) -> None:
        """Hang up: without a final dot the server drops what it was being sent."""
        self.socket.close()


def trusting(cafile: str | None) -> ssl.SSLContext:
    """Return what checks certificates: by that authority, or by those that everybody trusts."""
    try:
        return ssl.create_default_context(cafile=cafile)
    except OSError as error:
        raise OSError(f"the certificates in {cafile} cannot be read: {error.strerror or error}") from error


def dialled(server: Server, deadline: float) -> socket.socket:
    """Return a socket connected to the server."""
    try:
        if server.path:
            return connected(socket.AF_UNIX, server.path, deadline)
        opened = first_of(socket.getaddrinfo(server.host, server.port, type=socket.SOCK_STREAM), deadline)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except OSError as error:
        raise broken(error) from error
    return opened


def first_of(found: Sequence[tuple[Any, ...]], deadline: float) -> socket.socket:
    """Return a socket connected to the first address that answers; each has its share of the time that is left."""
    *others, last = found
    for place, (family, *_, address) in enumerate(others):
        now = monotonic()
        with suppress(OSError):
            return connected(family, address, now + (deadline - now) / (len(found) - place))
    return connected(last[0], last[-1], deadline)


def connected(family: int, address: Any, deadline: float) -> socket.socket:
    """Return a socket connected to one address."""
    opened = socket.socket(family, socket.SOCK_STREAM)
    try:
        opened.settimeout(max(deadline - monotonic(), 0.001))
        opened.connect(address)
    except OSError:
        opened.close()
        raise
    return opened
