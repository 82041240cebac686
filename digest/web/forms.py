"""Read forms of limited size, check that they were sent by a person from our pages, and answer with a redirect.

Back and Reload never send a form again: the page that answers a form is kept for some minutes, and the browser is
redirected to the form's own path with the page's key.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from secrets import token_hex, token_urlsafe
from time import perf_counter
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from digest.db import kept_pages
from digest.errors import Unreachable
from digest.process.caches import Caches
from digest.site.links import sign_token, verify_token
from digest.site.site_profile import Site
from digest.web import middleware, visits
from digest.web.visits import Page, Visit

#: Minimum time between loading and sending a form; programs are faster than people.
MIN_FORM_AGE = timedelta(seconds=2)
MAX_FORM_AGE = timedelta(days=2)  #: time after which a form is too old to be sent and must be loaded again

MAX_COUNTED = 10_000  #: maximum number of stamps, or of networks, whose uses are counted
MAX_FIELDS = 200
READ_SECONDS = 30.0
SMALL_FORM = 64 * 1024  #: maximum number of bytes of a form that is read without waiting for other forms
LARGE_FORMS_AT_ONCE = 8  #: maximum number of larger forms read at the same time

#: The response time of a form that asks for an address is a multiple of this many seconds, so that it does not
#: reveal who is subscribed.
RESPONSE_STEP = 0.2
ONE_CLICK = "List-Unsubscribe"  #: the field that a mail program posts to unsubscribe

Endpoint = Callable[[Request], Coroutine[Any, Any, Response]]


def page_with_form(
    path: str,
    show: Page,
    action: Page,
    *,
    writes: bool = True,
    from_anywhere: bool = False,
    in_steps: bool = False,
) -> list[BaseRoute]:
    """Return the routes of a page and of its form, whose answers are redirects.

    An action that `writes` runs in one unit of work.
    """
    endpoint = form_endpoint(action, writes=writes, from_anywhere=from_anywhere)
    return [
        visits.route(path, lambda visit: kept_answer(visit) or show(visit)),
        Route(path, respond_in_steps(endpoint) if in_steps else endpoint, methods=["POST"]),
    ]


def form_endpoint(
    action: Page, *, writes: bool, from_anywhere: bool = False, is_page: bool = True
) -> Endpoint:
    """Return an endpoint that reads a form and calls `action` with it in a thread.

    Forms must be sent from our own pages. The exception is the one-click unsubscribe (RFC 8058), which mail
    programs send; its response is no redirect. On the `UPLOAD_PATHS`, a form may contain a file.
    """

    async def endpoint(request: Request) -> Response:
        is_redirected = is_page
        if not from_anywhere and not middleware.is_same_site(
            request.headers, visits.context_of(request).site.url
        ):
            raise HTTPException(403)
        files = 1 if request.scope["path"] in middleware.UPLOAD_PATHS else 0
        try:
            async with large_forms_in_turn(request), read_form(request, files=files) as form:
                is_redirected = is_page and not (from_anywhere and ONE_CLICK in form)
                response = await run_in_threadpool(visits.answer, request, action, form, writes=writes)
        except HTTPException as error:
            response = await run_in_threadpool(request.app.exception_handlers[HTTPException], request, error)
        return await run_in_threadpool(redirect_to, request, response) if is_redirected else response

    return endpoint


# ── redirects to the answers ────────────────────────────────────────────────────────────────────


def redirect_to(request: Request, answer: Response) -> Response:
    """Keep the page that answers a form, and redirect to it; return the page itself if the database fails."""

    def keep(visit: Visit) -> Response:
        name = token_urlsafe(16)
        head = json.dumps([answer.status_code, dict(answer.headers)]).encode()
        kept_pages.keep_page(
            visit.session,
            f"{visit.path}\n{name}",
            head + b"\n" + bytes(answer.body),
            network=visit.network_hash,
            now=visit.now,
        )
        return RedirectResponse(f"{visit.path}?answer={name}", 303)

    if isinstance(answer, RedirectResponse):
        return answer
    try:
        return visits.answer(request, keep, writes=True)
    except Unreachable:
        return answer


def kept_answer(visit: Visit) -> Response | None:
    """Return the page to which the answer to a form redirected, while it is kept."""
    name = visit.request.query_params.get("answer")
    kept = kept_pages.find_page(visit.session, f"{visit.path}\n{name}", now=visit.now) if name else None
    if kept is None:
        return None
    head, _, body = kept.partition(b"\n")
    status, headers = json.loads(head)
    return HTMLResponse(body, status, headers | {"cache-control": "no-store"})


# ── reading a form ──────────────────────────────────────────────────────────────────────────────


def respond_in_steps(endpoint: Endpoint) -> Endpoint:
    """Return an endpoint that delays the response until the time taken is a multiple of RESPONSE_STEP."""

    async def delayed(request: Request) -> Response:
        began = perf_counter()
        response = await endpoint(request)
        await request.app.state.sleep(RESPONSE_STEP - (perf_counter() - began) % RESPONSE_STEP)
        return response

    return delayed


@asynccontextmanager
async def large_forms_in_turn(request: Request) -> AsyncIterator[None]:
    """Let only a few large forms be read at a time, so that they cannot fill the memory."""
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) <= SMALL_FORM:
        yield
        return
    async with request.app.state.large_forms:
        yield


@asynccontextmanager
async def read_form(request: Request, *, files: int) -> AsyncIterator[FormData]:
    """Read a form within a time limit; close its files when the form has been processed."""
    try:
        async with asyncio.timeout(READ_SECONDS):
            form = await request.form(
                max_files=files, max_fields=MAX_FIELDS, max_part_size=middleware.MAX_UPLOAD
            )
    except TimeoutError:
        raise HTTPException(408) from None
    try:
        yield form
    finally:
        await form.close()


# ── when a form was opened ──────────────────────────────────────────────────────────────────────


def form_stamp(site: Site, now: datetime) -> str:
    """Return a signed stamp, unlike any other, with the time when a form was loaded."""
    return sign_token(site, "form", f"{int(now.timestamp())}-{token_hex(8)}")


def stamp_again(site: Site, stamp: str, now: datetime) -> str:
    """Return the stamp for a form that is shown again: its own, or one that can be sent at once if that is too old."""
    made = time_of_stamp(site, stamp)
    if made is None:
        return form_stamp(site, now)
    return stamp if now - made <= MAX_FORM_AGE else form_stamp(site, now - MIN_FORM_AGE)


def is_timely(site: Site, stamp: str, now: datetime) -> bool:
    """Return whether a form was sent between 2 seconds and 2 days after it was loaded."""
    made = time_of_stamp(site, stamp)
    return made is not None and MIN_FORM_AGE <= now - made <= MAX_FORM_AGE


def time_of_stamp(site: Site, stamp: str) -> datetime | None:
    """Return when a form was loaded, or None if its stamp is not ours."""
    made = (verify_token(site, "form", stamp) or "").partition("-")[0]
    return datetime.fromtimestamp(int(made), UTC) if made.isdigit() else None


def count_use(caches: Caches, name: str, key: object) -> int:
    """Return how often this process counted `key` before, such as a stamp or a network and a day."""
    return next(caches.get_or_make(name, key, count, bound=MAX_COUNTED))
