"""Record the latest change of a subscriber's settings, describe it, and undo it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from msgspec import Struct, json
from sqlalchemy import delete
from sqlalchemy.orm import Session

from digest import db
from digest.db.tables import SettingsChange, Subscriber
from digest.editions import schedule as edition_schedule
from digest.editions.schedule import Schedule
from digest.letters import figures_in_words
from digest.subscribers import preferences, subscriber_rows, subscriber_topics

_ = figures_in_words.TRANSLATIONS.gettext

UNDO_FOR = timedelta(days=30)


class SavedTopic(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A topic, with its filter in the form that its owner sees."""

    name: str
    filter: str
    is_muted: bool = False


class SavedSettings(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The settings of one subscriber at one time, as far as a change of them can be undone."""

    topics: tuple[SavedTopic, ...] = ()  #: in the order of the digest's sections
    cadence: str
    at: str
    timezone: str
    not_after: str = ""
    max_papers: int
    abstracts: str
    wants_nothing_today_letters: bool = False

    @property
    def schedule(self) -> Schedule:
        """Return the schedule."""
        return edition_schedule.parse_schedule(
            cadence=self.cadence, at=self.at, timezone=self.timezone, not_after=self.not_after or None
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class LastChange:
    """The latest change of a subscriber's settings, with the settings before and after it."""

    changed_at: datetime
    before: SavedSettings
    after: SavedSettings

    @property
    def sentences(self) -> tuple[str, ...]:
        """Return sentences about the changed settings, each with the values before and after."""
        return describe_change(self.before, self.after)


def saved_settings(session: Session, subscriber: Subscriber) -> SavedSettings:
    """Return the subscriber's current settings."""
    schedule = subscriber_rows.schedule_of(subscriber)
    return SavedSettings(
        topics=tuple(
            SavedTopic(name=topic.name, filter=topic.text, is_muted=topic.is_muted)
            for topic in subscriber_topics.topics_of(session, subscriber)
        ),
        cadence=edition_schedule.cadence_text(schedule),
        at=f"{schedule.at:%H:%M}",
        timezone=schedule.timezone,
        not_after=f"{schedule.not_after:%H:%M}" if schedule.not_after else "",
        max_papers=subscriber.max_papers,
        abstracts=str(subscriber.abstracts),
        wants_nothing_today_letters=subscriber.wants_nothing_today_letters,
    )


def record_change(session: Session, subscriber: Subscriber, before: SavedSettings, *, now: datetime) -> bool:
    """Record the change since `before`; return False if none of these settings has changed."""
    after = saved_settings(session, subscriber)
    if after == before:
        return False
    row = {
        "subscriber_id": subscriber.id,
        "changed_at": now,
        "before": json.encode(before).decode(),
        "after": json.encode(after).decode(),
    }
    adding = db.upsert(session, SettingsChange).values(row)
    changes = {name: adding.excluded[name] for name in ("changed_at", "before", "after")}
    session.execute(adding.on_conflict_do_update(index_elements=["subscriber_id"], set_=changes))
    return True


def last_change(session: Session, subscriber: Subscriber, *, now: datetime) -> LastChange | None:
    """Return the latest change if it is recent and no setting has changed since; otherwise None."""
    row = session.get(SettingsChange, subscriber.id, populate_existing=True)
    if row is None or now - row.changed_at > UNDO_FOR:
        return None
    before, after = (json.decode(text, type=SavedSettings) for text in (row.before, row.after))
    if after != saved_settings(session, subscriber):
        return None
    return LastChange(changed_at=row.changed_at, before=before, after=after)


def undo_last_change(session: Session, subscriber: Subscriber, *, now: datetime) -> tuple[str, ...]:
    """Undo the latest change, and return sentences about the restored settings, or () if it cannot be undone.

    Raises BadField or BadFilter if a former filter is no longer valid.
    """
    session.refresh(subscriber, with_for_update=True)
    change = last_change(session, subscriber, now=now)
    if change is None:
        return ()
    restore(session, subscriber, change.before, now=now)
    forget_last_change(session, subscriber)
    return describe_change(change.after, change.before)


def forget_last_change(session: Session, subscriber: Subscriber) -> None:
    """Delete the record of the latest change, which can then no longer be undone."""
    session.execute(delete(SettingsChange).where(SettingsChange.subscriber_id == subscriber.id))


def restore(session: Session, subscriber: Subscriber, former: SavedSettings, *, now: datetime) -> None:
    """Restore a subscriber's former settings; raise BadField or BadFilter if a filter is no longer valid."""
    preferences.edit(
        session,
        subscriber,
        now=now,
        schedule=former.schedule,
        topics={topic.name: topic.filter for topic in former.topics},
        muted=[topic.name for topic in former.topics if topic.is_muted],
        max_papers=former.max_papers,
        abstracts=former.abstracts,
        wants_nothing_today_letters=former.wants_nothing_today_letters,
    )


# ── in words ────────────────────────────────────────────────────────────────────────────────────


def describe_change(before: SavedSettings, after: SavedSettings) -> tuple[str, ...]:
    """Return a sentence for each changed setting, with its values before and after."""
    return (*describe_topics(before.topics, after.topics), *describe_options(before, after))


def describe_topics(before: tuple[SavedTopic, ...], after: tuple[SavedTopic, ...]) -> Iterator[str]:
    """Yield sentences about the changed topics."""
    old, new = {topic.name: topic for topic in before}, {topic.name: topic for topic in after}
    renamed = renamed_topics(old, new)
    for name in [name for name in old if name not in new and name not in renamed]:
        yield _("Removed the topic “%(name)s” (%(filter)s).") % {"name": name, "filter": old[name].filter}
    for topic in after:
        former = next((source for source, target in renamed.items() if target == topic.name), topic.name)
        yield from describe_topic(old.get(former), topic)
    kept = [renamed.get(topic.name, topic.name) for topic in before]
    if [name for name in kept if name in new] != [topic.name for topic in after if topic.name in kept]:
        yield _("Your topics now have this order: %s.") % ", ".join(new)


def renamed_topics(old: dict[str, SavedTopic], new: dict[str, SavedTopic]) -> dict[str, str]:
    """Return {old name: new name} for topics that were renamed without a change of filter."""
    added = {topic.filter: name for name, topic in new.items() if name not in old}
    return {
        name: added[topic.filter] for name, topic in old.items() if name not in new and topic.filter in added
    }


def describe_topic(before: SavedTopic | None, after: SavedTopic) -> Iterator[str]:
    """Yield sentences about the changes of one topic; `before` is None for a new topic."""
    if before is None:
        written = "Added the topic “%(name)s” (%(filter)s)."
        unnamed = "Added the topic “%(name)s”."  # the topic has the filter as its name
        sentence = _(unnamed if after.name == after.filter else written)
        yield sentence % {"name": after.name, "filter": after.filter}
        return
    if before.name != after.name:
        yield _("Renamed “%(before)s” to “%(after)s”.") % {"before": before.name, "after": after.name}
    if before.filter != after.filter:
        yield _("“%(name)s” is now %(after)s. Before: %(before)s.") % {
            "name": after.name,
            "after": after.filter,
            "before": before.filter,
        }
    if after.is_muted and not before.is_muted:
        yield _("Muted “%s”.") % after.name
    if before.is_muted and not after.is_muted:
        yield _("“%s” is in your digests again.") % after.name


def describe_options(before: SavedSettings, after: SavedSettings) -> Iterator[str]:
    """Yield sentences about changes to the schedule and to the length of digests."""
    if before.schedule != after.schedule:
        schedules = [figures_in_words.schedule_in_words(one.schedule) for one in (before, after)]
        yield _("New schedule: %(after)s. Before: %(before)s.") % {
            "before": schedules[0],
            "after": schedules[1],
        }
    if before.max_papers != after.max_papers:
        yield _("At most %(after)d papers in a digest. Before: %(before)d.") % {
            "before": before.max_papers,
            "after": after.max_papers,
        }
    if before.abstracts != after.abstracts:
        yield _("%(after)s. Before: %(before)s.") % {
            "before": figures_in_words.abstracts_in_words(before.abstracts).lower(),
            "after": figures_in_words.abstracts_in_words(after.abstracts),
        }
    if before.wants_nothing_today_letters != after.wants_nothing_today_letters:
        yield (
            _("You get a short letter on days without papers.")
            if after.wants_nothing_today_letters
            else _("You get no letter on days without papers.")
        )
