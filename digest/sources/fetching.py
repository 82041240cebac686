"""Fetching: one document from the open internet into a file, and nothing from anywhere else.

A name is resolved once, every address it has is checked, and the connection goes to an address
that was checked: an answer that changes a second later has nobody to deceive. A redirect is a new
address, and is checked like the first. What is slow, large, cut short or of another kind than it
should be is given up with a reason.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Timer
from time import monotonic
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

from digest.errors import DigestError

if TYPE_CHECKING:
    import httpx2

MOST_BYTES = 64 * 1024**2
MOST_RATIO = 100  #: of what is packed; beyond it is a bomb
FREE = 1024**2  #: bytes that may come out before the ratio counts
MOST_SECONDS = 120.0  #: for a whole answer, redirects included
SILENCE = 20.0  #: seconds without a byte
MOST_HOPS = 5
REDIRECTS = frozenset({301, 302, 303, 307, 308})
NAT64 = ipaddress.ip_network("64:ff9b::/96")

Resolve = Callable[[str, int], list[str]]


class Failed(DigestError):
    """A document that could not be fetched; the reason is the message."""

    def __init__(self, reason: str, *, status: int = 0, retry_after: str | None = None):
        super().__init__(reason)
        self.status = status
        self.retry_after = retry_after


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What a server said."""

    status: int  #: 200 or 304
    content_type: str = ""
    etag: str | None = None
    last_modified: str | None = None
    size: int = 0

    @property
    def is_unchanged(self) -> bool:
        """Return whether it is the same as last time, and was not sent."""
        return self.status == 304


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """Where a request goes: the name, and the address that was checked."""

    scheme: str
    host: str
    port: int
    address: str
    rest: str  #: path and query

    @property
    def url(self) -> str:
        """Return the URL with the address in the place of the name."""
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"{self.scheme}://{host}:{self.port}{self.rest}"

    @property
    def host_header(self) -> str:
        """Return the name as the server knows it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"


DEFAULT_PORTS = {"https": 443, "http": 80}


def addresses_of(host: str, port: int) -> list[str]:
    """Return every address a name has."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


@dataclass(frozen=True, kw_only=True)
class Fetcher:
    """Fetches documents over https from public addresses.

    `loopback` is for tests of ours, which serve on this machine without TLS; no setting leads here.
    """

    agent: str
    loopback: bool = False
    resolve: Resolve = addresses_of
    trust: ssl.SSLContext | None = None  #: None: the certificates that this machine trusts
    most_bytes: int = MOST_BYTES
    most_seconds: float = MOST_SECONDS
    silence: float = SILENCE
    asked: list[str] = field(default_factory=list)  #: the addresses connected to, for whoever wants to know

    def fetch(self, url: str, into: Path, *, etag: str | None = None, since: str | None = None) -> Answer:
        """Write the document into a file, unless it is the one with that ETag or Last-Modified.

        Raises Failed with the reason; there is no file then.
        """
        end = monotonic() + self.most_seconds
        conditions = {"If-None-Match": etag, "If-Modified-Since": since}
        headers = {name: value for name, value in conditions.items() if value}
        try:
            for _hop in range(MOST_HOPS + 1):
                with self.response(url, headers, end) as found:
                    if found.status_code not in REDIRECTS:
                        return self.answered(found, into, end)
                    url = urljoin(url, found.headers.get("location", ""))
        except Failed:
            into.unlink(missing_ok=True)
            raise
        raise Failed(f"It was sent on more than {MOST_HOPS} times.")

    @contextmanager
    def response(self, url: str, headers: Mapping[str, str], end: float) -> Iterator[httpx2.Response]:
        """Ask a checked address, and yield its answer before its content is read."""
        import httpx2

        target = self.checked(url)
        self.asked.append(target.address)
        sockets: list[socket.socket] = []
        watch = Timer(max(0.1, end - monotonic()), cut_all_off, [sockets])
        watch.daemon = True
        watch.start()
        try:
            with (
                httpx2.Client(
                    verify=self.trust or True,
                    trust_env=False,  # a proxy would resolve the name for itself, unchecked
                    follow_redirects=False,
                    timeout=self.silence,
                ) as client,
                client.stream(
                    "GET",
                    target.url,
                    headers={
                        "Host": target.host_header,
                        "User-Agent": self.agent,
                        "Accept": "application/json, application/atom+xml, application/xml;q=0.9, text/*;q=0.8",
                        "Accept-Encoding": "gzip",
                        **headers,
                    },
                    extensions={"sni_hostname": target.host, "trace": noting(sockets, end)},
                ) as response,
            ):
                yield response
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ssl.SSLError) as error:
            raise Failed(self.because(error, target, end)) from error
        finally:
            watch.cancel()

    def because(self, error: Exception, target: Target, end: float) -> str:
        """Return in a few words why there was no answer."""
        if monotonic() >= end:
            return f"{target.host} took longer than {self.most_seconds:.0f} seconds."
        words = str(error).strip() or type(error).__name__
        return f"{target.host} did not answer as it should ({words[:200]})."

    # ── where it goes ───────────────────────────────────────────────────────────────────────────

    def checked(self, url: str) -> Target:
        """Return where a URL leads, or raise Failed if we do not go there."""
        try:
            parts = urlsplit(url)
            host, port = parts.hostname or "", parts.port
        except ValueError:
            raise Failed(f"{url[:200]!r} is no address.") from None
        if parts.username is not None or parts.password is not None:
            raise Failed("Its address holds a name or a password.")
        if not host or parts.scheme not in self.schemes:
            raise Failed(f"It leads to {shown(url)}, which is no https address.")
        port = port or DEFAULT_PORTS[parts.scheme]
        try:
            host = host if host.isascii() else host.encode("idna").decode()
            addresses = self.resolve(host, port)
        except (OSError, UnicodeError) as error:
            raise Failed(f"The name {host} is not known ({error}).") from error
        for address in addresses:
            if not self.is_open(address):
                raise Failed(f"{host} leads to {address}, an address that is not on the open internet.")
        if not addresses:
            raise Failed(f"The name {host} has no address.")
        rest = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        return Target(scheme=parts.scheme, host=host, port=port, address=addresses[0], rest=rest)

    @property
    def schemes(self) -> tuple[str, ...]:
        """Return how an address may begin."""
        return ("https", "http") if self.loopback else ("https",)

    def is_open(self, address: str) -> bool:
        """Return whether we may connect to an address."""
        try:
            found = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            return False
        return (self.loopback and found.is_loopback) or is_public(found)

    # ── what comes back ─────────────────────────────────────────────────────────────────────────

    def answered(self, response: httpx2.Response, into: Path, end: float) -> Answer:
        """Return the answer, its content written to the file; raise Failed for any but 200 and 304."""
        headers, status = response.headers, response.status_code
        if status not in (200, 304):
            raise Failed(
                f"The server answered {status} {response.reason_phrase}".strip() + ".",
                status=status,
                retry_after=headers.get("retry-after"),
            )
        size = 0 if status == 304 else self.kept(response, into, end)
        return Answer(
            status=status,
            content_type=headers.get("content-type", ""),
            etag=short(headers.get("etag")),
            last_modified=short(headers.get("last-modified")),
            size=size,
        )

    def kept(self, response: httpx2.Response, into: Path, end: float) -> int:
        """Write the content to the file, unpacked, and return its size."""
        told = response.headers.get("content-length", "")
        if told.isdigit() and int(told[:18]) > self.most_bytes:
            raise Failed(f"It is larger than {self.most_bytes / 1024**2:.0f} MiB.")
        size = 0
        with into.open("wb") as file:
            for piece in unpacked(response, self.most_bytes):
                size += len(piece)
                if size > self.most_bytes:
                    raise Failed(f"It is larger than {self.most_bytes / 1024**2:.0f} MiB.")
                file.write(piece)
        if monotonic() >= end:  # we cut it off ourselves, which may look like its end
            raise Failed(f"It took longer than {self.most_seconds:.0f} seconds.")
        return size


def is_public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Return whether an address is on the open internet, whatever IPv4 address hides in it."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if address in NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(inner)
        if address.teredo is not None or address.is_site_local:
            return False
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_unspecified)


def shown(url: str) -> str:
    """Return the beginning of an address without its query, for a message."""
    return url.partition("?")[0][:100]


def short(value: str | None) -> str | None:
    """Return a header to be sent back later; one that is too long for that is none."""
    return value if value and len(value) <= 200 and value.isprintable() else None


def noting(sockets: list[socket.socket], end: float) -> Callable[[str, Mapping[str, Any]], None]:
    """Return a listener that notes the sockets of a connection, so that they can be cut off at the end."""

    def listen(event: str, told: Mapping[str, Any]) -> None:
        if event in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
            sockets.append(told["return_value"].get_extra_info("socket"))
            if monotonic() >= end:
                cut_off(sockets[-1])

    return listen


def cut_all_off(connections: list[socket.socket]) -> None:
    """End these connections under whoever waits for them."""
    for connection in connections:
        cut_off(connection)


def cut_off(connection: socket.socket) -> None:
    """End a connection under whoever waits for it."""
    with suppress(OSError):  # it ended by itself
        connection.shutdown(socket.SHUT_RDWR)


def unpacked(response: httpx2.Response, limit: int) -> Iterator[bytes]:
    """Yield the content; what is packed with gzip is unpacked a little at a time."""
    encoding = response.headers.get("content-encoding", "").strip().casefold()
    if encoding in ("", "identity"):
        yield from response.iter_raw()
        return
    if encoding not in ("gzip", "x-gzip"):
        raise Failed(f"It is encoded with {encoding[:40]!r}, which nobody asked for.")
    inflating, taken, given = zlib.decompressobj(wbits=31), 0, 0
    for packed in response.iter_raw():
        taken += len(packed)
        rest = packed
        while rest and not inflating.eof:
            try:
                piece = inflating.decompress(rest, FREE)
            except zlib.error as error:
                raise Failed(f"It is packed, and damaged ({error}).") from error
            rest = inflating.unconsumed_tail
            given += len(piece)
            if given > FREE and given > MOST_RATIO * taken:
                raise Failed(f"It unpacks to more than {MOST_RATIO} times its size.")
            yield piece
            if given > limit:
                return
    if not inflating.eof:
        raise Failed("It is packed, and cut short.")
