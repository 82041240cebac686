"""What a page needs to answer a request: the app context, a session, the time, and what was sent."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from digest.app_context import AppContext
from digest.db import Session
from digest.db.tables.subscribers import Subscriber
from digest.papers.catalog import queries
from digest.site import links
from digest.site.site_profile import Site
from digest.subscribers import sign_up_queue, subscriber_rows
from digest.web import page_rendering, visitor_network

Value = TypeVar("Value")


@dataclass(frozen=True, kw_only=True, slots=True)
class Visit:
    """A request, and what answers it."""

    request: Request
    context: AppContext
    session: Session  #: only reads, unless the page changes something
    now: datetime
    form: FormData  #: the fields of the form that was sent; none for a page that is only shown

    @property
    def site(self) -> Site:
        """Return the site that is visited."""
        return self.context.site

    @property
    def path(self) -> str:
        """Return the path of the page, without the Host header of the request, which any client can set."""
        return str(self.request.scope["path"])

    @property
    def token(self) -> str:
        """Return the token in the page's URL."""
        return str(self.request.path_params["token"])

    @property
    def done(self) -> str:
        """Return what the button did that was pressed last; "" if the page was opened with a link."""
        return self.request.query_params.get("done", "")

    @property
    def network(self) -> str | None:
        """Return the network of the client, as seen by the outermost trusted proxy."""
        client = self.request.client.host if self.request.client else None
        proxies = self.context.settings.proxies
        return visitor_network.network_of(client, self.request.headers, proxies=proxies)

    @property
    def network_hash(self) -> str:
        """Return the keyed hash of the client's network."""
        return sign_up_queue.network_hash(self.site, self.network)

    def field(self, name: str, max_length: int = 2000) -> str:
        """Return the text of a form's field without NUL characters, truncated to `max_length`."""
        return clean_text(self.form.get(name, "")).strip()[:max_length]

    def reader(self, purpose: str) -> Subscriber:
        """Return the subscriber that the link names; raise 404 if the link is invalid or revoked."""
        found = links.read_subscriber_token(self.site, purpose, self.token)
        reader = subscriber_rows.find_by_link(self.session, *found) if found else None
        if reader is None:
            raise HTTPException(404)
        return reader

    def writing(self) -> AbstractContextManager[Session]:
        """Open a unit of work on a page whose own session only reads, and give back that session's connection."""
        self.session.close()
        return self.context.write_session()

    def cached(self, name: str, make: Callable[[], Value], *key: Hashable, bound: int = 1) -> Value:
        """Return a value that is made again when the catalog, the day or the rest of the key changes."""
        whole = (queries.state(self.session), self.now.date(), *key)
        return self.context.caches.get_or_make(name, whole, make, bound=bound)

    def page(self, name: str, *, status: int = 200, **values: Any) -> HTMLResponse:
        """Return the page `templates/web/NAME.html`, rendered with `values` and those that all pages share."""
        return HTMLResponse(page_rendering.render_html(self.context, name, **values), status)

    def back(self, done: str = "") -> Response:
        """Redirect to the page whose button was pressed."""
        return RedirectResponse(f"{self.path}?done={done}" if done else self.path, 303)


Page = Callable[[Visit], Response]
NO_FORM = FormData()


def clean_text(value: object) -> str:
    """Return a form value's text without NULs and unpaired surrogates; "" for a file."""
    if not isinstance(value, str):
        return ""
    return value.encode("utf-8", errors="replace").decode().replace("\0", "")


def context_of(request: Request) -> AppContext:
    """Return the app context that belongs to a request."""
    context: AppContext = request.app.state.context
    return context


def answer(request: Request, page: Page, form: FormData = NO_FORM, *, writes: bool = False) -> Response:
    """Answer a request with a page, in a session that only reads or in one unit of work."""
    context = context_of(request)
    with context.write_session() if writes else context.read_session() as session:
        now = context.clock()
        return page(Visit(request=request, context=context, session=session, now=now, form=form))


def route(path: str, page: Page) -> BaseRoute:
    """Return the route of a page, which is shown without changing anything."""
    return Route(path, lambda request: answer(request, page))
