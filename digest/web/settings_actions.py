"""Perform the actions of the settings page.

An action that succeeds redirects to the page, which shows the change; otherwise the page with errors, or with the matches of
a filter that is only tried, is returned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response

from digest import db
from digest.app_context import AppContext
from digest.db import Session
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
from digest.subscribers.reader_settings import SETTINGS, ReaderSettings
from digest.subscribers.subscriber_topics import SubscriberTopic
from digest.topics.filter_registry import FilterRegistry
from digest.web import page_rendering, request_context, settings_page, topic_trials, unsubscribe_page
from digest.web.forms import field_text
from digest.web.settings_page import FormState, TypedTopic
from digest.web.sign_up_form import check_settings, error_sentence

EMPTY_FIELD = "Fill this in."
#: Maximum number of characters read from a filter; more than allowed, so that a longer filter is reported.
MAX_TYPED = 20_000

TopicList = list[SubscriberTopic]


@dataclass(frozen=True, kw_only=True, slots=True)
class SettingsForm:
    """A form sent by a subscriber, and the resources that process it."""

    context: AppContext
    session: Session
    subscriber: Subscriber
    fields: FormData
    now: datetime

    def text(self, name: str, max_length: int = 2000) -> str:
        """Return the text that the form has for a field."""
        return field_text(self.fields, name, max_length)

    @property
    def topics(self) -> TopicList:
        """Return the subscriber's current topics."""
        return subscriber_topics.topics_of(self.session, self.subscriber)

    def save(self, given: ReaderSettings) -> str:
        """Save settings; return the value of `done`. Raises BadField or BadFilter without changing anything."""
        changed = undo_changes.save_settings(
            self.session, self.context.site, self.subscriber, given, now=self.now
        )
        return "saved" if changed else "unchanged"


FormResult = FormState | str  #: an action returns the state of the page's forms, or the value of `done`


def handle_form(request: Request, form: FormData) -> Response:
    """Perform the action of the pressed button, then redirect to the page or show it with errors or matches."""
    context = request_context.context_of(request)
    with db.write_session(context.engine) as session:
        subscriber = settings_page.subscriber_of_settings_link(session, request)
        action = field_text(form, "do")
        if subscriber.state == SubscriberState.UNSUBSCRIBED and action == "reason":
            return unsubscribe_page.note_reason(request, session, subscriber, form)
        if subscriber.state == SubscriberState.UNSUBSCRIBED and action != "undo":
            # The reader has unsubscribed in another window in the meantime.
            return page_rendering.redirect_back(request)
        sent = SettingsForm(
            context=context, session=session, subscriber=subscriber, fields=form, now=context.clock()
        )
        result = ACTIONS[action](sent) if action in ACTIONS else ""
        if isinstance(result, FormState):
            current = settings_page.subscriber_of_settings_link(session, request)
            return settings_page.settings_page(request, session, current, result)
        if action in ACTIONS and result != "stale":
            still_reading.note_activity(session, subscriber, now=context.clock())
    return page_rendering.redirect_back(request, result)


# ── pause and undo ──────────────────────────────────────────────────────────────────────────────


def pause(form: SettingsForm) -> FormResult:
    """Pause for some days, until a date, or until the reader resumes; confirm the pause by mail."""
    today = form.now.astimezone(time_zones.zone_of(form.subscriber.timezone)).date()
    is_until = form.text("do") == "pause-until"
    try:
        until = parse_date(form.text("until", 40)) if is_until else day_after(today, form.text("days"))
        pauses.pause_with_letter(form.session, form.context.site, form.subscriber, until, now=form.now)
    except BadField as error:
        return FormState(errors={"until": error_sentence(error)})
    return ""  # the page itself shows when the pause ends


def day_after(today: date, days: str) -> date | None:
    """Return the date that is some days from now, or None for a pause without end."""
    length = int(days) if days.isascii() and days.isdigit() and len(days) < 4 else 0
    return today + timedelta(days=length) if length else None


def parse_date(text: str) -> date:
    """Return a date such as 2027-01-06; raise BadField for any other text."""
    if not text:
        raise BadField("until", figures_in_words.TRANSLATIONS.gettext("Choose a day."))
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise BadField(
            "until", figures_in_words.TRANSLATIONS.gettext("Write the day as 2027-01-06.")
        ) from None


def resume(form: SettingsForm) -> FormResult:
    """End a pause."""
    return "resumed" if pauses.resume(form.session, form.subscriber, form.now) else ""


def leave(form: SettingsForm) -> FormResult:
    """Unsubscribe."""
    unsubscribe_and_undo.leave_with_undo(form.session, form.context.site, form.subscriber, now=form.now)
    return ""  # the page itself shows that they are unsubscribed


def mail_link(form: SettingsForm) -> FormResult:
    """Mail the settings link."""
    return (
        "mailed"
        if confirmations.send_link(form.session, form.context.site, form.subscriber, form.now)
        else ""
    )


def keep_digests(form: SettingsForm) -> FormResult:
    """Record that the reader still reads their digests."""
    still_reading.note_activity(form.session, form.subscriber, now=form.now)
    return "kept"


def mail_account_link(form: SettingsForm) -> FormResult:
    """Mail a new link to the subscriber's data."""
    account.queue_account_link(form.session, form.context.site, form.subscriber, now=form.now)
    return "mailed"


def return_after_leaving(form: SettingsForm) -> FormResult:
    """Resubscribe a reader after a recent unsubscription."""
    return "back" if unsubscribe_and_undo.undo(form.session, form.subscriber, now=form.now) else ""


def undo_change(form: SettingsForm) -> FormResult:
    """Undo the change that the form shows."""
    try:
        number = settings_page.change_number(form.text("change"))
        undone = undo_changes.undo_with_letter(
            form.session, form.context.site, form.subscriber, number, now=form.now
        )
    except UsageError as error:
        return FormState(errors={"undo": error_sentence(error)})
    return "undone" if undone else "stale"


# ── topics ──────────────────────────────────────────────────────────────────────────────────────


def moved(topics: TopicList, place: int, step: int) -> TopicList:
    """Return the topics, with one of them moved by `step` positions."""
    target = min(max(place + step, 0), len(topics) - 1)
    rest = [*topics[:place], *topics[place + 1 :]]
    return [*rest[:target], topics[place], *rest[target:]]


#: Functions that return the topics after an action, given the index of the chosen topic.
TOPIC_ACTIONS: dict[str, Callable[[TopicList, int], TopicList]] = {
    "up": lambda topics, place: moved(topics, place, -1),
    "down": lambda topics, place: moved(topics, place, 1),
    "remove": lambda topics, place: [*topics[:place], *topics[place + 1 :]],
    "mute": lambda topics, _place: topics,
    "unmute": lambda topics, _place: topics,
}


def change_topics(form: SettingsForm) -> FormResult:
    """Move, mute, unmute or remove the chosen topic."""
    topics, action, name = form.topics, form.text("do"), form.text("topic")
    place = next((place for place, topic in enumerate(topics) if topic.name == name), None)
    if place is None:
        return "stale"
    muted = muted_names(topics)
    muted = muted | {name} if action == "mute" else muted - ({name} if action == "unmute" else set())
    wanted = {topic.name: topic.text for topic in TOPIC_ACTIONS[action](topics, place)}
    try:
        return form.save(ReaderSettings(topics=wanted, muted=tuple(muted)))
    except UsageError as error:  # for example, a pack of the topic was removed
        return FormState(errors={"topics": error_sentence(error)})


def muted_names(topics: TopicList) -> set[str]:
    """Return the names of the muted topics."""
    return {topic.name for topic in topics if topic.is_muted}


def typed_topic(form: SettingsForm) -> TypedTopic:
    """Return the topic to which the form belongs."""
    return TypedTopic(topic=form.text("topic"), name=form.text("name"), filter=form.text("filter", MAX_TYPED))


def try_filter(form: SettingsForm) -> FormResult:
    """Try a typed filter, and return its recent matches. Changes nothing."""
    typed = typed_topic(form)
    try:
        check_filter(form.session, typed.filter)
    except BadFilter as error:
        return FormState(typed=replace(typed, filter_error=error))
    trials = topic_trials.try_filters(form.context, [typed.filter])
    return FormState(typed=replace(typed, is_trial=True), trial=trials.get(typed.filter))


def save_typed_topic(form: SettingsForm) -> FormResult:
    """Add a topic, or change the name or the filter of a topic."""
    typed, topics = typed_topic(form), form.topics
    if form.text("do") != "add" and typed.topic not in [topic.name for topic in topics]:
        return "stale"
    try:
        wanted, muted = TYPED_ACTIONS[form.text("do")](form.session, typed, topics)
        return form.save(ReaderSettings(topics=wanted, muted=tuple(muted)))
    except BadFilter as error:
        return FormState(typed=replace(typed, filter_error=error))
    except UsageError as error:
        return FormState(typed=replace(typed, error=error_sentence(error)))


def with_new_topic(session: Session, typed: TypedTopic, topics: TopicList) -> tuple[dict[str, str], set[str]]:
    """Return the topics with the new one, and the muted topics' names; raise BadField or BadFilter."""
    check_filter(session, typed.filter)
    name = typed.name or figures_in_words.cut_at_word(subscriber_topics.clean_line(typed.filter), 60)
    added = checked_name(name, topics), typed.filter
    return dict([*((topic.name, topic.text) for topic in topics), added]), muted_names(topics)


def with_new_name(_session: Session, typed: TypedTopic, topics: TopicList) -> tuple[dict[str, str], set[str]]:
    """Return the topics after renaming one, and the muted topics; raise BadField if the name is invalid."""
    name = checked_name(typed.name, [topic for topic in topics if topic.name != typed.topic])
    names = {topic.name: name if topic.name == typed.topic else topic.name for topic in topics}
    return {names[topic.name]: topic.text for topic in topics}, {names[old] for old in muted_names(topics)}


def with_new_filter(
    session: Session, typed: TypedTopic, topics: TopicList
) -> tuple[dict[str, str], set[str]]:
    """Return the topics after changing one filter, and the muted topics; raise BadFilter if it is invalid."""
    check_filter(session, typed.filter)
    changed = {topic.name: typed.filter if topic.name == typed.topic else topic.text for topic in topics}
    return changed, muted_names(topics)


TYPED_ACTIONS = {"add": with_new_topic, "rename": with_new_name, "filter": with_new_filter}


def check_filter(session: Session, text: str) -> None:
    """Raise BadFilter if a filter is invalid."""
    FilterRegistry(session).canonical(text)


def checked_name(text: str, others: TopicList) -> str:
    """Return a topic's name; raise BadField if it is empty or another topic has it."""
    name = subscriber_topics.clean_line(text)
    if not name:
        raise BadField("name", EMPTY_FIELD)
    if name.casefold() in {other.name.casefold() for other in others}:
        raise BadField("name", figures_in_words.TRANSLATIONS.gettext("Another topic has this name."))
    return name


# ── schedule, and changes requested by mail ─────────────────────────────────────────────────────


def save_texts(form: SettingsForm) -> FormResult:
    """Save when and how much is sent; if anything is invalid, save nothing and return the errors."""
    typed = {one.name: form.text(one.name, 80) or ("no" if one.is_flag else "") for one in SETTINGS.values()}
    valid, errors = check_settings(typed)
    return FormState(texts=typed, errors=errors) if errors else form.save(ReaderSettings(texts=valid))


def apply_requested(form: SettingsForm) -> FormResult:
    """Save the change that the reader requested by mail and has now confirmed."""
    topics = settings_page.requested_topics(form.topics, form.fields)
    texts = settings_page.requested_texts(form.fields)
    try:
        return form.save(ReaderSettings(topics=topics, texts=texts))
    except UsageError as error:
        return FormState(errors={"request": error_sentence(error)})


ACTIONS: Mapping[str, Callable[[SettingsForm], FormResult]] = {
    "pause": pause,
    "pause-until": pause,
    "resume": resume,
    "leave": leave,
    "mail": mail_link,
    "keep": keep_digests,
    "undo": return_after_leaving,
    "undo-change": undo_change,
    "account": mail_account_link,
    "apply": apply_requested,
    "schedule": save_texts,
    "try": try_filter,
    **dict.fromkeys(TYPED_ACTIONS, save_typed_topic),
    **dict.fromkeys(TOPIC_ACTIONS, change_topics),
}
