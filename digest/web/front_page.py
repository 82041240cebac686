"""Serve the front page: the sign-up form and today's trending papers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from time import perf_counter
from typing import Any

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from digest import addresses, db, subscribers
from digest.app_context import AppContext
from digest.db import Session
from digest.errors import BadField, BadFilter, UsageError
from digest.letters import figures_in_words
from digest.papers import catalog
from digest.subscribers import use_cases
from digest.web import forms, page_rendering, request_context, starter_topics, trending
from digest.web.form_limits import is_proxied, network_of
from digest.web.forms import field_text
from digest.web.middleware import mail_headers

STAMP_PLACEHOLDER = "time-of-the-form"  #: in the cached page; each response replaces it with a new form stamp
#: Response times to the form are multiples of this many seconds, so that they do not reveal who is
#: subscribed.
RESPONSE_STEP = 0.2


def show_front(request: Request) -> Response:
    """Show the front page, which is cached."""
    context = request_context.context_of(request)
    return HTMLResponse(
        cached_page(context).replace(STAMP_PLACEHOLDER, forms.form_stamp(context.site, context.clock()))
    )


def cached_page(context: AppContext) -> str:
    """Return the front page without its form stamp, cached until the catalog or the day changes."""
    with db.read_session(context.engine) as session:
        key = (catalog.state(session), context.clock().date())
        return context.caches.get_or_make(
            "front", key, lambda: render_front(context, session, stamp=STAMP_PLACEHOLDER)
        )


def render_front(context: AppContext, session: Session, **values: Any) -> str:
    """Return the front page as HTML."""
    fields = {
        "email": "",
        "filter": "",
        "error": None,
        "meant": None,
        "wrong": None,
        "tried": None,
        "chosen": (),
    }
    return page_rendering.render_html(
        context,
        "front_page",
        today=trending.todays_list(context, session),
        interests=starter_topics.topics_with_rates(starter_topics.recent_papers(context, session)),
        is_closed=context.settings.signup == frozenset(),
        **{**fields, **values},
    )


def show_again(request: Request, status: int, **values: Any) -> Response:
    """Return the front page with the submitted values and the error."""
    context = request_context.context_of(request)
    with db.read_session(context.engine) as session:
        return HTMLResponse(
            render_front(context, session, stamp=forms.form_stamp(context.site, context.clock()), **values),
            status,
        )


def handle_form(request: Request, form: FormData) -> Response:
    """Try a filter, or sign up."""
    typed = {
        "email": field_text(form, "use", 320) or field_text(form, "email", 320),
        "filter": field_text(form, "filter"),
        "chosen": tuple(starter_topics.chosen_topics(form.getlist("interest"))),
    }
    try:
        return (
            show_trial(request, typed)
            if field_text(form, "do") == "try"
            else handle_sign_up(request, form, typed)
        )
    except BadFilter as error:
        return show_again(request, 422, wrong=error, **typed)
    except UsageError as error:
        return show_again(request, 422, error=error_sentence(error), **typed)


def show_trial(request: Request, fields: Mapping[str, Any]) -> Response:
    """Show what a filter would have matched recently."""
    context = request_context.context_of(request)
    with db.read_session(context.engine) as session:
        resolved = subscribers.FilterRegistry(session).resolve_text(fields["filter"])
        found = starter_topics.recent_papers(context, session).backtest(resolved)
    lines = (starter_topics.rate_sentence(found.per_day), *found.warnings[:3])
    return show_again(request, 200, tried=lines, **fields)


def handle_sign_up(request: Request, form: FormData, fields: Mapping[str, Any]) -> Response:
    """Queue a sign-up; the response is the same whether or not the address is known."""
    context = request_context.context_of(request)
    now = context.clock()
    if field_text(form, "website"):  # a hidden field that only bots fill in
        return show_sent(request, fields["email"])
    if not forms.is_timely(context.site, field_text(form, "made"), now):
        return show_again(
            request,
            422,
            error=figures_in_words.TRANSLATIONS.gettext("Please press the button again."),
            **fields,
        )
    address = addresses.parse_address(fields["email"])
    meant = None if field_text(form, "keep") else addresses.suggest_correction(address.email)
    if meant:
        return show_again(request, 422, meant=meant, **fields)
    with db.write_session(context.engine) as session:
        use_cases.sign_up(
            session,
            address.email,
            network=subscribers.network_hash(context.site, request_network(request)),
            topics=starter_topics.as_topics(fields["chosen"], fields["filter"]),
            may_sign_up=context.settings.signup,
            is_proxied=is_proxied(request.headers, proxies=context.settings.proxies),
            now=now,
        )
    return show_sent(request, address.email)


def request_network(request: Request) -> str | None:
    """Return the client network of a request, as seen by the outermost trusted proxy."""
    client = request.client.host if request.client else None
    return network_of(client, request.headers, proxies=request_context.context_of(request).settings.proxies)


def error_sentence(error: UsageError) -> str:
    """Return an error without the name of its field, because the page shows the error next to the field."""
    return str(error).removeprefix(f"{error.field}: ") if isinstance(error, BadField) else str(error)


def show_sent(request: Request, email: str) -> Response:
    """Show the page after a sign-up; it is the same for every address."""
    context = request_context.context_of(request)
    with db.read_session(context.engine) as session:
        is_slow = subscribers.are_slow(session, context.clock())
    return page_rendering.render_page(request, "request_sent", email=email, is_slow=is_slow)


post_form = forms.form_endpoint(handle_form)


async def subscribe(request: Request) -> Response:
    """Handle the form; the response time is a multiple of RESPONSE_STEP."""
    began = perf_counter()
    response = await post_form(request)
    await asyncio.sleep(RESPONSE_STEP - (perf_counter() - began) % RESPONSE_STEP)
    return response


def show_as_email(request: Request) -> Response:
    """Show today's papers as they would look in a mail, on a page with only the mail's styles."""
    context = request_context.context_of(request)
    with db.read_session(context.engine) as session:
        key = (catalog.state(session), context.clock().date())
        html = context.caches.get_or_make("email", key, lambda: trending.list_as_email(context, session))
    if html is None:
        return page_rendering.problem_page(request, 404)
    return HTMLResponse(page_rendering.letter_page(html), headers=mail_headers())


def show_privacy(request: Request) -> Response:
    """Show which data we store, and how to have it deleted."""
    return page_rendering.render_page(request, "privacy")
