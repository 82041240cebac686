"""How often one network may use the form: a brake on robots that no person meets.

Kept in memory by the one web process; what a restart forgets is caught by the caps in the database,
which count the confirmations of each address.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from ipaddress import IPv4Address, IPv4Network, IPv6Network, ip_address, ip_network
from threading import Lock

#: At most so many uses in so long: of one network, and of everybody together.
PER_NETWORK = ((10, timedelta(minutes=10)), (40, timedelta(hours=24)))
ALTOGETHER = ((600, timedelta(hours=1)),)
EVERYBODY = "everybody"
REMEMBERED = 20_000  #: networks at once; beyond that the quiet ones are forgotten


@dataclass(kw_only=True)
class Limits:
    """The recent uses of the form, by network."""

    uses: dict[str, deque[datetime]] = field(default_factory=dict)
    counting: Lock = field(default_factory=Lock)

    def allows(self, network: str | None, now: datetime) -> bool:
        """Count one use and return whether it is within the limits; None is a network not told apart."""
        asked = [(EVERYBODY, ALTOGETHER)] + ([(network, PER_NETWORK)] if network else [])
        with self.counting:
            if any(self.is_over(name, limits, now) for name, limits in asked):
                return False
            for name, _ in asked:
                self.uses.setdefault(name, deque()).append(now)
            self.forget(now)
            return True

    def is_over(self, name: str, limits: tuple[tuple[int, timedelta], ...], now: datetime) -> bool:
        """Return whether one more use would be too many."""
        times = self.uses.get(name, ())
        return any(sum(now - at < window for at in times) >= most for most, window in limits)

    def forget(self, now: datetime) -> None:
        """Drop what no limit looks at any more."""
        if len(self.uses) < REMEMBERED and len(self.uses[EVERYBODY]) < 2 * ALTOGETHER[0][0]:
            return
        for name, times in list(self.uses.items()):
            longest = (ALTOGETHER if name == EVERYBODY else PER_NETWORK)[-1][1]
            while times and now - times[0] >= longest:
                times.popleft()
            if not times:
                del self.uses[name]


def network_of(client: str | None, headers: Mapping[str, str], *, proxies: int = 0) -> str | None:
    """Return the network a request came from: a /24, or a /48 of IPv6; None where it cannot be told.

    Behind `proxies` proxies of our own, the address is the one the first of them saw. A request from
    this machine itself is not told apart: it may be everybody, through a proxy nobody told us of.
    """
    if proxies:
        hops = [hop.strip() for hop in headers.get("x-forwarded-for", "").split(",") if hop.strip()]
        client = hops[-proxies] if len(hops) >= proxies else client
    try:
        address = ip_address((client or "").strip("[]"))
    except ValueError:
        return None
    address = (
        getattr(address, "ipv4_mapped", None) or address
    )  # ::ffff:192.0.2.1, where one socket listens to both
    if address.is_loopback:
        return None
    return str(network(str(address), bits=24 if isinstance(address, IPv4Address) else 48))


def network(address: str, *, bits: int) -> IPv4Network | IPv6Network:
    """Return the network of that many bits around an address."""
    return ip_network(f"{address}/{bits}", strict=False)
