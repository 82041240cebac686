"""Find the app context of a request."""

from __future__ import annotations

from starlette.requests import Request

from digest.app_context import AppContext


def context_of(request: Request) -> AppContext:
    """Return the app context of a request."""
    context: AppContext = request.app.state.context
    return context


def shows_outbox(context: AppContext) -> bool:
    """Return whether pages may show the outbox: all mail stays in a Maildir on this machine."""
    return context.settings.mail.folder_format == "maildir" and context.site.is_local
