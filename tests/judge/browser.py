"""What a browser makes of a page: whether it fits narrow screens, and whether it can be read, day and night."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html import unescape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

WIDTHS = (320, 375, 640)
SCRIPT = Path(__file__).with_name("browser.js")
#: A browser that talks to nobody.
QUIET = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
DARK = ("--force-dark-mode", "--blink-settings=preferredColorScheme=0")


@dataclass(frozen=True, kw_only=True)
class Sight:
    """A page as it looks at one width, by day or by night."""

    width: int
    is_dark: bool
    overflow: int  #: pixels that one would have to scroll sideways
    words: int
    sticking_out: tuple[str, ...]
    faint: tuple[str, ...]  #: text with less contrast than WCAG 2.2 asks for


@contextmanager
def gallery(pages: dict[str, bytes], upstream: str = "") -> Iterator[str]:
    """Serve `pages`, and everything else from `upstream`, from one origin that lets itself be framed."""

    class Room(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content, kind = pages.get(self.path), "text/html; charset=utf-8"
            if content is None:
                try:
                    with urllib.request.urlopen(upstream + self.path) as answer:  # noqa: S310  (our own server)
                        content, kind = answer.read(), answer.headers["Content-Type"]
                except OSError as error:
                    self.send_error(404, str(error))
                    return
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Room)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def look(chromium: str, *, page: bytes = b"", path: str = "/page", upstream: str = "") -> list[Sight]:
    """Return how a page looks at every width, by day and by night: `page` itself, or what stands at `path`."""
    frames = "".join(f'<iframe src="{path}" width="{width}" height="900"></iframe>' for width in WIDTHS)
    host = f"<!doctype html><title>host</title>{frames}<script>{SCRIPT.read_text()}</script>"
    pages = {"/host": host.encode()} | ({path: page} if page else {})
    with gallery(pages, upstream) as origin:
        return [
            Sight(
                **{name: tuple(value) if isinstance(value, list) else value for name, value in seen.items()}
            )
            for options in ((), DARK)
            for seen in seen_by(chromium, f"{origin}/host", *options)
        ]


def violations(chromium: str, axe: Path, *, page: bytes, upstream: str = "") -> list[str]:
    """Return what axe-core objects to in a page, each with the first place where it is so."""
    script = """<script src="/axe.js"></script><script>axe.run().then((said) => {
        document.documentElement.dataset.seen = JSON.stringify(
            said.violations.map((one) => `${one.id}: ${one.nodes[0].html}`));
    });</script>"""
    pages = {"/page": page + script.encode(), "/axe.js": axe.read_bytes()}
    with gallery(pages, upstream) as origin:
        return seen_by(chromium, f"{origin}/page", "--virtual-time-budget=10000")


def seen_by(chromium: str, url: str, *options: str) -> list[Any]:
    """Let the browser open the page and return what our script wrote into it."""
    with tempfile.TemporaryDirectory(prefix="digest-browser-", ignore_cleanup_errors=True) as profile:
        command = [chromium, *QUIET, *options, f"--user-data-dir={profile}", "--window-size=1400,1000"]
        done = subprocess.run(
            [*command, "--dump-dom", url], capture_output=True, text=True, timeout=60, check=True
        )
    found = re.search(r'data-seen="([^"]*)"', done.stdout)
    assert found, f"the browser said nothing: {done.stderr[-500:]}"
    return json.loads(unescape(found[1]))


def photograph(chromium: str, page: Path, picture: Path, *, width: int, is_dark: bool = False) -> None:
    """Take a picture of a page, for people to look at."""
    with tempfile.TemporaryDirectory(prefix="digest-browser-", ignore_cleanup_errors=True) as profile:
        command = [chromium, *QUIET, *(DARK if is_dark else ()), f"--user-data-dir={profile}"]
        command += [f"--window-size={width},2400", f"--screenshot={picture}", page.as_uri()]
        subprocess.run(command, capture_output=True, timeout=60, check=True)
