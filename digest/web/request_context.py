"""Find the app context that belongs to a request."""

from __future__ import annotations

from starlette.requests import Request

from digest.app_context import AppContext


def context_of(request: Request) -> AppContext:
    """Return the app context that belongs to a request."""
    context: AppContext = request.app.state.context
    return context


def shows_outbox(context: AppContext) -> bool:
    """Return whether all mail stays in a Maildir on this machine, so that pages may show the outbox."""
    return context.settings.mail.folder_format == "maildir" and context.site.is_local
