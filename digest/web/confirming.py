"""What a confirmation's link opens: one button, which begins."""

from __future__ import annotations

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response

from digest import db, links, subscriptions
from digest.model import Subscriber, SubscriberState
from digest.rendering import words
from digest.web import forms, house, pages, trending
from digest.web.front import network


def show(request: Request) -> Response:
    """Show the button. Looking changes nothing: scanners look at every link."""
    of, now = house.of(request), house.of(request).clock()
    with db.reading(of.engine) as session:
        confirmation = subscriptions.confirmation_in(session, of.site, request.path_params["token"], now)
        if confirmation is None:
            return pages.problem(request, 410)
        subscriber = session.get_one(Subscriber, confirmation.subscriber_id)
        if confirmation.used_at is not None:
            return begun(request, subscriber)
    return pages.page(request, "confirm")


def press(request: Request, form: FormData) -> Response:
    """Begin; a second press shows the same."""
    del form
    of, now = house.of(request), house.of(request).clock()
    with db.writing(of.engine) as session:
        subscriber = subscriptions.confirm(
            session,
            of.site,
            request.path_params["token"],
            now,
            network=network(request),
            today=trending.best(of, session, 3),
        )
        session.commit()
    if subscriber is None:
        return pages.problem(request, 410)
    return begun(request, subscriber)


confirm = forms.posted(press)


def begun(request: Request, subscriber: Subscriber) -> Response:
    """Show when the first digest comes; a used link of somebody who has left begins nothing."""
    of = house.of(request)
    if subscriber.state not in {SubscriberState.ACTIVE, SubscriberState.PAUSED}:
        return pages.problem(request, 410)
    due, now = subscriber.next_due_at, of.clock()
    return pages.page(
        request,
        "begun",
        first=words.moment_in_words(due, subscriber.timezone, seen_from=now) if due else None,
        manage_url=links.manage_url(of.site, subscriber.id, subscriber.epoch),
    )
