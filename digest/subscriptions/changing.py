"""A subscriber changes: topics, hour, cadence, a leave."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from digest import editions
from digest.editions import Schedule
from digest.errors import BadField
from digest.model import Subscriber, SubscriberState
from digest.subscriptions import people


def edit(
    session: Session,
    subscriber: Subscriber,
    *,
    now: datetime,
    name: str | None = None,
    schedule: Schedule | None = None,
    topics: Mapping[str, str] | None = None,
    max_papers: int | None = None,
    wants_quiet_letters: bool | None = None,
) -> bool:
    """Change what is given and return whether anything changed; what is None stays."""
    before = spelled(session, subscriber)
    if name is not None:
        subscriber.name = people.one_line(name)
    if max_papers is not None:
        subscriber.max_papers = papers_at_most(max_papers)
    if wants_quiet_letters is not None:
        subscriber.wants_quiet_letters = wants_quiet_letters
    if schedule is not None and schedule != people.schedule_of(subscriber):
        reschedule(subscriber, schedule, now)
    if topics is not None:
        people.put_topics(session, subscriber.id, topics)
    session.flush()
    return spelled(session, subscriber) != before


def spelled(session: Session, subscriber: Subscriber) -> tuple[object, ...]:
    """Return everything of a subscriber that an edit can change."""
    topics = [(topic.name, topic.canonical, topic.typed) for topic in people.topics_of(session, subscriber)]
    wants = subscriber.max_papers, subscriber.wants_quiet_letters
    return subscriber.name, people.schedule_of(subscriber), *wants, topics


def papers_at_most(number: int) -> int:
    """Return how many papers a digest may hold, if that is a sensible number."""
    if not 1 <= number <= 100:
        raise BadField("max_papers", f"{number} is not between 1 and 100.")
    return number


def schedule_with(
    subscriber: Subscriber,
    *,
    cadence: str | None = None,
    at: str | None = None,
    timezone: str | None = None,
) -> Schedule:
    """Return the subscriber's schedule with some of its words changed, or raise BadField."""
    stands = people.schedule_of(subscriber)
    return editions.schedule_in(
        cadence=cadence or editions.cadence_spelling(stands),
        at=at or f"{stands.at:%H:%M}",
        timezone=timezone or stands.timezone,
        not_after=f"{stands.not_after:%H:%M}" if stands.not_after else None,
    )


def reschedule(subscriber: Subscriber, schedule: Schedule, now: datetime) -> None:
    """Put a subscriber on another schedule.

    Who was still to get today's edition gets it, even where the new hour has passed; everybody
    else waits for the next one. An edition they already had cannot come twice: its name is a key.
    """
    promised = subscriber.next_due_at
    for column, value in people.columns(schedule).items():
        setattr(subscriber, column, value)
    open_now = editions.edition_open(schedule, now)
    if promised is None:
        return
    if open_now and now < promised < open_now.closes_at:
        subscriber.next_due_at = None
        return
    subscriber.next_due_at = editions.edition_after(schedule, now).due_at


def pause(session: Session, subscriber: Subscriber, until: date | None, now: datetime) -> bool:
    """Send an active subscriber on leave until a day, or until they come back by themselves."""
    if until is not None and until <= now.astimezone(editions.zone_of(subscriber.timezone)).date():
        raise BadField("until", f"{until} is not ahead. Choose a later day.")
    if subscriber.state not in {SubscriberState.ACTIVE, SubscriberState.PAUSED}:
        return False
    subscriber.state = SubscriberState.PAUSED
    subscriber.paused_until = until
    session.flush()
    return True


def resume(session: Session, subscriber: Subscriber) -> bool:
    """End a leave. What was missed comes as one catch-up, since the cut stayed where it was."""
    if subscriber.state != SubscriberState.PAUSED:
        return False
    subscriber.state = SubscriberState.ACTIVE
    subscriber.paused_until = None
    subscriber.is_back = True
    subscriber.next_due_at = None
    session.flush()
    return True


def wake(session: Session, now: datetime) -> int:
    """End every leave whose day has come where the subscriber lives; return how many."""
    return sum(resume(session, subscriber) for subscriber in sleepers_due(session, now))


def sleepers_due(session: Session, now: datetime) -> list[Subscriber]:
    """Return those whose leave is over; what a clock asks before it calls for `wake`."""
    east = (now + timedelta(hours=14)).date()  # no clock on earth is further ahead
    candidates = select(Subscriber).where(
        Subscriber.state == SubscriberState.PAUSED, Subscriber.paused_until <= east
    )
    return [sleeper for sleeper in session.scalars(candidates) if is_over(sleeper, now)]


def is_over(subscriber: Subscriber, now: datetime) -> bool:
    """Return whether the day on which a leave ends has come."""
    today = now.astimezone(editions.zone_of(subscriber.timezone)).date()
    return subscriber.paused_until is not None and subscriber.paused_until <= today
