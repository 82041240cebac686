"""What the unsubscribe link opens: one button, which stops; and the way back.

RFC 8058: a mail program posts `List-Unsubscribe=One-Click` to the same address, without having
seen the page; it is answered in plain words, with no redirect and no cookie.
"""

from __future__ import annotations

from sqlalchemy.orm import Session
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from digest import db, links, subscriptions
from digest.model import Subscriber, SubscriberState
from digest.web import forms, house, pages
from digest.web.forms import said


def show(request: Request) -> Response:
    """Show the button; looking changes nothing."""
    with db.reading(house.of(request).engine) as session:
        return state_page(request, theirs(session, request, "unsubscribe"))


def press(request: Request, form: FormData) -> Response:
    """Stop at once, or take that back."""
    of, now = house.of(request), house.of(request).clock()
    with db.writing(of.engine) as session:
        subscriber = theirs(session, request, "unsubscribe")
        if said(form, "undo"):
            subscriptions.undo(session, subscriber, now=now)
        else:
            subscriptions.unsubscribe(session, of.site, subscriber, now=now)
        session.commit()
        if said(form, "List-Unsubscribe"):
            return PlainTextResponse("Unsubscribed.\n")
        return state_page(request, subscriber)


unsubscribe = forms.posted(press, from_anywhere=True)


def theirs(session: Session, request: Request, purpose: str) -> Subscriber:
    """Return whose link this is; a link that is not ours, or was revoked, opens nothing."""
    named = links.subscriber_in(house.of(request).site, purpose, request.path_params["token"])
    subscriber = session.get(Subscriber, named[0]) if named else None
    if named is None or subscriber is None or subscriber.epoch != named[1]:
        raise HTTPException(404)
    return subscriber


def state_page(request: Request, subscriber: Subscriber) -> Response:
    """Show the button that stops, or, to who has stopped, the one that takes it back."""
    has_left = subscriber.state == SubscriberState.UNSUBSCRIBED
    return pages.page(
        request,
        "left" if has_left else "unsubscribe",
        email=masked(subscriber.email),
        can_undo=subscriptions.can_undo(subscriber, now=house.of(request).clock()),
    )


def masked(email: str) -> str:
    """Return `a•••@uni.edu`: enough for its owner, and no address for who was forwarded the mail."""
    local, _, domain = email.rpartition("@")
    return f"{local[:1]}•••@{domain}"
