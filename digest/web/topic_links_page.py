"""Show the page that the Topics and Pause links in a digest open.

Digests may be forwarded, so these links cannot make lasting changes: the settings link is mailed only to the
subscriber, and a pause can be ended on the same page.
"""

from __future__ import annotations

from datetime import timedelta

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response

from digest import addresses, db, links, subscribers
from digest.db.tables import StillReadingStep, SubscriberState
from digest.editions import time_zones
from digest.letters import figures_in_words
from digest.subscribers import use_cases
from digest.web import forms, page_rendering, request_context
from digest.web.forms import field_text
from digest.web.unsubscribe_page import subscriber_of_link

PAUSE_LENGTH = timedelta(days=7)

#: The messages shown after a button was pressed, keyed by the `done` parameter and the subscriber's state.
DONE_MESSAGES = {
    ("kept", SubscriberState.ACTIVE): "Thank you. You will keep getting your digests.",
    ("mailed", SubscriberState.ACTIVE): "We sent you the link. Check your inbox.",
    ("mailed", SubscriberState.PAUSED): "We sent you the link. Check your inbox.",
    (
        "resumed",
        SubscriberState.ACTIVE,
    ): "Welcome back. Your next digest will include the best papers you missed.",
}


def show_buttons(request: Request) -> Response:
    """Show the buttons, without changing anything."""
    context = request_context.context_of(request)
    with db.read_session(context.engine) as session:
        subscriber = subscriber_of_link(session, request, "topic-links")
        until = subscriber.paused_until
        return page_rendering.render_page(
            request,
            "topic_links",
            email=addresses.masked_address(subscriber.email),
            state=subscriber.state,
            paused_until=figures_in_words.day_in_words(until) if until else None,
            leave_url=links.unsubscribe_url(context.site, subscriber.id, subscriber.link_version),
            next_due=subscribers.next_digest_in_words(session, subscriber, now=context.clock()),
            is_asked=subscriber.still_reading_step != StillReadingStep.NONE,
            done=DONE_MESSAGES.get((request.query_params.get("done", ""), subscriber.state)),
        )


def handle_button(request: Request, form: FormData) -> Response:
    """Mail the settings link, keep the digests, pause for a week, or end a pause, as the button asks."""
    context, now = request_context.context_of(request), request_context.context_of(request).clock()
    done = ""
    with db.write_session(context.engine) as session:
        subscriber = subscriber_of_link(session, request, "topic-links")
        subscribers.note_activity(session, subscriber, now=now)
        match field_text(form, "do"):
            case "mail":
                done = "mailed" if use_cases.mail_link(session, context.site, subscriber, now=now) else ""
            case "pause":
                until = now.astimezone(time_zones.zone_of(subscriber.timezone)).date() + PAUSE_LENGTH
                use_cases.pause_with_letter(session, context.site, subscriber, until, now=now)
            case "keep":
                use_cases.keep_digests(session, subscriber, now=now)
                done = "kept"
            case "resume":
                done = "resumed" if use_cases.end_pause(session, subscriber, now=now) else ""
    return page_rendering.redirect_back(request, done)


post_button = forms.form_endpoint(handle_button)
