"""Show the messages in the Maildir of a local installation, whose mail does not leave this machine.

Every message contains its reader's private links. The viewer therefore exists only on a local site, and returns
404 unless the Host header of a request names this machine and no header shows that a proxy forwarded it.
"""

from __future__ import annotations

import email
import email.policy
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import EmailMessage
from email.parser import BytesHeaderParser
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response

from digest.web import page_rendering, request_context
from digest.web.middleware import mail_headers
from digest.web.visitor_network import is_forwarded, is_host_local

MAX_SHOWN = 200
VIEW_POLICY = "default-src 'none'; style-src 'self'; img-src 'self'; frame-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"


@dataclass(frozen=True, kw_only=True, slots=True)
class OutboxEntry:
    """One message in the list."""

    key: str
    subject: str
    recipient: str
    at: datetime


def show_list(request: Request) -> Response:
    """List the newest messages in the Maildir."""
    found = sorted(mail_files(request).items(), key=lambda item: item[1].stat().st_mtime_ns, reverse=True)
    lines = [outbox_entry(key, path) for key, path in found[:MAX_SHOWN]]
    return page_rendering.render_page(
        request, "outbox", lines=lines, more=max(0, len(found) - MAX_SHOWN), folder=mail_folder(request)
    )


def redirect_to_list(request: Request) -> Response:
    """Redirect to the list's address, which ends with a slash."""
    del request
    return RedirectResponse("/outbox/", 301)


def outbox_entry(key: str, path: Path) -> OutboxEntry:
    """Return the list entry of a message."""
    with path.open("rb") as file:
        headers = BytesHeaderParser(policy=email.policy.default).parse(file)
    return OutboxEntry(
        key=key,
        subject=str(headers["subject"] or ""),
        recipient=str(headers["to"] or ""),
        at=datetime.fromtimestamp(path.stat().st_mtime, UTC),
    )


def show_message(request: Request) -> Response:
    """Show one message: its HTML in a frame, or its text."""
    parsed = parsed_message(request)
    answer = page_rendering.render_page(
        request,
        "message",
        key=request.path_params["key"],
        subject=str(parsed["subject"] or "(no subject)"),
        headers=[(name, str(parsed[name])) for name in ("From", "To", "Date") if parsed[name]],
        text=body_part(parsed, "plain"),
        shows_text=request.query_params.get("as") == "text",
    )
    answer.headers["content-security-policy"] = VIEW_POLICY
    return answer


def show_html(request: Request) -> Response:
    """Return the HTML part of the message, in a sandbox without scripts."""
    content = body_part(parsed_message(request), "html").replace("<head>", '<head><base target="_top">', 1)
    return HTMLResponse(content, headers=mail_headers())


def show_source(request: Request) -> Response:
    """Return the source of the message."""
    return PlainTextResponse(path_of(request).read_bytes())


def body_part(parsed: EmailMessage, kind: str) -> str:
    """Return the text of the message's plain or HTML part; "" if the message has no such part."""
    found = parsed.get_body((kind,))
    return str(found.get_content()) if found is not None else ""


def parsed_message(request: Request) -> EmailMessage:
    """Return the parsed message that the URL names."""
    return email.message_from_bytes(path_of(request).read_bytes(), policy=email.policy.default)


# ── the folder ──────────────────────────────────────────────────────────────────────────────────


def path_of(request: Request) -> Path:
    """Return the file of the message that the URL names; the name is only compared, never used as a path."""
    found = mail_files(request).get(request.path_params["key"])
    if found is None:
        raise HTTPException(404)
    return found


def mail_files(request: Request) -> dict[str, Path]:
    """Return the files of the Maildir, keyed by their unique names."""
    paths = [path for part in ("new", "cur") for path in (mail_folder(request) / part).glob("*")]
    return {path.name.partition(":")[0]: path for path in paths if path.is_file() and not path.is_symlink()}


def mail_folder(request: Request) -> Path:
    """Return the local Maildir; raise 404 if this client may not see it."""
    context = request_context.context_of(request)
    if not request_context.shows_outbox(context) or not is_host_local(request.headers.getlist("host")):
        raise HTTPException(404)
    # nginx names this machine in Host unless it is configured otherwise, but no browser speaks its HTTP/1.0.
    if is_forwarded(request.headers) or request.scope["http_version"] == "1.0":
        raise HTTPException(404)
    return context.settings.mail.folder
