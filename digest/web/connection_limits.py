"""Limit connections, so that clients with many connections or slow requests do not block other clients.

A connection is called waiting while the rest of its request has not arrived, while the client does not read
the response, and between two requests. A waiting connection is closed when its time limit expires. If there are
too many connections, the one that has been waiting longest is closed at once. A client that opens a flood of
connections therefore loses its own, and a complete request gets a response. A connection whose request is
being processed is never closed to make room for another.

uvicorn's `limit_concurrency` is not enough: it refuses the newest connections, which belong to ordinary
visitors during a flood.
"""

from __future__ import annotations

import asyncio
import logging
import resource
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import Any, Protocol

from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

log = logging.getLogger(__name__)

HEAD_SECONDS = 10.0  #: time in which the request line and headers must arrive, counted from their first byte
EXCHANGE_SECONDS = 60.0  #: time for the body of a request and the response, which are both small
#: Time until the client's next request; uvicorn normally closes an idle connection sooner.
IDLE_SECONDS = 20.0
MAX_CONNECTIONS = 1000  #: maximum number of open connections; fewer if the system limits open files
MAX_OF_ONE_ADDRESS = 64  #: maximum number of connections from one address, which a whole university may share


class WaitingConnection(Protocol):
    """The methods and attributes of a connection that `ConnectionLimits` uses."""

    address: str | None

    @property
    def is_waiting(self) -> bool:
        """Return whether the server waits for this connection's client."""
        ...

    def abort(self) -> None:
        """Close the connection at once, even if that loses unsent data."""
        ...


@dataclass(kw_only=True)
class ConnectionLimits:
    """The open connections, ordered by their last activity, oldest first."""

    most: int = MAX_CONNECTIONS
    most_of_one: int = MAX_OF_ONE_ADDRESS
    open: dict[WaitingConnection, None] = field(default_factory=dict)

    def add(self, new: WaitingConnection) -> WaitingConnection | None:
        """Add a connection; return the connection to close in its place, or None if none must be closed."""
        closed = self.connection_to_close(new)
        self.open[new] = None
        if closed is not None:
            self.remove(closed)
        return closed

    def connection_to_close(self, new: WaitingConnection) -> WaitingConnection | None:
        """Return the connection to close when `new` is added, or None.

        At the limit on all connections, `new` itself is closed if no other connection is waiting.
        """
        if len(self.open) >= self.most:
            return next((one for one in self.open if one.is_waiting), new)
        own = [one for one in self.open if one.address == new.address] if new.address is not None else []
        return next((one for one in own if one.is_waiting), None) if len(own) >= self.most_of_one else None

    def mark_active(self, one: WaitingConnection) -> None:
        """Move a connection that has just been active to the end of the order."""
        if one in self.open:
            self.open[one] = self.open.pop(one)

    def remove(self, one: WaitingConnection) -> None:
        """Remove a closed connection."""
        self.open.pop(one, None)


class Connection(H11Protocol):
    """An HTTP connection that is closed when a time limit expires."""

    def __init__(self, *arguments: Any, limits: ConnectionLimits, proxies: int, **named: Any):
        super().__init__(*arguments, **named)
        self.limits = limits
        self.proxies = proxies
        self.address: str | None = None
        self.deadline: asyncio.TimerHandle | None = None
        self.has_begun = False  #: whether the first byte of the current request has arrived

    @property
    def is_waiting(self) -> bool:
        """Return whether the server waits for this connection's client."""
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is None or cycle.response_complete or cycle.more_body or self.flow.write_paused

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Add the connection; if there are too many, close the one that has waited longest."""
        super().connection_made(transport)
        self.address = counted_address(self.client, proxies=self.proxies)
        self.allow(HEAD_SECONDS)
        closed = self.limits.add(self)
        if closed is not None:
            log.warning(
                "Too many connections (%d open): closing the connections that have waited longest.",
                len(self.limits.open),
            )
            closed.abort()

    def data_received(self, data: bytes) -> None:
        """Read data; the first data of a request starts the time limit for its headers."""
        if not self.has_begun:
            self.has_begun = True
            self.allow(HEAD_SECONDS)
        super().data_received(data)

    def handle_events(self) -> None:
        """Handle the parsed events; once the headers are complete, start the time limit for the exchange."""
        before = self.cycle
        super().handle_events()
        if self.cycle is not before:
            self.allow(EXCHANGE_SECONDS)

    def on_response_complete(self) -> None:
        """Start to wait for the client's next request."""
        self.has_begun = False
        self.limits.mark_active(self)
        self.allow(IDLE_SECONDS)
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the connection."""
        self.limits.remove(self)
        if self.deadline is not None:
            self.deadline.cancel()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Shut down: finish a response that was begun, but do not wait for the rest of a request."""
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and cycle.more_body and not cycle.response_complete:
            self.abort()
        else:
            super().shutdown()

    def abort(self) -> None:
        """Close the connection at once, even if that loses unsent data."""
        self.transport.abort()

    def allow(self, seconds: float) -> None:
        """Close the connection after this many seconds, unless the function is called again first."""
        if self.deadline is not None:
            self.deadline.cancel()
        self.deadline = self.loop.call_later(seconds, self.abort)


def limited_protocol(*, proxies: int) -> Callable[..., asyncio.Protocol]:
    """Return a factory of limited connections; behind trusted proxies, there is no limit per address."""
    limits: ConnectionLimits = ConnectionLimits(most=max_connections())

    def make(*arguments: Any, **named: Any) -> asyncio.Protocol:
        return Connection(*arguments, limits=limits, proxies=proxies, **named)

    return make


def max_connections() -> int:
    """Return MAX_CONNECTIONS, or half of the process's limit on open files if that is lower."""
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_CONNECTIONS if allowed == resource.RLIM_INFINITY else min(MAX_CONNECTIONS, allowed // 2)


def accepted_at_once() -> int:
    """Return how many connections may be accepted in one iteration of the event loop.

    The number is small, so that the connections already open are read in time.
    """
    return max(4, min(32, max_connections() // 8))


def counted_address(client: tuple[str, int] | None, *, proxies: int) -> str | None:
    """Return the address under which a connection is counted; for IPv6, the /64 that one customer gets.

    Returns None if the same address may belong to all clients: behind trusted proxies, and for this machine
    itself.
    """
    if proxies:
        return None
    try:
        address = ip_address(client[0] if client else "")
    except ValueError:
        return None
    address = getattr(address, "ipv4_mapped", None) or address
    if address.is_loopback:
        return None
    return str(address if address.version == 4 else ip_network((address, 64), strict=False))
