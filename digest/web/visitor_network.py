"""Find the network of a request, which limits the sign-ups from it (digest.subscribers.sign_up_limits)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import IPv4Address, ip_address, ip_network

#: Private networks, in which an operator's own proxies may run (RFC 1918, 6598, 4193, 3927, 4291).
PRIVATE_NETWORKS = tuple(
    ip_network(text)
    for text in (
        "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "169.254.0.0/16", "fc00::/7", "fe80::/10",
    )
)  # fmt: skip
#: Headers by which proxies name the client.
PROXY_HEADERS = ("x-forwarded-for", "forwarded", "x-real-ip", "cf-connecting-ip")
#: Any header with which proxies, load balancers and content networks mark a forwarded request.
FORWARDING_HEADER = re.compile(
    r"x-(?:original-)?forwarded.*|forwarded.*|via|cdn-loop|.*(?:client|connecting|real|remote|user|proxyuser)-?ip"
    r"|x-original-(?:host|url|uri)|x-rewrite-url|x-envoy-external-address|x-host|x-remote-addr",
    re.IGNORECASE,
)

LOCAL_HOST = re.compile(r"(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d+)?", re.IGNORECASE)


def is_forwarded(headers: Iterable[str]) -> bool:
    """Return whether one of these header names shows that a request passed a proxy, so that its client is unknown."""
    return any(FORWARDING_HEADER.fullmatch(name) for name in headers)


def is_host_local(hosts: Sequence[str]) -> bool:
    """Return whether a request's Host header names this machine, and not a name that a stranger's DNS server points here."""
    return bool(hosts) and all(LOCAL_HOST.fullmatch(host) for host in hosts)


def is_proxied(headers: Mapping[str, str], *, proxies: int) -> bool:
    """Return whether a request seems to have passed a proxy while DIGEST_PROXIES is 0."""
    return not proxies and any(name in headers for name in PROXY_HEADERS)


def network_of(client: str | None, headers: Mapping[str, str], *, proxies: int = 0) -> str | None:
    """Return the network from which a request came (an IPv4 /24 or an IPv6 /48), or None if it is unknown.

    Behind trusted proxies, the network is that of the client which the outermost trusted proxy saw. The
    network is unknown for a request from this machine, or from a private network with a proxy's header: the
    request may have passed a proxy that DIGEST_PROXIES does not count.
    """
    if proxies:
        hops = [hop.strip() for hop in headers.get("x-forwarded-for", "").split(",") if hop.strip()]
        client = hops[-proxies] if len(hops) >= proxies else client
    try:
        address = ip_address((client or "").strip("[]"))
    except ValueError:
        return None
    # a socket that accepts both IPv4 and IPv6 reports an IPv4 client as ::ffff:192.0.2.1
    address = getattr(address, "ipv4_mapped", None) or address
    if address.is_loopback or (
        is_proxied(headers, proxies=proxies) and any(address in private for private in PRIVATE_NETWORKS)
    ):
        return None
    bits = 24 if isinstance(address, IPv4Address) else 48
    return str(ip_network(f"{address}/{bits}", strict=False))
