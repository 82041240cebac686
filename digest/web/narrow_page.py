"""Show the page that narrows a topic as a digest suggested, or undoes the change."""

from __future__ import annotations

from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from digest import db, subscribers
from digest.db import Session
from digest.db.tables import Subscriber, SubscriberState
from digest.editions.compose import Digest, NarrowingSuggestion
from digest.subscribers import SubscriberTopic, use_cases
from digest.web import forms, page_rendering, request_context
from digest.web.forms import field_text
from digest.web.reader_archive import digest_of_link


def show_suggestion(request: Request) -> Response:
    """Show the suggestion and a button that applies it; loading the page changes nothing."""
    with db.read_session(request_context.context_of(request).engine) as session:
        offer, _, topic = load_suggestion(request, session)
    narrow = is_narrow(topic, offer)
    return page_rendering.render_page(
        request,
        "narrow_topic",
        offer=offer,
        filter=widened_filter(topic, offer) if narrow else filter_text(topic),
        is_narrow=narrow,
        can_narrow=topic.resolved_filter_id == offer.filter_id,
    )


def handle_form(request: Request, form: FormData) -> Response:
    """Narrow the topic or undo the change, and redirect to the page."""
    context = request_context.context_of(request)
    with db.write_session(context.engine) as session:
        offer, reader, topic = load_suggestion(request, session)
        subscribers.note_activity(session, reader, now=context.clock())
        filters = {one.name: filter_text(one) for one in subscribers.topics_of(session, reader)}
        if field_text(form, "do") == "undo" and is_narrow(topic, offer):
            filters[topic.name] = widened_filter(topic, offer)
        elif field_text(form, "do") == "narrow" and topic.resolved_filter_id == offer.filter_id:
            filters[topic.name] = f"({filter_text(topic)}) AND {offer.clause}"
        use_cases.save_settings(session, context.site, reader, topics=filters, now=context.clock())
    return page_rendering.redirect_back(request)


post_form = forms.form_endpoint(handle_form)


def load_suggestion(
    request: Request, session: Session
) -> tuple[NarrowingSuggestion, Subscriber, SubscriberTopic]:
    """Return the suggestion that a digest contains, the digest's reader, and the topic as it is now.

    Raises 404 if one of them no longer exists, or if the reader is a group or has unsubscribed.
    """
    delivery, reader = digest_of_link(request, session)
    offer = Digest.from_json(delivery.decision).offer
    topics = {topic.name: topic for topic in subscribers.topics_of(session, reader)}
    is_refused = reader.is_group or reader.state == SubscriberState.UNSUBSCRIBED
    if offer is None or offer.topic not in topics or is_refused:
        raise HTTPException(404)
    return offer, reader, topics[offer.topic]


def filter_text(topic: SubscriberTopic) -> str:
    """Return the topic's filter as its owner typed it."""
    return topic.typed or topic.canonical


def is_narrow(topic: SubscriberTopic, offer: NarrowingSuggestion) -> bool:
    """Return whether the topic now has the filter that was suggested."""
    return filter_text(topic).endswith(f") AND {offer.clause}")


def widened_filter(topic: SubscriberTopic, offer: NarrowingSuggestion) -> str:
    """Return the topic's filter without the suggested clause."""
    return filter_text(topic).removesuffix(f") AND {offer.clause}").removeprefix("(")
