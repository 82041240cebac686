"""Show the page of a confirmation link, and confirm the subscription when its button is pressed."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.responses import Response

from digest.db.tables.subscribers import SUBSCRIBED, Confirmation, SubscriberState
from digest.letters import cards
from digest.letters.cards import Card, CardForm
from digest.mail import addresses
from digest.publishing import welcome_papers
from digest.site import links
from digest.subscribers import (
    confirmation_letters,
    confirmations,
    next_digest,
    subscriber_topics,
    undo_changes,
    welcome_letters,
)
from digest.subscribers.confirmation_letters import Request as SubscriptionRequest
from digest.subscribers.reader_settings import ReaderSettings
from digest.topics import example_words
from digest.web import topic_preview
from digest.web.problem_pages import EXPIRED_LINK, Gone
from digest.web.visits import Visit

MAX_PAPERS = 3


def show_button(visit: Visit) -> Response:
    """Show the request and the button; nothing changes on a GET, because mail scanners open every link."""
    confirmation = confirmation_of_page(visit)
    if confirmation.used_at is not None:
        return confirmed_page(visit, confirmation)
    return button_page(visit, confirmation, is_early=False)


def confirmation_of_page(visit: Visit) -> Confirmation:
    """Return the confirmation that a link names; raise 410 if the link is invalid or has expired."""
    arguments = visit.session, visit.site, visit.token, visit.now
    confirmation = confirmations.confirmation_in(*arguments)
    if confirmation is None:
        raise Gone(EXPIRED_LINK) if confirmations.is_expired(*arguments) else HTTPException(410)
    return confirmation


def button_page(visit: Visit, confirmation: Confirmation, *, is_early: bool) -> Response:
    """Show the address, the topics, the hour, up to three papers on them, and the button that confirms."""
    subscriber = confirmations.subscriber_of(visit.session, confirmation)
    asked = confirmation_letters.request_of(visit.session, confirmation, subscriber)
    return visit.page(
        "confirm",
        is_early=is_early,
        email=addresses.readable_address(subscriber.email),
        owner=addresses.readable_address(subscriber.owner_email or ""),
        requested=asked.digest,
        settings=asked.settings,
        topics={name: example_words.without_words(text) for name, text in asked.topics.items()},
        cards=sample_cards(visit, asked),
    )


def sample_cards(visit: Visit, asked: SubscriptionRequest) -> list[Card]:
    """Return up to three papers that the requested digest would contain now."""
    filters = undo_changes.resolved_filters(visit.session, asked.topics)
    if asked.topics and not filters:
        return []
    requested = ReaderSettings(texts={"max_papers": str(MAX_PAPERS)})
    press, sample = topic_preview.sample_of(visit, requested, filters)
    return [
        cards.make_card(
            press.papers[press.rank_of_paper[paper]],
            page=links.paper_url(visit.site, paper),
            form=CardForm.BRIEF,
        )
        for paper in sample.digest.papers
    ]


def handle_button(visit: Visit) -> Response:
    """Confirm the subscription; if a mail scanner may have pressed the button, show the button once more."""
    context, site, now = visit.context, visit.site, visit.now
    confirmation = confirmation_of_page(visit)
    if confirmations.is_scanner(visit.session, confirmation, network=visit.network_hash, now=now):
        return button_page(visit, confirmation, is_early=True)
    choose_papers = welcome_papers.welcome_chooser(context.publication(visit.session, now))
    with visit.writing() as session:
        subscriber = confirmations.confirm(
            session, site, visit.token, now, network=visit.network, choose_papers=choose_papers
        )
    if subscriber is None:
        raise HTTPException(410)
    return visit.back()


def confirmed_page(visit: Visit, confirmation: Confirmation) -> Response:
    """Show when the first digest arrives; raise 410 if the subscriber has unsubscribed since confirming."""
    session = visit.session
    subscriber = confirmations.subscriber_of(session, confirmation)
    if subscriber.state not in SUBSCRIBED:
        raise HTTPException(410)
    is_active = subscriber.state == SubscriberState.ACTIVE
    reader = subscriber.id, subscriber.link_version
    welcome = welcome_letters.welcome_of(session, confirmation)
    return visit.page(
        "confirmed",
        email=addresses.readable_address(subscriber.email),
        owner=addresses.readable_address(subscriber.owner_email or ""),
        first=next_digest.next_digest_in_words(session, subscriber, now=visit.now) if is_active else None,
        topics=list(subscriber_topics.typed_topics(session, [subscriber.id]).get(subscriber.id, {})),
        until_then=welcome.get("until_then", ""),
        cards=[Card.from_json(one) for one in welcome.get("cards", ())],
        # any member of the group may have pressed the button
        manage_url="" if subscriber.is_group else links.manage_url(visit.site, *reader),
    )
