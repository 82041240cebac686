"""Perform the actions of the settings page.

An action that succeeds redirects to the page, which shows the change; otherwise the page with errors, or with the matches of
a filter that is only tried, is returned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date, timedelta

from starlette.responses import Response

from digest.db.tables.subscribers import Subscriber, SubscriberState
from digest.editions import time_zones
from digest.errors import BadField, BadFilter, UsageError
from digest.letters import figures_in_words
from digest.subscribers import (
    account,
    confirmations,
    pauses,
    still_reading,
    subscriber_topics,
    undo_changes,
    unsubscribe_and_undo,
)
from digest.subscribers.filter_registry import FilterRegistry
from digest.subscribers.reader_settings import SETTINGS, ReaderSettings
from digest.topics import filter_parser, plain_words
from digest.web import settings_page, topic_trials, unsubscribe_page
from digest.web.settings_page import FormState, TypedTopic
from digest.web.sign_up_form import check_settings, error_sentence
from digest.web.visits import Visit

#: Maximum number of characters read from a filter; more than allowed, so that a longer filter is reported.
MAX_TYPED = 20_000
TYPED_ACTIONS = frozenset(
    {"try", "exact", "add", "rename", "filter"}
)  #: in their forms, a reader types a topic

Topic = tuple[str, str, bool]  #: a name, a filter, and whether it is muted


def handle_form(visit: Visit) -> Response:
    """Perform the action of the pressed button, then redirect to the page or show it with errors or matches."""
    subscriber, action = settings_page.subscriber_of_settings_link(visit), visit.field("do")
    if subscriber.state == SubscriberState.UNSUBSCRIBED and action == "reason":
        return unsubscribe_page.note_reason(visit, subscriber)
    if subscriber.state == SubscriberState.UNSUBSCRIBED and action != "undo":
        # The reader has unsubscribed in another window in the meantime.
        return visit.back()
    if action not in ACTIONS:
        return visit.back()
    result: FormState | str
    try:
        result = ACTIONS[action](visit, subscriber)
    except UsageError as error:
        result = state_with(error, visit, subscriber)
    if isinstance(result, FormState):
        return settings_page.settings_page(visit, subscriber, result)
    if result != "stale":
        still_reading.note_activity(visit.session, subscriber, now=visit.now)
    return visit.back(result)


def state_with(error: UsageError, visit: Visit, subscriber: Subscriber) -> FormState:
    """Return the state of the page's forms after an error: what was typed, and the error next to its field."""
    is_typed = visit.field("do") in TYPED_ACTIONS
    if is_typed and isinstance(error, BadFilter):
        return FormState(typed=replace(typed_topic(visit, subscriber), filter_error=error))
    if is_typed:
        return FormState(typed=replace(typed_topic(visit, subscriber), error=error_sentence(error)))
    is_of_date = isinstance(error, BadField) and error.field == "until"
    return FormState(errors={"until" if is_of_date else "act": error_sentence(error)})


def save(visit: Visit, subscriber: Subscriber, given: ReaderSettings) -> str:
    """Save settings; return the value of `done`. Raises BadField or BadFilter without changing anything."""
    is_changed = undo_changes.save_settings(visit.session, visit.site, subscriber, given, now=visit.now)
    return "saved" if is_changed else "unchanged"


# ── pause, leave and undo ───────────────────────────────────────────────────────────────────────


def pause(visit: Visit, subscriber: Subscriber) -> str:
    """Pause for some days, until a date, or until the reader resumes; the page itself shows until when."""
    until = typed_date(visit.field("until", 40)) if visit.field("do") == "pause-until" else None
    days = visit.field("days")
    if until is None and days.isascii() and days.isdigit() and 0 < int(days) < 1000:
        today = visit.now.astimezone(time_zones.zone_of(subscriber.timezone)).date()
        until = today + timedelta(days=int(days))
    pauses.pause_with_letter(visit.session, visit.site, subscriber, until, now=visit.now)
    return ""


def typed_date(text: str) -> date:
    """Return a date such as 2027-01-06; raise BadField for any other text."""
    if not text:
        raise BadField("until", "Choose a day.")
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise BadField("until", "Write the day as 2027-01-06.") from None


def resume(visit: Visit, subscriber: Subscriber) -> str:
    """End a pause."""
    return "resumed" if pauses.resume(visit.session, subscriber, visit.now) else ""


def leave(visit: Visit, subscriber: Subscriber) -> str:
    """Unsubscribe; the page itself shows that they are unsubscribed."""
    unsubscribe_and_undo.leave_with_undo(visit.session, visit.site, subscriber, now=visit.now)
    return ""


def return_after_leaving(visit: Visit, subscriber: Subscriber) -> str:
    """Resubscribe a reader after a recent unsubscription."""
    return "back" if unsubscribe_and_undo.undo(visit.session, subscriber, now=visit.now) else ""


def undo_change(visit: Visit, subscriber: Subscriber) -> str:
    """Undo the change that the form shows."""
    number = settings_page.change_number(visit.field("change"))
    undone = undo_changes.undo_with_letter(visit.session, visit.site, subscriber, number, now=visit.now)
    return "undone" if undone else "stale"


def mail_link(visit: Visit, subscriber: Subscriber) -> str:
    """Mail the settings link."""
    return "mailed" if confirmations.send_link(visit.session, visit.site, subscriber, visit.now) else ""


def mail_account_link(visit: Visit, subscriber: Subscriber) -> str:
    """Mail a new link to the subscriber's data."""
    account.queue_account_link(visit.session, visit.site, subscriber, now=visit.now)
    return "mailed"


# ── schedule, and changes requested by mail ─────────────────────────────────────────────────────


def save_texts(visit: Visit, subscriber: Subscriber) -> FormState | str:
    """Save when and how much is sent; if anything is invalid, save nothing and return the errors."""
    typed = {
        one.name: visit.field(one.name, 80) or ("no" if one.is_flag else "") for one in SETTINGS.values()
    }
    valid, errors = check_settings(typed)
    if errors:
        return FormState(texts=typed, errors=errors)
    return save(visit, subscriber, ReaderSettings(texts=valid))


def apply_requested(visit: Visit, subscriber: Subscriber) -> str:
    """Save the change that the reader requested by mail and has now confirmed."""
    topics = subscriber_topics.topics_of(visit.session, subscriber)
    asked = settings_page.requested_topics(topics, visit.form)
    texts = settings_page.requested_texts(visit.form)
    return save(visit, subscriber, ReaderSettings(topics=asked, texts=texts))


# ── topics ──────────────────────────────────────────────────────────────────────────────────────


def typed_topic(visit: Visit, subscriber: Subscriber) -> TypedTopic:
    """Return the topic to which the form belongs; plain words are a description unless a topic has them already."""
    text, topics = visit.field("filter", MAX_TYPED), subscriber_topics.topics_of(visit.session, subscriber)
    return TypedTopic(
        topic=visit.field("topic"),
        name=visit.field("name"),
        filter=text,
        read_filter=text if text in [topic.text for topic in topics] else plain_words.as_filter(text),
    )


def try_filter(visit: Visit, subscriber: Subscriber) -> FormState:
    """Try a typed filter, or exactly its words, and return its recent matches. Changes nothing."""
    typed = typed_topic(visit, subscriber)
    if visit.field("do") == "exact":
        exact = filter_parser.parse(typed.filter).canonical
        typed = replace(typed, filter=exact, read_filter=exact)
    FilterRegistry(visit.session).canonical(typed.read_filter)
    trials = topic_trials.try_filters(visit, [typed.read_filter])
    index = topic_trials.recent_papers(visit).index
    readings = plain_words.both_readings(typed.filter, index) if typed.read_filter != typed.filter else ""
    typed = replace(typed, is_trial=True, readings=readings)
    return FormState(typed=typed, trial=trials.get(typed.read_filter))


def change_topics(visit: Visit, subscriber: Subscriber) -> str:
    """Add, rename, edit, move, mute, unmute or remove a topic; return the value of `done`."""
    typed, action = typed_topic(visit, subscriber), visit.field("do")
    topics = [
        (topic.name, topic.text, topic.is_muted)
        for topic in subscriber_topics.topics_of(visit.session, subscriber)
    ]
    place = next((place for place, topic in enumerate(topics) if topic[0] == typed.topic), None)
    if action != "add" and place is None:
        return "stale"
    if action in {"add", "filter"}:
        FilterRegistry(visit.session).canonical(typed.read_filter)
    if place is None or action == "add":
        name = typed.name or figures_in_words.cut_at_word(subscriber_topics.clean_line(typed.filter), 60)
        changed = [*topics, (checked_name(name, topics), typed.read_filter, False)]
    else:
        changed = changed_topics(topics, place, action, typed)
    wanted = {name: text for name, text, _ in changed}
    muted = tuple(name for name, _, is_muted in changed if is_muted)
    return save(visit, subscriber, ReaderSettings(topics=wanted, muted=muted))


def changed_topics(topics: list[Topic], place: int, action: str, typed: TypedTopic) -> list[Topic]:
    """Return the topics after an action on one of them; raise BadField if its new name is invalid."""
    rest = [*topics[:place], *topics[place + 1 :]]
    name, text, is_muted = topics[place]
    target = place
    match action:
        case "remove":
            return rest
        case "up":
            target = max(place - 1, 0)
        case "down":
            target = place + 1
        case "mute" | "unmute":
            is_muted = action == "mute"
        case "rename":
            name = checked_name(typed.name, rest)
        case "filter":
            text = typed.read_filter
    return [*rest[:target], (name, text, is_muted), *rest[target:]]


def checked_name(text: str, others: list[Topic]) -> str:
    """Return a topic's name; raise BadField if it is empty or another topic has it."""
    name = subscriber_topics.clean_line(text)
    if not name:
        raise BadField("name", "Fill this in.")
    if name.casefold() in {other.casefold() for other, _, _ in others}:
        raise BadField("name", "Another topic has this name.")
    return name


ACTIONS: Mapping[str, Callable[[Visit, Subscriber], FormState | str]] = {
    "pause": pause,
    "pause-until": pause,
    "resume": resume,
    "leave": leave,
    "undo": return_after_leaving,
    "undo-change": undo_change,
    "mail": mail_link,
    "account": mail_account_link,
    "keep": lambda _visit, _subscriber: "kept",  # any action shows that the reader still reads
    "schedule": save_texts,
    "apply": apply_requested,
    **dict.fromkeys(("try", "exact"), try_filter),
    **dict.fromkeys(("add", "rename", "filter", "up", "down", "mute", "unmute", "remove"), change_topics),
}
