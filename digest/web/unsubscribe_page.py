"""Show the page on which a reader unsubscribes, or resubscribes afterwards.

For one-click unsubscribe (RFC 8058), a mail program posts `List-Unsubscribe=One-Click` to the same URL
without loading the page first. The response is plain text and has no redirect and no cookie. A browser is
redirected to the page, so that its Back and Reload buttons never send the form again.
"""

from __future__ import annotations

from dataclasses import dataclass

from starlette.responses import PlainTextResponse, Response

from digest.db.tables.subscribers import Subscriber, SubscriberState
from digest.delivery.outbox import withdrawals
from digest.letters import figures_in_words
from digest.mail import addresses
from digest.site import links
from digest.subscribers import next_digest, unsubscribe_and_undo
from digest.web.visits import Visit

#: The reasons for unsubscribing from which a reader can choose on the page.
REASONS = (
    ("too-many", "Too many papers or mails"),
    ("off-topic", "The papers did not fit my interests"),
    ("elsewhere", "I follow papers elsewhere"),
    ("other", "Something else"),
)
MAX_REASON = 150  #: maximum number of characters in a reason that the reader typed


@dataclass(frozen=True, kw_only=True, slots=True)
class TypedReason:
    """A reason for unsubscribing that a reader typed and that is too long."""

    reason: str
    words: str


def show_button(visit: Visit) -> Response:
    """Show whether the reader is subscribed, and one button, without changing anything."""
    return state_page(visit, visit.reader("unsubscribe"))


def handle_button(visit: Visit) -> Response:
    """Unsubscribe or resubscribe the reader, or store why the reader unsubscribed."""
    session, subscriber = visit.session, visit.reader("unsubscribe")
    match visit.field("do"):
        case "undo":
            unsubscribe_and_undo.undo(session, subscriber, now=visit.now)
            return visit.back("back")
        case "reason":
            return note_reason(visit, subscriber)
        case _:
            unsubscribe_and_undo.leave_with_undo(session, visit.site, subscriber, now=visit.now)
    return PlainTextResponse("Unsubscribed.\n") if visit.field("List-Unsubscribe") else visit.back()


def note_reason(visit: Visit, subscriber: Subscriber) -> Response:
    """Store the reason for unsubscribing, unless it is empty or the reader has resubscribed since."""
    reason, words = visit.field("reason"), visit.field("words")
    if len(words) > MAX_REASON:
        return state_page(visit, subscriber, typed=TypedReason(reason=reason, words=words))
    chosen = [said for name, said in REASONS if name == reason]
    given = ": ".join(filter(None, [*chosen, words]))
    is_noted = bool(given) and unsubscribe_and_undo.note_leaving_reason(subscriber, given)
    return visit.back("thanks" if is_noted else "")


def state_page(visit: Visit, subscriber: Subscriber, typed: TypedReason | None = None) -> Response:
    """Show the page for the reader's state: subscribed, just subscribed again, or unsubscribed.

    After resubscribing, the page has no unsubscribe button, so that a double click does not unsubscribe
    again.
    """
    is_resumed = visit.done == "back" and subscriber.state == SubscriberState.ACTIVE
    name = "resumed" if is_resumed else "unsubscribe"
    return visit.page(
        "unsubscribed" if subscriber.state == SubscriberState.UNSUBSCRIBED else name,
        status=422 if typed else 200,
        email=addresses.masked_address(subscriber.email),
        **status_values(visit, subscriber),
        reasons=REASONS,
        typed=typed,
        max_reason=MAX_REASON,
        is_thanked=visit.done == "thanks" and bool(subscriber.leaving_reason),
        goodbye_follows=withdrawals.has_queued_letter(visit.session, subscriber.id, "goodbye"),
        can_undo=unsubscribe_and_undo.can_undo(subscriber, now=visit.now),
        path=visit.path,
        settings_url=links.topic_links_url(visit.site, subscriber.id, subscriber.link_version),
    )


def status_values(visit: Visit, subscriber: Subscriber) -> dict[str, str | None]:
    """Return the values of the sentence about the state of a subscription."""
    until = subscriber.paused_until
    return {
        "state": subscriber.state,
        "paused_until": figures_in_words.day_in_words(until) if until else None,
        "next_due": next_digest.next_digest_in_words(visit.session, subscriber, now=visit.now),
    }
