"""Queue the sign-ups requested by mail for the sender's own address."""

from __future__ import annotations

from digest.db.tables.subscribers import Subscriber
from digest.errors import UsageError
from digest.inbound import command_arguments, mail_without_command, paper_commands
from digest.inbound.mail_commands import AddTopic, ChangeSchedule, Command, Confirm, Help, Subscribe
from digest.inbound.mail_rules import MailContext
from digest.inbound.reader_request import CommandMail, MailOutcome, error_text, outcome_of
from digest.subscribers import reader_settings, sign_up_queue, subscriber_topics
from digest.subscribers.filter_registry import FilterRegistry
from digest.subscribers.reader_settings import ReaderSettings, Remark


def ask_to_subscribe(
    context: MailContext, mail: CommandMail, email: str, subscriber: Subscriber | None
) -> MailOutcome:
    """Queue a sign-up for an address that gets no digests; the requested settings apply once it is confirmed.

    A command that cannot be read is left out, and the confirmation letter gives the reason. If the sender is
    proven, that letter is queued at once. The address must be confirmed in any case.
    """
    asked = [command for command in mail.commands if command.kind is Subscribe]
    try:
        if not any(command.is_clear for command in asked):
            raise UsageError(asked[0].doubt)
        requested, rules = requested_settings(context, mail), context.rules
        is_proven = mail.proof is not None and sign_up_queue.request_proven(
            context.session, context.site, email, signed_by=mail.proof.domain, evidence=str(mail.proof),
            requested=requested, may_sign_up=rules.may_sign_up, now=context.now,
        )  # fmt: skip
        if not is_proven:
            network = sign_up_queue.mail_network(context.site, mail.network)
            sign_up_queue.request(
                context.session, email, network=network, requested=requested,
                may_sign_up=rules.may_sign_up, now=context.now,
            )  # fmt: skip
    except UsageError as error:
        said = error_text(error)
        return mail_without_command.answer_stranger(context, mail, email, subscriber, problem=said)
    proven = "proven to be from its sender; the confirmation is queued"
    return MailOutcome(outcome=f"a sign-up, {proven if is_proven else 'waiting to be confirmed'}")


def requested_settings(context: MailContext, mail: CommandMail) -> ReaderSettings:
    """Return the settings that a sign-up asks for, with a remark on each line that gives none."""
    topics, changes, remarks = dict[str, str](), dict[str, str](), list[Remark]()
    for command in mail.commands:
        try:
            said = command.doubt or read_request(context, command, topics, changes)
        except UsageError as error:
            said = error_text(error)
        if said:
            outcome = outcome_of(command, said)
            remarks.append((outcome["command"], outcome["result"]))
    remarks += [(line, "Left unread.") for line in mail.quoted_unread()]
    return ReaderSettings(topics=topics or None, texts=changes, remarks=tuple(remarks))


def read_request(
    context: MailContext, command: Command, topics: dict[str, str], changes: dict[str, str]
) -> str:
    """Add what a command of a sign-up asks for to the topics or the schedule; return a remark, or "".

    Raises UsageError, and adds nothing, if the command is invalid.
    """
    if command.kind in {Subscribe, AddTopic} and command.argument:
        name, text = command_arguments.parse_topic(command.argument)
        subscriber_topics.check_topics({**topics, name: text}, FilterRegistry(context.session))
        topics[name] = text
        return paper_commands.matches_in_words(context, text)
    if command.kind is ChangeSchedule:
        asked = command_arguments.parse_schedule(command.argument) or {}
        changes |= {name: reader_settings.check_text(name, text) for name, text in asked.items()}
        return ""
    if command.kind in {Subscribe, Help, Confirm}:
        return ""
    return "Not done: confirm first, then send this again."
