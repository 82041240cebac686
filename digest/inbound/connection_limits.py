"""Limit the connections of the inbound mail server. Pure.

Without limits, clients that send nothing could occupy every connection and stop the server. The number of
connections is therefore limited, both in total and per network. When a limit is reached, an idle client is
disconnected to admit a new client.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from ipaddress import IPv6Address, ip_address

from digest import plurals

#: Maximum number of clients connected to the server at a time; fewer if the system limits open files.
MAX_CONNECTIONS = 100
#: Maximum number of clients connected from one network; Postfix opens up to this many to one destination.
MAX_BY_NETWORK = 20
LOG_EVERY = 60.0  #: minimum number of seconds between two log lines about rejected clients
#: A client that has sent no mail for this many seconds may be disconnected for another.
MAX_SECONDS_WITHOUT_MAIL = 60.0
BRACKETED = re.compile(r"\[(?:IPv6:)?([0-9A-Fa-f.:]{2,45})\]")


class Stage(Enum):
    """What a connected client is doing."""

    SILENT = "silent"  #: the client has sent nothing yet
    IDLE = "idle"  #: the client may send its next command
    RECEIVING = "receiving"  #: the client is sending the content of a message
    STORING = "storing"  #: the client waits while we store its message


#: When a limit is reached, a client may be disconnected for another after this many seconds in its stage.
#: Legitimate clients are not silent for long.
IDLE_AFTER = {Stage.SILENT: 0.0, Stage.IDLE: 5.0, Stage.RECEIVING: 20.0, Stage.STORING: float("inf")}


@dataclass(kw_only=True, eq=False, slots=True)
class MailConnection:
    """The connection of one client to the inbound mail server."""

    network: str
    client: str = ""  #: the client's address; empty for a Unix socket
    close: Callable[[], None]  #: a function that sends the client the reason and closes the connection
    stage_entered_at: float  #: time at which the client entered its stage
    mailed_at: float  #: time at which the client's last message was stored; at first, time of the connection
    stage: Stage = Stage.SILENT

    def enter(self, stage: Stage, now: float) -> None:
        """Record that the client enters this stage."""
        self.stage, self.stage_entered_at = stage, now

    def is_idle(self, now: float) -> bool:
        """Return whether the client may be disconnected to admit another."""
        if self.stage is Stage.STORING:
            return False
        return (
            now - self.stage_entered_at >= IDLE_AFTER[self.stage]
            or now - self.mailed_at >= MAX_SECONDS_WITHOUT_MAIL
        )


class Connections:
    """The clients connected to a mail server, and the number of rejected clients by network."""

    def __init__(self, *, most: int = MAX_CONNECTIONS, most_by_network: int = MAX_BY_NETWORK) -> None:
        self.most, self.most_by_network = most, most_by_network
        self.held: set[MailConnection] = set()
        self.rejected = Counter[str]()
        self.logged_at = float("-inf")

    def admit(self, connection: MailConnection, now: float) -> bool:
        """Admit a client; at a limit, disconnect an idle client first, or return False if there is none."""
        rivals = self.rivals(connection.network)
        if rivals is not None:
            idle = min(
                (one for one in rivals if one.is_idle(now)),
                key=lambda one: one.stage_entered_at,
                default=None,
            )
            self.rejected[connection.network if idle is None else idle.network] += 1
            if idle is None:
                return False
            self.held.discard(idle)
            idle.close()
        self.held.add(connection)
        return True

    def rivals(self, network: str) -> set[MailConnection] | None:
        """Return the clients of which one must be disconnected to admit another; None below the limits.

        At the total limit, these are all clients of the networks with the most connections.
        """
        held = Counter(one.network for one in self.held)
        if network and held[network] >= self.most_by_network:
            return {one for one in self.held if one.network == network}
        if len(self.held) < self.most:
            return None
        return {one for one in self.held if held[one.network] == max(held.values())}

    def release(self, connection: MailConnection) -> None:
        """Remove a client that is no longer connected."""
        self.held.discard(connection)

    def report(self, now: float) -> str | None:
        """Return a log line about clients rejected since the last line, at most once a minute, else None."""
        if not self.rejected or now - self.logged_at < LOG_EVERY:
            return None
        count, ((network, most),) = self.rejected.total(), self.rejected.most_common(1)
        self.rejected.clear()
        self.logged_at = now
        return (
            f"{plurals.count(count, 'connection was', 'connections were')} rejected, {most:,} of them from"
            f" {network or 'this machine'}; {plurals.count(len(self.held), 'is', 'are')} open"
        )


def network_of(address: str) -> str:
    """Return the network of an address: the IPv4 address or the IPv6 /64; "" for a Unix socket."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return ""
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(found) if found.version == 4 else f"{IPv6Address(int(found) >> 64 << 64)}/64"


def sending_network(address: str, received: str) -> str:
    """Return the network that sent a message; "" if it is unknown.

    `address` is the client's. If the client is a mail server in our own network, `received` is the header that it
    added to the top of the message, in which its own client's address is the last in brackets before `by`.
    """
    try:
        is_foreign = ip_address(address.partition("%")[0]).is_global
    except ValueError:
        is_foreign = False
    if is_foreign:
        return network_of(address)
    found = BRACKETED.findall(received.partition(" by ")[0])
    return network_of(found[-1]) if found else ""


class MemoryBudget:
    """A limit on the number of bytes of mail that are in memory at a time."""

    def __init__(self, most: int) -> None:
        self.most, self.held = most, 0

    def take(self, count: int) -> bool:
        """Reserve memory for this many bytes; return False if the limit would be exceeded."""
        if self.held + count > self.most:
            return False
        self.held += count
        return True

    def release(self, count: int) -> None:
        """Release reserved bytes."""
        self.held -= count
