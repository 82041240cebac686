"""Queue the sign-ups requested by mail, for the sender's own address or for a group that the sender manages.

A group, such as a mailing list, gets one confirmation letter, and any member can confirm. DKIM, SPF or
DMARC must prove the sender, because the sender will manage the group's digests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy.orm import Session

from digest import addresses, subscribers
from digest.db.tables import Subscriber
from digest.editions.schedule import Cadence
from digest.errors import UsageError
from digest.inbound import answer_limits, command_arguments, mail_without_command, writer_checks
from digest.inbound.mail_commands import Command, Verb
from digest.inbound.mail_rules import MailRules
from digest.inbound.mail_without_command import MailOutcome
from digest.inbound.reader_request import CommandMail, error_text
from digest.inbound.writer_checks import MailIgnored
from digest.letters import figures_in_words
from digest.site_profile import Site

_ = figures_in_words.TRANSLATIONS.gettext

UNSIGNED = _(
    "We could not verify that you sent this message, because it has no valid signature from your mail server (DKIM)."
)


def ask_to_subscribe(
    session: Session, site: Site, email: str, mail: CommandMail, rules: MailRules, now: datetime
) -> str:
    """Queue a sign-up for an address that gets no digests; the requested topics apply once it is confirmed.

    If the sender is proven, the confirmation letter is queued at once. The address must be confirmed in any
    case. Raises MailIgnored if the address may not sign up or a topic is invalid.
    """
    requested = subscribers.RequestedSettings(topics=topics_of(mail.commands))
    try:
        is_proven = request(session, site, email, mail, requested, rules=rules, now=now)
    except UsageError as error:
        raise MailIgnored(f"the address cannot be subscribed: {error}") from error
    if is_proven:
        return "a sign-up, proven to be from its sender; the confirmation is queued"
    return "a sign-up, waiting to be confirmed"


def topics_of(commands: Sequence[Command]) -> Mapping[str, str]:
    """Return {topic name: filter} for the topics that a request names."""
    given = [commands[0].topic, *(one.argument for one in commands[1:] if one.verb is Verb.ADD)]
    return dict(command_arguments.parse_topic(text) for text in given if text)


def request(
    session: Session,
    site: Site,
    email: str,
    mail: CommandMail,
    requested: subscribers.RequestedSettings,
    *,
    rules: MailRules,
    now: datetime,
) -> bool:
    """Queue the sign-up of an address; return whether its confirmation letter is queued at once.

    If the sender is proven, the sign-up does not wait in the queue.
    """
    if mail.proof and subscribers.request_proven(
        session,
        site,
        email,
        signed_by=mail.proof.domain,
        evidence=str(mail.proof),
        requested=requested,
        may_sign_up=rules.may_sign_up,
        now=now,
    ):
        return True
    subscribers.request(
        session,
        email,
        network=subscribers.BY_MAIL,
        requested=requested,
        may_sign_up=rules.may_sign_up,
        now=now,
    )
    return False


def ask_group(
    session: Session,
    site: Site,
    email: str,
    subscriber: Subscriber | None,
    mail: CommandMail,
    *,
    rules: MailRules,
    now: datetime,
) -> MailOutcome:
    """Queue the letter that asks a group to confirm, if the writer is proven, and an answer to the writer.

    `subscriber` is the writer, or None if the writer gets no digests. Raises MailIgnored if the writer may not
    subscribe, or may not be answered (again).
    """
    mail_without_command.check_writer(session, site, mail.message, email)
    problem = UNSIGNED
    try:
        subscribers.check_policy(email, rules.may_sign_up)
    except UsageError as error:
        raise MailIgnored(f"the writer may not subscribe: {error}") from error
    try:
        if mail.proof:
            request_for_group(session, site, email, mail, rules, now)
            problem = ""
    except UsageError as error:
        problem = error_text(error)
    decision = group_decision(mail, problem)
    if subscriber is not None:
        answer_limits.queue_reply(session, site, subscriber, "group_request", decision, now)
    else:
        answer_limits.queue_answer_to_stranger(session, site, email, "group_request", decision, now)
    return MailOutcome(outcome="asked no group to confirm" if problem else "asked a group to confirm")


def request_for_group(
    session: Session, site: Site, owner: str, mail: CommandMail, rules: MailRules, now: datetime
) -> None:
    """Queue the sign-up of a group that the writer will manage; raise UsageError if it is invalid."""
    group = mail.commands[0].argument
    requested = subscribers.RequestedSettings(
        topics=topics_of(mail.commands), owner=subscribers.check_owner(group, owner)
    )
    request(session, site, group, mail, requested, rules=rules, now=now)


def group_decision(mail: CommandMail, problem: str) -> dict[str, str]:
    """Return the content of our answer to the request to subscribe a group."""
    topics = list(topics_of(mail.commands))
    return {
        "address": addresses.readable_address(mail.commands[0].argument),
        "requested": figures_in_words.requested_digest(Cadence.DAILY, topics),
        "problem": problem,
        **writer_checks.answered_mail(mail.message),
    }
