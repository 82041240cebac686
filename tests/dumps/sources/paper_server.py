"""Run a server of papers on this machine that responds as scripted: correctly, late, partly or never."""

from __future__ import annotations

import gzip
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.support.waiting import pause

Script = Callable[[Any], None]  #: answers one request; it is given the handler


@dataclass
class Papers:
    """The answer for each path, and the requests received."""

    url: str = ""
    answers: dict[str, Script] = field(default_factory=dict)
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    @property
    def paths(self) -> list[str]:
        return [path for path, _ in self.requests]


def says(
    content: bytes | str, *, kind: str = "application/json", status: int = 200, **headers: str
) -> Script:
    """Answer with this content."""
    body = content.encode() if isinstance(content, str) else content

    def answer(handler: Any) -> None:
        etag = headers.get("ETag")
        if etag and handler.headers.get("If-None-Match") == etag:
            handler.send_response(304)
            handler.end_headers()
            return
        handler.send_response(status)
        handler.send_header("Content-Type", kind)
        handler.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def refuses(status: int, **headers: str) -> Script:
    """Answer with an error."""
    return says(b"{}", status=status, **headers)


def sends_on(to: str, *, status: int = 302) -> Script:
    """Redirect."""
    return says(b"", status=status, Location=to)


def breaks_off(content: bytes, *, after: int) -> Script:
    """Announce the whole content, and close the connection before all of it is sent."""

    def answer(handler: Any) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content[:after])
        handler.close_connection = True

    return answer


def drips(*, headers_too: bool = False) -> Script:
    """Send a byte every 50 ms until the client disconnects."""

    def answer(handler: Any) -> None:
        start = b"HTTP/1.1 200 OK\r\nX-Slow: " if headers_too else b"HTTP/1.1 200 OK\r\n\r\n"
        handler.wfile.write(start)
        try:
            while True:
                handler.wfile.write(b"a")
                handler.wfile.flush()
                pause(0.05, "a slow server")
        except OSError:
            pass  # the client has disconnected
        handler.close_connection = True

    return answer


def packs(content: bytes, *, cut: int = 0, encoding: str = "gzip") -> Script:
    """Respond with compressed content."""
    body = gzip.compress(content)
    return says(body[: len(body) - cut], Content_Encoding=encoding)


@contextmanager
def serving(certificate: tuple[Path, Path] | None = None) -> Iterator[Papers]:
    """Serve on a port of the loopback, over TLS with a certificate."""
    papers = Papers()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            papers.requests.append((self.path, dict(self.headers.items())))
            papers.answers.get(self.path, refuses(404))(self)

        def log_message(self, *_: Any) -> None:
            pass

    class PaperHttpServer(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: Any) -> None:
            pass  # many tests make the client disconnect

    with PaperHttpServer(("127.0.0.1", 0), Handler) as server:
        scheme = "http"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
            scheme = "https"
        papers.url = f"{scheme}://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield papers
        finally:
            server.shutdown()
            thread.join()
