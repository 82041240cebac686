"""What surrounds every page: headers that keep it safe, a limit on what is sent, a log that tells no secret."""

from __future__ import annotations

import logging
import re
from time import perf_counter
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = logging.getLogger("digest.web")

MOST_BYTES = 64 * 1024  #: of a request's body: forms are small

#: Nothing but our own style sheet and our own forms.
POLICY = "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
#: A mail's HTML: its own styles, no scripts; it may stand in our frame, and can do nothing there.
MAIL_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'self'; form-action 'none'; "
    "frame-ancestors 'self'; sandbox allow-top-navigation-by-user-activation allow-popups"
)
HEADERS = {
    "content-security-policy": POLICY,
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), interest-cohort=()",
}
#: Pages opened by a link from a letter: nobody keeps or indexes them, and no log tells the link.
PRIVATE = re.compile(r"^/(c|u|m|t|a|v|f|outbox|mirror)/(.*)$")

#: What machines ask every few seconds; nobody wants to read that it went well.
ASKED_OFTEN = frozenset({"/healthz", "/readyz", "/metrics"})


class TooMuch(HTTPException):
    """More was sent than a form could hold."""

    def __init__(self) -> None:
        super().__init__(413)


class Shell:
    """Wraps the pages."""

    def __init__(self, app: ASGIApp, *, is_https: bool):
        self.app = app
        self.is_https = is_https

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, within the limit, and dress the answer."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status = perf_counter(), 500

        async def dressed(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                dress(MutableHeaders(scope=message), scope["path"], is_https=self.is_https)
            await send(message)

        try:
            await self.app(scope, limited(receive, Headers(scope=scope)), dressed)
        finally:
            path = PRIVATE.sub(r"/\1/...", scope["path"])
            took = (perf_counter() - began) * 1000
            level = logging.DEBUG if path in ASKED_OFTEN and status < 400 else logging.INFO
            log.log(level, "%s %s %s in %.0f ms", scope["method"], path, status, took)


def dress(headers: MutableHeaders, path: str, *, is_https: bool) -> None:
    """Add what is missing; a page that chose a header itself keeps it."""
    for name, value in HEADERS.items():
        headers.setdefault(name, value)
    if is_https:
        headers.setdefault("strict-transport-security", "max-age=31536000")
    if PRIVATE.match(path):
        headers["cache-control"] = "no-store"
        headers["x-robots-tag"] = "noindex, nofollow"
    headers.setdefault("cache-control", "max-age=86400" if path.startswith("/static/") else "no-cache")


def mail_headers() -> dict[str, str]:
    """Return the headers under which a mail's HTML may be shown."""
    return {"content-security-policy": MAIL_POLICY, "x-frame-options": "SAMEORIGIN"}


def limited(receive: Receive, headers: Headers) -> Receive:
    """Return `receive` with an end to what it takes in."""
    announced = headers.get("content-length", "")
    taken = MOST_BYTES if announced.isdigit() and int(announced) > MOST_BYTES else 0

    async def counted() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > MOST_BYTES:
            raise TooMuch
        return message

    return counted


def is_ours(headers: Headers, url: str) -> bool:
    """Return whether a form was sent from our own pages, as far as the browser tells.

    Our pages send no referrer, so browsers say `Origin: null` for them too; those that know
    Sec-Fetch-Site tell the difference. No cookie stands behind any form here: a link's token is
    the only authority, and no other site knows one.
    """
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site in {"same-origin", "none"}
    origin = headers.get("origin")
    if origin is None or origin == "null":
        return True
    ours = urlsplit(url)
    return origin == f"{ours.scheme}://{ours.netloc}" or urlsplit(origin).netloc == headers.get("host")
