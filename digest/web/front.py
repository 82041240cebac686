"""The first page: the field on top, today's trending papers below it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from time import perf_counter
from typing import Any

from sqlalchemy.orm import Session
from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from digest import addresses, db, subscriptions
from digest.errors import BadField, BadFilter, UsageError
from digest.house import House
from digest.rendering import words
from digest.web import forms, house, interests, pages, trending
from digest.web.forms import said
from digest.web.limits import network_of
from digest.web.shell import mail_headers

SLOT = "time-of-the-form"  #: stands in the kept page where each copy gets its own stamp
EVEN = 0.2  #: seconds: every answer to the form takes a multiple of it, so that no delay tells who is known


def show(request: Request) -> Response:
    """Show the page: made once for each state of the catalog."""
    of = house.of(request)
    return HTMLResponse(kept(of).replace(SLOT, forms.stamp(of.site, of.clock())))


def kept(of: House) -> str:
    """Return the page without its stamp, from memory if nothing has changed since it was made."""
    with db.reading(of.engine) as session:
        key = (trending.state_of(session), of.clock().date())
        return of.memory.once("front", key, lambda: front(of, session, stamp=SLOT))


def front(of: House, session: Session, **said: Any) -> str:
    """Return the page as HTML."""
    fields = {
        "email": "",
        "filter": "",
        "error": None,
        "meant": None,
        "wrong": None,
        "tried": None,
        "chosen": (),
    }
    return pages.rendered(
        of,
        "front",
        today=trending.today(of, session),
        interests=interests.offered(interests.gauge(of, session)),
        is_closed=of.settings.may_sign_up == frozenset(),
        **{**fields, **said},
    )


def answer(request: Request, status: int, **said: Any) -> Response:
    """Return the page again, with what was typed and what is wrong with it."""
    of = house.of(request)
    with db.reading(of.engine) as session:
        return HTMLResponse(front(of, session, stamp=forms.stamp(of.site, of.clock()), **said), status)


def act(request: Request, form: FormData) -> Response:
    """Try a filter, or take a wish to subscribe."""
    typed = {
        "email": said(form, "use", 320) or said(form, "email", 320),
        "filter": said(form, "filter"),
        "chosen": tuple(interests.chosen(form.getlist("interest"))),
    }
    try:
        return tried(request, typed) if said(form, "do") == "try" else ask(request, form, typed)
    except BadFilter as error:
        return answer(request, 422, wrong=error, **typed)
    except UsageError as error:
        return answer(request, 422, error=sentence(error), **typed)


def tried(request: Request, typed: Mapping[str, Any]) -> Response:
    """Show what a filter would have brought lately."""
    of = house.of(request)
    with db.reading(of.engine) as session:
        wanted = subscriptions.Books(session).whole(typed["filter"])
        found = interests.gauge(of, session).tried(wanted)
    lines = (interests.in_words(found.per_day), *found.warnings[:3])
    return answer(request, 200, tried=lines, **typed)


def ask(request: Request, form: FormData, typed: Mapping[str, Any]) -> Response:
    """Take a wish to subscribe; the answer is the same whoever is known here."""
    of = house.of(request)
    now = of.clock()
    if said(form, "website"):  # no person sees this field
        return sent(request, typed["email"])
    if not forms.is_timely(of.site, said(form, "made"), now):
        return answer(request, 422, error=words.SPEECH.gettext("That was quick. Press once more."), **typed)
    address = addresses.checked(typed["email"])
    meant = None if said(form, "keep") else addresses.probably_meant(address.email)
    if meant:
        return answer(request, 422, meant=meant, **typed)
    if not request.app.state.limits.allows(network(request), now):
        return pages.problem(request, 429)
    with db.writing(of.engine) as session:
        subscriptions.ask(
            session,
            of.site,
            address.email,
            topics=interests.as_topics(typed["chosen"], typed["filter"]),
            may_sign_up=of.settings.may_sign_up,
            now=now,
        )
        session.commit()
    return sent(request, address.email)


def network(request: Request) -> str | None:
    """Return the network a request came from, as our own proxies saw it."""
    client = request.client.host if request.client else None
    return network_of(client, request.headers, proxies=house.of(request).settings.proxies)


def sentence(error: UsageError) -> str:
    """Return an error without the name of its field, which the page shows it beside."""
    return str(error).removeprefix(f"{error.field}: ") if isinstance(error, BadField) else str(error)


def sent(request: Request, email: str) -> Response:
    """Show what happens next: the same for every address."""
    return pages.page(request, "sent", email=email)


take = forms.posted(act)


async def subscribe(request: Request) -> Response:
    """Answer the form at an even pace."""
    began = perf_counter()
    response = await take(request)
    await asyncio.sleep(EVEN - (perf_counter() - began) % EVEN)
    return response


def as_email(request: Request) -> Response:
    """Show today's papers as the mail they would be: alone in its page, with a mail's own styles."""
    of = house.of(request)
    with db.reading(of.engine) as session:
        key = (trending.state_of(session), of.clock().date())
        html = of.memory.once("email", key, lambda: trending.as_email(of, session))
    if html is None:
        return pages.problem(request, 404)
    return HTMLResponse(pages.letter_page(html), headers=mail_headers())


def privacy(request: Request) -> Response:
    """Show what we keep, and how to have it forgotten."""
    return pages.page(request, "privacy")
