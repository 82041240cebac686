"""Record the latest change of a subscriber's settings, describe it, and undo it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import delete
from sqlalchemy.orm import Session

from digest import db
from digest.db.tables import SettingsChange, Subscriber
from digest.delivery import outbox
from digest.letters import figures_in_words
from digest.site_profile import Site
from digest.subscribers import change_letters, preferences, reader_settings
from digest.subscribers.reader_settings import ReaderSettings

_ = figures_in_words.TRANSLATIONS.gettext

UNDO_FOR = timedelta(days=30)


@dataclass(frozen=True, kw_only=True, slots=True)
class LastChange:
    """The latest change of a subscriber's settings, with the settings before and after it."""

    changed_at: datetime
    before: ReaderSettings
    after: ReaderSettings

    @property
    def sentences(self) -> tuple[str, ...]:
        """Return sentences about the changed settings, each with the values before and after."""
        return describe_change(self.before, self.after)


def record_change(session: Session, subscriber: Subscriber, before: ReaderSettings, *, now: datetime) -> bool:
    """Record the change since `before`; return False if none of these settings has changed."""
    row = {
        "subscriber_id": subscriber.id,
        "changed_at": now,
        "before": before.to_json(),
        "after": preferences.settings_of(session, subscriber).to_json(),
    }
    if row["after"] == row["before"]:
        return False
    adding = db.upsert(session, SettingsChange).values(row)
    changes = {name: adding.excluded[name] for name in ("changed_at", "before", "after")}
    session.execute(adding.on_conflict_do_update(index_elements=["subscriber_id"], set_=changes))
    return True


def last_change(session: Session, subscriber: Subscriber, *, now: datetime) -> LastChange | None:
    """Return the latest change if it is recent and no setting has changed since; otherwise None."""
    row = session.get(SettingsChange, subscriber.id, populate_existing=True)
    if row is None or now - row.changed_at > UNDO_FOR:
        return None
    if row.after != preferences.settings_of(session, subscriber).to_json():
        return None
    before, after = ReaderSettings.from_json(row.before), ReaderSettings.from_json(row.after)
    return LastChange(changed_at=row.changed_at, before=before, after=after)


def undo_last_change(session: Session, subscriber: Subscriber, *, now: datetime) -> tuple[str, ...]:
    """Undo the latest change, and return sentences about the restored settings, or () if it cannot be undone.

    Raises BadField or BadFilter if a former filter is no longer valid.
    """
    session.refresh(subscriber, with_for_update=True)
    change = last_change(session, subscriber, now=now)
    if change is None:
        return ()
    preferences.edit(session, subscriber, change.before, now=now)
    forget_last_change(session, subscriber)
    return describe_change(change.after, change.before)


def forget_last_change(session: Session, subscriber: Subscriber) -> None:
    """Delete the record of the latest change, which can then no longer be undone."""
    session.execute(delete(SettingsChange).where(SettingsChange.subscriber_id == subscriber.id))


def save_settings(
    session: Session, site: Site, subscriber: Subscriber, given: ReaderSettings, *, now: datetime
) -> bool:
    """Change the given settings; return whether any changed.

    If any changed, a letter with the settings and topics is queued. Raises BadField or BadFilter, without
    changing anything, if a setting is invalid.
    """
    before = preferences.settings_of(session, subscriber)
    preferences.edit(session, subscriber, given, now=now)
    changed = record_change(session, subscriber, before, now=now)
    if changed:
        change_letters.queue_changed_letter(session, site, subscriber, now=now)
    return changed


def undo_change(session: Session, site: Site, subscriber: Subscriber, *, now: datetime) -> tuple[str, ...]:
    """Undo the latest change of settings; return sentences about the restored settings.

    Returns () if the change cannot be undone. The letter about the change is withdrawn; if it was already sent,
    the undo is also reported by a letter. Raises BadField or BadFilter, without changing anything, if a former filter is
    no longer valid.
    """
    undone = undo_last_change(session, subscriber, now=now)
    if undone and not withdraw_change_letter(session, subscriber, now=now):
        change_letters.queue_changed_letter(session, site, subscriber, now=now)
    return undone


def withdraw_change_letter(session: Session, subscriber: Subscriber, *, now: datetime) -> int:
    """Withdraw the queued letter about a change that was undone; return 0 if it was sent already."""
    return outbox.withdraw_letters(session, subscriber.id, "changed", "the change was undone", now=now)


# ── in words ────────────────────────────────────────────────────────────────────────────────────


def describe_change(before: ReaderSettings, after: ReaderSettings) -> tuple[str, ...]:
    """Return a sentence for each changed setting, with its values before and after."""
    return (*describe_topics(before, after), *reader_settings.describe_change(before.texts, after.texts))


def describe_topics(before: ReaderSettings, after: ReaderSettings) -> Iterator[str]:
    """Yield sentences about the changed topics."""
    old, new = before.topics or {}, after.topics or {}
    renamed = renamed_topics(old, new)
    for name in [name for name in old if name not in new and name not in renamed]:
        yield _("Removed the topic “%(name)s” (%(filter)s).") % {"name": name, "filter": old[name]}
    former_names = {target: source for source, target in renamed.items()}
    for name in new:
        former = former_names.get(name, name)
        yield from describe_filter(former, old.get(former), name, new[name])
        was_muted, is_muted = former in (before.muted or ()), name in (after.muted or ())
        if former in old and is_muted != was_muted:
            yield (_("Muted “%s”.") if is_muted else _("“%s” is in your digests again.")) % name
    kept = [renamed.get(name, name) for name in old]
    if [name for name in kept if name in new] != [name for name in new if name in kept]:
        yield _("Your topics now have this order: %s.") % ", ".join(new)


def renamed_topics(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str]:
    """Return {old name: new name} for topics that were renamed without a change of filter."""
    added = {text: name for name, text in new.items() if name not in old}
    return {name: added[text] for name, text in old.items() if name not in new and text in added}


def describe_filter(former: str, before: str | None, name: str, after: str) -> Iterator[str]:
    """Yield sentences about the name and filter of a topic; `before` is None for a new topic."""
    if before is None:
        written = "Added the topic “%(name)s” (%(filter)s)."
        unnamed = "Added the topic “%(name)s”."  # the topic has the filter as its name
        yield _(unnamed if name == after else written) % {"name": name, "filter": after}
        return
    if former != name:
        yield _("Renamed “%(before)s” to “%(after)s”.") % {"before": former, "after": name}
    if before != after:
        yield _("“%(name)s” is now %(after)s. Before: %(before)s.") % {
            "name": name, "after": after, "before": before,
        }  # fmt: skip
