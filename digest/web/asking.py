"""What the Topics and Pause links of a digest open.

Digests are passed on, so their links do nothing that lasts: the way to the settings goes to their
owner by mail, and a pause is ended as easily as it was begun.
"""

from __future__ import annotations

from datetime import timedelta

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from digest import db, editions, links, subscriptions
from digest.model import SubscriberState
from digest.rendering import words
from digest.web import forms, house, pages
from digest.web.forms import said
from digest.web.leaving import masked, theirs

PAUSE = timedelta(days=7)

#: What the page says after a press, by the word in its address.
DONE = {
    "mailed": "On its way: look into your mail.",
    "paused": "Paused for a week.",
    "resumed": "Welcome back. What you missed comes as one catch-up.",
}


def show(request: Request) -> Response:
    """Show the two buttons; looking changes nothing."""
    of = house.of(request)
    with db.reading(of.engine) as session:
        subscriber = theirs(session, request, "ask")
        until = subscriber.paused_until
        return pages.page(
            request,
            "ask",
            email=masked(subscriber.email),
            state=subscriber.state,
            paused_until=words.day_in_words(until) if until else None,
            leave_url=links.unsubscribe_url(of.site, subscriber.id, subscriber.epoch),
            done=DONE.get(request.query_params.get("done", "")),
        )


def press(request: Request, form: FormData) -> Response:
    """Mail the link, pause for a week, or end a pause."""
    of, now = house.of(request), house.of(request).clock()
    done = ""
    with db.writing(of.engine) as session:
        subscriber = theirs(session, request, "ask")
        match said(form, "do"):
            case "mail" if subscriber.state in {SubscriberState.ACTIVE, SubscriberState.PAUSED}:
                subscriptions.send_link(session, of.site, subscriber, now)
                done = "mailed"
            case "pause":
                until = now.astimezone(editions.zone_of(subscriber.timezone)).date() + PAUSE
                if subscriptions.pause(session, subscriber, until, now):
                    subscriptions.tell_paused(session, of.site, subscriber, now=now)
                    done = "paused"
            case "resume":
                done = "resumed" if subscriptions.resume(session, subscriber) else ""
        session.commit()
    return RedirectResponse(f"{request.url.path}?done={done}", 303)


act = forms.posted(press)
