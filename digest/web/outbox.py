"""The outbox viewer: the mails of a house that sends none, read from the local Maildir.

Every mail holds its reader's links, so the viewer exists only where the site is this machine's own,
and answers only to a browser that asked for this machine by name.
"""

from __future__ import annotations

import email
import email.policy
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import EmailMessage
from email.parser import BytesHeaderParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from digest.web import house, pages
from digest.web.shell import mail_headers

SHOWN = 200
VIEW_POLICY = "default-src 'none'; style-src 'self'; img-src 'self'; frame-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """One mail in the list."""

    key: str
    subject: str
    recipient: str
    at: datetime


def show(request: Request) -> Response:
    """List the newest mails."""
    found = sorted(files(request).items(), key=lambda item: item[1].stat().st_mtime_ns, reverse=True)
    lines = [line(key, path) for key, path in found[:SHOWN]]
    return pages.page(request, "outbox", lines=lines, more=max(0, len(found) - SHOWN), folder=folder(request))


def line(key: str, path: Path) -> Line:
    """Return what the list shows of a mail."""
    with path.open("rb") as file:
        headers = BytesHeaderParser(policy=email.policy.default).parse(file)
    return Line(
        key=key,
        subject=str(headers["subject"] or ""),
        recipient=str(headers["to"] or ""),
        at=datetime.fromtimestamp(path.stat().st_mtime, UTC),
    )


def message(request: Request) -> Response:
    """Show one mail: as HTML in a frame, or its text."""
    parsed = parsed_message(request)
    answer = pages.page(
        request,
        "message",
        key=request.path_params["key"],
        subject=str(parsed["subject"] or "(no subject)"),
        headers=[(name, str(parsed[name])) for name in ("From", "To", "Date") if parsed[name]],
        text=part(parsed, "plain"),
        shows_text=request.query_params.get("as") == "text",
    )
    answer.headers["content-security-policy"] = VIEW_POLICY
    return answer


def html(request: Request) -> Response:
    """Give the HTML part, sandboxed."""
    content = part(parsed_message(request), "html").replace("<head>", '<head><base target="_top">', 1)
    return HTMLResponse(content, headers=mail_headers())


def source(request: Request) -> Response:
    """Give the mail as it is."""
    return PlainTextResponse(path_of(request).read_bytes())


def part(parsed: EmailMessage, kind: str) -> str:
    """Return the text of the mail's part of that kind; empty if it has none."""
    found = parsed.get_body((kind,))
    return str(found.get_content()) if found is not None else ""


def parsed_message(request: Request) -> EmailMessage:
    """Return the mail a request names."""
    return email.message_from_bytes(path_of(request).read_bytes(), policy=email.policy.default)


# ── the folder ──────────────────────────────────────────────────────────────────────────────────


def path_of(request: Request) -> Path:
    """Return the file of the mail a request names: looked up in the list, never built from the name."""
    found = files(request).get(request.path_params["key"])
    if found is None:
        raise HTTPException(404)
    return found


def files(request: Request) -> dict[str, Path]:
    """Return the Maildir's files by their unique names."""
    inside = [path for part in ("new", "cur") for path in (folder(request) / part).glob("*")]
    return {path.name.partition(":")[0]: path for path in inside if path.is_file() and not path.is_symlink()}


def folder(request: Request) -> Path:
    """Return the local Maildir, if mails may be looked at by whoever asks."""
    of = house.of(request)
    name = urlsplit(f"//{request.headers.get('host', '')}").hostname or ""
    is_here = name in {"localhost", "::1"} or name.startswith("127.")
    if not house.shows_outbox(of) or not is_here:
        raise HTTPException(404)
    return Path(unquote(urlsplit(of.settings.mail).path))
