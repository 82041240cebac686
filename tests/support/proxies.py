"""Serve the web app on a real port behind a number of reverse proxies."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import uvicorn

from digest.app_context import open_context
from digest.settings import Settings
from digest.web import create_app
from tests.support.real_servers import free_port
from tests.support.waiting import wait_until


@dataclass
class ProxiedSites:
    """Opens web servers behind as many proxies as a test needs."""

    stack: ExitStack = field(default_factory=ExitStack)

    def open(self, settings: Settings, *, proxies: int) -> str:
        """Start the server and its proxies, and return the address of the outermost one."""
        port = self.stack.enter_context(serve_site(settings))
        for _proxy in range(proxies):
            port = self.stack.enter_context(proxy(port))
        return f"http://127.0.0.1:{port}"


@contextmanager
def serve_site(settings: Settings) -> Iterator[int]:
    """Serve the site on its own port until the block ends."""
    port, app = free_port(), create_app(open_context(settings))
    config = uvicorn.Config(app, host="127.0.0.1", port=port, log_config=None, proxy_headers=False)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_until("the site", lambda: server.started)
    try:
        yield port
    finally:
        server.should_exit = True
        thread.join(timeout=10)
        app.state.context.engine.dispose()


@contextmanager
def proxy(to_port: int) -> Iterator[int]:
    """Forward requests to a port with the client's address, as proxies do."""

    class ForwardingHandler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            before = self.headers.get("X-Forwarded-For")
            chain = f"{before}, {self.client_address[0]}" if before else self.client_address[0]
            inner = http.client.HTTPConnection("127.0.0.1", to_port, timeout=10)
            inner.request("GET", self.path, headers={"X-Forwarded-For": chain})
            answer = inner.getresponse()
            content = answer.read()
            inner.close()
            self.send_response(answer.status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_details: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), ForwardingHandler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=10)
