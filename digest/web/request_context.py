"""Find the app context that belongs to a request."""

from __future__ import annotations

from starlette.requests import Request

from digest.app_context import AppContext
from digest.web import visitor_network


def context_of(request: Request) -> AppContext:
    """Return the app context that belongs to a request."""
    context: AppContext = request.app.state.context
    return context


def network_of(request: Request) -> str | None:
    """Return the network of the client that sent a request, as seen by the outermost trusted proxy."""
    client = request.client.host if request.client else None
    return visitor_network.network_of(client, request.headers, proxies=context_of(request).settings.proxies)


def shows_outbox(context: AppContext) -> bool:
    """Return whether all mail stays in a Maildir on this machine, so that pages may show the outbox."""
    return context.settings.mail.folder_format == "maildir" and context.site.is_local
