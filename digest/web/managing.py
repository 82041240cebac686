"""What the settings link opens: topics, hour, cadence, a leave, and the way out."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from sqlalchemy.orm import Session
from starlette.datastructures import FormData, QueryParams
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from digest import db, editions, links, subscriptions
from digest.errors import BadField, BadFilter, UsageError
from digest.house import House
from digest.links import Site
from digest.model import Subscriber
from digest.rendering import words
from digest.subscriptions import Books
from digest.web import forms, house, interests, pages
from digest.web.forms import said
from digest.web.front import sentence
from digest.web.leaving import theirs

SPARE_ROWS = 2  #: empty topics offered below those that stand

CADENCES = (
    ("daily", "every day"), ("weekdays", "Monday to Friday"),
    *((f"weekly-{day[:3]}" if day != "monday" else "weekly", f"weekly, on {day.title()}") for day in editions.WEEKDAYS),
    ("monthly", "on the first of the month"),
)  # fmt: skip
LEAVES = ((7, "a week"), (14, "two weeks"), (30, "a month"), (0, "as long as I like"))

#: What the page says after a change, by the word in its address.
DONE = {
    "saved": "Saved.",
    "unchanged": "Nothing was changed.",
    "paused": "Paused.",
    "resumed": "Welcome back. What you missed comes as one catch-up.",
}
NOT_YET = "Filled in as you asked. Look it over and save it."


@dataclass(kw_only=True, slots=True)
class TopicRow:
    """A topic as its form shows it, and what is wrong with it."""

    name: str = ""
    filter: str = ""
    wrong: BadFilter | None = None
    error: str | None = None
    brings: str = ""  #: what it would have brought lately


def show(request: Request) -> Response:
    """Show the settings as they stand, with what was asked for by mail filled in, and not yet saved."""
    asked = request.query_params
    with db.reading(house.of(request).engine) as session:
        subscriber = theirs(session, request, "manage")
        rows = [
            TopicRow(name=topic.name, filter=topic.typed or topic.canonical)
            for topic in subscriptions.topics_of(session, subscriber)
        ]
        wanted = filled_in(rows, asked)
        fields = typed(subscriber)
        fields |= {name: asked[name][:80] for name in fields.keys() & asked.keys()}
        is_filled = wanted != rows or fields != typed(subscriber)
        done = NOT_YET if is_filled else DONE.get(asked.get("done", ""))
        return settings_page(request, subscriber, rows=wanted, done=done, fields=fields)


def filled_in(rows: list[TopicRow], asked: QueryParams) -> list[TopicRow]:
    """Return the topics as an address asks for them: some dropped, some added or put in their place."""
    dropped = {name.casefold() for name in asked.getlist("drop")}
    wanted = {row.name.casefold(): row for row in rows if row.name.casefold() not in dropped}
    for name, text in zip(asked.getlist("name"), asked.getlist("filter"), strict=False):
        wanted[name.casefold()] = TopicRow(name=text_of(name)[:80], filter=text_of(text))
    return list(wanted.values())


def typed(subscriber: Subscriber) -> dict[str, str]:
    """Return the schedule as the form shows it."""
    return {
        "cadence": editions.cadence_spelling(subscriptions.schedule_of(subscriber)),
        "at": f"{subscriber.at:%H:%M}",
        "timezone": subscriber.timezone,
        "max_papers": str(subscriber.max_papers),
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
    """Show the form, with what is wrong beside the fields."""
    due, now = subscriber.next_due_at, house.of(request).clock()
    gauge_topics(house.of(request), rows)
    return pages.page(
        request,
        "manage",
        status=422 if errors else 200,
        email=subscriber.email,
        state=subscriber.state,
        paused_until=words.day_in_words(subscriber.paused_until) if subscriber.paused_until else None,
        next_due=words.moment_in_words(due, subscriber.timezone, seen_from=now) if due else None,
        rows=rows + [TopicRow() for _ in range(SPARE_ROWS)],
        done=done,
        errors=errors or {},
        cadences=CADENCES,
        leaves=LEAVES,
        zones=sorted(zone for zone in editions.zone_names() if "/" in zone),
        feed_url=links.feed_url(house.of(request).site, subscriber.id, subscriber.epoch),
        archive_url=links.archive_url(house.of(request).site, subscriber.id, subscriber.epoch),
        can_undo=subscriptions.can_undo(subscriber, now=now),
        **fields,
    )


def gauge_topics(of: House, rows: list[TopicRow]) -> None:
    """Note beside each topic that can be read what it would have brought lately."""
    with db.reading(of.engine) as session:
        gauge, books = interests.gauge(of, session), subscriptions.Books(session)
        for row in rows:
            if row.filter and gauge.days and not (row.wrong or row.error):
                with suppress(
                    BadFilter
                ):  # it could be read when it was stored; a paper or a pack may be gone
                    row.brings = interests.in_words(gauge.tried(books.whole(row.filter)).per_day)


# ── changing ────────────────────────────────────────────────────────────────────────────────────


def act(request: Request, form: FormData) -> Response:
    """Do what the pressed button says, and show the settings anew."""
    of, now = house.of(request), house.of(request).clock()
    with db.writing(of.engine) as session:
        subscriber = theirs(session, request, "manage")
        match said(form, "do"):
            case "pause":
                done = paused(session, of.site, subscriber, said(form, "days"), now)
            case "resume":
                done = "resumed" if subscriptions.resume(session, subscriber) else "unchanged"
            case "leave":
                done = (
                    "left"
                    if subscriptions.unsubscribe(session, of.site, subscriber, now=now)
                    else "unchanged"
                )
            case "undo":
                done = "saved" if subscriptions.undo(session, subscriber, now=now) else "unchanged"
            case _:
                saved = save(request, session, subscriber, form, now)
                if isinstance(saved, Response):
                    return saved
                done = saved
        session.commit()
    return RedirectResponse(f"{request.url.path}?done={done}", 303)


change = forms.posted(act)


def paused(session: Session, site: Site, subscriber: Subscriber, days: str, now: datetime) -> str:
    """Send them on leave for so many days; none means until they come back."""
    length = int(days) if days.isdigit() and len(days) < 4 else 0
    today = now.astimezone(editions.zone_of(subscriber.timezone)).date()
    until: date | None = today + timedelta(days=length) if length else None
    if not subscriptions.pause(session, subscriber, until, now):
        return "unchanged"
    subscriptions.tell_paused(session, site, subscriber, now=now)
    return "paused"


def save(
    request: Request, session: Session, subscriber: Subscriber, form: FormData, now: datetime
) -> Response | str:
    """Save the form, all of it or nothing; return the word for what was done, or the page with errors."""
    rows = topic_rows(form, subscriptions.Books(session))
    fields = {name: said(form, name, 80) for name in ("cadence", "at", "timezone", "max_papers")}
    errors = {"topics": "Look at the marked topics."} if any(row.wrong or row.error for row in rows) else {}
    try:
        schedule = subscriptions.schedule_with(
            subscriber, cadence=fields["cadence"], at=fields["at"], timezone=fields["timezone"]
        )
        if not errors:
            had = subscriptions.topics_of(session, subscriber)
            changed = subscriptions.edit(
                session,
                subscriber,
                now=now,
                schedule=schedule,
                topics={row.name: row.filter for row in rows},
                max_papers=number_in(fields["max_papers"]),
            )
            subscriptions.tell_changed(session, house.of(request).site, subscriber, had=had, now=now)
            return "saved" if changed else "unchanged"
    except UsageError as error:
        field = error.field if isinstance(error, BadField) else "topics"
        errors[field] = sentence(error)
    session.rollback()
    return settings_page(request, theirs(session, request, "manage"), rows=rows, errors=errors, fields=fields)


def number_in(text: str) -> int | None:
    """Return the number in a field, None for an empty one."""
    if text and not (text.isascii() and text.isdigit() and len(text) < 5):
        raise BadField("max_papers", f"{text!r} is not a number.")
    return int(text) if text else None


def topic_rows(form: FormData, books: Books) -> list[TopicRow]:
    """Return the topics of the form, checked one by one; empty rows are left out."""
    names, filters = form.getlist("name"), form.getlist("filter")
    rows = [
        TopicRow(name=text_of(name), filter=text_of(wanted))
        for name, wanted in zip(names, filters, strict=False)
    ]
    seen: set[str] = set()
    for row in (kept := [row for row in rows if row.filter or row.name]):
        check(row, seen, books)
    return kept


def text_of(value: object) -> str:
    """Return what was typed, without NULs."""
    return value.replace("\0", "").strip()[:2000] if isinstance(value, str) else ""


def check(row: TopicRow, seen: set[str], books: Books) -> None:
    """Note what is wrong with a topic; without a name, it is called by its filter."""
    row.name = row.name or words.cut(row.filter, 60)
    try:
        subscriptions.checked_topics({row.name: row.filter}, books)
        if row.name.casefold() in seen:
            row.error = "Another topic has this name."
    except BadFilter as error:
        row.wrong = error
    except UsageError as error:
        row.error = sentence(error)
    seen.add(row.name.casefold())
