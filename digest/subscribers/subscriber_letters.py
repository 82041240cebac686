"""Queue letters to subscribers, such as those that report pauses and changed settings.

A forwarded letter contains working links, which anyone can use. Each change made through a link is therefore reported
to the subscriber's own address, with a link that undoes the change.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from digest.db.tables.deliveries import Lane
from digest.db.tables.subscribers import Subscriber, SubscriberState
from digest.delivery.outbox import enqueue, planned_letters, withdrawals
from digest.delivery.outbox.planned_letters import PlannedLetter
from digest.letters import figures_in_words
from digest.site.site_profile import Site
from digest.subscribers import next_digest, reader_settings, subscriber_topics

#: Delay before a letter about an act on a page is sent: saving several times causes one letter, and an undo none.
SEND_AFTER = timedelta(minutes=5)


def queue_letter(  # noqa: PLR0913  (the columns of a delivery, by keyword)
    session: Session,
    site: Site,
    subscriber: Subscriber,
    letter: PlannedLetter,
    *,
    email: str = "",
    now: datetime,
    due_at: datetime | None = None,
    expires_at: datetime | None = None,
    lane: Lane = Lane.PROMPT,
) -> int | None:
    """Queue a letter to a subscriber, by default to their own address, or a group's to its owner's.

    Returns the letter's id, or None if the same letter was queued before.
    """
    return enqueue.queue_letter(
        session,
        letter=letter,
        subscriber_id=subscriber.id,
        email=email or subscriber.contact_email,
        site=site,
        now=now,
        due_at=due_at,
        expires_at=expires_at,
        lane=lane,
    )


def queue_paused_letter(session: Session, site: Site, subscriber: Subscriber, *, now: datetime) -> None:
    """Queue the letter that confirms a pause, at most once a day for the same end date.

    It is withdrawn if the subscriber resumes or changes the pause within five minutes.
    """
    until = subscriber.paused_until
    contents = {"until": figures_in_words.day_in_words(until) if until else ""}
    withdrawals.withdraw_letters(session, subscriber.id, "paused", "the pause was changed", now=now)
    letter = planned_letters.PausedLetter(
        subscriber_id=subscriber.id, until=until, day=now.date(), contents=contents
    )
    queue_letter(session, site, subscriber, letter, now=now, due_at=now + SEND_AFTER)


def queue_changed_letter(
    session: Session, site: Site, subscriber: Subscriber, change_id: int | None, *, now: datetime
) -> None:
    """Queue the letter that lists the subscriber's settings and unmuted topics, with a link that undoes a change.

    The letter is sent once the settings have stayed unchanged for five minutes.
    """
    topics = [topic for topic in subscriber_topics.topics_of(session, subscriber) if not topic.is_muted]
    withdrawals.withdraw_letters(session, subscriber.id, "changed", "the settings changed again", now=now)
    due = next_digest.edition_status(session, subscriber, now).next.due_at
    contents = {
        "topics": [{"name": topic.name, "filter": topic.text} for topic in topics],
        "change_id": change_id or "",
        "settings": reader_settings.in_words(reader_settings.texts_of(subscriber)),
        "next_due": figures_in_words.moment_in_words(max(due, now), subscriber.timezone, seen_from=now)
        if subscriber.state == SubscriberState.ACTIVE
        else "",
    }
    letter = planned_letters.ChangedLetter(subscriber_id=subscriber.id, at=now, contents=contents)
    queue_letter(session, site, subscriber, letter, now=now, due_at=now + SEND_AFTER)
