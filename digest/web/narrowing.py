"""The page on which a topic is narrowed as its digest offered, and made wide again."""

from __future__ import annotations

from sqlalchemy.orm import Session
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from digest import db, subscriptions
from digest.composition import Digest, Offer
from digest.model import Subscriber, SubscriberState
from digest.subscriptions import Topic
from digest.web import forms, house, pages
from digest.web.forms import said
from digest.web.viewing import named


def show(request: Request) -> Response:
    """Show what was offered, and the button that does it. Changes nothing."""
    with db.reading(house.of(request).engine) as session:
        offer, _, topic = offered(request, session)
    narrow = is_narrow(topic, offer)
    return pages.page(
        request,
        "narrow",
        offer=offer,
        filter=wide(topic, offer) if narrow else spelled(topic),
        is_narrow=narrow,
        can_narrow=topic.stands_for_id == offer.filter_id,
    )


def act(request: Request, form: FormData) -> Response:
    """Narrow the topic, or make it wide again, and show how it stands."""
    of = house.of(request)
    with db.writing(of.engine) as session:
        offer, reader, topic = offered(request, session)
        had = subscriptions.topics_of(session, reader)
        filters = {one.name: spelled(one) for one in had}
        if said(form, "do") == "undo" and is_narrow(topic, offer):
            filters[topic.name] = wide(topic, offer)
        elif said(form, "do") == "narrow" and topic.stands_for_id == offer.filter_id:
            filters[topic.name] = f"({spelled(topic)}) AND {offer.clause}"
        subscriptions.edit(session, reader, topics=filters, now=of.clock())
        subscriptions.tell_changed(session, of.site, reader, had=had, now=of.clock())
        session.commit()
    return RedirectResponse(request.url.path, 303)


change = forms.posted(act)


def offered(request: Request, session: Session) -> tuple[Offer, Subscriber, Topic]:
    """Return what a digest offered, to whom, and the topic as it stands now."""
    delivery, reader = named(request, session)
    offer = Digest.from_json(delivery.decision).offer
    topics = {topic.name: topic for topic in subscriptions.topics_of(session, reader)}
    if offer is None or offer.topic not in topics or reader.state == SubscriberState.UNSUBSCRIBED:
        raise HTTPException(404)
    return offer, reader, topics[offer.topic]


def spelled(topic: Topic) -> str:
    """Return a filter as its owner spelled it."""
    return topic.typed or topic.canonical


def is_narrow(topic: Topic, offer: Offer) -> bool:
    """Return whether the topic stands as the offer would have it."""
    return spelled(topic).endswith(f") AND {offer.clause}")


def wide(topic: Topic, offer: Offer) -> str:
    """Return the filter as it was before."""
    return spelled(topic).removesuffix(f") AND {offer.clause}").removeprefix("(")
