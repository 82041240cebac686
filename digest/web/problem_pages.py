"""Render the pages for errors and for links that do not work."""

from __future__ import annotations

import logging
import re
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from digest.errors import Unreachable
from digest.site import links
from digest.web import forms, middleware, page_rendering, visits

log = logging.getLogger("digest.web")

#: The headline and the next step on an error page, keyed by status.
PROBLEM_TEXTS = {
    400: ("The request was incomplete", "Go back and send the form again."),
    403: ("The form came from another site", "Open this site and send the form from here."),
    404: (
        "Page not found",
        "This site has no page at this address. Check the address, or start at the front page.",
    ),
    405: ("This request is not allowed", "Go back and use the buttons on the page."),
    408: ("The upload took too long", "Nothing was changed. Try again, or choose a smaller file."),
    410: ("This link no longer works", "Enter your address and we will mail you a new one."),
    413: ("The form is too large", "Nothing was changed. Shorten your text and send the form again."),
    500: ("Something went wrong on our side", "Nothing was changed. Try again in a minute."),
    503: ("We cannot reach our database", "Nothing was changed. Try again in a minute."),
}


class Gone(HTTPException):
    """The page to which a link led no longer exists; the error page has status 410 and these texts."""

    def __init__(self, texts: tuple[str, str]):
        super().__init__(410)
        self.texts = texts


#: The headline and sentence for a paper that is hidden or may not be shown.
REMOVED_PAPER = ("This paper was removed", "It is no longer shown here.")
#: The headline and sentence for a digest whose press (the stored papers behind it) was deleted.
EXPIRED_DIGEST = ("This digest is no longer stored", "We keep digests on the web for a limited time.")
#: The headline and sentence of the "not found" page, keyed by the first part of the path.
NOT_FOUND_TEXTS = {
    "papers": ("Paper not found", "This site has no paper with this number."),
    "outbox": (
        "Mail not found",
        "There is no such mail on this machine, or this site does not show its mail.",
    ),
    "feed": ("Feed not found", "There is no feed with this name."),
}
INCOMPLETE_LINK = (
    "This link does not work",
    "A mail program may have cut it, or it is from before your address changed."
    " Copy the whole link, or enter your address and we will mail you a new one.",
)
#: The headline and sentence shown for a confirmation link that has expired.
EXPIRED_LINK = (
    "This link has expired",
    "Enter your address and we will mail you a new one. Your topics and time are kept.",
)
#: The headline and sentence shown for an expired link to a subscriber's data or to a new address.
EXPIRED_ACCOUNT_LINK = (
    "This link has expired",
    "Enter your address and we will mail you the link to your settings, where you can request a new one.",
)
#: An error page with one of these texts has a form to request a new link.
LINK_TEXTS = (INCOMPLETE_LINK, EXPIRED_LINK, EXPIRED_ACCOUNT_LINK)


def problem_page(
    request: Request,
    status: int,
    *,
    email: str = "",
    stamp: str = "",
    error: str = "",
    texts: tuple[str, str] | None = None,
) -> Response:
    """Return an error page; if a link does not work, the page has a form to request a new one.

    `stamp` is the stamp of that form if it is shown again.
    """
    headline, sentence = texts or PROBLEM_TEXTS.get(status, PROBLEM_TEXTS[500 if status >= 500 else 400])
    context, path = visits.context_of(request), request.scope["path"]
    offers_link = status == 410 if texts is None else texts in LINK_TEXTS
    page = page_rendering.render_html(
        context,
        "problem",
        headline=headline,
        sentence=sentence,
        stamp=forms.stamp_again(context.site, stamp, context.clock()) if offers_link else "",
        email=email,
        error=error,
        form_path=path if status == 413 and middleware.PRIVATE_PATHS.match(path) else "",
    )
    return HTMLResponse(page, status)


def on_http(request: Request, error: Exception) -> Response:
    """Return the error page for an HTTPException."""
    if not isinstance(error, HTTPException):
        raise error
    if isinstance(error, Gone):
        return problem_page(request, 410, texts=error.texts)
    status = 410 if is_retired_link(request, error.status_code) else error.status_code
    answer = not_found_page(request) if status == 404 else problem_page(request, status)
    answer.headers.update(error.headers or {})
    return answer


def not_found_page(request: Request) -> Response:
    """Return the error page for an unknown address; its text depends on the kind of page requested."""
    sought = re.split("[/.]", request.scope["path"].lstrip("/"), maxsplit=1)[0]
    if sought in middleware.READER_PAGES:
        return problem_page(request, 404, texts=INCOMPLETE_LINK)
    return problem_page(request, 404, texts=NOT_FOUND_TEXTS.get(sought))


def is_retired_link(request: Request, status: int) -> bool:
    """Return whether a link is invalid because its key was retired, rather than because it is damaged."""
    token = request.path_params.get("token", "")
    return status == 404 and links.is_of_unknown_key(visits.context_of(request).site, token)


def on_unreachable(request: Request, error: Exception) -> Response:
    """Return the error page shown while the database is unreachable."""
    log.warning("the database does not respond: %s", error)
    answer = problem_page(request, 503)
    answer.headers["retry-after"] = "60"
    return answer


def on_error(request: Request, error: Exception) -> Response:
    """Return the error page shown after an unexpected error.

    The function adds the security headers itself, because the middleware does not see this response.
    """
    del error
    answer = problem_page(request, 500)
    middleware.add_headers(
        answer.headers, request.scope["path"], is_https=visits.context_of(request).site.is_https
    )
    return answer


HANDLERS: dict[Any, Any] = {HTTPException: on_http, Unreachable: on_unreachable, Exception: on_error}
