"""Show a subscriber's settings: topics, schedule, pause, past digests and unsubscribe.

Digests are forwarded, so the page that a digest links to shows neither the address nor saved papers, past digests and
the reader's data; a link to these is mailed. Each change is reported by a letter, from which it can be undone.

The actions of this page are in `settings_actions`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

from starlette.datastructures import FormData, QueryParams
from starlette.responses import Response

from digest.db.tables.subscribers import StillReadingStep, Subscriber, SubscriberState
from digest.delivery.outbox import delivery_listing
from digest.editions import time_zones
from digest.errors import BadField, BadFilter
from digest.mail import addresses
from digest.site import links
from digest.subscribers import reader_settings, subscriber_topics, undo_changes
from digest.subscribers.reader_settings import SETTINGS
from digest.subscribers.subscriber_topics import SubscriberTopic
from digest.subscribers.undo_changes import UndoableChange
from digest.web import topic_trials
from digest.web.topic_trials import FilterTrial
from digest.web.unsubscribe_page import state_page, status_values
from digest.web.visits import Visit, clean_text

PAUSES = ((7, "1 week"), (14, "2 weeks"), (30, "1 month"), (0, "Until I resume"))
EXAMPLE_HITS = 2  #: maximum number of matching titles shown with a topic
TRIED_HITS = 5  #: maximum number of matching titles shown after a filter was tried

#: The messages shown after a button was pressed, keyed by the `done` parameter.
DONE_MESSAGES = {
    "unchanged": "Nothing changed. Your settings are as they were.",
    "undone": "Undone. Your settings are as they were before the change.",
    "stale": "Your settings have changed since you opened this page, so nothing was saved.",
    "resumed": "Welcome back. Your next digest will include the best papers you missed.",
    "back": "You are subscribed again.",
    "mailed": "We sent you a link. Check your inbox.",
    "kept": "Thank you. You will keep getting your digests.",
}
ONLY_WHILE_ACTIVE = frozenset({"resumed", "back"})
AS_ASKED = "Your settings are already as you asked."


@dataclass(frozen=True, kw_only=True, slots=True)
class TypedTopic:
    """The name and filter that the reader typed for a topic, with the errors in them."""

    topic: str = ""  #: the current name of the topic; empty for a new topic
    name: str = ""
    filter: str = ""  #: as typed
    read_filter: str = ""  #: as it is read: plain words are a description
    readings: str = ""  #: how plain words are read, and what both readings find
    error: str = ""
    filter_error: BadFilter | None = None
    #: Whether the filter is only being tried: its matches are shown, but it is not saved.
    is_trial: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class TopicCard:
    """One of the subscriber's topics, as shown on the page."""

    number: int
    name: str
    filter: str
    is_muted: bool
    is_first: bool
    is_last: bool
    hits: FilterTrial | None
    typed: TypedTopic | None  #: input for this topic that has not been saved


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestedChange:
    """A change that the reader requested by mail and has not saved yet."""

    sentences: tuple[str, ...]
    fields: tuple[tuple[str, str], ...]  #: the form fields that save the change, as (name, value)


@dataclass(frozen=True, kw_only=True, slots=True)
class FormState:
    """The unsaved input and the messages to show in the page's forms."""

    typed: TypedTopic | None = None
    #: The settings as typed, if one has errors.
    texts: Mapping[str, str] = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)
    trial: FilterTrial | None = None  #: the matches of the filter that was tried


NOTHING_TYPED = FormState()


def show_settings(visit: Visit) -> Response:
    """Show the settings and any change requested by mail, without changing anything."""
    subscriber = subscriber_of_settings_link(visit)
    if subscriber.state == SubscriberState.UNSUBSCRIBED:
        return state_page(visit, subscriber)
    return settings_page(visit, subscriber)


def subscriber_of_settings_link(visit: Visit) -> Subscriber:
    """Return the subscriber that a settings link or the link in a digest names; raise 404 if it is invalid."""
    return visit.reader("topic-links" if is_from_digest(visit) else "manage")


def is_from_digest(visit: Visit) -> bool:
    """Return whether the page was opened with the link that digests contain."""
    return visit.path.startswith("/t/")


def settings_page(visit: Visit, subscriber: Subscriber, shown: FormState = NOTHING_TYPED) -> Response:
    """Return the page, with each error next to its field."""
    session, query, from_digest = visit.session, visit.request.query_params, is_from_digest(visit)
    topics, texts = subscriber_topics.topics_of(session, subscriber), reader_settings.texts_of(subscriber)
    has_errors = bool(shown.errors or (shown.typed and (shown.typed.error or shown.typed.filter_error)))
    asked = requested_change(subscriber, topics, query)
    number, is_shown = change_number(query.get("change", "")), visit.request.method == "GET"
    change = undo_changes.find_change(session, subscriber, number, now=visit.now)
    today = visit.now.astimezone(time_zones.zone_of(subscriber.timezone)).date()
    return visit.page(
        "settings",
        status=422 if has_errors else 200,
        is_from_digest=from_digest,
        is_asked=from_digest and subscriber.still_reading_step != StillReadingStep.NONE,
        email=(addresses.masked_address if from_digest else addresses.readable_address)(subscriber.email),
        **status_values(visit, subscriber),
        sent=delivery_listing.count_sent_digests(session, subscriber.id),
        done=done_message(subscriber, query, asked) if is_shown else None,
        change=change,
        change_sentences=change_sentences(visit, change) if change else (),
        is_named_change=number is not None,
        is_new_change=is_shown and visit.done == "saved" and asked is None,
        asked=asked,
        topics=topic_cards(visit, topics, shown.typed),
        new_topic=shown.typed if shown.typed and not shown.typed.topic else None,
        trial=shown.trial,
        errors=shown.errors,
        has_errors=has_errors,
        settings=SETTINGS.values(),
        settings_words=reader_settings.in_words(texts),
        texts={**texts, **shown.texts},
        pauses=PAUSES,
        zones=sorted(zone for zone in time_zones.zone_names() if "/" in zone),
        tomorrow=(today + timedelta(days=1)).isoformat(),
        example_hits=EXAMPLE_HITS,
        tried_hits=TRIED_HITS,
        **({} if from_digest else page_links(visit, subscriber)),
    )


def change_number(text: str) -> int | None:
    """Return the number of a change in a link or a form; None for other text."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


def page_links(visit: Visit, subscriber: Subscriber) -> dict[str, str]:
    """Return the addresses of the reader's other pages, keyed by name."""
    reader = visit.site, subscriber.id, subscriber.link_version
    manage_url = links.manage_url(*reader)
    return {
        "feed_url": links.feed_url(*reader),
        "archive_url": links.archive_url(*reader),
        "why_url": f"{manage_url}/why",
        "saved_url": f"{manage_url}/saved",
    }


def done_message(subscriber: Subscriber, query: QueryParams, asked: RequestedChange | None) -> str | None:
    """Return the message about the button that was pressed last, if the message is still correct."""
    done = query.get("done", "")
    if asked or (done in ONLY_WHILE_ACTIVE and subscriber.state != SubscriberState.ACTIVE):
        return None
    has_request = requested_texts(query) or query.keys() & {"name", "drop"}
    return DONE_MESSAGES.get(done, AS_ASKED if has_request else None)


# ── topics ──────────────────────────────────────────────────────────────────────────────────────


def topic_cards(visit: Visit, topics: list[SubscriberTopic], typed: TypedTopic | None) -> list[TopicCard]:
    """Return a card with recent matches for each topic."""
    trials = topic_trials.try_filters(visit, [topic.text for topic in topics])
    return [
        TopicCard(
            number=number,
            name=topic.name,
            filter=topic.text,
            is_muted=topic.is_muted,
            is_first=number == 1,
            is_last=number == len(topics),
            hits=trials.get(topic.text),
            typed=typed if typed and typed.topic == topic.name else None,
        )
        for number, topic in enumerate(topics, start=1)
    ]


def change_sentences(visit: Visit, change: UndoableChange) -> tuple[str, ...]:
    """Return sentences about the last change, with the papers a day before and after it, and about what an undo keeps."""
    before = change.before.topics or {}
    pairs = [
        (name, before[name], text)
        for name, text in (change.after.topics or {}).items()
        if before.get(name, text) != text
    ]
    trials = topic_trials.try_filters(visit, [text for _, *texts in pairs for text in texts])
    rates = [
        f"“{name}”: {trials[new].per_day:g} papers a day instead of {trials[old].per_day:g}."
        for name, old, new in pairs
        if old in trials and new in trials
    ]
    return (*change.sentences, *rates, *change.kept_sentences)


# ── changes requested by mail ───────────────────────────────────────────────────────────────────


def requested_change(
    subscriber: Subscriber, topics: list[SubscriberTopic], query: QueryParams | FormData
) -> RequestedChange | None:
    """Return the change that the page's URL requests, or None if it would change nothing."""
    wanted = requested_topics(topics, query)
    fields, current = requested_texts(query), reader_settings.texts_of(subscriber)
    changed = {name: value for name, value in fields.items() if value != current[name]}
    old = {topic.name: topic.text for topic in topics}
    if not changed and list(wanted.items()) == list(old.items()):
        return None
    sent = [(name, value) for name, value in query.multi_items() if name in {"name", "filter", "drop"}]
    return RequestedChange(
        sentences=(*topic_sentences(old, wanted), *reader_settings.describe(changed)),
        fields=tuple((name, typed_text(value)) for name, value in sent) + tuple(changed.items()),
    )


def requested_topics(topics: list[SubscriberTopic], query: QueryParams | FormData) -> dict[str, str]:
    """Return the topics after the removals, additions and replacements that the page's URL requests."""
    removed = {typed_text(name).casefold() for name in query.getlist("drop")}
    kept = {topic.name.casefold(): (topic.name, topic.text) for topic in topics}
    found = {name: one for name, one in kept.items() if name not in removed}
    for name, text in zip(query.getlist("name"), query.getlist("filter"), strict=False):
        shown = subscriber_topics.clean_line(typed_text(name))[:80]
        found[shown.casefold()] = (kept.get(shown.casefold(), (shown,))[0], typed_text(text))
    return dict(found.values())


def topic_sentences(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence about each topic that the request changes."""
    for name in [name for name in old if name not in new]:
        yield f"Remove the topic “{name}”."
    for name, text in new.items():
        if name not in old:
            yield f"Add the topic “{name}”: {text}"
        elif old[name] != text:
            yield f"Change the topic “{name}” from {old[name]} to {text}"  # fmt: skip


def requested_texts(query: QueryParams | FormData) -> dict[str, str]:
    """Return the settings in the page's URL as they are stored, such as `08:00` for `8:00`; invalid ones are left out."""
    found: dict[str, str] = {}
    for name in [name for name in SETTINGS if name in query]:
        with suppress(BadField):
            found[name] = reader_settings.check_text(name, typed_text(query[name]))
    return found


def typed_text(value: object) -> str:
    """Return the text of a form value, cut to 2,000 characters."""
    return clean_text(value).strip()[:2000]
