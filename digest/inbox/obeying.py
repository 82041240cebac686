"""Obeying: what a reader asks by mail is done as far as it can be undone; the rest waits for their press.

Anybody can write any name into a From line. So whoever asks, only the owner of that address is answered;
a pause or a goodbye is told there with the way back, and what would last is filled in on their own page,
for them to save. A stranger gets nothing but the one question whether they want digests.

Machines are never answered (RFC 3834), and nobody more than once an hour. An answer comes back, as every
letter does, to an address of its own (links.bounce_address), and what arrives there is never answered. RFC 3834
(3.3) allows that beside the empty return path, with which a dead address would not be noticed, some servers
would take the answer for a report, and SPF would speak for another name than ours.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from email import message_from_bytes, policy
from email.message import EmailMessage
from email.utils import getaddresses
from typing import Any
from urllib.parse import urlencode

from sqlalchemy.orm import Session

from digest import addresses, editions, links, outbox, subscriptions
from digest.errors import BadField, BadFilter, UsageError
from digest.inbox import commands
from digest.inbox.commands import Command, Verb
from digest.links import Site
from digest.model import Subscriber, SubscriberState
from digest.rendering import words
from digest.rendering.headers import one_line

_ = words.SPEECH.gettext

READS = frozenset({SubscriberState.ACTIVE, SubscriberState.PAUSED})
WAITING = 3  #: answers to one address that may wait for their hour
HOUR = timedelta(hours=1)
MOST_STRANGERS = 600  #: asked in an hour whether they want digests; the form has the same limit
LONGEST_NAME = 3  #: words behind `subscribe`: people put their name there, and advertisers much more

#: Names behind which nobody reads (RFC 3834, 5.2).
NOBODY = re.compile(
    r"(?:mailer-daemon|postmaster|.*\bno-?reply|.*do-?not-?reply|owner-.*|.*-(?:request|owner|bounces?))(?:\+.*)?$",
    re.IGNORECASE,
)
#: What mail programs make a link of.
ADVERTISES = re.compile(r"[/\\@]|\w\.\w\w|\+?\d[\d ()-]{6,}")


@dataclass(kw_only=True, slots=True)
class Answer:
    """What is said about the commands of one mail, and what their page will have filled in."""

    outcomes: list[dict[str, str]] = field(default_factory=list)
    wants_help: bool = False
    fills: list[tuple[str, str]] = field(default_factory=list)

    def say(self, command: Command, said: str, *fills: tuple[str, str]) -> None:
        """Note what became of a command."""
        self.outcomes.append({"command": repeated(command.line) or command.verb, "said": said})
        self.fills.extend(fills)


class NotObeyed(Exception):
    """Why nothing is done about commands: a person may want to look."""


def obey(
    session: Session,
    site: Site,
    content: bytes,
    *,
    asked: Sequence[Command],
    may_sign_up: frozenset[str] | None,
    now: datetime,
) -> str:
    """Do what a mail asks, write what is to be said, and return what that was; raises NotObeyed."""
    message = message_from_bytes(content, policy=policy.default)
    email = writer(site, message)
    subscriber = subscriptions.find(session, email)
    if subscriber is not None and any(command.verb is Verb.LEAVE for command in asked):
        subscriptions.unsubscribe(session, site, subscriber, now=now)
        return f"subscriber {subscriber.id} left"
    if subscriber is None or subscriber.state not in READS:
        return join(session, site, email, asked, may_sign_up, now)
    answer = Answer()
    for command in asked:
        do(session, site, subscriber, command, answer, now)
    if answer.outcomes:
        decision = {"outcomes": answer.outcomes, "fills": urlencode(answer.fills), **about(message)}
        put_answer(session, site, subscriber, "reply", decision, now)
    elif answer.wants_help:
        put_answer(session, site, subscriber, "help", {"commands": helped(), **about(message)}, now)
    return f"did for subscriber {subscriber.id}: {', '.join(command.verb for command in asked)}"


def writer(site: Site, message: EmailMessage) -> str:
    """Return the one address a mail says it is from, if a person could read there."""
    named = getaddresses(message.get_all("From", []))
    try:
        ((_name, address),) = named
        email = addresses.checked(address).email
    except (ValueError, BadField):
        raise NotObeyed("it does not say who wrote it") from None
    if NOBODY.match(email.rpartition("@")[0]) or email.lower() == site.sender_address.lower():
        raise NotObeyed("nobody would read an answer")
    return email


def about(message: EmailMessage) -> dict[str, str]:
    """Return what the answer names: the subject and the id of the mail it answers."""
    subject = re.sub(r"^(?:re|aw):\s*", "", one_line(str(message.get("Subject", ""))), flags=re.IGNORECASE)
    return {"about": repeated(subject), "answers": str(message.get("Message-ID", "")).strip()}


def repeated(text: str) -> str:
    """Return what somebody wrote, for a letter of ours; nothing if it could advertise: they may be a forger."""
    return "" if ADVERTISES.search(text) else words.cut(text, words.LONGEST_SUBJECT)


# ── a stranger ──────────────────────────────────────────────────────────────────────────────────


def join(
    session: Session,
    site: Site,
    email: str,
    asked: Sequence[Command],
    may_sign_up: frozenset[str] | None,
    now: datetime,
) -> str:
    """Ask the owner of an address that is no reader's; the topics they name wait with the question."""
    first = asked[0]
    if first.verb is not Verb.JOIN or len(first.rest.split()) > LONGEST_NAME:
        raise NotObeyed("whoever wrote it reads no digests")
    if subscriptions.asked_since(session, now - HOUR) >= MOST_STRANGERS:
        raise NotObeyed(
            f"{MOST_STRANGERS} strangers were asked within the hour; nobody else is before it is over"
        )
    topics = dict(commands.topic_in(one.rest) for one in asked[1:] if one.verb is Verb.ADD)
    try:
        became = subscriptions.ask(session, site, email, topics=topics, may_sign_up=may_sign_up, now=now)
    except UsageError as error:
        raise NotObeyed(f"it cannot be subscribed: {error}") from error
    return f"a wish to subscribe: {became.answer}"


# ── a reader ────────────────────────────────────────────────────────────────────────────────────


def do(
    session: Session, site: Site, subscriber: Subscriber, command: Command, answer: Answer, now: datetime
) -> None:
    """Do one command, or note what is to be pressed for it."""
    match command.verb:
        case Verb.JOIN | Verb.TOPICS:
            subscriptions.send_link(session, site, subscriber, now)
        case Verb.HELP:
            answer.wants_help = True
        case Verb.PAUSE:
            answer.say(command, paused(session, subscriber, command, now))
        case Verb.RESUME:
            answer.say(command, resumed(session, subscriber))
        case Verb.ADD:
            add(session, command, answer)
        case Verb.DROP:
            drop(session, subscriber, command, answer)
        case Verb.WHEN:
            reschedule(subscriber, command, answer)


def paused(session: Session, subscriber: Subscriber, command: Command, now: datetime) -> str:
    """Send the reader on leave and return what to say about it."""
    today = now.astimezone(editions.zone_of(subscriber.timezone)).date()
    until: date | None = commands.leave_in(command.rest, today)
    if until is None:
        return _("Not understood. Write: pause 2 weeks, or: pause until 6 January")
    try:
        subscriptions.pause(session, subscriber, until, now)
    except BadField as error:
        return plain(error)
    return _(
        'Paused until %s. We keep reading; you\'ll get one catch-up. Write "resume" to come back sooner.'
    ) % (words.day_in_words(until))


def resumed(session: Session, subscriber: Subscriber) -> str:
    """End a leave and return what to say about it."""
    if subscriptions.resume(session, subscriber):
        return _("Welcome back. What you missed comes as one catch-up.")
    return _("You were not paused.")


TO_BE_SAVED = _("Filled in on your page; press Save there.")


def add(session: Session, command: Command, answer: Answer) -> None:
    """Fill in one more topic, if its filter can be read."""
    name, text = commands.topic_in(command.rest)
    try:
        subscriptions.checked_topics({name: text}, subscriptions.Books(session))
    except UsageError as error:
        answer.say(command, plain(error))
    else:
        answer.say(command, TO_BE_SAVED, ("name", name), ("filter", text))


def drop(session: Session, subscriber: Subscriber, command: Command, answer: Answer) -> None:
    """Leave a topic out, named as the digest names it."""
    wanted = command.rest.casefold().rstrip(".")
    names = [topic.name for topic in subscriptions.topics_of(session, subscriber)]
    name = next((name for name in names if name.casefold() == wanted), None)
    if name is not None:
        answer.say(command, TO_BE_SAVED, ("drop", name))
    elif names:
        answer.say(command, _("No topic of yours is called so. You have: %s") % ", ".join(names))
    else:
        answer.say(command, _("You have no topics: you get what trends."))


def reschedule(subscriber: Subscriber, command: Command, answer: Answer) -> None:
    """Fill in another hour or cadence."""
    wanted = commands.schedule_in(command.line)
    if wanted is None:
        answer.say(command, _("Not understood. Write: weekly fri at 8:00, or: at 7:30 Europe/Oslo"))
        return
    try:
        subscriptions.schedule_with(subscriber, **wanted)
    except BadField as error:
        answer.say(command, plain(error))
    else:
        answer.say(command, TO_BE_SAVED, *wanted.items())


def plain(error: UsageError) -> str:
    """Return what is wrong and where: in a filter that was quoted, or in a field that the writer never saw."""
    if isinstance(error, BadFilter):
        shown = repeated(error.text)  # the mistake is told in words of the filter
        said = _("In %(filter)s: %(mistake)s") % {"filter": shown, "mistake": error}
        return said if shown else _("The filter cannot be read, from column %d on.") % error.column
    return str(error).removeprefix(f"{error.field}: ") if isinstance(error, BadField) else str(error)


def helped() -> list[dict[str, str]]:
    """Return every command with what it does."""
    return [
        {"spelled": "add flows: flow matching", "does": _("One more topic, called flows.")},
        {"spelled": "drop flows", "does": _("One topic fewer.")},
        {"spelled": "weekly fri at 8:00", "does": _("Another day or hour; daily, weekdays and monthly are known, too.")},
        {"spelled": "pause 2 weeks", "does": _("No digests for two weeks, then one catch-up; resume ends it sooner.")},
        {"spelled": "topics", "does": _("The way to everything that can be changed.")},
        {"spelled": "leave", "does": _("No more digests.")},
    ]  # fmt: skip


# ── answering ───────────────────────────────────────────────────────────────────────────────────


def put_answer(
    session: Session,
    site: Site,
    subscriber: Subscriber,
    letter: str,
    decision: Mapping[str, Any],
    now: datetime,
) -> None:
    """Write an answer for the next hour in which this address has had none; raise NotObeyed if too many wait."""
    whom = links.address_hash(site, subscriber.email_key)
    this_hour = now.replace(minute=0, second=0, microsecond=0)
    for hour in (this_hour + HOUR * later for later in range(WAITING)):
        number = outbox.put_letter(
            session,
            letter=letter,
            subscriber_id=subscriber.id,
            email=subscriber.email,
            decision=decision,
            dedupe_key=f"answer-{whom}-{hour:%Y-%m-%d-%H}",
            site=site,
            now=now,
            due_at=max(now, hour),
        )
        if number is not None:
            return
    raise NotObeyed("they write more often than we may answer")
