"""Read, check and save settings, record and describe each change, and undo it: for pages, mail and commands."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from msgspec.structs import replace
from sqlalchemy import delete, or_, select
from sqlalchemy.orm import Session

from digest.db.tables.subscribers import SettingsChange, Subscriber
from digest.delivery.outbox import withdrawals
from digest.errors import BadFilter
from digest.site.site_profile import Site
from digest.subscribers import (
    next_digest,
    reader_settings,
    subscriber_letters,
    subscriber_rows,
    subscriber_topics,
)
from digest.subscribers.filter_registry import FilterRegistry
from digest.subscribers.reader_settings import NOTHING_GIVEN, ReaderSettings
from digest.topics.filter_parser import Filter

UNDO_FOR = timedelta(days=30)
MAX_CHANGES = 20  #: maximum number of changes kept for one subscriber; the oldest are forgotten first


@dataclass(frozen=True, kw_only=True, slots=True)
class UndoableChange:
    """A change of a subscriber's settings, with the settings before and after it and those of now."""

    id: int
    changed_at: datetime
    before: ReaderSettings
    after: ReaderSettings
    current: ReaderSettings

    @property
    def sentences(self) -> tuple[str, ...]:
        """Return sentences about the change, each with the values before and after."""
        return describe_change(self.before, self.after)

    @property
    def changed(self) -> ReaderSettings:
        """Return what the change changed, with the values before it."""
        then = {name: text for name, text in self.before.texts.items() if self.after.texts.get(name) != text}
        has_new_topics = topics_in(self.before) != topics_in(self.after)
        topics, muted = (self.before.topics, self.before.muted) if has_new_topics else (None, None)
        return ReaderSettings(topics=topics, muted=muted, texts=then)

    @property
    def undone(self) -> ReaderSettings:
        """Return the settings that an undo restores: those that have not changed again since."""
        changed, now, then = self.changed, self.current.texts, self.after.texts
        texts = {name: text for name, text in changed.texts.items() if now[name] == then[name]}
        is_same = topics_in(self.current) == topics_in(self.after)
        return replace(changed, texts=texts) if is_same else ReaderSettings(texts=texts)

    @property
    def kept_sentences(self) -> tuple[str, ...]:
        """Return a sentence for each setting that has changed again since, and that an undo therefore keeps."""
        changed, undone = self.changed, self.undone
        names = [reader_settings.SETTINGS[name].label for name in changed.texts if name not in undone.texts]
        names += ["Topics"] if changed.topics is not None and undone.topics is None else []
        return tuple(f"{name}: changed again since, and kept." for name in names)


def topics_in(settings: ReaderSettings) -> tuple[object, ...]:
    """Return the topics in their order, and which are muted."""
    return tuple((settings.topics or {}).items()), settings.muted or ()


def record_change(
    session: Session, subscriber: Subscriber, before: ReaderSettings, *, now: datetime
) -> int | None:
    """Record the change since `before`, and forget old ones; return its id, or None if nothing has changed."""
    after = settings_of(session, subscriber).to_json()
    if after == before.to_json():
        return None
    own = SettingsChange.subscriber_id == subscriber.id
    surplus = select(SettingsChange.id).where(own).order_by(SettingsChange.id.desc()).offset(MAX_CHANGES - 1)
    is_old = or_(SettingsChange.changed_at < now - UNDO_FOR, SettingsChange.id.in_(surplus))
    session.execute(delete(SettingsChange).where(own, is_old))
    row = SettingsChange(subscriber_id=subscriber.id, changed_at=now, before=before.to_json(), after=after)
    session.add(row)
    session.flush()
    return row.id


def find_change(
    session: Session, subscriber: Subscriber, number: int | None = None, *, now: datetime
) -> UndoableChange | None:
    """Return a change of the subscriber's settings, by default the latest.

    Returns None if there is none, or if an undo would restore nothing: because it was undone or is old, or because
    everything that it changed has changed again.
    """
    query = select(SettingsChange).where(
        SettingsChange.subscriber_id == subscriber.id, SettingsChange.changed_at >= now - UNDO_FOR
    )
    if number is not None:
        query = query.where(SettingsChange.id == number)
    row = session.scalars(query.order_by(SettingsChange.id.desc()).limit(1)).first()
    if row is None:
        return None
    change = UndoableChange(
        id=row.id,
        changed_at=row.changed_at,
        before=ReaderSettings.from_json(row.before),
        after=ReaderSettings.from_json(row.after),
        current=settings_of(session, subscriber),
    )
    return None if change.undone == NOTHING_GIVEN else change


def undo_change(
    session: Session, subscriber: Subscriber, number: int | None = None, *, now: datetime
) -> tuple[str, ...]:
    """Undo a change of settings, by default the latest, and withdraw its letter if it is still queued.

    Returns sentences about what was restored, and about what was kept because it has changed again since; () if the
    change cannot be undone. Raises BadField or BadFilter, before anything is written, if a former filter is no
    longer valid.
    """
    session.refresh(subscriber, with_for_update=True)
    change = find_change(session, subscriber, number, now=now)
    if change is None:
        return ()
    edit(session, subscriber, change.undone, now=now)
    session.execute(delete(SettingsChange).where(SettingsChange.id == change.id))
    restored = settings_of(session, subscriber)
    return (*describe_change(change.current, restored), *change.kept_sentences)


def forget_changes(session: Session, subscriber: Subscriber) -> None:
    """Delete the records of a subscriber's changes, which can then no longer be undone."""
    session.execute(delete(SettingsChange).where(SettingsChange.subscriber_id == subscriber.id))


def save_settings(
    session: Session, site: Site, subscriber: Subscriber, given: ReaderSettings, *, now: datetime
) -> bool:
    """Change the given settings; return whether any changed.

    If any changed, a letter with the settings, the topics and the link that undoes the change is queued. Raises
    BadField or BadFilter, before anything is written, if a setting is invalid.
    """
    before = settings_of(session, subscriber)
    edit(session, subscriber, given, now=now)
    number = record_change(session, subscriber, before, now=now)
    if number is not None:
        subscriber_letters.queue_changed_letter(session, site, subscriber, number, now=now)
    return number is not None


def undo_with_letter(
    session: Session, site: Site, subscriber: Subscriber, number: int | None = None, *, now: datetime
) -> tuple[str, ...]:
    """Undo a change as `undo_change` does, and withdraw its letter; return the same sentences.

    A letter reports the settings if the letter about the change was sent already, or if it reported an earlier
    change, too.
    """
    undone = undo_change(session, subscriber, number, now=now)
    if undone:
        is_withdrawn = withdraw_change_letter(session, subscriber, now=now)
        earlier = find_change(session, subscriber, now=now)
        is_reported = earlier is None or earlier.changed_at <= now - subscriber_letters.SEND_AFTER
        if not (is_withdrawn and is_reported):
            subscriber_letters.queue_changed_letter(
                session, site, subscriber, earlier.id if earlier else None, now=now
            )
    return undone


def withdraw_change_letter(session: Session, subscriber: Subscriber, *, now: datetime) -> int:
    """Withdraw the queued letter about a change that was undone; return 0 if it was sent already."""
    return withdrawals.withdraw_letters(session, subscriber.id, "changed", "the change was undone", now=now)


# ── in words ────────────────────────────────────────────────────────────────────────────────────


def describe_change(before: ReaderSettings, after: ReaderSettings) -> tuple[str, ...]:
    """Return a sentence for each changed setting, with its values before and after."""
    return (*describe_topics(before, after), *reader_settings.describe_change(before.texts, after.texts))


def describe_topics(before: ReaderSettings, after: ReaderSettings) -> Iterator[str]:
    """Yield sentences about the changed topics."""
    old, new = before.topics or {}, after.topics or {}
    renamed = renamed_topics(old, new)
    for name in [name for name in old if name not in new and name not in renamed]:
        yield f"Removed the topic “{name}” ({old[name]})."
    former_names = {target: source for source, target in renamed.items()}
    for name in new:
        former = former_names.get(name, name)
        yield from describe_filter(former, old.get(former), name, new[name])
        was_muted, is_muted = former in (before.muted or ()), name in (after.muted or ())
        if former in old and is_muted != was_muted:
            yield f"Muted “{name}”." if is_muted else f"“{name}” is in your digests again."
    kept = [renamed.get(name, name) for name in old]
    if [name for name in kept if name in new] != [name for name in new if name in kept]:
        yield f"Your topics now have this order: {', '.join(new)}."


def renamed_topics(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str]:
    """Return {old name: new name} for topics that were renamed without a change of filter."""
    added = {text: name for name, text in new.items() if name not in old}
    return {name: added[text] for name, text in old.items() if name not in new and text in added}


def describe_filter(former: str, before: str | None, name: str, after: str) -> Iterator[str]:
    """Yield sentences about the name and filter of a topic; `before` is None for a new topic."""
    if before is None:
        yield f"Added the topic “{name}”{'' if name == after else f' ({after})'}."
        return
    if former != name:
        yield f"Renamed “{former}” to “{name}”."
    if before != after:
        yield f"“{name}” is now {after}. Before: {before}."  # fmt: skip


log = logging.getLogger(__name__)


def settings_of(session: Session, subscriber: Subscriber) -> ReaderSettings:
    """Return the subscriber's current settings and topics."""
    topics = subscriber_topics.topics_of(session, subscriber)
    return ReaderSettings(
        topics={topic.name: topic.text for topic in topics},
        muted=tuple(topic.name for topic in topics if topic.is_muted),
        texts=reader_settings.texts_of(subscriber),
    )


def check(session: Session, given: ReaderSettings) -> None:
    """Raise BadField or BadFilter if one of these settings or topics is invalid."""
    subscriber_topics.check_topics(given.topics or {}, FilterRegistry(session))
    reader_settings.columns_of(given.texts)


def edit(session: Session, subscriber: Subscriber, given: ReaderSettings, *, now: datetime) -> bool:
    """Change the given settings and topics; return whether any changed.

    Raises BadField or BadFilter, before anything is written, if one is invalid.
    """
    check(session, given)
    before = settings_of(session, subscriber)
    texts = {**before.texts, **given.texts}
    if reader_settings.schedule_in(texts) != subscriber_rows.schedule_of(subscriber):
        promise_again(session, subscriber, texts, now)
    for column, value in reader_settings.columns_of(given.texts).items():
        setattr(subscriber, column, value)
    if given.topics is not None:
        subscriber_topics.replace_topics(session, subscriber.id, given.topics, muted=given.muted)
    session.flush()
    return settings_of(session, subscriber).to_json() != before.to_json()


def promise_again(session: Session, subscriber: Subscriber, texts: Mapping[str, str], now: datetime) -> None:
    """Change the promise of the next digest to what a new schedule gives.

    A promised edition that is not published yet is sent even if the new hour has passed, and an overdue one
    stays due. Nothing is promised that was sent already: an edition is identified by its name.
    """
    chosen = reader_settings.schedule_in(texts)
    following = next_digest.edition_status(session, subscriber, now, schedule=chosen).next
    if subscriber.next_due_at is not None and subscriber.next_due_at > now:
        subscriber.next_due_at = following.due_at


def apply_requested(
    session: Session, subscriber: Subscriber, requested: ReaderSettings, *, now: datetime
) -> None:
    """Apply the settings that somebody requested earlier, with those topics whose filters are still valid.

    A filter is no longer valid if a pack that it uses has been removed.
    """
    topics = requested.topics or {}
    readable = {name: topics[name] for name in resolved_filters(session, topics)}
    edit(session, subscriber, replace(requested, topics=readable if topics else None), now=now)


def resolved_filters(session: Session, topics: Mapping[str, str]) -> dict[str, Filter]:
    """Return the resolved filters of the topics that are still valid, keyed by topic name."""
    registry, found = FilterRegistry(session), {}
    for name, text in topics.items():
        try:
            found[name] = registry.resolve_text(text)
        except BadFilter as error:
            log.warning("a requested topic is no longer valid and is left out: %s", error)
    return found
