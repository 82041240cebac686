"""The first page: the field on top, today's trending papers below it."""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import Any

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from digest import addresses, db, subscriptions
from digest.errors import BadField, BadFilter, UsageError
from digest.rendering import words
from digest.web import forms, house, pages, trending
from digest.web.forms import said
from digest.web.limits import network_of

SLOT = "time-of-the-form"  #: stands in the kept page where each copy gets its own stamp
EVEN = 0.2  #: seconds: every answer to the form takes a multiple of it, so that no delay tells who is known


def show(request: Request) -> Response:
    """Show the page: made once for each state of the catalog."""
    of = house.of(request)
    return HTMLResponse(kept(of).replace(SLOT, forms.stamp(of.site, of.clock())))


def kept(of: house.House) -> str:
    """Return the page without its stamp, from memory if nothing has changed since it was made."""
    now = of.clock()
    with db.reading(of.engine) as session:
        key = (trending.state_of(session), now.date())
        if of.kept.get("front", ((), ""))[0] != key:
            of.kept["front"] = key, front(of, trending.trending(session, of.site, now), stamp=SLOT)
    return str(of.kept["front"][1])


def front(of: house.House, today: trending.Trending | None, **said: Any) -> str:
    """Return the page as HTML."""
    fields = {"email": "", "filter": "", "error": None, "meant": None, "wrong": None}
    closed = of.settings.may_sign_up == frozenset()
    return pages.rendered(of, "front", today=today, is_closed=closed, **{**fields, **said})


def answer(request: Request, status: int, **said: Any) -> Response:
    """Return the page again, with what was typed and what is wrong with it."""
    of = house.of(request)
    with db.reading(of.engine) as session:
        today = trending.trending(session, of.site, of.clock())
    return HTMLResponse(front(of, today, stamp=forms.stamp(of.site, of.clock()), **said), status)


def ask(request: Request, form: FormData) -> Response:
    """Take a wish to subscribe; the answer is the same whoever is known here."""
    of = house.of(request)
    now, email, wanted = of.clock(), said(form, "use", 320) or said(form, "email", 320), said(form, "filter")
    typed = {"email": email, "filter": wanted}
    if said(form, "website"):  # no person sees this field
        return sent(request, email)
    if not forms.is_timely(of.site, said(form, "made"), now):
        return answer(request, 422, error=words.SPEECH.gettext("That was quick. Press once more."), **typed)
    try:
        address = addresses.checked(email)
        meant = None if said(form, "keep") else addresses.probably_meant(address.email)
        if meant:
            return answer(request, 422, meant=meant, **typed)
        if not of.limits.allows(network_of(*client(request)), now):
            return pages.problem(request, 429)
        with db.writing(of.engine) as session:
            subscriptions.ask(
                session,
                of.site,
                address.email,
                topics={words.cut(wanted, 60): wanted} if wanted else {},
                may_sign_up=of.settings.may_sign_up,
                now=now,
            )
            session.commit()
    except BadFilter as error:
        return answer(request, 422, wrong=error, **typed)
    except UsageError as error:
        return answer(request, 422, error=sentence(error), **typed)
    return sent(request, address.email)


def client(request: Request) -> tuple[str | None, Any]:
    """Return who sent a request, as far as the connection tells, and the headers proxies wrote."""
    return (request.client.host if request.client else None), request.headers


def sentence(error: UsageError) -> str:
    """Return an error without the name of its field, which the page shows it beside."""
    return str(error).removeprefix(f"{error.field}: ") if isinstance(error, BadField) else str(error)


def sent(request: Request, email: str) -> Response:
    """Show what happens next: the same for every address."""
    return pages.page(request, "sent", email=email)


take = forms.posted(ask)


async def subscribe(request: Request) -> Response:
    """Answer the form at an even pace."""
    began = perf_counter()
    response = await take(request)
    await asyncio.sleep(EVEN - (perf_counter() - began) % EVEN)
    return response


def privacy(request: Request) -> Response:
    """Show what we keep, and how to have it forgotten."""
    return pages.page(request, "privacy")
