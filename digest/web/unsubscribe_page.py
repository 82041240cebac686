"""Show the page on which a reader unsubscribes, or resubscribes afterwards.

For one-click unsubscribe (RFC 8058), a mail program posts `List-Unsubscribe=One-Click` to the same URL
without loading the page first. The response is plain text and has no redirect and no cookie. A browser is
redirected to the page, so that its Back and Reload buttons never send the form again.
"""

from __future__ import annotations

from dataclasses import dataclass

from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from digest import db
from digest.db import Session
from digest.db.tables.subscribers import Subscriber, SubscriberState
from digest.delivery import outbox
from digest.letters import figures_in_words
from digest.mail import addresses
from digest.site import links
from digest.subscribers import next_digest, subscriber_rows, unsubscribe_and_undo
from digest.web import page_rendering, request_context
from digest.web.forms import field_text

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


def show_button(request: Request) -> Response:
    """Show whether the reader is subscribed, and one button, without changing anything."""
    with db.read_session(request_context.context_of(request).engine) as session:
        return state_page(request, session, subscriber_of_link(session, request, "unsubscribe"))


def handle_button(request: Request, form: FormData) -> Response:
    """Unsubscribe or resubscribe the reader, or store why the reader unsubscribed."""
    context, now = request_context.context_of(request), request_context.context_of(request).clock()
    with db.write_session(context.engine) as session:
        subscriber = subscriber_of_link(session, request, "unsubscribe")
        match field_text(form, "do"):
            case "undo":
                unsubscribe_and_undo.undo(session, subscriber, now=now)
                return page_rendering.redirect_back(request, "back")
            case "reason":
                return note_reason(request, session, subscriber, form)
            case _:
                unsubscribe_and_undo.leave_with_undo(session, context.site, subscriber, now=now)
    if field_text(form, "List-Unsubscribe"):
        return PlainTextResponse("Unsubscribed.\n")
    return page_rendering.redirect_back(request)


def note_reason(request: Request, session: Session, subscriber: Subscriber, form: FormData) -> Response:
    """Store the reason for unsubscribing, unless it is empty or the reader has resubscribed since."""
    reason, words = field_text(form, "reason"), field_text(form, "words")
    if len(words) > MAX_REASON:
        return state_page(request, session, subscriber, typed=TypedReason(reason=reason, words=words))
    chosen = [figures_in_words.TRANSLATIONS.gettext(said) for name, said in REASONS if name == reason]
    given = ": ".join(filter(None, [*chosen, words]))
    is_noted = bool(given) and unsubscribe_and_undo.note_leaving_reason(subscriber, given)
    return page_rendering.redirect_back(request, "thanks" if is_noted else "")


def subscriber_of_link(session: Session, request: Request, purpose: str) -> Subscriber:
    """Return the subscriber that a link names; raise 404 if the link is invalid or revoked."""
    found = links.read_subscriber_token(
        request_context.context_of(request).site, purpose, request.path_params["token"]
    )
    subscriber = subscriber_rows.find_by_link(session, *found) if found else None
    if subscriber is None:
        raise HTTPException(404)
    return subscriber


def state_page(
    request: Request, session: Session, subscriber: Subscriber, typed: TypedReason | None = None
) -> Response:
    """Show the page for the reader's state: subscribed, just subscribed again, or unsubscribed.

    After resubscribing, the page has no unsubscribe button, so that a double click does not unsubscribe
    again.
    """
    context = request_context.context_of(request)
    done = request.query_params.get("done")
    is_resumed = done == "back" and subscriber.state == SubscriberState.ACTIVE
    name = "resumed" if is_resumed else "unsubscribe"
    return page_rendering.render_page(
        request,
        "unsubscribed" if subscriber.state == SubscriberState.UNSUBSCRIBED else name,
        status=422 if typed else 200,
        email=addresses.masked_address(subscriber.email),
        state=subscriber.state,
        paused_until=figures_in_words.day_in_words(subscriber.paused_until)
        if subscriber.paused_until
        else None,
        next_due=next_digest.next_digest_in_words(session, subscriber, now=context.clock()),
        reasons=REASONS,
        typed=typed,
        max_reason=MAX_REASON,
        is_thanked=done == "thanks" and bool(subscriber.leaving_reason),
        goodbye_follows=outbox.has_queued_letter(session, subscriber.id, "goodbye"),
        can_undo=unsubscribe_and_undo.can_undo(subscriber, now=context.clock()),
        path=request.scope["path"],
        settings_url=links.topic_links_url(context.site, subscriber.id, subscriber.link_version),
    )
