"""Add security headers, limit request bodies, and log requests without secrets."""

from __future__ import annotations

import logging
import re
from time import perf_counter
from urllib.parse import quote, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

log = logging.getLogger("digest.web")

CLIENT_GONE = 499  #: the status that is logged if the client closed the connection, as in nginx
MEGABYTE = 1024 * 1024
#: Maximum number of bytes in a request body. Forms are small, but a form with a field of up to
#: 1 MB is accepted, so that the page can show the error message next to the field.
MAX_BYTES = MEGABYTE + 256 * 1024
#: Maximum number of bytes on `UPLOAD_PATHS`: a library of 1 MB, and the fields sent with it.
MAX_UPLOAD = 3 * MEGABYTE
UPLOAD_PATHS = frozenset({"/", "/preview"})
#: Maximum number of bytes of a larger body that are read and discarded, because a browser shows our error
#: page only after it has sent the form.
MAX_DISCARDED = 16 * MEGABYTE

#: This policy allows only our own style sheet, images and forms.
PAGE_POLICY = "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
#: This policy also allows our own script file, which may send requests to this site only.
SCRIPT_POLICY = f"{PAGE_POLICY}; script-src 'self'; connect-src 'self'"
#: For an email's HTML: allows its own styles but no scripts, and only inside our sandboxed frame.
MAIL_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'self'; form-action 'none'; "
    "frame-ancestors 'self'; sandbox allow-top-navigation-by-user-activation allow-popups"
)
HEADERS = {
    "content-security-policy": PAGE_POLICY,
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), interest-cohort=()",
}
#: The pages that belong to one reader, who opens them with links from letters: the first parts of their paths.
READER_PAGES = ("c", "u", "m", "t", "a", "v", "f", "l", "s", "d", "e")
#: Paths of private links: their pages are neither cached nor indexed, and the log omits their tokens.
PRIVATE_PATHS = re.compile(rf"^/({'|'.join(READER_PAGES)}|outbox)/(.*)$", re.DOTALL)


class RequestTooLarge(HTTPException):
    """A request body is larger than allowed; the response has status 413."""

    def __init__(self) -> None:
        super().__init__(413)


class PublicPageCompression:
    """Compress public pages only; the compressed size of a private page could reveal its secrets (BREACH)."""

    def __init__(self, app: ASGIApp):
        self.app = app
        self.compressed = GZipMiddleware(app, minimum_size=1000)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request; compress the response if the page is public."""
        is_public = scope["type"] == "http" and not PRIVATE_PATHS.match(scope["path"])
        await (self.compressed if is_public else self.app)(scope, receive, send)


class HttpMiddleware:
    """The ASGI middleware that handles all requests."""

    def __init__(self, app: ASGIApp, *, is_https: bool):
        self.app = app
        self.is_https = is_https

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request with a limit on the size of its body, and add headers to the response."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status = perf_counter(), 500

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                add_headers(headers, scope["path"], is_https=self.is_https, method=scope["method"])
            await send(message)

        try:
            most = MAX_UPLOAD if scope["path"] in UPLOAD_PATHS else MAX_BYTES
            await self.app(scope, limit_body(receive, Headers(scope=scope), most), send_with_headers)
        except ClientDisconnect:
            status = CLIENT_GONE  # nobody could receive a response, because the client closed the connection
        finally:
            # A path may contain line breaks, which must not reach the log.
            path = PRIVATE_PATHS.sub(r"/\1/...", quote(scope["path"]))
            took = (perf_counter() - began) * 1000
            # The proxy logs all requests, so successful ones are only debug messages.
            level = logging.WARNING if status >= 500 else logging.DEBUG
            log.log(level, "%s %s %s in %.0f ms", scope["method"], path, status, took)


def add_headers(headers: MutableHeaders, path: str, *, is_https: bool, method: str = "GET") -> None:
    """Add those security and cache headers that the page has not set itself.

    The response to a form contains the submitted values, so browsers must not store it.
    """
    for name, value in HEADERS.items():
        headers.setdefault(name, value)
    if is_https:
        headers.setdefault("strict-transport-security", "max-age=31536000")
    if PRIVATE_PATHS.match(path):
        headers["cache-control"] = "no-store"
        headers["x-robots-tag"] = "noindex, nofollow"
    if method == "POST":
        headers["cache-control"] = "no-store"
    headers.setdefault("cache-control", "max-age=86400" if path.startswith("/static/") else "no-cache")


def script_headers() -> dict[str, str]:
    """Return the security headers of a page that loads our own script file."""
    return {"content-security-policy": SCRIPT_POLICY}


def mail_headers() -> dict[str, str]:
    """Return the headers with which a page can show an email's HTML safely."""
    return {"content-security-policy": MAIL_POLICY, "x-frame-options": "SAMEORIGIN"}


def limit_body(receive: Receive, headers: Headers, most: int) -> Receive:
    """Return `receive` with a limit on the size of the body; the rest of a larger body is read and discarded."""
    announced = headers.get("content-length", "")
    taken = most if announced.isdecimal() and int(announced) > most else 0

    async def counted() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > most:
            await discard(receive, message, MAX_DISCARDED - taken)
            raise RequestTooLarge
        return message

    return counted


async def discard(receive: Receive, message: Message, most: int) -> None:
    """Read the rest of a body, but at most `most` bytes."""
    while message.get("more_body") and most > 0:
        message = await receive()
        most -= len(message.get("body", b""))


def is_same_site(headers: Headers, url: str) -> bool:
    """Return whether a form was sent from our own pages, according to the browser's headers.

    Our pages send no referrer, so browsers send `Origin: null` for them too; browsers that support
    Sec-Fetch-Site report whether the form is on our site. No form relies on a cookie: access depends only on
    the token in a link, which no other site knows.
    """
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site in {"same-origin", "none"}
    origin = headers.get("origin")
    if origin is None or origin == "null":
        return True
    own, host = urlsplit(url), headers.get("host")
    return origin in {f"{own.scheme}://{own.netloc}", f"http://{host}", f"https://{host}"}
