"""Run the commands that readers send by mail, and queue the reply.

The From line of a message can be forged. A reply therefore goes only to the address in the From line. A reply
to a pause or unsubscribe has a link to undo it. Lasting changes are only filled in on the settings page,
where the reader saves them, unless two facts prove that the reader sent the message: it was sent to the reply
address of one of the reader's letters, and DKIM, SPF or DMARC confirms its From line. Then the changes take
effect at once, and the reply has the link that undoes them.

Each command is applied whole or not at all, and the reply accounts for every line: what was done, what could
not be read, and what was left unread. If a line only begins like a command, the reply asks what the writer meant.

Automatic mail is never answered (RFC 3834), and no address is answered more than twelve times a day. Like every
letter, a reply has a signed envelope sender (links.bounce_address), and mail to that address is never answered.
RFC 3834 (3.3) allows such a sender instead of an empty return path. With an empty return path, invalid
addresses would go unnoticed, some servers would treat the reply as a report, and SPF would be checked against a
name other than ours.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from urllib.parse import urlencode

from digest.bounces import suppressions
from digest.db.tables.subscribers import Subscriber
from digest.errors import NotFound, UsageError
from digest.inbound import (
    answer_limits,
    answered_letter,
    mail_commands,
    mail_without_command,
    paper_commands,
    reader_commands,
    sign_up_requests,
    writer_checks,
)
from digest.inbound.mail_commands import Command, DropTopic, MailCommand, PauseDigests, Unsubscribe
from digest.inbound.mail_rules import MailContext
from digest.inbound.mail_without_command import RECEIVING_STATES
from digest.inbound.reader_request import (
    CommandMail,
    CommandReply,
    MailOutcome,
    ReaderRequest,
    error_text,
    outcome_of,
    topics_of,
)
from digest.inbound.writer_checks import MailIgnored
from digest.subscribers import still_reading, undo_changes, unsubscribe_and_undo

ADDRESS = re.compile(r"\S+@\S+")  #: which a reader may name in `unsubscribe ada@uni.example`


def run_commands(context: MailContext, mail: CommandMail) -> MailOutcome:
    """Run the commands of a message and queue the reply; raise MailIgnored if no command may be run."""
    email = writer_checks.address_of_writer(context.site, mail.message)
    subscriber = answered_letter.reader_of(context.session, email, mail.answered)
    reader = subscriber if subscriber is not None and subscriber.state in RECEIVING_STATES else None
    is_forged = writer_checks.is_forged(mail.message)
    if (is_forged or reader is None) and (outcome := send_leaving_link(context, mail)):
        return outcome
    if is_forged:
        raise MailIgnored("the mail is marked as forged")
    if (
        subscriber is not None
        and mail.leaves
        and unsubscribe_and_undo.unsubscribe(context.session, context.site, subscriber, now=context.now)
    ):
        return MailOutcome(outcome=f"subscriber {subscriber.id} unsubscribed")
    asks_for_pause = any(command.kind is PauseDigests for command in mail.commands)
    is_clear = len(mail.unclear) < len(mail.commands)
    writer_checks.check_person(mail.message, may_be_automatic=is_clear)
    doubtful = [ADDRESS.sub("", one.line) for one in mail.unclear if one.kind is Unsubscribe]
    if any(map(writer_checks.LINK.search, doubtful)):  # `Stop paying too much: win.example`
        raise MailIgnored("the mail reads like an advertisement")
    if not (is_clear or asks_for_pause) and writer_checks.reads_as_automatic(mail.message):
        return mail_without_command.answer(context, mail)
    if reader is not None and not suppressions.is_suppressed(context.session, context.site, email):
        return reply_to_reader(context, reader, mail)
    answer = sign_up_requests.ask_to_subscribe if mail.is_sign_up else mail_without_command.answer_stranger
    return answer(context, mail, email, subscriber)


def send_leaving_link(context: MailContext, mail: CommandMail) -> MailOutcome | None:
    """Send the unsubscribe link to the reader of the answered letter, if another address asks to leave.

    The writer has the letter, but may have got it from its reader. Returns None for any other message.
    """
    reader = context.session.get(Subscriber, mail.answered.subscriber_id) if mail.answered else None
    leaving = next((command for command in mail.commands if command.kind is Unsubscribe), None)
    if reader is None or reader.state not in RECEIVING_STATES or leaving is None:
        return None
    said = "Somebody replied to one of your letters, but not provably from your address."
    decision = {
        "outcomes": [outcome_of(leaving, f"{said} {Unsubscribe.doubt}")],
        "asks_to_unsubscribe": True,
    }
    answer_limits.queue_answer(context, mail, reader, "reply", decision, once=["leaving link"])
    return MailOutcome(outcome=f"sent subscriber {reader.id} the unsubscribe link, for another address asked")


def reply_to_reader(context: MailContext, subscriber: Subscriber, mail: CommandMail) -> MailOutcome:
    """Run a reader's commands and queue the reply."""
    # A group's owner writes from another address, so the message was not recorded as the group's activity.
    if subscriber.is_group:
        still_reading.note_activity(context.session, subscriber, now=context.now)
    own_letter = mail.answered if mail.answers_letter_of(subscriber) else None
    reply = CommandReply(is_trusted=mail.is_confirmation or bool(mail.proof and own_letter))
    request = ReaderRequest(
        session=context.session,
        site=context.site,
        rules=context.rules,
        now=context.now,
        subscriber=subscriber,
        answered=own_letter,
        reply=reply,
        listed=list(topics_of(context.session, subscriber)),
    )
    change_id = run_all(request, mail.commands)
    answered = writer_checks.answered_mail(mail.message)
    if reply.wants_help:
        help_letter = {**reader_commands.help_values(), **answered}
        answer_limits.queue_answer(context, mail, subscriber, "help", help_letter)
    if reply.outcomes or (mail.is_confirmation and mail.unread):
        decision = {
            "outcomes": reply.outcomes,
            "unread": mail.quoted_unread(is_proven=reply.is_trusted),
            "prefilled": urlencode(reply.prefilled),
            "is_changed": change_id is not None,
            "change_id": change_id or "",
            "links": reply.links,
            "papers": list(own_letter.papers) if own_letter else [],
            "asks_to_unsubscribe": reply.asks_to_unsubscribe,
            "state": reader_commands.state_sentences(request),
            **answered,
        }
        lines = [command.line for command in mail.unclear]
        answer_limits.queue_answer(context, mail, subscriber, "reply", decision, once=lines)
    kinds = ", ".join(command.kind.words[0] for command in mail.commands) or "no command"
    if mail.unclear:
        return MailOutcome(
            outcome=f"asked subscriber {subscriber.id} what they meant: {kinds}", needs_human=True
        )
    at_once = ", at once" if change_id else ""
    return MailOutcome(outcome=f"ran for subscriber {subscriber.id}{at_once}: {kinds}")


def run_all(request: ReaderRequest, commands: Sequence[Command]) -> int | None:
    """Run a reader's commands and record the change; return its id, or None if there is none to undo."""
    session, subscriber, reply = request.session, request.subscriber, request.reply
    before = undo_changes.settings_of(session, subscriber)
    for command in commands:
        if result := run_command(request, command):
            reply.outcomes.append(outcome_of(command, result, is_proven=reply.is_trusted))
    if reply.has_undone:
        return None
    return undo_changes.record_change(session, subscriber, before, now=request.now)


def run_command(request: ReaderRequest, command: Command) -> str:
    """Run a command whole or not at all; return its result, or "" if another letter answers it."""
    if not command.is_clear:
        request.reply.asks_to_unsubscribe |= command.kind in {Unsubscribe, DropTopic}
        return command.doubt
    try:
        with request.session.begin_nested():
            return HANDLERS[command.kind](request, command)
    except (UsageError, NotFound) as error:
        return error_text(error)


HANDLERS: Mapping[type[MailCommand], Callable[[ReaderRequest, Command], str]] = MappingProxyType(
    {
        mail_commands.MyData: reader_commands.mail_account_link,
        mail_commands.AddTopic: reader_commands.add_topic,
        mail_commands.Confirm: reader_commands.answer_yes,
        mail_commands.DropTopic: reader_commands.drop_topic,
        mail_commands.Help: reader_commands.explain_command,
        mail_commands.FewerLikeThis: paper_commands.run_for_papers,
        mail_commands.MoreLikeThis: paper_commands.run_for_papers,
        mail_commands.PauseDigests: reader_commands.pause_digests,
        mail_commands.ResumeDigests: reader_commands.resume_digests,
        mail_commands.KeepPaper: paper_commands.run_for_papers,
        mail_commands.ChangeSchedule: reader_commands.change_schedule,
        mail_commands.Subscribe: reader_commands.add_topic,
        mail_commands.TryFilter: paper_commands.test_filter,
        mail_commands.ShowTopics: reader_commands.list_topics,
        mail_commands.UndoChange: reader_commands.undo_change,
        mail_commands.ExplainPaper: paper_commands.run_for_papers,
    }
)
