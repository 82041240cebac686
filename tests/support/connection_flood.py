"""Hold many connections open with half a request, an unread response, or no data at all."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

KINDS = {
    "nothing": b"",
    "half a head": b"GET / HTTP/1.1\r\nHost: example.org\r\n",
    "half a form": b"POST / HTTP/1.1\r\nHost: example.org\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    b"Content-Length: 1000\r\n\r\nemail=",
    "nonsense": b"\x16\x03\x01 no HTTP\r\n\r\n",
    "unread": b"GET /static/site.css HTTP/1.1\r\nHost: example.org\r\n\r\n" * 50,
}


@dataclass(kw_only=True)
class Flood:
    """Keep a number of connections open from one thread, and reopen those that the server closes."""

    port: int
    many: int
    says: bytes
    opened: int = 0
    held: list[socket.socket] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Hold the connections until stopped."""
        while not self.over.is_set():
            self.held = [one for one in self.held if is_open(one)]
            for _ in range(self.many - len(self.held)):
                if self.over.is_set():
                    break
                with suppress(OSError):
                    self.held.append(self.connection())
            time.sleep(0.02)
        for one in self.held:
            one.close()

    def connection(self) -> socket.socket:
        """Open one connection, and send the beginning of a request."""
        one = socket.socket()
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)  # an unread buffer fills up soon
        one.settimeout(2)
        try:
            one.connect(("127.0.0.1", self.port))
            one.setblocking(False)
            one.send(self.says)
        except OSError:
            one.close()
            raise
        self.opened += 1
        return one


def is_open(one: socket.socket) -> bool:
    """Return whether the server keeps a connection open; close it if not."""
    try:
        if one.recv(1, socket.MSG_PEEK):
            return True
    except BlockingIOError:
        return True
    except OSError:
        pass
    one.close()
    return False


@contextmanager
def flood(port: int, *, many: int, kinds: Sequence[str] = tuple(KINDS)) -> Iterator[list[Flood]]:
    """Flood a server in the background, with connections of every kind, until the block ends."""
    floods = [Flood(port=port, many=many // len(kinds), says=KINDS[kind]) for kind in kinds]
    threads = [threading.Thread(target=one.run, daemon=True) for one in floods]
    for thread in threads:
        thread.start()
    try:
        yield floods
    finally:
        for one in floods:
            one.over.set()
        for thread in threads:
            thread.join(timeout=10)
