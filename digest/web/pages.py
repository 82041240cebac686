"""Pages: templates set with what every page says, and errors in the site's own voice."""

from __future__ import annotations

import hashlib
import logging
from functools import lru_cache
from pathlib import Path
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from digest.errors import Unreachable
from digest.house import House
from digest.settings import templates_dir
from digest.web import house, shell

log = logging.getLogger("digest.web")


def page(request: Request, name: str, *, status: int = 200, **said: Any) -> HTMLResponse:
    """Return the page `templates/web/NAME.html`, set with `said` and what every page says."""
    return HTMLResponse(rendered(house.of(request), name, **said), status)


def rendered(of: House, name: str, **said: Any) -> str:
    """Return a page as HTML."""
    return of.templates.html.get_template(f"web/{name}.html").render(
        {"site": of.site, "style": style(), "shows_outbox": house.shows_outbox(of), **said}
    )


def letter_page(html: str) -> str:
    """Return a letter as a page: an article among a reader's mails, in a browser it is what the page is about."""
    return html.replace('role="article" aria-roledescription="email"', 'role="main"', 1)


def static_dir() -> Path:
    """Return the folder of files that are served as they are."""
    return templates_dir() / "web" / "static"


@lru_cache(maxsize=1)
def style() -> str:
    """Return the style sheet's address, which changes when its content does."""
    content = (static_dir() / "site.css").read_bytes()
    return f"/static/site.css?v={hashlib.sha256(content).hexdigest()[:8]}"


# ── what went wrong ─────────────────────────────────────────────────────────────────────────────

#: Per status: headline and one sentence. Nobody is blamed, and everybody learns what to do.
PROBLEMS = {
    400: ("That did not arrive in one piece", "Go back, and send it once more."),
    403: ("That came from another site", "Open this site itself, and send it from here."),
    404: (
        "Nothing here",
        "The link may be cut short. Try it again from your mail, or start at the first page.",
    ),
    405: ("Not in this way", "This page cannot be used like that."),
    410: ("This link has expired", "Enter your address and we'll mail a new one."),
    413: ("That is too much", "Forms here are small. Shorten what you sent, and try again."),
    429: ("Slower, please", "Many requests came from your network. Wait ten minutes, and try again."),
    500: ("Our fault", "We couldn't do that. Nothing changed; try again in a minute."),
    503: ("Our fault", "We couldn't reach our database. Nothing changed; try again in a minute."),
}


def problem(request: Request, status: int) -> Response:
    """Return the page that says what went wrong and what to do."""
    headline, sentence = PROBLEMS.get(status, PROBLEMS[500 if status >= 500 else 400])
    return page(request, "problem", status=status, headline=headline, sentence=sentence)


def on_http(request: Request, error: Exception) -> Response:
    """Answer what a page refused."""
    if not isinstance(error, HTTPException):
        raise error
    answer = problem(request, error.status_code)
    answer.headers.update(error.headers or {})
    return answer


def on_unreachable(request: Request, error: Exception) -> Response:
    """Answer while the database is away."""
    log.warning("no answer from the database: %s", error)
    answer = problem(request, 503)
    answer.headers["retry-after"] = "60"
    return answer


def on_fault(request: Request, error: Exception) -> Response:
    """Answer a fault of ours, which the server logs; the shell is not around this answer, so dress it."""
    del error
    answer = problem(request, 500)
    shell.dress(answer.headers, request.url.path, is_https=house.of(request).site.is_https)
    return answer


HANDLERS: dict[Any, Any] = {HTTPException: on_http, Unreachable: on_unreachable, Exception: on_fault}
