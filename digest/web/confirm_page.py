"""Show the page of a confirmation link, and confirm the subscription when its button is pressed."""

from __future__ import annotations

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response

from digest import db
from digest.app_context import AppContext
from digest.db import Session
from digest.db.tables.subscribers import Confirmation, SubscriberState
from digest.letters import cards
from digest.letters.cards import Card, CardForm
from digest.mail import addresses
from digest.publishing import welcome_papers
from digest.site import links
from digest.subscribers import confirmations, next_digest, preferences, sign_up_queue, subscriber_topics
from digest.subscribers.confirmations import Request as SubscriptionRequest
from digest.subscribers.reader_settings import ReaderSettings
from digest.topics import example_words
from digest.topics.filter_parser import Filter
from digest.web import (
    page_rendering,
    problem_pages,
    request_context,
    topic_preview,
)

MAX_PAPERS = 3


def show_button(request: Request) -> Response:
    """Show the request and the button; nothing changes on a GET, because mail scanners open every link."""
    context, now = request_context.context_of(request), request_context.context_of(request).clock()
    token = request.path_params["token"]
    with db.read_session(context.engine) as session:
        confirmation = confirmations.confirmation_in(session, context.site, token, now)
        if confirmation is None:
            return refused_page(request, session)
        if confirmation.used_at is not None:
            return confirmed_page(request, session, confirmation)
        return button_page(request, session, confirmation, is_early=False)


def refused_page(request: Request, session: Session) -> Response:
    """Show that the link is invalid or has expired, and offer a new one."""
    context = request_context.context_of(request)
    token = request.path_params["token"]
    has_expired = confirmations.is_expired(session, context.site, token, context.clock())
    return problem_pages.problem_page(request, 410, texts=problem_pages.EXPIRED_LINK if has_expired else None)


def button_page(
    request: Request, session: Session, confirmation: Confirmation, *, is_early: bool
) -> Response:
    """Show the address, the topics, the hour, up to three papers on them, and the button that confirms."""
    context = request_context.context_of(request)
    subscriber = confirmations.subscriber_of(session, confirmation)
    asked = confirmations.request_of(session, confirmation, subscriber)
    return page_rendering.render_page(
        request,
        "confirm",
        is_early=is_early,
        email=addresses.readable_address(subscriber.email),
        owner=addresses.readable_address(subscriber.owner_email or ""),
        requested=asked.digest,
        settings=asked.settings,
        topics={name: example_words.without_words(text) for name, text in asked.topics.items()},
        cards=sample_cards(context, session, asked),
    )


def sample_cards(context: AppContext, session: Session, asked: SubscriptionRequest) -> list[Card]:
    """Return up to three papers that the requested digest would contain now."""
    filters = preferences.resolved_filters(session, asked.topics)
    if asked.topics and not filters:
        return []
    return cards_of_sample(context, session, filters)


def cards_of_sample(context: AppContext, session: Session, filters: dict[str, Filter]) -> list[Card]:
    """Return the cards of a sample of up to three papers."""
    requested = ReaderSettings(texts={"max_papers": str(MAX_PAPERS)})
    press, sample = topic_preview.sample_of(context, session, requested, filters)
    return [
        cards.make_card(
            press.papers[press.rank_of_paper[paper]],
            page=links.paper_url(context.site, paper),
            form=CardForm.BRIEF,
        )
        for paper in sample.digest.papers
    ]


def handle_button(request: Request, form: FormData) -> Response:
    """Confirm the subscription; if a mail scanner may have pressed the button, show the button once more."""
    del form
    context, now = request_context.context_of(request), request_context.context_of(request).clock()
    token, network = request.path_params["token"], request_context.network_of(request)
    with db.read_session(context.engine) as session:
        confirmation = confirmations.confirmation_in(session, context.site, token, now)
        if confirmation is None:
            return refused_page(request, session)
        pressed_from = sign_up_queue.network_hash(context.site, network)
        if confirmations.is_scanner(session, context.site, token, network=pressed_from, now=now):
            return button_page(request, session, confirmation, is_early=True)
        choose_papers = welcome_papers.welcome_chooser(
            session, site=context.site, templates=context.templates, caches=context.caches, now=now
        )
    with db.write_session(context.engine) as session:
        subscriber = confirmations.confirm(
            session, context.site, token, now, network=network, choose_papers=choose_papers
        )
    if subscriber is None:
        with db.read_session(context.engine) as session:
            return refused_page(request, session)
    return page_rendering.redirect_back(request)


def confirmed_page(request: Request, session: Session, confirmation: Confirmation) -> Response:
    """Show when the first digest arrives; return 410 if the subscriber has unsubscribed since confirming."""
    context = request_context.context_of(request)
    subscriber = confirmations.subscriber_of(session, confirmation)
    if subscriber.state not in {SubscriberState.ACTIVE, SubscriberState.PAUSED}:
        return problem_pages.problem_page(request, 410)
    welcome = confirmations.welcome_of(session, confirmation)
    return page_rendering.render_page(
        request,
        "confirmed",
        email=addresses.readable_address(subscriber.email),
        owner=addresses.readable_address(subscriber.owner_email or ""),
        first=next_digest.next_digest_in_words(session, subscriber, now=context.clock())
        if subscriber.state == SubscriberState.ACTIVE
        else None,
        topics=list(subscriber_topics.typed_topics(session, [subscriber.id]).get(subscriber.id, {})),
        until_then=welcome.get("until_then", ""),
        cards=[Card.from_json(one) for one in welcome.get("cards", ())],
        manage_url=""  # any member of the group may have pressed the button
        if subscriber.is_group
        else links.manage_url(context.site, subscriber.id, subscriber.link_version),
    )
