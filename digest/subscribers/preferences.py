"""Change a subscriber's topics, schedule, number of papers and other settings."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

from sqlalchemy.orm import Session

from digest.db.tables import AbstractLength, Subscriber
from digest.editions import schedule as edition_schedule
from digest.editions.compose import MAX_PAPERS
from digest.editions.schedule import Schedule
from digest.errors import BadField
from digest.subscribers import next_digest, subscriber_rows, subscriber_topics


def edit(  # noqa: PLR0913  (settings, by keyword)
    session: Session,
    subscriber: Subscriber,
    *,
    now: datetime,
    name: str | None = None,
    schedule: Schedule | None = None,
    topics: Mapping[str, str] | None = None,
    muted: Collection[str] | None = None,
    max_papers: int | None = None,
    abstracts: str | None = None,
    wants_nothing_today_letters: bool | None = None,
) -> bool:
    """Change the settings that are not None; return whether any setting changed.

    `muted` contains the names of the topics that are muted. If it is None, a muted topic stays muted unless its
    name changes.
    """
    before = editable_state(session, subscriber)
    if name is not None:
        subscriber.name = subscriber_topics.clean_line(name)
    if max_papers is not None:
        subscriber.max_papers = check_max_papers(max_papers)
    if abstracts is not None:
        subscriber.abstracts = check_abstracts(abstracts)
    if wants_nothing_today_letters is not None:
        subscriber.wants_nothing_today_letters = wants_nothing_today_letters
    if schedule is not None and schedule != subscriber_rows.schedule_of(subscriber):
        reschedule(session, subscriber, schedule, now)
    if topics is not None:
        subscriber_topics.replace_topics(session, subscriber.id, topics, muted=muted)
    session.flush()
    return editable_state(session, subscriber) != before


def editable_state(session: Session, subscriber: Subscriber) -> tuple[object, ...]:
    """Return the values of all settings that `edit` can change, in a fixed order."""
    topics = [
        (topic.name, topic.canonical, topic.typed, topic.is_muted)
        for topic in subscriber_topics.topics_of(session, subscriber)
    ]
    options = subscriber.max_papers, subscriber.abstracts, subscriber.wants_nothing_today_letters
    return subscriber.name, subscriber_rows.schedule_of(subscriber), *options, topics


def check_max_papers(number: int) -> int:
    """Return `number` if a digest may have so many papers, otherwise raise BadField."""
    if not 1 <= number <= MAX_PAPERS:
        raise BadField("max_papers", f"{number} is not between 1 and {MAX_PAPERS}.")
    return number


def check_abstracts(text: str) -> AbstractLength:
    """Return the abstract length that `text` names; raise BadField for an unknown name."""
    choice = text.strip().lower()
    if choice not in set(AbstractLength):
        raise BadField("abstracts", f"{text!r} is not one of {', '.join(AbstractLength)}.")
    return AbstractLength(choice)


def changed_schedule(
    subscriber: Subscriber,
    *,
    cadence: str | None = None,
    at: str | None = None,
    timezone: str | None = None,
) -> Schedule:
    """Return the subscriber's schedule with these parts changed; raise BadField if it would be invalid."""
    current = subscriber_rows.schedule_of(subscriber)
    return edition_schedule.parse_schedule(
        cadence=cadence or edition_schedule.cadence_text(current),
        at=at or f"{current.at:%H:%M}",
        timezone=timezone or current.timezone,
        not_after=f"{current.not_after:%H:%M}" if current.not_after else None,
    )


def reschedule(session: Session, subscriber: Subscriber, schedule: Schedule, now: datetime) -> None:
    """Change a subscriber's schedule, and with it the promise of the next digest.

    A promised edition that is not published yet is sent even if the new hour has passed, and an overdue one
    stays due. Nothing is promised that was sent already: an edition is identified by its name.
    """
    following = next_digest.edition_status(session, subscriber, now, schedule=schedule).next
    for column, value in subscriber_rows.schedule_columns(schedule).items():
        setattr(subscriber, column, value)
    if subscriber.next_due_at is not None and subscriber.next_due_at > now:
        subscriber.next_due_at = following.due_at
