"""The use cases on subscribers for pages, commands and the scheduler; each function commits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import date, datetime, timedelta

from sqlalchemy.orm import Session

from digest import db
from digest.db.tables import Subscriber, SubscriberState
from digest.delivery import limits, outbox
from digest.errors import BadField, UsageError
from digest.site_profile import Site
from digest.subscribers import (
    account,
    change_letters,
    confirmations,
    csv_import,
    pauses,
    preferences,
    saved_papers,
    sign_up_limits,
    sign_up_queue,
    still_reading,
    subscriber_rows,
    subscriber_topics,
    topic_feedback,
    undo_changes,
)
from digest.subscribers.confirmations import ChoosePapers, SignUpOutcome
from digest.subscribers.csv_import import ImportReport
from digest.subscribers.csv_import.csv_rows import Row
from digest.subscribers.operator_acts import record_act
from digest.subscribers.reader_settings import NOTHING_GIVEN, ReaderSettings
from digest.subscribers.topic_feedback import TopicChange
from digest.subscribers.unsubscribe_and_undo import mark_unsubscribed, undo, unsubscribe
from digest.topics import ExampleTopic

#: States of subscribers who have confirmed and not unsubscribed since.
HAS_TOPICS = frozenset({SubscriberState.ACTIVE, SubscriberState.PAUSED})


# ── for the pages ───────────────────────────────────────────────────────────────────────────────


def sign_up(
    session: Session,
    email: str,
    *,
    network: str,
    requested: ReaderSettings = NOTHING_GIVEN,
    may_sign_up: frozenset[str] | None,
    is_proxied: bool = False,
    now: datetime,
) -> None:
    """Queue a sign-up from the form; if the request came through an unconfigured proxy, record that."""
    if is_proxied:
        sign_up_queue.note_proxy_header(session, now)
    sign_up_queue.request(
        session, email, network=network, requested=requested, may_sign_up=may_sign_up, now=now
    )
    session.commit()


def send_link_or_sign_up(
    session: Session,
    site: Site,
    email: str,
    *,
    network: str,
    may_sign_up: frozenset[str] | None,
    now: datetime,
) -> bool:
    """Mail a new settings link to a subscriber; sign up an address that is not subscribed if it may sign up.

    An address that has not confirmed yet is signed up again with the settings that it requested last. Returns
    False if the network has asked for too many links today.
    """
    most = sign_up_limits.LINKS_A_DAY if network else sign_up_limits.LINKS_A_DAY_UNKNOWN
    if limits.count_today(session, "links", network, most=most, now=now) is None:
        return False
    session.commit()
    reader = subscriber_rows.find(session, email)
    if reader is not None and reader.state in HAS_TOPICS:
        return mail_link(session, site, reader, now=now)
    is_pending = reader is not None and reader.state == SubscriberState.PENDING
    requested = confirmations.last_requested(session, reader) if reader and is_pending else NOTHING_GIVEN
    with suppress(UsageError):  # the response must not reveal who may sign up
        sign_up(session, email, network=network, requested=requested, may_sign_up=may_sign_up, now=now)
    return True


def mail_link(session: Session, site: Site, subscriber: Subscriber, *, now: datetime) -> bool:
    """Mail the settings link to a subscriber; return False if the subscriber gets no digests."""
    if subscriber.state not in HAS_TOPICS:
        return False
    confirmations.send_link(session, site, subscriber, now)
    session.commit()
    return True


def confirm_on_page(
    session: Session,
    site: Site,
    token: str,
    *,
    network: str | None,
    choose_papers: ChoosePapers,
    now: datetime,
) -> Subscriber | None:
    """Activate the subscriber that a confirmation link names.

    Returns None if the link is invalid or has expired, or if the address is suppressed.
    """
    subscriber = confirmations.confirm(
        session, site, token, now, network=network, choose_papers=choose_papers
    )
    session.commit()
    return subscriber


def pause_with_letter(
    session: Session, site: Site, subscriber: Subscriber, until: date | None, *, now: datetime
) -> None:
    """Pause a subscriber, or change a pause, and notify them by mail; do neither if they get no digests."""
    if pauses.pause(session, subscriber, until, now):
        change_letters.queue_paused_letter(session, site, subscriber, now=now)
    session.commit()


def save_paper(session: Session, subscriber: Subscriber, paper_id: int, *, now: datetime) -> bool:
    """Add a paper to the subscriber's list; return False if the list already contains it.

    Raises UsageError if the list is full.
    """
    is_new = saved_papers.save(session, subscriber.id, paper_id, now=now)
    session.commit()
    return is_new


def remove_saved_paper(session: Session, subscriber: Subscriber, paper_id: int) -> bool:
    """Remove a paper from the subscriber's list; return whether the list contained it."""
    was_saved = saved_papers.remove(session, subscriber.id, paper_id)
    session.commit()
    return was_saved


def decide_saved_topic(
    session: Session,
    site: Site,
    subscriber: Subscriber,
    topic: ExampleTopic | None,
    *,
    now: datetime,
) -> None:
    """Add the topic proposed for the saved papers; `topic` is None if the subscriber declined it.

    Papers saved before `now` count towards no later proposal.
    """
    subscriber.saved_topic_decided_at = now
    if topic is not None:
        found = {one.name: one.text for one in subscriber_topics.topics_of(session, subscriber)}
        name = subscriber_topics.free_name(topic.name, found)
        chosen = ReaderSettings(topics={**found, name: topic.filter})
        save_settings(session, site, subscriber, chosen, now=now)
    session.commit()


def save_settings(
    session: Session, site: Site, subscriber: Subscriber, given: ReaderSettings, *, now: datetime
) -> bool:
    """Change the given settings; return whether any changed.

    If any changed, a letter with the settings and topics is queued. Raises BadField or BadFilter, without
    changing anything, if a setting is invalid.
    """
    before = preferences.settings_of(session, subscriber)
    try:
        preferences.edit(session, subscriber, given, now=now)
    except UsageError:
        session.rollback()
        raise
    changed = undo_changes.record_change(session, subscriber, before, now=now)
    if changed:
        change_letters.queue_changed_letter(session, site, subscriber, now=now)
    session.commit()
    return changed


def undo_change(session: Session, site: Site, subscriber: Subscriber, *, now: datetime) -> tuple[str, ...]:
    """Undo the latest change of settings; return sentences about the restored settings.

    Returns () if the change cannot be undone. The letter about the change is withdrawn; if it was already sent,
    the undo is also reported by a letter. Raises BadField or BadFilter, without changing anything, if a former filter is
    no longer valid.
    """
    try:
        undone = undo_changes.undo_last_change(session, subscriber, now=now)
    except UsageError:
        session.rollback()
        raise
    if undone and not withdraw_change_letter(session, subscriber, now=now):
        change_letters.queue_changed_letter(session, site, subscriber, now=now)
    session.commit()
    return undone


def change_topics(
    session: Session, site: Site, subscriber: Subscriber, changes: Sequence[TopicChange], *, now: datetime
) -> bool:
    """Change topics; return False if one has changed since the changes were found, or if there are none."""
    changed = topic_feedback.changed_topics(session, subscriber, changes)
    return bool(changed) and save_settings(session, site, subscriber, ReaderSettings(topics=changed), now=now)


def mail_account_link(session: Session, site: Site, subscriber: Subscriber, *, now: datetime) -> None:
    """Mail a subscriber a new link to their data."""
    account.queue_account_link(session, site, subscriber, now=now)
    session.commit()


def request_new_address(
    session: Session,
    site: Site,
    subscriber: Subscriber,
    email: str,
    *,
    may_sign_up: frozenset[str] | None,
    now: datetime,
) -> None:
    """Mail the owner of a new address a link to confirm it; raise BadField if the address may not be used."""
    account.request_new_address(session, site, subscriber, email, may_sign_up=may_sign_up, now=now)
    session.commit()


def change_address(
    session: Session, site: Site, subscriber: Subscriber, email: str, *, now: datetime
) -> None:
    """Give a subscriber a confirmed new address; raise BadField if it belongs to another subscriber."""
    account.change_address(session, site, subscriber, email, now=now)
    session.commit()


def note_leaving_reason(session: Session, subscriber: Subscriber, reason: str) -> bool:
    """Store the reason why a subscriber unsubscribed; return False if they are not unsubscribed."""
    if subscriber.state != SubscriberState.UNSUBSCRIBED:
        return False
    subscriber.leaving_reason = subscriber_topics.clean_line(reason)
    session.commit()
    return True


def keep_digests(session: Session, subscriber: Subscriber, *, now: datetime) -> None:
    """Record that a reader answered that they still read their digests."""
    still_reading.note_activity(session, subscriber, now=now)
    session.commit()


def leave(session: Session, site: Site, subscriber: Subscriber, *, now: datetime) -> None:
    """Unsubscribe a subscriber at once, and queue the goodbye letter, which is withdrawn after an undo."""
    unsubscribe(session, site, subscriber, now=now, due_at=now + change_letters.SEND_AFTER)
    session.commit()


def return_after_leaving(session: Session, subscriber: Subscriber, *, now: datetime) -> bool:
    """Resubscribe a subscriber who recently unsubscribed; return whether they were resubscribed."""
    is_back = undo(session, subscriber, now=now)
    session.commit()
    return is_back


def end_pause(session: Session, subscriber: Subscriber, *, now: datetime) -> bool:
    """Resume a paused subscriber; return False if they are not paused."""
    is_resumed = pauses.resume(session, subscriber, now)
    session.commit()
    return is_resumed


# ── for the commands ────────────────────────────────────────────────────────────────────────────


def add_confirmed(  # noqa: PLR0913  (the columns of a subscriber, by keyword)
    session: Session,
    site: Site,
    email: str,
    given: ReaderSettings,
    *,
    name: str = "",
    owner: str | None = None,
    consent: str | None,
    operator: str = "",
    now: datetime,
) -> Subscriber:
    """Add an active subscriber; `consent` describes how the subscriber agreed.

    `owner` is the person who manages the digests if the address is a group's.
    """
    subscriber = subscriber_rows.add(
        session,
        email,
        name=name,
        topics=given.topics,
        texts=given.texts,
        state=SubscriberState.ACTIVE,
        owner=owner,
        consent=consent,
        now=now,
        site=site,
    )
    record_act(session, subscriber, "added as confirmed", operator=operator, now=now)
    session.commit()
    return subscriber


def add_unconfirmed(
    session: Session,
    site: Site,
    email: str,
    given: ReaderSettings,
    *,
    name: str = "",
    owner: str | None = None,
    operator: str = "",
    now: datetime,
) -> Subscriber:
    """Add a pending subscriber and queue the confirmation letter.

    The confirmation of a group address goes to its `owner`. Raises BadField, with the reason, if the address
    may not get a confirmation, and BadField or BadFilter if another value is invalid.
    """
    known = subscriber_rows.find(session, email)
    if known is not None and known.state in HAS_TOPICS:
        raise BadField("email", f"{known.email} is already {known.state}. See: digest subscribers edit")
    result = confirmations.request_subscription(session, site, email, requested=given, owner=owner, now=now)
    if result.outcome == SignUpOutcome.SUPPRESSED:
        raise BadField(
            "email", f"{email} is suppressed (digest suppressions list), or an address of this service."
        )
    if result.outcome == SignUpOutcome.CAPPED:
        raise BadField(
            "email",
            f"{email} got a confirmation mail in the last 24 hours, or three in the last 30 days; wait, or use --confirmed.",
        )
    subscriber = subscriber_rows.get(session, email)
    subscriber.name = subscriber_topics.clean_line(name) or subscriber.name
    record_act(session, subscriber, "added, confirmation requested", operator=operator, now=now)
    session.commit()
    return subscriber


def change_by_operator(
    session: Session,
    subscriber: Subscriber,
    given: ReaderSettings,
    *,
    name: str | None = None,
    owner: str | None = None,
    operator: str = "",
    now: datetime,
) -> bool:
    """Change the given settings, without notifying the subscriber; return whether any changed.

    `owner` is the person who will manage the subscription, which makes the address a group's.
    """
    before = preferences.settings_of(session, subscriber)
    sentences = ["New owner."] if owner is not None and subscriber_rows.set_owner(subscriber, owner) else []
    if name is not None and subscriber_topics.clean_line(name) != subscriber.name:
        subscriber.name = subscriber_topics.clean_line(name)
        sentences.append("New name.")
    preferences.edit(session, subscriber, given, now=now)
    if undo_changes.record_change(session, subscriber, before, now=now):
        change = undo_changes.last_change(session, subscriber, now=now)
        sentences[:0] = change.sentences if change else ()
    if sentences:
        record_act(session, subscriber, " ".join(sentences), operator=operator, now=now)
    session.commit()
    return bool(sentences)


def undo_by_operator(
    session: Session, subscriber: Subscriber, *, operator: str = "", now: datetime
) -> tuple[str, ...]:
    """Undo a subscriber's latest change without notice; return sentences about the restored settings."""
    undone = undo_changes.undo_last_change(session, subscriber, now=now)
    if undone:
        withdraw_change_letter(session, subscriber, now=now)
        record_act(session, subscriber, f"undone: {' '.join(undone)}", operator=operator, now=now)
    session.commit()
    return undone


def withdraw_change_letter(session: Session, subscriber: Subscriber, *, now: datetime) -> int:
    """Withdraw the queued letter about a change that was undone; return 0 if it was sent already."""
    return outbox.withdraw_letters(session, subscriber.id, "changed", "the change was undone", now=now)


def pause_by_operator(
    session: Session, subscriber: Subscriber, until: date | None, *, operator: str = "", now: datetime
) -> bool:
    """Pause a subscriber, or change a pause, without notice; return False if they get no digests."""
    is_paused = pauses.pause(session, subscriber, until, now)
    if is_paused:
        record_act(session, subscriber, f"paused until {until or 'they resume'}", operator=operator, now=now)
    session.commit()
    return is_paused


def resume_by_operator(session: Session, subscriber: Subscriber, *, operator: str, now: datetime) -> bool:
    """Resume a paused subscriber; return False if they are not paused."""
    is_resumed = pauses.resume(session, subscriber, now)
    if is_resumed:
        record_act(session, subscriber, "resumed", operator=operator, now=now)
    session.commit()
    return is_resumed


def remove_by_operator(session: Session, email: str, *, operator: str, now: datetime) -> Subscriber:
    """Unsubscribe a subscriber without notice; their history is kept in case they return."""
    subscriber = subscriber_rows.get(session, email)
    if mark_unsubscribed(session, subscriber, now=now):
        record_act(session, subscriber, "unsubscribed", operator=operator, now=now)
    session.commit()
    return subscriber


def import_list(  # noqa: PLR0913  (the options of the command, by keyword)
    session: Session,
    site: Site,
    rows: Iterable[Row],
    *,
    consent: str | None,
    invited_by: str,
    operator: str = "",
    report: ImportReport,
    is_dry_run: bool,
    now: datetime,
) -> None:
    """Import a file, count its rows in `report`, and commit after each batch; a dry run only counts."""
    csv_import.import_rows(
        session,
        site,
        rows,
        consent=consent,
        invited_by=invited_by,
        operator=operator,
        report=report,
        after_batch=nothing if is_dry_run else session.commit,
        now=now,
    )
    db.commit_or_roll_back(session, is_dry_run=is_dry_run)


def sync_list(  # noqa: PLR0913  (the options of the command, by keyword)
    session: Session,
    site: Site,
    rows: Iterable[Row],
    *,
    consent: str | None,
    invited_by: str,
    operator: str = "",
    everyone: bool,
    allows_many: bool,
    report: ImportReport,
    is_dry_run: bool,
    now: datetime,
) -> None:
    """Synchronize the subscribers with a file, count changes in `report`, and commit after each batch.

    A dry run only counts, and is not stopped by the limit on removals.
    """
    csv_import.sync_rows(
        session,
        site,
        rows,
        consent=consent,
        invited_by=invited_by,
        operator=operator,
        everyone=everyone,
        allows_many=allows_many or is_dry_run,
        report=report,
        after_batch=nothing if is_dry_run else session.commit,
        now=now,
    )
    db.commit_or_roll_back(session, is_dry_run=is_dry_run)


def nothing() -> None:
    """Do nothing after a batch, so that the transaction stays open until the end of a dry run."""


# ── for the scheduler ───────────────────────────────────────────────────────────────────────────


def answer_sign_ups(session: Session, site: Site, *, now: datetime) -> None:
    """Queue the confirmations that may be sent now."""
    sign_up_queue.send_confirmations(session, site, now)
    session.commit()


def ask_still_reading(session: Session, site: Site, *, after: timedelta | None, now: datetime) -> None:
    """Ask readers inactive for the time `after` whether they still read; pause those who did not respond.

    If `after` is None, do nothing.
    """
    if after is not None:
        still_reading.take_steps(session, site, after=after, now=now)
        session.commit()


def remind_unconfirmed(session: Session, site: Site, *, now: datetime) -> None:
    """Queue the reminders that are due, and delete sign-ups that expired."""
    sign_up_queue.forget_sign_ups(session, now)
    confirmations.queue_reminders(session, site, now)
    session.commit()
