"""Check in a browser whether a page fits narrow screens and is legible in light and dark mode."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
import threading
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from html import unescape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import msgspec

WIDTHS = (320, 375, 640)
SCRIPT = Path(__file__).with_name("browser.js")
#: The options of a browser without network access.
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
GUTTER = 16
#: A script that makes every frame as high as its page, and returns the greatest height.
WALL = f"""<style>body {{ margin: 0; display: flex; gap: {GUTTER}px; align-items: flex-start; background: #8a8a8a }}
iframe {{ border: 0; flex: none }}</style>
<script>addEventListener("load", () => {{
  const frames = [...document.querySelectorAll("iframe")];
  frames.forEach((frame) => {{ frame.height = frame.contentDocument.documentElement.scrollHeight; }});
  document.documentElement.dataset.seen = JSON.stringify([Math.max(...frames.map((frame) => +frame.height))]);
}});</script>"""
DARK = ("--force-dark-mode", "--blink-settings=preferredColorScheme=0")


@dataclass(frozen=True, kw_only=True)
class Sight:
    """A page rendered at one width, in light or dark mode."""

    width: int
    is_dark: bool
    overflow: int  #: number of pixels that are reached only by scrolling sideways
    words: int
    first_title: int  #: pixels from the top to the first title of a paper; 0 if there is none
    sticking_out: tuple[str, ...]
    faint: tuple[str, ...]  #: text with less contrast than WCAG 2.2 requires


@contextmanager
def gallery(pages: dict[str, bytes], upstream: str = "") -> Iterator[str]:
    """Serve `pages`, and everything else from `upstream`, from one origin that lets itself be framed."""

    class PageHandler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content, kind = pages.get(self.path), "text/html; charset=utf-8"
            if content is None:
                try:
                    with urllib.request.urlopen(upstream + self.path) as answer:  # noqa: S310  (our own server)
                        content, kind = answer.read(), answer.headers["Content-Type"]
                except (OSError, ValueError) as error:  # nobody there, or nobody to ask
                    self.send_error(404, str(error))
                    return
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.end_headers()
            with suppress(OSError):  # a browser that has seen enough hangs up
                self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), PageHandler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def look(chromium: str, *, page: bytes = b"", path: str = "/page", upstream: str = "") -> list[Sight]:
    """Return how a page renders at every width in light and dark mode: `page` itself, or the one at `path`."""
    frames = "".join(f'<iframe src="{path}" width="{width}" height="900"></iframe>' for width in WIDTHS)
    host = f"<!doctype html><title>host</title>{frames}<script>{SCRIPT.read_text()}</script>"
    pages = {"/host": host.encode()} | ({path: page} if page else {})
    with gallery(pages, upstream) as origin:
        return [
            msgspec.convert(seen, Sight)
            for options in ((), DARK)
            for seen in seen_by(chromium, f"{origin}/host", *options)
        ]


def violations(chromium: str, axe: Path, *, page: bytes, upstream: str = "") -> list[str]:
    """Return the violations that axe-core finds in a page, each with its first element."""
    script = """<script src="/axe.js"></script><script>axe.run().then((result) => {
        document.documentElement.dataset.seen = JSON.stringify(
            result.violations.map((one) => `${one.id}: ${one.nodes[0].html}`));
    });</script>"""
    pages = {"/page": page + script.encode(), "/axe.js": axe.read_bytes()}
    with gallery(pages, upstream) as origin:
        return seen_by(chromium, f"{origin}/page", "--virtual-time-budget=10000")


def seen_by(chromium: str, url: str, *options: str) -> list[Any]:
    """Open the page in the browser and return what our script wrote into it."""
    with tempfile.TemporaryDirectory(prefix="digest-browser-", ignore_cleanup_errors=True) as profile:
        command = [chromium, *QUIET, *options, f"--user-data-dir={profile}", "--window-size=1400,1000"]
        done = subprocess.run(
            [*command, "--dump-dom", url], capture_output=True, text=True, timeout=60, check=True
        )
    found = re.search(r'data-seen="([^"]*)"', done.stdout)
    assert found, f"the browser printed nothing: {done.stderr[-500:]}"
    frames: list[Any] = json.loads(unescape(found[1]))
    return frames


def photograph(
    chromium: str,
    pages: Sequence[bytes],
    picture: Path,
    *,
    width: int,
    is_dark: bool = False,
    has_images: bool = True,
    at_most: int | None = None,
) -> None:
    """Take a screenshot of pages side by side, each at its screen width and in full height.

    With `at_most`, the screenshot ends after this many pixels.

    They are shown in frames, since no window of a browser is as narrow as a phone.
    """
    shown = {f"/{place}": page for place, page in enumerate(pages)}
    frames = "".join(f'<iframe src="{path}" width="{width}" height="300"></iframe>' for path in shown)
    shown["/wall"] = f"<!doctype html><title>wall</title>{WALL}{frames}".encode()
    options = [*(DARK if is_dark else ()), *(() if has_images else ("--blink-settings=imagesEnabled=false",))]
    with gallery(shown) as origin:
        (height,) = seen_by(chromium, f"{origin}/wall", *options)
        with tempfile.TemporaryDirectory(prefix="digest-browser-", ignore_cleanup_errors=True) as profile:
            command = [chromium, *QUIET, *options, f"--user-data-dir={profile}"]
            height = min(height, at_most or height)
            command += [f"--window-size={(width + GUTTER) * len(pages) - GUTTER},{height}"]
            command += [f"--screenshot={picture}", f"{origin}/wall"]
            subprocess.run(command, capture_output=True, timeout=60, check=True)


def lighten(convert: str, picture: Path) -> None:
    """Reduce a picture to a small palette, which saves two thirds of its bytes."""
    subprocess.run([convert, picture, "-strip", "-colors", "64", f"png8:{picture}"], check=True)
