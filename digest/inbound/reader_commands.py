"""Run a reader's commands on topics, schedule, pause and data, either at once or by filling in a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from sqlalchemy.orm import Session

from digest import subscribers
from digest.db.tables import Subscriber, SubscriberState
from digest.editions import schedule, time_zones
from digest.editions.schedule import Schedule
from digest.errors import BadField, UsageError
from digest.inbound import command_arguments
from digest.inbound.mail_commands import COMMON_KINDS, KIND_OF_WORD, OTHER_KINDS, Command, MailCommand
from digest.inbound.reader_request import ReaderRequest, error_text, topics_of
from digest.letters import figures_in_words

_ = figures_in_words.TRANSLATIONS.gettext


def question_unsubscribe(request: ReaderRequest, command: Command) -> None:
    """Ask whether the reader wants to unsubscribe, and give the link for it."""
    request.reply.asks_to_unsubscribe = True
    said = _("Do you want to unsubscribe? Nothing has changed yet. If you do, use the link below.")
    request.reply.add_outcome(command, said)


def answer_subscribed(request: ReaderRequest, command: Command) -> None:
    """Add the topic given after `subscribe`, or reply that the reader is already subscribed."""
    if command.topic:
        add_topic(request, replace(command, argument=command.topic))
    else:
        request.reply.add_outcome(command, _("You are subscribed already."))


def refuse_group(request: ReaderRequest, command: Command) -> None:
    """Reply that the command to subscribe a group must be at the beginning of a message."""
    request.reply.add_outcome(command, _("Not done. Write this as the first line of a new email."))


# ── undo ────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True, slots=True)
class SettingsBefore:
    """The settings that commands can change at once, as they were before the message's commands ran."""

    topics: dict[str, str]
    schedule: Schedule


def settings_before(session: Session, subscriber: Subscriber) -> SettingsBefore:
    """Return the reader's topics and schedule."""
    return SettingsBefore(topics=topics_of(session, subscriber), schedule=subscribers.schedule_of(subscriber))


def undo_fields(before: SettingsBefore, after: SettingsBefore) -> list[tuple[str, str]]:
    """Return the values that restore the earlier settings when they are saved on the settings page."""
    added = [("drop", name) for name in after.topics if name not in before.topics]
    restored = [
        field
        for name, text in before.topics.items()
        if after.topics.get(name) != text
        for field in (("name", name), ("filter", text))
    ]
    earlier, later = schedule_fields(before.schedule), schedule_fields(after.schedule)
    return [*added, *restored, *((name, text) for name, text in earlier.items() if text != later[name])]


def schedule_fields(current: Schedule) -> dict[str, str]:
    """Return a schedule as field values of the settings page."""
    return {
        "cadence": schedule.cadence_text(current),
        "at": f"{current.at:%H:%M}",
        "timezone": current.timezone,
    }


# ── the pause ───────────────────────────────────────────────────────────────────────────────────


def pause_digests(request: ReaderRequest, command: Command) -> None:
    """Pause the reader's digests, as the command says."""
    today = request.now.astimezone(time_zones.zone_of(request.subscriber.timezone)).date()
    until = command_arguments.parse_pause(command.argument, today) if command.is_clear else None
    if until is None:
        said = _("Not understood. Write: pause 2 weeks, or: pause until 6 January")
        request.reply.add_outcome(command, said)
        return
    try:
        subscribers.pause(request.session, request.subscriber, until, request.now)
    except BadField as error:
        request.reply.add_outcome(command, error_text(error))
        return
    said = _(
        "Paused until %s. The digest after that will include the best papers you missed. Write “resume” to end the pause sooner."
    )
    request.reply.add_outcome(command, said % figures_in_words.day_in_words(until))
    request.reply.has_paused = True


def resume_digests(request: ReaderRequest, command: Command) -> None:
    """End a pause."""
    if not command.is_clear:
        said = _("Not understood. To get digests again, write only the word “resume”.")
    elif subscribers.resume(request.session, request.subscriber, request.now):
        said = _("Resumed. Your next digest will include the best papers you missed.")
    else:
        said = _("You were not paused.")
    request.reply.add_outcome(command, said)


SAVE_ON_PAGE = _("Open the link below and press Save to confirm.")


# ── topics ──────────────────────────────────────────────────────────────────────────────────────


def add_topic(request: ReaderRequest, command: Command) -> None:
    """Add a topic, or replace the filter of the topic that already has this name."""
    session, subscriber, reply = request.session, request.subscriber, request.reply
    name, text = command_arguments.parse_topic(command.argument)
    topics = topics_of(session, subscriber)
    known = next((each for each in topics if each.casefold() == name.casefold()), None)
    try:
        if reply.is_trusted:
            changed = {**topics, known or name: text}
            subscribers.edit(session, subscriber, now=request.now, topics=changed)
        else:
            subscribers.check_topics({name: text}, subscribers.FilterRegistry(session))
    except UsageError as error:
        reply.add_outcome(command, error_text(error))
        return
    if not reply.is_trusted:
        reply.add_outcome(command, SAVE_ON_PAGE, ("name", name), ("filter", text))
    else:
        reply.add_outcome(command, (_("Changed: %s.") if known else _("Added: %s.")) % (known or name))


def drop_topic(request: ReaderRequest, command: Command) -> None:
    """Remove the topic with this name or with this number in the list."""
    reply, topics = request.reply, topics_of(request.session, request.subscriber)
    name = named_topic(command.argument, list(topics))
    if not topics:
        reply.add_outcome(command, _("You have no topics. You get trending papers."))
    elif name is None:
        said = _("You have no topic of that name. Yours are: %s") % ", ".join(topics)
        reply.add_outcome(command, said)
    elif reply.is_trusted:
        del topics[name]
        subscribers.edit(request.session, request.subscriber, now=request.now, topics=topics)
        reply.add_outcome(command, _("Removed: %s.") % name)
    else:
        reply.add_outcome(command, SAVE_ON_PAGE, ("drop", name))


def named_topic(given: str, names: list[str]) -> str | None:
    """Return the topic with this name, in any case, or with this number; None if there is none."""
    folded = given.casefold().rstrip(".")
    found = next((name for name in names if name.casefold() == folded), None)
    if found is None and folded.isdecimal() and 1 <= int(folded) <= len(names):
        return names[int(folded) - 1]
    return found


def list_topics(request: ReaderRequest, command: Command) -> None:
    """List the reader's topics and filters, numbered."""
    topics = topics_of(request.session, request.subscriber)
    said = "; ".join(f"{number}. {name}: {text}" for number, (name, text) in enumerate(topics.items(), 1))
    request.reply.add_outcome(command, said or _("You have no topics. You get trending papers."))


# ── the schedule ────────────────────────────────────────────────────────────────────────────────


def change_schedule(request: ReaderRequest, command: Command) -> None:
    """Change the hour, the time zone or the cadence of the reader's digests."""
    reply, changes = request.reply, command_arguments.parse_schedule(command.argument)
    if changes is None:
        reply.add_outcome(command, _("Not understood. Write: weekly fri at 8:00, or: at 7:30 Europe/Oslo"))
        return
    try:
        changed = subscribers.changed_schedule(request.subscriber, **changes)
        if reply.is_trusted:
            subscribers.edit(request.session, request.subscriber, now=request.now, schedule=changed)
    except BadField as error:
        reply.add_outcome(command, error_text(error))
        return
    if reply.is_trusted:
        reply.add_outcome(command, _("Changed to: %s.") % figures_in_words.schedule_in_words(changed))
    else:
        reply.add_outcome(command, SAVE_ON_PAGE, *changes.items())


# ── undo, export, erase ─────────────────────────────────────────────────────────────────────────


def undo_change(request: ReaderRequest, command: Command) -> None:
    """Undo the latest change of settings; if the sender is unproven, refer to the settings page instead."""
    reply, session, subscriber = request.reply, request.session, request.subscriber
    if not reply.is_trusted:
        reply.add_outcome(command, _("Open the link below: the latest change can be undone there."))
        return
    try:
        undone = subscribers.undo_last_change(session, subscriber, now=request.now)
    except UsageError as error:
        reply.add_outcome(command, error_text(error))
        return
    reply.has_undone = True
    is_paused = subscriber.state == SubscriberState.PAUSED
    nothing = _("To end the pause, write “resume”.") if is_paused else _("There is nothing to undo.")
    reply.add_outcome(command, " ".join(undone) or nothing)


def mail_account_link(request: ReaderRequest, command: Command) -> None:
    """Mail the link to the page where the reader can download or erase their data."""
    del command
    subscribers.queue_account_link(request.session, request.site, request.subscriber, now=request.now)


# ── the answer ──────────────────────────────────────────────────────────────────────────────────


def state_sentences(request: ReaderRequest) -> list[str]:
    """Return the sentences about the reader's digest and schedule that end every reply.

    They leave out a pause that an outcome of the same reply has already announced.
    """
    session, subscriber = request.session, request.subscriber
    when = figures_in_words.schedule_in_words(subscribers.schedule_of(subscriber))
    topics = list(topics_of(session, subscriber))
    about = figures_in_words.topics_in_words(topics) if topics else _("trending papers")
    sentence = (
        _("The group’s digest: %(when)s, on %(about)s.")
        if subscriber.is_group
        else _("Your digest: %(when)s, on %(about)s.")
    )
    said = [sentence % {"when": when, "about": about}]
    if subscriber.state == SubscriberState.PAUSED:
        return said if request.reply.has_paused else [*said, pause_sentence(subscriber.paused_until)]
    next_due = subscribers.next_digest_in_words(session, subscriber, now=request.now)
    return [*said, _("Next digest: %s.") % next_due]


def pause_sentence(until: date | None) -> str:
    """Return the sentence about a pause, which has no end if `until` is None."""
    return _("It is paused until %s.") % figures_in_words.day_in_words(until) if until else _("It is paused.")


def explain_command(request: ReaderRequest, command: Command) -> None:
    """Explain the command named after `help`; without a name, record that the reader wants the list."""
    kind = KIND_OF_WORD.get(command.argument.strip(" .?").casefold())
    if kind is None:
        request.reply.wants_help = True
        return
    words = _("Also: %s.") % ", ".join(kind.words[1:]) if kind.words[1:] else ""
    said = (_("Write: %s.") % kind.usage, kind.effect, kind.context, kind.description, words)
    request.reply.add_outcome(command, " ".join(filter(None, said)))


def help_lines(kinds: Sequence[type[MailCommand]]) -> list[dict[str, str]]:
    """Return the usage and effect of each command."""
    return [{"spelled": kind.usage, "does": kind.effect} for kind in kinds]


def help_values() -> dict[str, Any]:
    """Return the values of the help letter: the common commands with their effects, and the words of the others."""
    return {"commands": help_lines(COMMON_KINDS), "others": [kind.words[0] for kind in OTHER_KINDS]}
