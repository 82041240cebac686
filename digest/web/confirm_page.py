"""Show the page of a confirmation link, and confirm the subscription when its button is pressed."""

from __future__ import annotations

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response

from digest import db, links, publishing, subscribers
from digest.db.tables import Subscriber, SubscriberState
from digest.letters import figures_in_words
from digest.subscribers import use_cases
from digest.web import forms, page_rendering, request_context
from digest.web.front_page import request_network


def show_button(request: Request) -> Response:
    """Show the button. A GET changes nothing, because mail scanners open every link."""
    context, now = request_context.context_of(request), request_context.context_of(request).clock()
    with db.read_session(context.engine) as session:
        confirmation = subscribers.confirmation_in(session, context.site, request.path_params["token"], now)
        if confirmation is None:
            return page_rendering.problem_page(request, 410)
        subscriber = subscribers.subscriber_of(session, confirmation)
        if confirmation.used_at is not None:
            return confirmed_page(request, subscriber)
    return page_rendering.render_page(request, "confirm", is_early=False)


def handle_button(request: Request, form: FormData) -> Response:
    """Confirm the subscription; if a mail scanner may have pressed the button, show the button again instead."""
    del form
    context, now = request_context.context_of(request), request_context.context_of(request).clock()
    token = request.path_params["token"]
    pressed_from = subscribers.network_hash(context.site, request_network(request))
    with db.read_session(context.engine) as session:
        choose_papers = publishing.welcome_chooser(
            session, site=context.site, templates=context.templates, caches=context.caches, now=now
        )
    with db.write_session(context.engine) as session:
        if subscribers.is_scanner(session, context.site, token, network=pressed_from, now=now):
            return page_rendering.render_page(request, "confirm", is_early=True)
        subscriber = use_cases.confirm_on_page(
            session,
            context.site,
            token,
            network=request_network(request),
            choose_papers=choose_papers,
            now=now,
        )
    if subscriber is None:
        return page_rendering.problem_page(request, 410)
    return confirmed_page(request, subscriber)


confirm = forms.form_endpoint(handle_button)


def confirmed_page(request: Request, subscriber: Subscriber) -> Response:
    """Show when the first digest will arrive; return 410 if the subscriber has since unsubscribed."""
    context = request_context.context_of(request)
    if subscriber.state not in {SubscriberState.ACTIVE, SubscriberState.PAUSED}:
        return page_rendering.problem_page(request, 410)
    due, now = subscriber.next_due_at, context.clock()
    return page_rendering.render_page(
        request,
        "confirmed",
        first=figures_in_words.moment_in_words(due, subscriber.timezone, seen_from=now) if due else None,
        manage_url=links.manage_url(context.site, subscriber.id, subscriber.link_version),
    )
