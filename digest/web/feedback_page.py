"""Show the pages of "less like this" and "more like this", with the topic changes and their effects.

A forwarded digest still contains these links. Every change is therefore reported to the reader's own address,
and the page can undo only a change of the kind that it makes.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from starlette.responses import Response

from digest.db.tables.subscribers import Subscriber, SubscriberState
from digest.errors import UsageError
from digest.letters import cards
from digest.papers.paper_record import Paper
from digest.site import links
from digest.subscribers import still_reading, subscriber_topics, topic_feedback, undo_changes
from digest.subscribers.topic_feedback import TopicChange
from digest.subscribers.undo_changes import UndoableChange
from digest.topics import example_topics
from digest.web import paper_page
from digest.web.sign_up_form import error_sentence
from digest.web.unsubscribe_page import state_page
from digest.web.visits import Visit

#: The messages shown after a button was pressed, keyed by the `done` parameter.
DONE_MESSAGES = {
    "undone": "Undone. Your topic is as it was before.",
    "stale": "Your topic has changed since you opened this page, so nothing was saved.",
}


def show_changes(visit: Visit, *, wants_more: bool, error: str = "") -> Response:
    """Show the changes to make and their effects, or the change that the reader has just made."""
    reader, site = visit.reader("paper"), visit.site
    if reader.state == SubscriberState.UNSUBSCRIBED:
        return state_page(visit, reader)
    paper = paper_page.current_paper(visit)
    change = undoable_change(visit, reader, paper) if visit.done == "applied" else None
    start = links.feedback_url(site, reader.id, reader.link_version)
    return visit.page(
        "feedback",
        status=422 if error else 200,
        title=cards.display_title(paper),
        wants_more=wants_more,
        change=change,
        done=DONE_MESSAGES.get(visit.done),
        error=error,
        has_topics=bool(subscriber_topics.topics_of(visit.session, reader)),
        changes=() if change else found_changes(visit, reader, paper.id, wants_more=wants_more),
        other_url=links.less_url(start, paper.id) if wants_more else links.more_url(start, paper.id),
        settings_url=links.topic_links_url(site, reader.id, reader.link_version),
    )


def found_changes(
    visit: Visit, reader: Subscriber, paper_id: int, *, wants_more: bool
) -> tuple[TopicChange, ...]:
    """Return the changes that the button makes."""
    find = topic_feedback.changes_for_more if wants_more else topic_feedback.changes_for_less
    return find(visit.session, visit.context.caches, reader, paper_id, now=visit.now)


def undoable_change(visit: Visit, reader: Subscriber, paper: Paper) -> UndoableChange | None:
    """Return the latest change of the reader's settings, if it is one that this page could have made."""
    change = undo_changes.find_change(visit.session, reader, now=visit.now)
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
        return (example_topics.topic_like([paper]).filter,)
    less = [example_topics.without_similar(old, paper, is_or=is_or) for is_or in (False, True)]
    return (*less, example_topics.with_example(old, paper))


def handle_form(visit: Visit, *, wants_more: bool) -> Response:
    """Make the changes or undo them, and redirect to the page."""
    reader = visit.reader("paper")
    if reader.state == SubscriberState.UNSUBSCRIBED:
        return visit.back()
    paper, common = paper_page.current_paper(visit), (visit.session, visit.site, reader)
    try:
        if visit.field("do") == "undo":
            is_ours = undoable_change(visit, reader, paper) is not None
            done = "undone" if is_ours and undo_changes.undo_with_letter(*common, now=visit.now) else "stale"
        else:
            changes = found_changes(visit, reader, paper.id, wants_more=wants_more)
            done = "applied" if topic_feedback.change_topics(*common, changes, now=visit.now) else "stale"
    except UsageError as error:
        return show_changes(visit, wants_more=wants_more, error=error_sentence(error))
    if done != "stale":
        still_reading.note_activity(visit.session, reader, now=visit.now)
    return visit.back(done)


show_less, show_more = (partial(show_changes, wants_more=wants_more) for wants_more in (False, True))
less, more = (partial(handle_form, wants_more=wants_more) for wants_more in (False, True))
