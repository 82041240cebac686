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
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from digest.web import page_rendering
from digest.web.middleware import mail_headers
from digest.web.visitor_network import is_forwarded, is_host_local
from digest.web.visits import Visit

MAX_SHOWN = 200
VIEW_POLICY = "default-src 'none'; style-src 'self'; img-src 'self'; frame-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"


@dataclass(frozen=True, kw_only=True, slots=True)
class OutboxEntry:
    """One message in the list."""

    key: str
    subject: str
    recipient: str
    at: datetime


def show_list(visit: Visit) -> Response:
    """List the newest messages in the Maildir."""
    found = sorted(mail_files(visit).items(), key=lambda item: item[1].stat().st_mtime_ns, reverse=True)
    lines = [outbox_entry(key, path) for key, path in found[:MAX_SHOWN]]
    more, folder = max(0, len(found) - MAX_SHOWN), mail_folder(visit)
    return visit.page("outbox", lines=lines, more=more, folder=folder)


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


def show_message(visit: Visit) -> Response:
    """Show one message: its HTML in a frame, or its text."""
    parsed = parsed_message(visit)
    answer = visit.page(
        "message",
        key=visit.request.path_params["key"],
        subject=str(parsed["subject"] or "(no subject)"),
        headers=[(name, str(parsed[name])) for name in ("From", "To", "Date") if parsed[name]],
        text=body_part(parsed, "plain"),
        shows_text=visit.request.query_params.get("as") == "text",
    )
    answer.headers["content-security-policy"] = VIEW_POLICY
    return answer


def show_html(visit: Visit) -> Response:
    """Return the HTML part of the message, in a sandbox without scripts."""
    content = body_part(parsed_message(visit), "html").replace("<head>", '<head><base target="_top">', 1)
    return HTMLResponse(content, headers=mail_headers())


def show_source(visit: Visit) -> Response:
    """Return the source of the message."""
    return PlainTextResponse(path_of(visit).read_bytes())


def body_part(parsed: EmailMessage, kind: str) -> str:
    """Return the text of the message's plain or HTML part; "" if the message has no such part."""
    found = parsed.get_body((kind,))
    return str(found.get_content()) if found is not None else ""


def parsed_message(visit: Visit) -> EmailMessage:
    """Return the parsed message that the URL names."""
    return email.message_from_bytes(path_of(visit).read_bytes(), policy=email.policy.default)


# ── the folder ──────────────────────────────────────────────────────────────────────────────────


def path_of(visit: Visit) -> Path:
    """Return the file of the message that the URL names; the name is only compared, never used as a path."""
    found = mail_files(visit).get(visit.request.path_params["key"])
    if found is None:
        raise HTTPException(404)
    return found


def mail_files(visit: Visit) -> dict[str, Path]:
    """Return the files of the Maildir, keyed by their unique names."""
    paths = [path for part in ("new", "cur") for path in (mail_folder(visit) / part).glob("*")]
    return {path.name.partition(":")[0]: path for path in paths if path.is_file() and not path.is_symlink()}


def mail_folder(visit: Visit) -> Path:
    """Return the local Maildir; raise 404 if this client may not see it."""
    headers, version = visit.request.headers, visit.request.scope["http_version"]
    is_local = page_rendering.shows_outbox(visit.context) and is_host_local(headers.getlist("host"))
    # nginx names this machine in Host unless it is configured otherwise, but no browser speaks its HTTP/1.0.
    if not is_local or is_forwarded(headers) or version == "1.0":
        raise HTTPException(404)
    return visit.context.settings.mail.folder
