"""Run the commands that readers send by mail; readers confirm lasting changes on their settings page.

From lines can be forged. Replies therefore go only to the address in the From line: a reply to a pause or
unsubscribe explains how to undo it, and lasting changes are prefilled on the settings page, where the reader
saves them. An unknown address gets only the confirmation letter. A sentence that merely begins like a command
changes nothing: the reply asks what was meant and has the settings link, and the mail is kept for a person.

Automatic mail is never answered (RFC 3834), and no address is answered more than twelve times an hour.
Like every letter, a reply has a signed envelope sender (links.bounce_address), and mail to that address
is never answered. RFC 3834 (3.3) allows this as well as the empty return path. With an empty return
path, dead addresses would go unnoticed, some servers would treat the reply as a report, and SPF would
be checked against another name.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from email import message_from_bytes, policy
from email.message import EmailMessage
from email.utils import getaddresses
from typing import Any
from urllib.parse import urlencode

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from digest import addresses, bounces, links, subscribers
from digest.db.tables import Delivery, Subscriber, SubscriberState
from digest.delivery import outbox
from digest.editions import schedule
from digest.errors import BadField, BadFilter, UsageError
from digest.inbound import mail_commands, reply_text
from digest.inbound.mail_commands import Command, Verb
from digest.inbound.sender_proof import SenderProof
from digest.letters import figures_in_words
from digest.letters.headers import one_line
from digest.site_profile import Site

_ = figures_in_words.TRANSLATIONS.gettext

RECEIVING_STATES = frozenset({SubscriberState.ACTIVE, SubscriberState.PAUSED})
MAX_REPLIES = 12  #: maximum replies to one address within an hour; its further mail is kept for a person
HOUR = timedelta(hours=1)

#: Local parts of addresses whose mail no person reads (RFC 3834, 5.2).
AUTOMATIC_SENDERS = re.compile(
    r"(?:mailer-daemon|postmaster|.*\bno-?reply|.*do-?not-?reply|owner-.*|.*-(?:request|owner|bounces?))(?:\+.*)?$",
    re.IGNORECASE,
)
#: Text that mail programs turn into links.
ADVERTISING = re.compile(r"[/\\@]|\w\.\w\w|\+?\d[\d ()-]{6,}")
#: The headers by which upstream mail servers mark spam and forgeries, with patterns of their values.
SPAM_HEADERS = {
    "X-Spam-Flag": re.compile(r"yes", re.IGNORECASE),
    "X-Spam-Status": re.compile(r"yes", re.IGNORECASE),
    "X-Spam": re.compile(r"yes", re.IGNORECASE),
    "Authentication-Results": re.compile(r".*\bdmarc=fail\b", re.IGNORECASE | re.DOTALL),
    "Subject": re.compile(r"\W*spam\W", re.IGNORECASE),
}


@dataclass(kw_only=True, slots=True)
class CommandReply:
    """The outcomes of the commands of one mail, and the changes to prefill on the settings page."""

    outcomes: list[dict[str, str]] = field(default_factory=list)
    wants_help: bool = False
    asks_to_unsubscribe: bool = False  #: the writer may want to unsubscribe, so the reply has the link
    prefilled: list[tuple[str, str]] = field(default_factory=list)

    def add_outcome(self, command: Command, result: str, *prefilled: tuple[str, str]) -> None:
        """Record the result of a command."""
        self.outcomes.append({"command": safe_quote(command.line) or command.verb, "result": result})
        self.prefilled.extend(prefilled)


class CommandsIgnored(Exception):
    """The reason why commands are ignored and their mail is kept for a person."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CommandsOutcome:
    """The outcome of a mail with commands."""

    outcome: str
    needs_human: bool = False  #: the mail may not be meant as a command, so it is kept


def run_commands(
    session: Session,
    site: Site,
    content: bytes,
    *,
    commands: Sequence[Command],
    may_sign_up: frozenset[str] | None,
    proof: SenderProof | None = None,
    now: datetime,
) -> CommandsOutcome:
    """Run the commands of a mail and queue the reply; raise CommandsIgnored if none may be run."""
    message = message_from_bytes(content[: mail_commands.MAX_BYTES], policy=policy.default)
    email = sender_of(site, message)
    subscriber = subscribers.find(session, email)
    if subscriber is not None and any(one.verb is Verb.UNSUBSCRIBE and one.is_clear for one in commands):
        subscribers.unsubscribe(session, site, subscriber, now=now)
        return CommandsOutcome(outcome=f"subscriber {subscriber.id} unsubscribed")
    unclear = [command for command in commands if not command.is_clear]
    if (unclear or commands[0].verb is Verb.SUBSCRIBE) and not is_from_person(message, unclear):
        raise CommandsIgnored("it reads like an automatic reply, or like spam")
    if (
        subscriber is None
        or subscriber.state not in RECEIVING_STATES
        or bounces.is_suppressed(session, site, email)
    ):
        outcome = ask_to_subscribe(
            session, site, email, commands, may_sign_up=may_sign_up, proof=proof, now=now
        )
        return CommandsOutcome(outcome=outcome)
    reply_to_reader(session, site, subscriber, message, commands, now)
    verbs = ", ".join(command.verb for command in commands)
    if unclear:
        return CommandsOutcome(
            outcome=f"asked subscriber {subscriber.id} what they meant: {verbs}", needs_human=True
        )
    return CommandsOutcome(outcome=f"ran for subscriber {subscriber.id}: {verbs}")


def is_from_person(message: EmailMessage, unclear: Sequence[Command]) -> bool:
    """Return whether a person may have written the mail, as opposed to spam and automatic replies."""
    if any(
        sign.match(str(value)) for name, sign in SPAM_HEADERS.items() for value in message.get_all(name, [])
    ):
        return False
    if any(command.verb is Verb.UNSUBSCRIBE and not safe_quote(command.line) for command in unclear):
        return False
    text = "\n".join([str(message.get("Subject", "")), *mail_commands.written_lines(message)])
    return not reply_text.AUTOMATIC_REPLY_PHRASE.search(text[: reply_text.MAX_CHARS_SEARCHED])


def reply_to_reader(
    session: Session,
    site: Site,
    subscriber: Subscriber,
    message: EmailMessage,
    commands: Sequence[Command],
    now: datetime,
) -> None:
    """Run a reader's commands and queue the reply."""
    unclear = [command for command in commands if not command.is_clear]
    reply = CommandReply()
    for command in commands:
        run_command(session, site, subscriber, command, reply, now)
    if reply.outcomes:
        decision = {
            "outcomes": reply.outcomes,
            "prefilled": urlencode(reply.prefilled),
            "asks_to_unsubscribe": reply.asks_to_unsubscribe,
            **answered_mail(message),
        }
        queue_reply(session, site, subscriber, "reply", decision, now, once_a_day=unclear)
    elif reply.wants_help:
        queue_reply(
            session, site, subscriber, "help", {"commands": help_lines(), **answered_mail(message)}, now
        )


def sender_of(site: Site, message: EmailMessage) -> str:
    """Return the address in the From line; raise CommandsIgnored unless it is one address of a person."""
    named = getaddresses(message.get_all("From", []))
    try:
        ((_name, address),) = named
        email = addresses.parse_address(address).email
    except (ValueError, BadField):
        raise CommandsIgnored("its From line does not name one address") from None
    if AUTOMATIC_SENDERS.match(email.rpartition("@")[0]) or email.lower() == site.sender_address.lower():
        raise CommandsIgnored("no person would read a reply")
    return email


def answered_mail(message: EmailMessage) -> dict[str, str]:
    """Return the subject and the Message-ID of the answered mail."""
    subject = reply_text.without_prefixes(one_line(str(message.get("Subject", ""))))
    return {
        "answered_subject": safe_quote(subject),
        "answered_id": str(message.get("Message-ID", "")).strip(),
    }


def safe_quote(text: str) -> str:
    """Return a quote of a mail for our reply, or "" if the text may be an advertisement in a forged mail."""
    return (
        ""
        if ADVERTISING.search(text)
        else figures_in_words.cut_at_word(text, figures_in_words.MAX_SUBJECT_LENGTH)
    )


# ── an unknown address ──────────────────────────────────────────────────────────────────────────


def address_to_subscribe(site: Site, content: bytes) -> str | None:
    """Return the From address of a mail that asks to subscribe; None for any other mail."""
    commands = mail_commands.parse_commands(content)
    if not commands or commands[0].verb is not Verb.SUBSCRIBE:
        return None
    try:
        return sender_of(site, message_from_bytes(content[: mail_commands.MAX_BYTES], policy=policy.default))
    except CommandsIgnored:
        return None


def ask_to_subscribe(
    session: Session,
    site: Site,
    email: str,
    commands: Sequence[Command],
    *,
    may_sign_up: frozenset[str] | None,
    proof: SenderProof | None,
    now: datetime,
) -> str:
    """Queue a sign-up for an address that gets no digests; the requested topics apply after confirmation.

    With a proof of the sender, the confirmation letter is queued at once. The address must always be confirmed.
    """
    first = commands[0]
    if first.verb is not Verb.SUBSCRIBE:
        raise CommandsIgnored("its writer gets no digests")
    topics = dict(mail_commands.parse_topic(one.argument) for one in commands[1:] if one.verb is Verb.ADD)
    try:
        if proof and subscribers.request_proven(
            session,
            site,
            email,
            signed_by=proof.domain,
            evidence=str(proof),
            topics=topics,
            may_sign_up=may_sign_up,
            now=now,
        ):
            return "a sign-up, proven by its signature; the confirmation is queued"
        subscribers.request(
            session, email, network=subscribers.BY_MAIL, topics=topics, may_sign_up=may_sign_up, now=now
        )
    except UsageError as error:
        raise CommandsIgnored(f"the address cannot be subscribed: {error}") from error
    return "a sign-up, waiting to be confirmed"


# ── a reader ────────────────────────────────────────────────────────────────────────────────────


def run_command(
    session: Session, site: Site, subscriber: Subscriber, command: Command, reply: CommandReply, now: datetime
) -> None:
    """Run one command, or prefill the change that the reader must save."""
    match command.verb:
        case Verb.UNSUBSCRIBE:
            reply.asks_to_unsubscribe = True
            reply.add_outcome(
                command, _("Do you want to unsubscribe? Nothing has changed yet: use the link below.")
            )
        case Verb.SUBSCRIBE | Verb.TOPICS:
            queue_reply(session, site, subscriber, "settings_link", {}, now)
        case Verb.HELP:
            reply.wants_help = True
        case Verb.PAUSE:
            reply.add_outcome(command, pause_subscriber(session, subscriber, command, now))
        case Verb.RESUME:
            reply.add_outcome(
                command, resume_subscriber(session, subscriber) if command.is_clear else RESUME_ALONE
            )
        case Verb.ADD:
            prefill_topic(session, command, reply)
        case Verb.DROP:
            prefill_dropped_topic(session, subscriber, command, reply)
        case Verb.SCHEDULE:
            prefill_schedule(subscriber, command, reply)


def pause_subscriber(session: Session, subscriber: Subscriber, command: Command, now: datetime) -> str:
    """Pause the reader's digests and return the reply."""
    today = now.astimezone(schedule.zone_of(subscriber.timezone)).date()
    until = mail_commands.parse_pause(command.argument, today) if command.is_clear else None
    if until is None:
        return _("Not understood. Write: pause 2 weeks, or: pause until 6 January")
    try:
        subscribers.pause(session, subscriber, until, now)
    except BadField as error:
        return error_text(error)
    return _(
        'Paused until %s. Then you will get one catch-up digest. Write "resume" to get digests sooner.'
    ) % (figures_in_words.day_in_words(until))


def resume_subscriber(session: Session, subscriber: Subscriber) -> str:
    """End a pause and return the reply."""
    if subscribers.resume(session, subscriber):
        return _("Resumed. You will get one catch-up digest with the papers you missed.")
    return _("You were not paused.")


RESUME_ALONE = _('Not understood. To get digests again, write only the word "resume".')
SAVE_ON_PAGE = _("Open the link below and press Save to confirm.")


def prefill_topic(session: Session, command: Command, reply: CommandReply) -> None:
    """Prefill a new topic if its filter is valid."""
    name, text = mail_commands.parse_topic(command.argument)
    try:
        subscribers.check_topics({name: text}, subscribers.FilterRegistry(session))
    except UsageError as error:
        reply.add_outcome(command, error_text(error))
    else:
        reply.add_outcome(command, SAVE_ON_PAGE, ("name", name), ("filter", text))


def prefill_dropped_topic(
    session: Session, subscriber: Subscriber, command: Command, reply: CommandReply
) -> None:
    """Prefill the removal of a topic, given its name in the digest."""
    given = command.argument.casefold().rstrip(".")
    names = [topic.name for topic in subscribers.topics_of(session, subscriber)]
    name = next((name for name in names if name.casefold() == given), None)
    if name is not None:
        reply.add_outcome(command, SAVE_ON_PAGE, ("drop", name))
    elif names:
        reply.add_outcome(command, _("You have no topic of that name. Yours are: %s") % ", ".join(names))
    else:
        reply.add_outcome(command, _("You have no topics. You get trending papers."))


def prefill_schedule(subscriber: Subscriber, command: Command, reply: CommandReply) -> None:
    """Prefill a new hour or cadence."""
    changes = mail_commands.parse_schedule(command.line)
    if changes is None:
        reply.add_outcome(command, _("Not understood. Write: weekly fri at 8:00, or: at 7:30 Europe/Oslo"))
        return
    try:
        subscribers.changed_schedule(subscriber, **changes)
    except BadField as error:
        reply.add_outcome(command, error_text(error))
    else:
        reply.add_outcome(command, SAVE_ON_PAGE, *changes.items())


def error_text(error: UsageError) -> str:
    """Return an error as text for a reply, without field names; filters are quoted if that is safe."""
    if isinstance(error, BadFilter):
        shown = safe_quote(error.text)  # the error message quotes words of the filter
        message = _("In %(filter)s: %(mistake)s") % {"filter": shown, "mistake": error}
        return message if shown else _("The filter cannot be read, from column %d on.") % error.column
    return str(error).removeprefix(f"{error.field}: ") if isinstance(error, BadField) else str(error)


def help_lines() -> list[dict[str, str]]:
    """Return every command with its effect."""
    return [
        {"spelled": "add flows: flow matching", "does": _("Add a topic called flows.")},
        {"spelled": "drop flows", "does": _("Remove the topic called flows.")},
        {"spelled": "weekly fri at 8:00", "does": _("Change the day or hour; daily, weekdays and monthly work too.")},
        {"spelled": "pause 2 weeks", "does": _("Pause for two weeks, then get one catch-up digest. Write resume to end it sooner.")},
        {"spelled": "topics", "does": _("Get a link to your settings.")},
        {"spelled": "leave", "does": _("Unsubscribe.")},
    ]  # fmt: skip


# ── the reply ───────────────────────────────────────────────────────────────────────────────────


def queue_reply(
    session: Session,
    site: Site,
    subscriber: Subscriber,
    letter: str,
    decision: Mapping[str, Any],
    now: datetime,
    *,
    once_a_day: Sequence[Command] = (),
) -> None:
    """Queue a reply to be sent at once; raise CommandsIgnored after twelve replies to an address in an hour.

    The same unclear commands (`once_a_day`) get one reply a day; otherwise an automatic reply that
    looks like a person's would be answered forever.
    """
    prefix = f"answer-{links.address_hash(site, subscriber.email_key)}-"
    session.refresh(subscriber, with_for_update=True)  # so that two processes do not count at the same time
    count = replies_since(session, subscriber, prefix, now - HOUR)
    if count >= MAX_REPLIES:
        raise CommandsIgnored(f"its writer got {MAX_REPLIES} replies within the hour")
    same = f"{commands_hash(once_a_day)}-{now.date()}" if once_a_day else f"{now.isoformat()}-{count}"
    number = outbox.queue_letter(
        session,
        letter=letter,
        subscriber_id=subscriber.id,
        email=subscriber.email,
        decision=decision,
        dedupe_key=f"{prefix}{same}",
        site=site,
        now=now,
    )
    if number is None:
        raise CommandsIgnored("its writer was already asked about the same words today")


def replies_since(session: Session, subscriber: Subscriber, prefix: str, moment: datetime) -> int:
    """Return how many replies a reader was sent since `moment`."""
    found = select(func.count()).where(
        Delivery.subscriber_id == subscriber.id,
        Delivery.dated_at > moment,
        Delivery.dedupe_key.startswith(prefix, autoescape=True),
    )
    return session.scalar(found) or 0


def commands_hash(commands: Sequence[Command]) -> str:
    """Return a hash of the text of these commands, for a dedupe key."""
    return hashlib.sha256("\n".join(command.line for command in commands).encode()).hexdigest()[:16]
