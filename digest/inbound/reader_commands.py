"""Run a reader's commands on topics, schedule, pause and data, either at once or by filling in a page."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

from digest.db.tables.subscribers import SubscriberState
from digest.editions import time_zones
from digest.inbound import command_arguments, paper_commands
from digest.inbound.mail_commands import (
    COMMON_KINDS,
    KIND_OF_NAME,
    OTHER_KINDS,
    Command,
    MailCommand,
    PauseDigests,
)
from digest.inbound.reader_request import ReaderRequest, topics_of
from digest.letters import figures_in_words
from digest.subscribers import (
    account,
    next_digest,
    pauses,
    reader_settings,
    subscriber_rows,
    subscriber_topics,
    undo_changes,
)
from digest.subscribers.filter_registry import FilterRegistry
from digest.subscribers.reader_settings import ReaderSettings


def answer_yes(_request: ReaderRequest, _command: Command) -> str:
    """Say that a `yes` confirms nothing; a `yes` to a confirmation letter is read elsewhere."""
    return "There is nothing to confirm. You are subscribed already."


# ── the pause ───────────────────────────────────────────────────────────────────────────────────


def pause_digests(request: ReaderRequest, command: Command) -> str:
    """Pause the reader's digests, as the command says."""
    today = request.now.astimezone(time_zones.zone_of(request.subscriber.timezone)).date()
    until = command_arguments.parse_pause(command.argument, today)
    if until is None:
        return PauseDigests.doubt
    ends = None if until == command_arguments.NO_END else until
    pauses.pause(request.session, request.subscriber, ends, request.now)
    request.reply.has_paused = True
    if ends is None:
        return "Paused. Write “resume” to get digests again."
    week = "" if command.argument else "This is one week; write “pause until 6 January” for longer."
    said = (
        f"Paused until {figures_in_words.day_in_words(until)}. The digest after that will include the best papers you"
        " missed. Write “resume” to end the pause sooner."
    )
    return f"{said} {week}".strip()


def resume_digests(request: ReaderRequest, _command: Command) -> str:
    """End a pause."""
    if pauses.resume(request.session, request.subscriber, request.now):
        return "Resumed. Your next digest will include the best papers you missed."
    return "You were not paused."


# ── lasting changes ─────────────────────────────────────────────────────────────────────────────


def save_or_prefill(
    request: ReaderRequest, done: str, *prefilled: tuple[str, str], given: ReaderSettings
) -> str:
    """Apply a lasting change if the sender is proven, else fill it in on the settings page; return the result."""
    if not request.reply.is_trusted:
        request.reply.prefilled += prefilled
        return "Open the link below and press Save to confirm."
    undo_changes.edit(request.session, request.subscriber, given, now=request.now)
    return done


def add_topic(request: ReaderRequest, command: Command) -> str:
    """Add a topic, or replace the filter of the topic that already has this name; say what the filter finds.

    A `subscribe` may name none.
    """
    if not command.argument:
        return "You are subscribed already."
    name, text = command_arguments.parse_topic(command.argument)
    topics = topics_of(request.session, request.subscriber)
    known = next((each for each in topics if each.casefold() == name.casefold()), None)
    subscriber_topics.check_topics({name: text}, FilterRegistry(request.session))
    if known and text.casefold() == known.casefold() != topics[known].casefold():
        return f"You have that topic already: {known}: {topics[known]}"
    done = f"Changed: {known}." if known else f"Added: {name}."
    changed = {**topics, known or name: text}
    said = save_or_prefill(
        request, done, ("name", name), ("filter", text), given=ReaderSettings(topics=changed)
    )
    return paper_commands.matches_in_words(request, text, after=said)


def drop_topic(request: ReaderRequest, command: Command) -> str:
    """Remove the topics with these names or with these numbers in the list: all of them, or none."""
    topics = topics_of(request.session, request.subscriber)
    whole = named_topic(command.argument, topics, request.listed)
    parts = re.split(r"\s*(?:,|&|\band\b)\s*", command.argument)
    names = [whole] if whole else [named_topic(part, topics, request.listed) for part in parts]
    gone = [name for name in dict.fromkeys(names) if name is not None]
    if not topics:
        return "You have no topics. You get trending papers."
    if None in names:
        return f"You have no topic of that name. Yours are: {', '.join(topics)}."
    kept = {name: text for name, text in topics.items() if name not in gone}
    done = f"Removed: {', '.join(gone)}."
    return save_or_prefill(
        request, done, *(("drop", name) for name in gone), given=ReaderSettings(topics=kept)
    )


def named_topic(given: str, names: Collection[str], listed: Sequence[str]) -> str | None:
    """Return the topic with this name, in any case, or with this number in the list; None if there is none."""
    folded = re.sub(r"^(?:number|no|nr|#)\W*(?=\d)", "", given.casefold().rstrip("."))
    if folded.isdecimal() and 1 <= int(folded) <= len(listed):
        folded = listed[int(folded) - 1].casefold()
    return next((name for name in names if name.casefold() == folded), None)


def list_topics(request: ReaderRequest, _command: Command) -> str:
    """List the reader's topics and filters, numbered."""
    topics = topics_of(request.session, request.subscriber)
    said = "; ".join(f"{number}. {name}: {text}" for number, (name, text) in enumerate(topics.items(), 1))
    return said or "You have no topics. You get trending papers."


def change_schedule(request: ReaderRequest, command: Command) -> str:
    """Change the hour, the time zone or the cadence of the reader's digests."""
    changes = command_arguments.parse_schedule(command.argument) or {}
    changed = reader_settings.schedule_in({**reader_settings.texts_of(request.subscriber), **changes})
    done = f"Changed to: {figures_in_words.schedule_in_words(changed)}."
    return save_or_prefill(request, done, *changes.items(), given=ReaderSettings(texts=changes))


# ── undo, export, erase ─────────────────────────────────────────────────────────────────────────


def undo_change(request: ReaderRequest, _command: Command) -> str:
    """Undo the latest change of settings; if the sender is unproven, refer to the settings page instead."""
    if not request.reply.is_trusted:
        return "Open the link below: the latest change can be undone there."
    undone = undo_changes.undo_change(request.session, request.subscriber, now=request.now)
    request.reply.has_undone = True
    is_paused = request.subscriber.state == SubscriberState.PAUSED
    nothing = "To end the pause, write “resume”." if is_paused else "There is nothing to undo."
    return " ".join(undone) or nothing


def mail_account_link(request: ReaderRequest, _command: Command) -> str:
    """Mail the link to the page where the reader can download or erase their data or change their address."""
    is_new = account.queue_account_link(request.session, request.site, request.subscriber, now=request.now)
    if is_new and not request.reply.outcomes:
        return ""
    return "The link to your data is in a letter of its own, which we send at most once an hour."


# ── the answer ──────────────────────────────────────────────────────────────────────────────────


def state_sentences(request: ReaderRequest) -> list[str]:
    """Return the sentences about the reader's digest and schedule that end every reply.

    They leave out a pause that an outcome of the same reply has already announced.
    """
    session, subscriber = request.session, request.subscriber
    when = figures_in_words.schedule_in_words(subscriber_rows.schedule_of(subscriber))
    topics = list(topics_of(session, subscriber))
    about = figures_in_words.topics_in_words(topics) if topics else "trending papers"
    sentence = (
        "The group’s digest: %(when)s, on %(about)s."
        if subscriber.is_group
        else "Your digest: %(when)s, on %(about)s."
    )
    said = [sentence % {"when": when, "about": about}]
    if subscriber.state == SubscriberState.PAUSED:
        until = subscriber.paused_until
        pause = (
            f"It is paused until {figures_in_words.day_in_words(until)}. To end the pause sooner, write “resume”."
            if until
            else "It is paused. To end the pause, write “resume”."
        )
        return said if request.reply.has_paused else [*said, pause]
    next_due = next_digest.next_digest_in_words(session, subscriber, now=request.now)
    return [*said, f"Next digest: {next_due}."]


def explain_command(request: ReaderRequest, command: Command) -> str:
    """Explain the command named after `help`; without a name, have the list of commands sent."""
    kind = KIND_OF_NAME.get(command.argument.strip(" .?").casefold())
    if kind is None:
        request.reply.wants_help = True
        return ""
    words = f"Also: {', '.join(kind.words[1:])}." if kind.words[1:] else ""
    said = (f"Write: {kind.usage}.", kind.effect, kind.context, kind.description, words)
    return " ".join(filter(None, said))


def help_lines(kinds: Sequence[type[MailCommand]]) -> list[dict[str, str]]:
    """Return the usage and effect of each command."""
    return [{"spelled": kind.usage, "does": kind.effect} for kind in kinds]


def help_values() -> dict[str, Any]:
    """Return the values of the help letter: the common commands with their effects, and the words of the others."""
    return {"commands": help_lines(COMMON_KINDS), "others": [kind.words[0] for kind in OTHER_KINDS]}
