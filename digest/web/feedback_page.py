"""Show the pages of "less like this" and "more like this", with the topic changes and their effects.

A forwarded digest still contains these links. Every change is therefore reported to the reader's own address,
and the page can undo only a change of the kind that it makes.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Any

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response

from digest import db
from digest.db import Session
from digest.db.tables.subscribers import Subscriber, SubscriberState
from digest.errors import UsageError
from digest.letters import cards
from digest.papers.paper_record import Paper
from digest.site import links
from digest.subscribers import still_reading, subscriber_topics, topic_feedback, undo_changes
from digest.subscribers.topic_feedback import TopicChange
from digest.subscribers.undo_changes import UndoableChange
from digest.topics import example_topics
from digest.topics.example_topics import topic_like
from digest.web import page_rendering, paper_page, request_context
from digest.web.forms import field_text
from digest.web.sign_up_form import error_sentence
from digest.web.unsubscribe_page import state_page, subscriber_of_link

#: The messages shown after a button was pressed, keyed by the `done` parameter.
DONE_MESSAGES = {
    "undone": "Undone. Your topic is as it was before.",
    "stale": "Your topic has changed since you opened this page, so nothing was saved.",
}


def show_changes(request: Request, *, wants_more: bool) -> Response:
    """Show the changes and their effects, without changing anything."""
    with db.read_session(request_context.context_of(request).engine) as session:
        reader = subscriber_of_link(session, request, "paper")
        if reader.state == SubscriberState.UNSUBSCRIBED:
            return state_page(request, session, reader)
        return changes_page(request, session, reader, wants_more=wants_more)


def changes_page(
    request: Request, session: Session, reader: Subscriber, *, wants_more: bool, error: str = ""
) -> Response:
    """Return the page with the changes to make, or with the one that the reader has just made."""
    context = request_context.context_of(request)
    paper = paper_page.current_paper(session, int(request.path_params["number"]))
    done = request.query_params.get("done", "")
    change = undoable_change(session, request, reader, paper) if done == "applied" else None
    start = links.feedback_url(context.site, reader.id, reader.link_version)
    other = links.less_url(start, paper.id) if wants_more else links.more_url(start, paper.id)
    return page_rendering.render_page(
        request,
        "feedback",
        status=422 if error else 200,
        title=cards.display_title(paper),
        wants_more=wants_more,
        change=change,
        done=DONE_MESSAGES.get(done),
        error=error,
        has_topics=bool(subscriber_topics.topics_of(session, reader)),
        changes=() if change else found_changes(request, session, reader, paper.id, wants_more=wants_more),
        other_url=other,
        settings_url=links.topic_links_url(context.site, reader.id, reader.link_version),
    )


def found_changes(
    request: Request, session: Session, reader: Subscriber, paper_id: int, *, wants_more: bool
) -> tuple[TopicChange, ...]:
    """Return the changes that the button makes."""
    context = request_context.context_of(request)
    find = topic_feedback.changes_for_more if wants_more else topic_feedback.changes_for_less
    return find(session, context.caches, reader, paper_id, now=context.clock())


def undoable_change(
    session: Session, request: Request, reader: Subscriber, paper: Paper
) -> UndoableChange | None:
    """Return the latest change of the reader's settings, if it is one that this page could have made."""
    now = request_context.context_of(request).clock()
    change = undo_changes.find_change(session, reader, now=now)
    return change if change and is_from_here(change, paper) else None


def is_from_here(change: UndoableChange, paper: Paper) -> bool:
    """Return whether a change only left out or added papers like this one, as every change on this page does."""
    before = change.before.topics or {}
    changed = [
        (before.get(name, ""), text)
        for name, text in (change.after.topics or {}).items()
        if before.get(name) != text
    ]
    return bool(changed) and all(new in possible_filters(old, paper) for old, new in changed)


def possible_filters(old: str, paper: Paper) -> Collection[str | None]:
    """Return the filters that this page makes from a filter; "" stands for no filter."""
    if not old:
        return (topic_like([paper]).filter,)
    less = [example_topics.without_similar(old, paper, is_or=is_or) for is_or in (False, True)]
    return (*less, example_topics.with_example(old, paper))


# ── changing ────────────────────────────────────────────────────────────────────────────────────


def handle_form(request: Request, form: FormData, *, wants_more: bool) -> Response:
    """Make the changes or undo them, and redirect to the page."""
    context = request_context.context_of(request)
    with db.write_session(context.engine) as session:
        reader = subscriber_of_link(session, request, "paper")
        if reader.state == SubscriberState.UNSUBSCRIBED:
            return page_rendering.redirect_back(request)
        try:
            if field_text(form, "do") == "undo":
                paper = paper_page.current_paper(session, int(request.path_params["number"]))
                is_ours = undoable_change(session, request, reader, paper) is not None
                undone = is_ours and undo_changes.undo_with_letter(
                    session, context.site, reader, now=context.clock()
                )
                done = "undone" if undone else "stale"
            else:
                done = apply_changes(request, session, reader, wants_more=wants_more)
        except UsageError as error:
            values: dict[str, Any] = {"wants_more": wants_more, "error": error_sentence(error)}
            return changes_page(request, session, subscriber_of_link(session, request, "paper"), **values)
        if done != "stale":
            still_reading.note_activity(session, reader, now=context.clock())
    return page_rendering.redirect_back(request, done)


def apply_changes(request: Request, session: Session, reader: Subscriber, *, wants_more: bool) -> str:
    """Make the changes that the page shows; return the value of `done`."""
    context = request_context.context_of(request)
    paper = paper_page.current_paper(session, int(request.path_params["number"]))
    changes = found_changes(request, session, reader, paper.id, wants_more=wants_more)
    is_changed = topic_feedback.change_topics(session, context.site, reader, changes, now=context.clock())
    return "applied" if is_changed else "stale"


show_less, show_more = (partial(show_changes, wants_more=wants_more) for wants_more in (False, True))
less, more = (partial(handle_form, wants_more=wants_more) for wants_more in (False, True))
