"""Fetch one document into a file from the public internet only, never from a private network.

A host name is resolved once, all its addresses are checked, and the connection uses a checked address, so
DNS rebinding has no effect. Redirects are checked like the first URL. A response that is too slow, too
large, truncated or wrongly encoded is an error.
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

MAX_BYTES = 64 * 1024**2
MAX_RATIO = 100  #: maximum ratio of decompressed to compressed bytes; a higher ratio suggests an attack
UNCHECKED_BYTES = 1024**2  #: the compression ratio is checked only after this many decompressed bytes
MAX_SECONDS = 120.0  #: maximum duration of a request, including redirects and reading the response
MAX_SILENT_SECONDS = 20.0  #: maximum time without receiving any data
MAX_HOPS = 5
REDIRECTS = frozenset({301, 302, 303, 307, 308})
NAT64 = ipaddress.ip_network("64:ff9b::/96")

Resolve = Callable[[str, int], list[str]]


class FetchFailed(DigestError):
    """Raised if a document could not be fetched; the message states the reason."""

    def __init__(self, reason: str, *, status: int = 0, retry_after: str | None = None):
        super().__init__(reason)
        self.status = status
        self.retry_after = retry_after


@dataclass(frozen=True, kw_only=True, slots=True)
class FetchResponse:
    """The server's response to a successful request."""

    status: int  #: 200 or 304
    content_type: str = ""
    etag: str | None = None
    last_modified: str | None = None
    size: int = 0

    @property
    def is_unchanged(self) -> bool:
        """Return whether the server sent no document, because it has not changed since the last request."""
        return self.status == 304


@dataclass(frozen=True, kw_only=True, slots=True)
class FetchTarget:
    """The target of a request: the host name and its checked address."""

    scheme: str
    host: str
    port: int
    address: str
    path_and_query: str

    @property
    def url(self) -> str:
        """Return the URL with the address instead of the host name."""
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"{self.scheme}://{host}:{self.port}{self.path_and_query}"

    @property
    def host_header(self) -> str:
        """Return the value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"


DEFAULT_PORTS = {"https": 443, "http": 80}


def addresses_of(host: str, port: int) -> list[str]:
    """Return all addresses of a host name."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


@dataclass(frozen=True, kw_only=True)
class Fetcher:
    """Fetches documents over HTTPS from public addresses.

    `loopback` also allows plain HTTP and connections to this machine. The option is for tests only and has no
    setting.
    """

    agent: str
    loopback: bool = False
    resolve: Resolve = addresses_of
    trust: ssl.SSLContext | None = None  #: the authorities to trust; None for those that this machine trusts
    most_bytes: int = MAX_BYTES
    most_seconds: float = MAX_SECONDS
    max_silence: float = MAX_SILENT_SECONDS
    requested_hosts: list[str] = field(default_factory=list)  #: the addresses to which requests were sent

    def fetch(
        self, url: str, into: Path, *, etag: str | None = None, since: str | None = None
    ) -> FetchResponse:
        """Write the document to a file, unless its ETag or Last-Modified is unchanged.

        On failure, raises FetchFailed with the reason and leaves no file.
        """
        end = monotonic() + self.most_seconds
        conditions = {"If-None-Match": etag, "If-Modified-Since": since}
        headers = {name: value for name, value in conditions.items() if value}
        try:
            for _hop in range(MAX_HOPS + 1):
                with self.response(url, headers, end) as found:
                    if found.status_code not in REDIRECTS:
                        return self.read_response(found, into, end)
                    url = urljoin(url, found.headers.get("location", ""))
        except FetchFailed:
            into.unlink(missing_ok=True)
            raise
        raise FetchFailed(f"The request was redirected more than {MAX_HOPS} times.")

    @contextmanager
    def response(self, url: str, headers: Mapping[str, str], end: float) -> Iterator[httpx2.Response]:
        """Send a request to a checked address and yield the response before reading its content."""
        import httpx2

        target = self.check_target(url)
        self.requested_hosts.append(target.address)
        sockets: list[socket.socket] = []
        watch = Timer(max(0.1, end - monotonic()), shut_down_all, [sockets])
        watch.daemon = True
        watch.start()
        try:
            with (
                httpx2.Client(
                    verify=self.trust or True,
                    trust_env=False,  # a proxy would resolve the host name again and not check the address
                    follow_redirects=False,
                    timeout=self.max_silence,
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
                    extensions={"sni_hostname": target.host, "trace": socket_recorder(sockets, end)},
                ) as response,
            ):
                yield response
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ssl.SSLError) as error:
            raise FetchFailed(self.failure_reason(error, target, end)) from error
        finally:
            watch.cancel()

    def failure_reason(self, error: Exception, target: FetchTarget, end: float) -> str:
        """Return the reason why the request failed, as one short sentence."""
        if monotonic() >= end:
            return f"{target.host} took longer than {self.most_seconds:.0f} seconds."
        words = str(error).strip() or type(error).__name__
        return f"The request to {target.host} failed ({words[:200]})."

    # ── checking the target ─────────────────────────────────────────────────────────────────────

    def check_target(self, url: str) -> FetchTarget:
        """Return the target of a URL.

        Raises FetchFailed if requests to the URL are not allowed, or if its host has no address.
        """
        try:
            parts = urlsplit(url)
            host, port = parts.hostname or "", parts.port
        except ValueError:
            raise FetchFailed(f"{url[:200]!r} is not a URL.") from None
        if parts.username is not None or parts.password is not None:
            raise FetchFailed("Its URL contains a user name or a password.")
        if not host or parts.scheme not in self.schemes:
            raise FetchFailed(f"It leads to {url_without_query(url)}, which is not an https URL.")
        port = port or DEFAULT_PORTS[parts.scheme]
        try:
            host = host if host.isascii() else host.encode("idna").decode()
            addresses = self.resolve(host, port)
        except (OSError, UnicodeError) as error:
            raise FetchFailed(f"The name {host} could not be resolved ({error}).") from error
        for address in addresses:
            if not self.is_allowed(address):
                raise FetchFailed(f"{host} leads to {address}, an address that is not on the open internet.")
        if not addresses:
            raise FetchFailed(f"The name {host} has no address.")
        rest = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        return FetchTarget(
            scheme=parts.scheme, host=host, port=port, address=addresses[0], path_and_query=rest
        )

    @property
    def schemes(self) -> tuple[str, ...]:
        """Return the allowed URL schemes."""
        return ("https", "http") if self.loopback else ("https",)

    def is_allowed(self, address: str) -> bool:
        """Return whether connecting to an address is allowed."""
        try:
            found = ipaddress.ip_address(address.partition("%")[0])
        except ValueError:
            return False
        return (self.loopback and found.is_loopback) or is_public(found)

    # ── reading the response ────────────────────────────────────────────────────────────────────

    def read_response(self, response: httpx2.Response, into: Path, end: float) -> FetchResponse:
        """Write the content, if any, to the file.

        Raises FetchFailed for a status other than 200 and 304, and for content that is too large, too slow,
        damaged or truncated.
        """
        headers, status = response.headers, response.status_code
        if status not in (200, 304):
            raise FetchFailed(
                f"The server returned {status} {response.reason_phrase}".strip() + ".",
                status=status,
                retry_after=headers.get("retry-after"),
            )
        size = 0 if status == 304 else self.save_content(response, into, end)
        return FetchResponse(
            status=status,
            content_type=headers.get("content-type", ""),
            etag=storable_header(headers.get("etag")),
            last_modified=storable_header(headers.get("last-modified")),
            size=size,
        )

    def save_content(self, response: httpx2.Response, into: Path, end: float) -> int:
        """Write the decompressed content to the file and return its size."""
        announced = response.headers.get("content-length", "")
        if announced.isdigit() and int(announced[:18]) > self.most_bytes:
            raise FetchFailed(f"The content is larger than {self.most_bytes / 1024**2:.0f} MiB.")
        size = 0
        with into.open("wb") as file:
            for piece in decompressed(response, self.most_bytes):
                size += len(piece)
                if size > self.most_bytes:
                    raise FetchFailed(f"The content is larger than {self.most_bytes / 1024**2:.0f} MiB.")
                file.write(piece)
        if monotonic() >= end:  # shutting down the socket at `end` may look like the end of the content
            raise FetchFailed(f"It took longer than {self.most_seconds:.0f} seconds.")
        return size


def is_public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Return whether an address is public, or whether the IPv4 address that it embeds is public."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if address in NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(inner)
        if address.teredo is not None or address.is_site_local:
            return False
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_unspecified)


def url_without_query(url: str) -> str:
    """Return the first 100 characters of a URL without its query, for use in messages."""
    return url.partition("?")[0][:100]


def storable_header(value: str | None) -> str | None:
    """Return a header's value if the value can be stored and sent back in a later request, else None."""
    return value if value and len(value) <= 200 and value.isprintable() else None


def socket_recorder(sockets: list[socket.socket], end: float) -> Callable[[str, Mapping[str, Any]], None]:
    """Return a trace function that records the sockets of a connection, so that they can be shut down at `end`."""

    def listen(event: str, info: Mapping[str, Any]) -> None:
        if event in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
            sockets.append(info["return_value"].get_extra_info("socket"))
            if monotonic() >= end:
                shut_down(sockets[-1])

    return listen


def shut_down_all(connections: list[socket.socket]) -> None:
    """Shut down these sockets, which wakes the threads waiting for them."""
    for connection in connections:
        shut_down(connection)


def shut_down(connection: socket.socket) -> None:
    """Shut down a socket, which wakes a thread waiting for it."""
    with suppress(OSError):  # the socket may already be closed
        connection.shutdown(socket.SHUT_RDWR)


def decompressed(response: httpx2.Response, limit: int) -> Iterator[bytes]:
    """Yield the content, decompressing gzip in small pieces."""
    encoding = response.headers.get("content-encoding", "").strip().casefold()
    if encoding in ("", "identity"):
        yield from response.iter_raw()
        return
    if encoding not in ("gzip", "x-gzip"):
        raise FetchFailed(f"The content is encoded with {encoding[:40]!r}, which was not requested.")
    inflating, taken, given = zlib.decompressobj(wbits=31), 0, 0
    for packed in response.iter_raw():
        taken += len(packed)
        rest = packed
        while rest and not inflating.eof:
            try:
                piece = inflating.decompress(rest, UNCHECKED_BYTES)
            except zlib.error as error:
                raise FetchFailed(f"The compressed content is damaged ({error}).") from error
            rest = inflating.unconsumed_tail
            given += len(piece)
            if given > UNCHECKED_BYTES and given > MAX_RATIO * taken:
                raise FetchFailed(f"It decompresses to more than {MAX_RATIO} times its size.")
            yield piece
            if given > limit:
                return
    if not inflating.eof:
        raise FetchFailed("The compressed content is truncated.")
