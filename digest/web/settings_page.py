"""Show and save a subscriber's settings: topics, schedule, pause and unsubscribe."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from starlette.datastructures import FormData, QueryParams
from starlette.requests import Request
from starlette.responses import Response

from digest import db, links, subscribers
from digest.app_context import AppContext
from digest.db import Session
from digest.db.tables import Subscriber, SubscriberState
from digest.editions import schedule
from digest.errors import BadField, BadFilter, UsageError
from digest.letters import figures_in_words
from digest.site_profile import Site
from digest.subscribers import FilterRegistry, use_cases
from digest.web import forms, page_rendering, request_context, starter_topics
from digest.web.forms import field_text
from digest.web.front_page import error_sentence
from digest.web.unsubscribe_page import next_due, state_page, subscriber_of_link

SPARE_ROWS = 2  #: empty topic rows below the existing topics

CADENCES = (
    ("daily", "every day"), ("weekdays", "Monday to Friday"),
    *((f"weekly-{day[:3]}" if day != "monday" else "weekly", f"weekly, on {day.title()}") for day in schedule.WEEKDAYS),
    ("monthly", "on the first of the month"),
)  # fmt: skip
ABSTRACTS = (
    ("titles", "titles only"), ("short", "one or two sentences of each abstract"), ("full", "whole abstracts"),
)  # fmt: skip
PAUSES = ((7, "1 week"), (14, "2 weeks"), (30, "1 month"), (0, "Until I resume"))

#: The message after a change, by the `done` parameter; the last two are shown only while the reader is active.
DONE_MESSAGES = {
    "saved": "Saved.",
    "unchanged": "Nothing changed. Your settings are as they were.",
    "resumed": "Welcome back. You will get one catch-up digest with the papers you missed.",
    "back": "You are subscribed again.",
}
ONLY_WHILE_ACTIVE = frozenset({"resumed", "back"})
EMPTY_FIELD = "Fill this in."
NOT_SAVED_YET = "We filled in the changes you asked for. Press Save to confirm."
AS_ASKED = "Your settings are already as you asked."


@dataclass(kw_only=True, slots=True)
class TopicRow:
    """A topic in the form, with its errors."""

    name: str = ""
    filter: str = ""
    filter_error: BadFilter | None = None
    error: str | None = None
    rate: str = ""  #: how many papers the topic would have matched recently


def show_settings(request: Request) -> Response:
    """Show the settings, with changes requested by mail filled in but not saved."""
    query = request.query_params
    with db.read_session(request_context.context_of(request).engine) as session:
        subscriber = subscriber_of_link(session, request, "manage")
        if subscriber.state == SubscriberState.UNSUBSCRIBED:
            return state_page(request, subscriber)
        rows = [
            TopicRow(name=topic.name, filter=topic.typed or topic.canonical)
            for topic in subscribers.topics_of(session, subscriber)
        ]
        filled = prefill_topics(rows, query)
        fields = schedule_fields(subscriber) | requested_fields(query)
        is_filled = filled != rows or fields != schedule_fields(subscriber)
        done = NOT_SAVED_YET if is_filled else done_message(subscriber, query)
        return settings_page(request, subscriber, rows=filled, done=done, fields=fields)


def done_message(subscriber: Subscriber, query: QueryParams) -> str | None:
    """Return the message about the last change, if it is still correct."""
    done = query.get("done", "")
    if done in ONLY_WHILE_ACTIVE and subscriber.state != SubscriberState.ACTIVE:
        return None
    has_request = requested_fields(query) or query.keys() & {"name", "drop"}
    return DONE_MESSAGES.get(done, AS_ASKED if has_request else None)


def prefill_topics(rows: list[TopicRow], query: QueryParams) -> list[TopicRow]:
    """Return the topics with the removals, additions and replacements of the query applied."""
    removed = {name.casefold() for name in query.getlist("drop")}
    filled = {row.name.casefold(): row for row in rows if row.name.casefold() not in removed}
    for name, text in zip(query.getlist("name"), query.getlist("filter"), strict=False):
        filled[name.casefold()] = TopicRow(name=typed_text(name)[:80], filter=typed_text(text))
    return list(filled.values())


def requested_fields(query: QueryParams) -> dict[str, str]:
    """Return the schedule in the query, in the notation of the form's fields, such as `08:00` for `8:00`.

    Invalid values are omitted: they would leave a field empty, or select the first entry of a list.
    """
    found: dict[str, str] = {}
    for name in FIELD_PARSERS.keys() & query.keys():
        with suppress(BadField):
            found[name] = FIELD_PARSERS[name](query[name])
    return found


FIELD_PARSERS: Mapping[str, Callable[[str], str]] = {
    "cadence": lambda text: schedule.cadence_text(schedule.parse_schedule(cadence=text)),
    "at": lambda text: f"{schedule.parse_time(text):%H:%M}",
    "timezone": schedule.parse_zone,
    "max_papers": lambda text: str(subscribers.check_max_papers(parse_number(text) or 0)),
    "abstracts": subscribers.check_abstracts,
}


def schedule_fields(subscriber: Subscriber) -> dict[str, str]:
    """Return the subscriber's schedule as form values."""
    return {
        "cadence": schedule.cadence_text(subscribers.schedule_of(subscriber)),
        "at": f"{subscriber.at:%H:%M}",
        "timezone": subscriber.timezone,
        "max_papers": str(subscriber.max_papers),
        "abstracts": subscriber.abstracts,
    }


def settings_page(
    request: Request,
    subscriber: Subscriber,
    *,
    rows: list[TopicRow],
    done: str | None = None,
    fields: Mapping[str, str],
    errors: Mapping[str, str] | None = None,
) -> Response:
    """Show the form, with errors next to the fields."""
    add_rates(request_context.context_of(request), rows)
    return page_rendering.render_page(
        request,
        "settings",
        status=422 if errors else 200,
        email=subscriber.email,
        state=subscriber.state,
        paused_until=figures_in_words.day_in_words(subscriber.paused_until)
        if subscriber.paused_until
        else None,
        next_due=next_due(request_context.context_of(request), subscriber),
        rows=rows + [TopicRow() for _ in range(SPARE_ROWS)],
        done=done,
        errors=errors or {},
        cadences=CADENCES,
        lengths=ABSTRACTS,
        pauses=PAUSES,
        zones=sorted(zone for zone in schedule.zone_names() if "/" in zone),
        feed_url=links.feed_url(
            request_context.context_of(request).site, subscriber.id, subscriber.link_version
        ),
        archive_url=links.archive_url(
            request_context.context_of(request).site, subscriber.id, subscriber.link_version
        ),
        **fields,
    )


def add_rates(context: AppContext, rows: list[TopicRow]) -> None:
    """Add to each valid topic how many papers it would have matched recently."""
    with db.read_session(context.engine) as session:
        recent, registry = starter_topics.recent_papers(context, session), subscribers.FilterRegistry(session)
        for row in rows:
            if row.filter and recent.days and not (row.filter_error or row.error):
                with suppress(BadFilter):  # a paper or pack that the stored filter uses may have been removed
                    row.rate = starter_topics.rate_sentence(
                        recent.backtest(registry.resolve_text(row.filter)).per_day
                    )


# ── changing ────────────────────────────────────────────────────────────────────────────────────


def handle_form(request: Request, form: FormData) -> Response:
    """Perform the action of the pressed button, and redirect to the settings."""
    context, now = request_context.context_of(request), request_context.context_of(request).clock()
    with db.write_session(context.engine) as session:
        subscriber = subscriber_of_link(session, request, "manage")
        match field_text(form, "do"):
            case "pause":
                pause_for_days(session, context.site, subscriber, field_text(form, "days"), now)
                done = ""  # the page shows the end of the pause
            case "resume":
                done = "resumed" if use_cases.end_pause(session, subscriber) else ""
            case "leave":
                use_cases.leave(session, context.site, subscriber, now=now)
                done = ""
            case "undo":
                done = "back" if use_cases.return_after_leaving(session, subscriber, now=now) else ""
            case _ if subscriber.state == SubscriberState.UNSUBSCRIBED:
                done = ""  # the reader unsubscribed in another window while the form was open
            case _:
                saved = save_settings(request, session, subscriber, form, now)
                if isinstance(saved, Response):
                    return saved
                done = saved
    return page_rendering.redirect_back(request, done)


post_form = forms.form_endpoint(handle_form)


def pause_for_days(session: Session, site: Site, subscriber: Subscriber, days: str, now: datetime) -> None:
    """Pause the digests for some days, or until the reader resumes them, and confirm this by mail."""
    length = int(days) if days.isdigit() and len(days) < 4 else 0
    today = now.astimezone(schedule.zone_of(subscriber.timezone)).date()
    until: date | None = today + timedelta(days=length) if length else None
    use_cases.pause_with_letter(session, site, subscriber, until, now=now)


def save_settings(
    request: Request, session: Session, subscriber: Subscriber, form: FormData, now: datetime
) -> Response | str:
    """Save the whole form and return the value of `done`; if there are errors, save nothing and return the page."""
    rows = topic_rows(form, subscribers.FilterRegistry(session))
    fields = {name: field_text(form, name, 80) for name in FIELD_PARSERS}
    errors = {name: EMPTY_FIELD for name in FIELD_PARSERS if name in form and not fields[name]}
    if any(row.filter_error or row.error for row in rows):
        errors["topics"] = "Check the marked topics."
    try:
        schedule = subscribers.changed_schedule(
            subscriber, cadence=fields["cadence"], at=fields["at"], timezone=fields["timezone"]
        )
        if not errors:
            changed = use_cases.save_settings(
                session,
                request_context.context_of(request).site,
                subscriber,
                schedule=schedule,
                topics={row.name: row.filter for row in rows},
                max_papers=parse_number(fields["max_papers"]),
                abstracts=fields["abstracts"] or None,
                now=now,
            )
            return "saved" if changed else "unchanged"
    except UsageError as error:
        field = error.field if isinstance(error, BadField) else "topics"
        errors[field] = error_sentence(error)
    return settings_page(
        request, subscriber_of_link(session, request, "manage"), rows=rows, errors=errors, fields=fields
    )


def parse_number(text: str) -> int | None:
    """Return the number in a field, or None for an empty field; raise BadField for other text."""
    if text and not (text.isascii() and text.isdigit() and len(text) < 5):
        raise BadField("max_papers", f"{text!r} is not a number.")
    return int(text) if text else None


def topic_rows(form: FormData, registry: FilterRegistry) -> list[TopicRow]:
    """Check and return the topics in the form, without empty rows."""
    names, filters = form.getlist("name"), form.getlist("filter")
    rows = [
        TopicRow(name=typed_text(name), filter=typed_text(text))
        for name, text in zip(names, filters, strict=False)
    ]
    seen: set[str] = set()
    for row in (kept := [row for row in rows if row.filter or row.name]):
        check_topic(row, seen, registry)
    return kept


def typed_text(value: object) -> str:
    """Return the text of a form value without NULs, truncated to 2,000 characters."""
    return value.replace("\0", "").strip()[:2000] if isinstance(value, str) else ""


def check_topic(row: TopicRow, seen: set[str], registry: FilterRegistry) -> None:
    """Add the errors of a topic to its row; name an unnamed topic after its filter."""
    row.name = row.name or figures_in_words.cut_at_word(row.filter, 60)
    try:
        subscribers.check_topics({row.name: row.filter}, registry)
        if row.name.casefold() in seen:
            row.error = "Another topic has this name."
    except BadFilter as error:
        row.filter_error = error
    except UsageError as error:
        row.error = error_sentence(error)
    seen.add(row.name.casefold())
