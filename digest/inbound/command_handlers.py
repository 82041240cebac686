"""Run the commands that readers send by mail, and queue the reply.

The From line of a message can be forged. A reply therefore goes only to the address in the From line. A reply
to a pause or unsubscribe has a link to undo it. Lasting changes are only filled in on the settings page,
where the reader saves them, unless two facts prove that the reader sent the message: it was sent to the reply
address of one of the reader's letters, and DKIM, SPF or DMARC confirms its From line. Then the changes take
effect at once, and the reply has the link that undoes them. A sentence that only begins like a command
changes nothing: the reply asks what the writer meant and has the settings link, and the message is stored for
the operator to read.

Automatic mail is never answered (RFC 3834), and no address is answered more than twelve times an hour or
forty times a day. Like every letter, a reply has a signed envelope sender (links.bounce_address), and mail to
that address is never answered. RFC 3834 (3.3) allows such a sender instead of an empty return path. With an
empty return path, invalid addresses would go unnoticed, some servers would treat the reply as a report, and
SPF would be checked against a name other than ours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from urllib.parse import urlencode

from sqlalchemy.orm import Session

from digest import bounces, subscribers
from digest.db.tables import Subscriber, SubscriberState
from digest.inbound import (
    answer_limits,
    answered_letter,
    mail_without_command,
    paper_commands,
    reader_commands,
    sign_up_requests,
    writer_checks,
)
from digest.inbound.mail_commands import Command, Verb
from digest.inbound.mail_rules import MailRules
from digest.inbound.mail_text import ReceivedMail
from digest.inbound.mail_without_command import MailOutcome
from digest.inbound.reader_request import CommandMail, CommandReply, ReaderRequest
from digest.inbound.writer_checks import MailIgnored
from digest.site_profile import Site

RECEIVING_STATES = frozenset({SubscriberState.ACTIVE, SubscriberState.PAUSED})


def run_commands(
    session: Session, site: Site, mail: CommandMail, rules: MailRules, *, now: datetime
) -> MailOutcome:
    """Run the commands of a message and queue the reply; raise MailIgnored if no command may be run."""
    email = writer_checks.address_of_writer(site, mail.message)
    subscriber = answered_letter.reader_of(session, email, mail.answered)
    asks_to_leave = any(one.verb is Verb.UNSUBSCRIBE and one.is_clear for one in mail.commands)
    if (
        subscriber is not None
        and asks_to_leave
        and subscribers.unsubscribe(session, site, subscriber, now=now)
    ):
        return MailOutcome(outcome=f"subscriber {subscriber.id} unsubscribed")
    if writer_checks.is_marked_as_spam(mail.message):
        raise MailIgnored("the mail is marked as spam or as forged")
    is_sign_up = mail.commands[0].verb is Verb.SUBSCRIBE
    if (mail.unclear or is_sign_up) and not is_from_person(mail.message, mail.unclear):
        raise MailIgnored("the mail reads like an automatic reply or spam")
    is_reader = subscriber is not None and subscriber.state in RECEIVING_STATES
    if mail.commands[0].verb is Verb.GROUP:
        writer_of_it = subscriber if is_reader else None
        return sign_up_requests.ask_group(session, site, email, writer_of_it, mail, rules=rules, now=now)
    is_suppressed = bounces.is_suppressed(session, site, email)
    if subscriber is not None and is_reader and not is_suppressed:
        return reply_to_reader(session, site, subscriber, mail, rules, now)
    if is_sign_up:
        return MailOutcome(outcome=sign_up_requests.ask_to_subscribe(session, site, email, mail, rules, now))
    return mail_without_command.answer_stranger(
        session, site, mail.message, email, rules, is_command=True, now=now
    )


def is_from_person(message: ReceivedMail, unclear: Sequence[Command]) -> bool:
    """Return whether a person may have written the message, rather than a program or an advertiser."""
    if writer_checks.reads_as_automatic(message):
        return False
    return all(one.verb is not Verb.UNSUBSCRIBE or writer_checks.safe_quote(one.line) for one in unclear)


def reply_to_reader(
    session: Session,
    site: Site,
    subscriber: Subscriber,
    mail: CommandMail,
    rules: MailRules,
    now: datetime,
) -> MailOutcome:
    """Run a reader's commands and queue the reply."""
    # A group's owner writes from another address, so the message was not recorded as the group's activity.
    if subscriber.is_group:
        subscribers.note_activity(session, subscriber, now=now)
    reply = CommandReply(is_trusted=mail.is_trusted_from(subscriber))
    own_letter = mail.answered if mail.answers_letter_of(subscriber) else None
    request = ReaderRequest(
        session=session,
        site=site,
        rules=rules,
        subscriber=subscriber,
        answered=own_letter,
        reply=reply,
        now=now,
    )
    undo = run_all(request, mail.commands)
    answered = writer_checks.answered_mail(mail.message)
    if reply.outcomes:
        decision = {
            "outcomes": reply.outcomes,
            "prefilled": urlencode(reply.prefilled),
            "undo": urlencode(undo),
            "links": reply.links,
            "proposals": reply.proposals,
            "papers": list(own_letter.papers) if own_letter else [],
            "asks_to_unsubscribe": reply.asks_to_unsubscribe,
            "state": reader_commands.state_sentences(request),
            **answered,
        }
        answer_limits.queue_reply(
            session, site, subscriber, "reply", decision, now, once_a_day=lines_of(mail.unclear)
        )
    elif reply.wants_help:
        decision = {**reader_commands.help_values(), **answered}
        answer_limits.queue_reply(session, site, subscriber, "help", decision, now)
    verbs = ", ".join(command.verb for command in mail.commands)
    if mail.unclear:
        return MailOutcome(
            outcome=f"asked subscriber {subscriber.id} what they meant: {verbs}", needs_human=True
        )
    at_once = ", at once" if undo else ""
    return MailOutcome(outcome=f"ran for subscriber {subscriber.id}{at_once}: {verbs}")


def run_all(request: ReaderRequest, commands: Sequence[Command]) -> list[tuple[str, str]]:
    """Run a reader's commands and record the change; return the settings page values that undo it."""
    session, subscriber = request.session, request.subscriber
    before = reader_commands.settings_before(session, subscriber)
    recorded = subscribers.saved_settings(session, subscriber)
    for command in commands:
        HANDLERS[command.verb](request, command)
    if request.reply.has_undone:
        return []
    subscribers.record_change(session, subscriber, recorded, now=request.now)
    return reader_commands.undo_fields(before, reader_commands.settings_before(session, subscriber))


HANDLERS: Mapping[Verb, Callable[[ReaderRequest, Command], None]] = MappingProxyType(
    {
        Verb.ADD: reader_commands.add_topic,
        Verb.APPLY: paper_commands.apply_proposal,
        Verb.CONFIRM: reader_commands.answer_subscribed,
        Verb.DROP: reader_commands.drop_topic,
        Verb.EXPORT: reader_commands.mail_account_link,
        Verb.FORGET: reader_commands.mail_account_link,
        Verb.GROUP: reader_commands.refuse_group,
        Verb.HELP: reader_commands.explain_command,
        Verb.LESS: paper_commands.propose_change,
        Verb.MORE: paper_commands.propose_change,
        Verb.PAUSE: reader_commands.pause_digests,
        Verb.RESUME: reader_commands.resume_digests,
        Verb.SAVE: paper_commands.save_paper,
        Verb.SCHEDULE: reader_commands.change_schedule,
        Verb.SUBSCRIBE: reader_commands.answer_subscribed,
        Verb.TEST: paper_commands.test_filter,
        Verb.TOPICS: reader_commands.list_topics,
        Verb.UNDO: reader_commands.undo_change,
        Verb.UNSUBSCRIBE: reader_commands.question_unsubscribe,
        Verb.WHY: paper_commands.explain_paper,
    }
)


def lines_of(commands: Sequence[Command]) -> Sequence[str]:
    """Return the lines in which these commands were written."""
    return [command.line for command in commands]
