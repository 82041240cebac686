"""Commands by mail take effect, are confirmed only to the owner of the address, and are never obeyed if forged."""

from __future__ import annotations

import re
import smtplib
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import date, datetime, timedelta
from email import policy
from email.message import EmailMessage
from pathlib import Path

import pytest
from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from digest import db
from digest.app_context import AppContext
from digest.bounces import suppressions
from digest.bounces.suppressions import SuppressionReason
from digest.db.tables.deliveries import Delivery
from digest.db.tables.inbound_mail import MailState
from digest.db.tables.subscribers import Subscriber, SubscriberState
from digest.inbound import classification, command_arguments, find_commands, stored_mail
from digest.inbound.mail_commands import (
    COMMON_KINDS,
    OTHER_KINDS,
    AddTopic,
    Help,
    MailCommand,
    PauseDigests,
    ResumeDigests,
    Subscribe,
    Unsubscribe,
)
from digest.inbound.mail_rules import MailRules
from digest.inbound.mail_text import read_mail
from digest.letters.letter_rendering import render_letter
from digest.letters.templates import Templates
from digest.settings import load_settings
from digest.site import links
from digest.site.site_profile import Site
from digest.subscribers import confirmations, sign_up_queue, subscriber_rows, subscriber_topics
from tests.inbound.test_classification import opened
from tests.support.delivered_mail import deliver_due
from tests.support.growth import assert_proportional
from tests.support.real_servers import free_port
from tests.support.sample_mails import wire
from tests.support.waiting import HANG_SECONDS

ADA = "ada@uni.example"
US = "digest@example.org"
TODAY = date(2026, 11, 20)


def written(body: str = "", *, subject: str = "", sender: str = f"Ada <{ADA}>", **more: str) -> bytes:
    """Return a mail as a person writes it."""
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = sender, US, subject
    mail["Message-ID"] = "<question@uni.example>"
    for name, value in more.items():
        mail[name.replace("_", "-")] = value
    mail.set_content(body)
    return mail.as_bytes(policy=policy.SMTP)


# ── what a mail asks ────────────────────────────────────────────────────────────────────────────


def asked(content: bytes) -> list[tuple[type[MailCommand], str]]:
    return [
        (command.kind, command.argument)
        for command in find_commands.read_commands(read_mail(content)).commands
    ]


def test_a_command_is_the_subject_or_the_first_lines_of_the_body() -> None:
    assert asked(written(subject="Unsubscribe")) == [(Unsubscribe, "")]
    assert asked(written("pause 2 weeks\nhelp\n")) == [(PauseDigests, "2 weeks"), (Help, "")]
    assert asked(written("add flows: flow matching", subject="SUBSCRIBE Ada Ito")) == [
        (Subscribe, ""),
        (AddTopic, "flows: flow matching"),
    ]


def test_signatures_and_quotations_are_ignored() -> None:
    for below in (
        "Ada Ito\nUniversity of Example",
        "-- \nhelp",
        "> help\n> leave",
        "On Fri, 20 Nov 2026 at 08:00, Example Digest <digest@example.org> wrote:\nleave",
        "-----Original Message-----\nleave",
        "On 16 Nov 2026, at 12:47, Example\nDigest\n<digest@example.org> wrote:\nleave",
        "On Fri, 20 Nov 2026 09:00:00 +0100 Digest <digest@example.org> wrote\nleave",
        "---- On Fri, 20 Nov 2026 09:00:00 +0100 digest@example.org wrote ----\nleave",
        "пт, 20 нояб. 2026 г. в 09:00, Digest <digest@example.org>:\nleave",
        '20.11.2026 09:00 пользователь "Digest" <\ndigest@example.org> написал:\nleave',
        "tor. 20. nov. 2026 kl. 09:00 skrev Digest <digest@example.org\n<mailto:digest@example.org>>:\nleave",
        "2026年11月20日(金) 9:00 Digest <digest@example.org>:\nleave",
        "From: Example Digest\n<digest@example.org>\nleave",
        "De : Example Digest\nEnvoyé : vendredi\nleave",
        "Message du : 20/11/2026 09:00\nleave",
        "Envoyé à partir de Outlook pour iOS\nleave",
        "end\nleave",
    ):
        answer = written(f"resume\n\n{below}", subject="Re: Pause makes perfect, and 4 more")

        assert asked(answer) == [(ResumeDigests, "")], below


def test_a_mail_made_to_be_slow_to_parse_is_read_only_in_part() -> None:
    def read(size: int) -> None:
        endless = b"From: a@x\r\nContent-Type: text/plain; " + b"a=b; " * size + b"\r\n\r\nhelp"
        assert asked(endless) == []
        assert asked(written("help\n" + "> quoted\n" * size)) == [(Help, "")]

    assert_proportional(read, 200_000)


def test_a_mail_with_only_html_is_read() -> None:
    mail = EmailMessage()
    mail["From"], mail["Subject"] = ADA, "Re: papers"
    mail.set_content(
        "<style>p{}</style><div>pause&nbsp;until 6 January</div><br>Ada<blockquote>help</blockquote>",
        subtype="html",
    )

    assert asked(mail.as_bytes(policy=policy.SMTP)) == [(PauseDigests, "until 6 january")]


def test_prose_is_not_a_command() -> None:
    for said in (
        "Lovely digest today!",
        "Help yourself to a discount",
        "Topics of the month, and how to sell them",
        "Stop " + "paying too much for what you could have " * 3,
        "subscribe to our newsletter and be the first to hear of everything that we sell",
        "add",
        "",
    ):
        assert asked(written(said, subject=said)) == [], said


def test_a_mail_without_any_text_has_the_command_of_its_subject() -> None:
    content = (
        b"From: Ada <ada@uni.example>\r\nSubject: pause 2 weeks\r\nContent-Type: image/png\r\n\r\n\x89PNG"
    )

    assert asked(content) == [(PauseDigests, "2 weeks")]


def test_commands_above_the_limit_are_left_unread() -> None:
    read = find_commands.read_commands(read_mail(written("".join(f"drop {n}\n" for n in range(30)))))

    assert (len(read.commands), len(read.unread)) == (find_commands.MAX_COMMANDS, 10)
    assert len(asked(written("help\n" * 50))) == 1


PAUSES = [
    ("", date(2026, 11, 27)),
    ("2 weeks", date(2026, 12, 4)),
    ("for a month.", date(2026, 12, 20)),
    ("10d", date(2026, 11, 30)),
    ("until 2027-02-01", date(2027, 2, 1)),
    ("until 6 January", date(2027, 1, 6)),
    ("until 31 Feb", None),
    ("until 6 Smarch", None),
    ("until 6 jun", date(2027, 6, 6)),
    ("until January 6th", date(2027, 1, 6)),
    ("till the 6th of January", date(2027, 1, 6)),
    ("until Monday", date(2026, 11, 23)),
    ("until Wednesday, January 13", date(2027, 1, 13)),
    ("until Wed. the 13th", None),
    ("until Dec. 24", date(2026, 12, 24)),
    ("until 24 Dec. 2027", date(2027, 12, 24)),
    ("until fri", date(2026, 11, 27)),
    ("for ten days", date(2026, 11, 30)),
    ("for eleven days", date(2026, 12, 1)),
    ("for 3 wks", date(2026, 12, 11)),
    ("my digests for 2 weeks", date(2026, 12, 4)),
    ("until 6.1.", date(2027, 1, 6)),
    ("until 06.01.2027", date(2027, 1, 6)),
    ("until 13/1/2027", date(2027, 1, 13)),
    ("until 1/13/27", date(2027, 1, 13)),
    ("until 6 January 2027", date(2027, 1, 6)),
    ("until the end of the year", date(2027, 1, 1)),
    ("until the end of November", date(2026, 12, 1)),
    ("until next week", date(2026, 11, 23)),
    ("until the end of next week", date(2026, 11, 30)),
    ("until the end of next month", date(2027, 1, 1)),
    ("until week 50", None),
    ("until January", date(2027, 1, 1)),
    ("until further notice", command_arguments.NO_END),
    ("until 2026-99-99", None),
    ("for thought", None),
]


def test_pauses_are_understood_in_everyday_words() -> None:
    for rest, until in PAUSES:
        assert command_arguments.parse_pause(rest, TODAY) == until, rest


SCHEDULES = [
    ("weekly fri", {"cadence": "weekly-fri"}),
    ("weekly on Friday at 8:00", {"cadence": "weekly-friday", "at": "8:00"}),
    ("weekdays at 07:30 Europe/Oslo", {"cadence": "weekdays", "at": "07:30", "timezone": "Europe/Oslo"}),
    ("at 9:00", {"at": "9:00"}),
    ("at 9am", {"at": "9:00"}),
    ("at 9", {"at": "9:00"}),
    ("daily 9 p.m.", {"cadence": "daily", "at": "21:00"}),
    ("at 12 am", {"at": "0:00"}),
    ("at 13pm", {"at": "24:00"}),  # no such hour, as the reply says
    ("8:00", {"at": "8:00"}),
    ("at 7.30", {"at": "7:30"}),
    ("at 18h", {"at": "18:00"}),
    ("fri", {"cadence": "weekly-fri"}),
    (
        "on Fridays, 9am, Europe/Oslo",
        {"cadence": "weekly-friday", "at": "9:00", "timezone": "Europe/Oslo"},
    ),
    ("weekly-fri", {"cadence": "weekly-fri"}),
    ("Europe/Oslo", {"timezone": "Europe/Oslo"}),
    ("europe/oslo", {"timezone": "Europe/Oslo"}),
    ("timezone Oslo", {"timezone": "Europe/Oslo"}),
    ("at 8:00 Europe/Olso", {"at": "8:00", "timezone": "Europe/Olso"}),  # the reply suggests a name
    ("daily fri", None),
    ("at 8:00 9:00", None),
    ("8", None),
    ("and/or", None),
    ("at noon", {"at": "12:00"}),
    ("9.30 please", {"at": "9:30"}),
    ("change time to 07:15 America/New_York", {"at": "07:15", "timezone": "America/New_York"}),
    ("mon-fri at 6", {"cadence": "weekdays", "at": "6:00"}),
    ("send my digest at 7:30 New York", {"at": "7:30", "timezone": "America/New_York"}),
    ("at 7:30 PST", {"at": "7:30", "timezone": "America/Los_Angeles"}),
    ("at 7:30 EST", {"at": "7:30", "timezone": "EST"}),  # asked: New York, or UTC-5 all year
    ("every day at 7", {"cadence": "daily", "at": "7:00"}),
    ("every Friday", {"cadence": "weekly-friday"}),
    ("once a week", {"cadence": "weekly"}),
    ("day", None),
    ("Ada", None),
    ("at", None),
]


def test_times_are_understood_in_everyday_words() -> None:
    for line, schedule in SCHEDULES:
        assert command_arguments.parse_schedule(line) == schedule, line


# ── what is done ────────────────────────────────────────────────────────────────────────────────


Receive = Callable[..., str]


@pytest.fixture
def receive(session: Session, site: Site, now: datetime) -> Receive:
    """Return a function that stores and processes a mail and returns the outcome."""

    def arrived(
        content: bytes,
        *,
        sender: str = ADA,
        to: str = US,
        open_to: frozenset[str] | None = None,
        at: datetime = now,
    ) -> str:
        (number,) = stored_mail.store_mail(session, sender=sender, recipients=[to], content=content, now=at)
        rules = MailRules(may_sign_up=open_to)
        return classification.process_mail(session, site=site, number=number, rules=rules, now=at)

    return arrived


DeliverMail = Callable[..., list[EmailMessage]]


@pytest.fixture
def deliver_mail(session: Session, site: Site, templates: Templates, now: datetime) -> DeliverMail:
    """Return a function that delivers what is due and returns the messages."""

    def delivered(*, at: datetime = now) -> list[EmailMessage]:
        sign_up_queue.send_confirmations(session, site, at)
        return deliver_due(session, site=site, templates=templates, now=at)

    return delivered


def text_of(mail: EmailMessage) -> str:
    body = mail.get_body(("plain",))
    assert body is not None
    return str(body.get_content()).replace("\r\n", "\n")


def waiting(session: Session) -> list[str]:
    return list(session.scalars(select(Delivery.letter).order_by(Delivery.id)))


def test_unsubscribing_by_mail_works_at_once_and_can_be_undone(
    receive: Receive, deliver_mail: DeliverMail, session: Session, ada: Subscriber
) -> None:
    receive(written("unsubscribe me, please", subject="Re: Flow matching, and 4 more"))

    session.refresh(ada)
    assert ada.state == SubscriberState.UNSUBSCRIBED
    (goodbye,) = deliver_mail()
    assert (goodbye["To"], goodbye["Subject"]) == (ADA, "You are unsubscribed")


def test_a_sentence_that_begins_like_a_command_changes_nothing_and_is_questioned(
    receive: Receive, deliver_mail: DeliverMail, session: Session, site: Site, ada: Subscriber
) -> None:
    outcome = receive(written("Stop by my office at noon\n", subject="The figures"))

    assert outcome == f"asked subscriber {ada.id} what they meant: unsubscribe"
    session.refresh(ada)
    assert ada.state == SubscriberState.ACTIVE
    (answer,) = deliver_mail()
    assert (answer["To"], answer["Subject"]) == (ADA, "Re: The figures")
    assert "> Stop by my office at noon\nDo you want to unsubscribe? Then use the link below." in text_of(
        answer
    )
    assert f"Unsubscribe:\n{links.unsubscribe_url(site, ada.id, 0)}\n" in text_of(answer)
    (row,) = stored_mail.list_mails(session)
    assert (row.state, row.reason) == (MailState.SHUNTED, outcome)  # it may be for a person


def test_the_same_unclear_words_are_questioned_once_a_day(
    receive: Receive, deliver_mail: DeliverMail, now: datetime, ada: Subscriber
) -> None:
    """Without the limit, an unmarked auto-responder would cause an endless loop."""
    robot = written("Thank you for your mail.", subject="Stop! This mailbox is closed")

    outcomes = [receive(robot, at=now + timedelta(hours=hour)) for hour in range(3)]

    assert outcomes[1:] == ["shunted: its writer was already answered on the same words"] * 2
    assert len(deliver_mail(at=now + timedelta(hours=3))) == 1


@pytest.mark.parametrize(
    "content",
    [
        written("Pause for thought: is table 2 right?\n"),
        written("Pause\n\nthe experiment on Friday, please, the laser is being repaired.\n"),
        written(subject="Pause until the paper is out?"),
    ],
)
def test_ordinary_mail_pauses_nobody(
    content: bytes, receive: Receive, session: Session, ada: Subscriber
) -> None:
    receive(content)

    session.refresh(ada)
    assert ada.state == SubscriberState.ACTIVE
    assert waiting(session) == ["reply"]


def test_a_mail_with_a_curriculum_vitae_does_not_resume_digests(
    receive: Receive, session: Session, ada: Subscriber
) -> None:
    receive(written("pause 2 weeks"))

    receive(written("Please find my resume attached; I am looking for a position.", subject="Resume"))

    session.refresh(ada)
    assert ada.state == SubscriberState.PAUSED


@pytest.mark.parametrize(
    "thanks", ["pause 2 weeks, please", "Please pause 2 weeks", "pause for two weeks. Thanks!"]
)
def test_a_polite_pause_is_a_pause(thanks: str, receive: Receive, session: Session, ada: Subscriber) -> None:
    receive(written(thanks))

    session.refresh(ada)
    assert (ada.state, ada.paused_until) == (SubscriberState.PAUSED, date(2026, 12, 4))


@pytest.mark.parametrize(
    "said",
    [
        "Add me to the authors of the paper",
        "Delete the old figures before Friday, please",
        "Join us tonight",
        "Subscribe Now!",
        "subscribe to win a car today",
        "List of participants",
        "Show me the data",
        "Help needed",
    ],
)
def test_a_sentence_that_begins_like_another_command_is_no_command(
    said: str, receive: Receive, session: Session, ada: Subscriber
) -> None:
    for sender in (ADA, "bob@else.example"):
        receive(written(said, subject=said, sender=sender))

    assert waiting(session) == ["no_command", "how_to_subscribe"]


def test_spam_makes_nobody_a_subscriber(receive: Receive, session: Session) -> None:
    receive(written(subject="subscribe", sender="bob@else.example", X_Spam_Flag="YES"))
    forged = "mx.example.org; spf=fail; dmarc=fail header.from=else.example"
    receive(written(subject="subscribe", sender="bob@else.example", Authentication_Results=forged))

    assert waiting(session) == []


def test_pause_and_resume_are_applied_and_answered_in_the_same_thread(
    receive: Receive, deliver_mail: DeliverMail, session: Session, ada: Subscriber
) -> None:
    receive(written("pause until 6 January", subject="Re: papers"))

    session.refresh(ada)
    assert (ada.state, ada.paused_until) == (SubscriberState.PAUSED, date(2027, 1, 6))
    (answer,) = deliver_mail()
    assert (answer["To"], answer["Subject"]) == (ADA, "Re: papers")
    assert (answer["In-Reply-To"], answer["Auto-Submitted"]) == ("<question@uni.example>", "auto-replied")
    assert "> pause until 6 January\nPaused until 6 January 2027." in text_of(answer)

    receive(written("resume"))
    session.refresh(ada)
    assert ada.state == SubscriberState.ACTIVE


def test_lasting_changes_wait_on_a_page_mailed_to_the_owner_only(
    receive: Receive, deliver_mail: DeliverMail, session: Session, site: Site, ada: Subscriber
) -> None:
    receive(written('add robots: robot* & "cup"\ndrop FLOWS\nweekly fri at 8:00\n'))

    assert [topic.name for topic in subscriber_topics.topics_of(session, ada)] == ["Flows"]
    (answer,) = deliver_mail()
    assert answer["To"] == ADA
    link = f"{links.manage_url(site, ada.id, 0)}?name=robots&filter=robot%2A+%26+%22cup%22&drop=Flows&cadence=weekly-fri&at=8%3A00"
    assert f"Check and save:\n{link}\n" in text_of(answer)
    assert "Not you? Do nothing." in text_of(answer)


def test_a_mistake_in_a_filter_is_reported_with_its_position(
    receive: Receive, deliver_mail: DeliverMail, ada: Subscriber
) -> None:
    receive(written("add flows: (flow OR\ndrop robots\nat dawn\npause for thought\n"))

    said = text_of(*deliver_mail())

    assert "In (flow OR: Column 7: Add a word after OR." in said
    assert "You have no topic of that name. Yours are: Flows" in said
    assert said.count("Not understood. Write: ") == 2


def test_help_names_only_commands_that_work(
    receive: Receive, deliver_mail: DeliverMail, ada: Subscriber
) -> None:
    receive(written(subject="help"))

    listed, _more, _words = text_of(*deliver_mail()).partition("More commands")
    flush = [line for line in listed.splitlines() if not line.startswith(" ")]
    lines = [line for line in flush if (command := find_commands.parse_command(line)) and command.is_clear]

    assert len(lines) == len(COMMON_KINDS) == 8
    assert all(command_arguments.parse_schedule(line) for line in lines if line.startswith("weekly"))


@pytest.mark.parametrize("kind", OTHER_KINDS)
def test_help_names_the_other_commands_and_explains_each_on_request(
    kind: type[MailCommand], receive: Receive, deliver_mail: DeliverMail, ada: Subscriber
) -> None:
    receive(written(subject="help"))
    receive(written(f"help {kind.words[0]}"))

    whole, explained = (" ".join(text_of(mail).split()) for mail in deliver_mail())

    assert re.search(rf"More commands: [\w, ]*\b{kind.words[0]}\b", whole)
    assert f"Write: {kind.usage}. {kind.effect}" in explained.replace("\u2060", "")  # no address is a link


def test_a_reader_in_the_senders_domain_is_answered(
    receive: Receive, session: Session, now: datetime
) -> None:
    subscriber_rows.add(session, "eve@example.org", state=SubscriberState.ACTIVE, consent="a test", now=now)

    receive(written(subject="help", sender="eve@example.org"), sender="eve@example.org")

    assert waiting(session) == ["help"]


@pytest.mark.parametrize("word", ["topics", "subscribe"])
def test_the_settings_link_is_mailed_to_its_owner(
    word: str, receive: Receive, deliver_mail: DeliverMail, site: Site, ada: Subscriber
) -> None:
    receive(written(subject=word))

    (letter,) = deliver_mail()
    assert letter["To"] == ADA
    assert links.manage_url(site, ada.id, 0) in text_of(letter)


# ── strangers ───────────────────────────────────────────────────────────────────────────────────


def test_a_stranger_who_subscribes_by_mail_gets_one_confirmation(
    receive: Receive, deliver_mail: DeliverMail, session: Session, site: Site, now: datetime
) -> None:
    for _ in range(3):
        receive(written("add robots: robot*", subject="subscribe Bob", sender="bob@else.example"))

    (question,) = deliver_mail()
    assert (question["To"], question["Subject"]) == ("bob@else.example", "Confirm your subscription")
    bob = confirmations.confirm(session, site, links.confirm_url(site, 1).rpartition("/")[2], now)
    assert bob is not None
    assert [topic.name for topic in subscriber_topics.topics_of(session, bob)] == ["robots"]


def test_a_flood_of_sign_ups_by_mail_causes_few_letters(
    receive: Receive, session: Session, site: Site, now: datetime
) -> None:
    for number in range(400):
        receive(written(subject="subscribe", sender=f"bob-{number}@else.example"))

    sent = [
        sign_up_queue.send_confirmations(session, site, now + timedelta(minutes=minute))
        for minute in range(60)
    ]

    assert sum(sent) == sent[0] == 10


def test_a_reader_suppressed_for_bounces_can_subscribe_again_by_mail(
    receive: Receive, deliver_mail: DeliverMail, session: Session, site: Site, ada: Subscriber, now: datetime
) -> None:
    suppressions.suppress(session, site, ADA, SuppressionReason.BOUNCE, "", now)

    receive(written(subject="subscribe"))

    (question,) = deliver_mail()
    assert (question["To"], question["Subject"]) == (ADA, "Confirm your subscription")


def test_a_closed_site_says_that_it_accepts_no_sign_up(
    receive: Receive, deliver_mail: DeliverMail, session: Session
) -> None:
    receive(written(subject="subscribe", sender="bob@else.example"), open_to=frozenset({"uni.example"}))

    (answer,) = deliver_mail()
    assert "Nothing has changed." in text_of(answer)
    assert subscriber_rows.find(session, "bob@else.example") is None


@pytest.mark.parametrize(
    "said",
    ["help", "leave", "pause", "topics", "add robots", "Could you please subscribe me to your papers?"],
)
def test_a_stranger_is_sent_how_to_subscribe_once_a_day(
    said: str, receive: Receive, deliver_mail: DeliverMail, session: Session, now: datetime
) -> None:
    mail = written(subject=said, sender="bob@else.example")

    outcomes = [receive(mail, at=now + timedelta(hours=hour)) for hour in range(3)]

    assert outcomes == [
        "the writer gets no digests and was sent instructions to subscribe",
        *["shunted: its writer was already answered on the same words"] * 2,
    ]
    (answer,) = deliver_mail()
    assert (answer["To"], answer["In-Reply-To"]) == ("bob@else.example", "<question@uni.example>")
    assert answer["Auto-Submitted"] == "auto-replied"
    assert "subscribe flows: flow matching" in text_of(answer)
    assert "Reply-To" not in answer
    receive(mail, at=now + timedelta(days=1))
    assert waiting(session) == ["how_to_subscribe"] * 2


# ── machines ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "header",
    [
        {"Auto_Submitted": "auto-replied"},
        {"Precedence": "bulk"},
        {"List_Id": "<papers.example.org>"},
        {"List_Unsubscribe": "<mailto:out@news.example>"},
        {"list_post": "NO"},
        {"X_Auto_Response_Suppress": "All"},
    ],
)
def test_commands_in_automatic_mail_are_ignored(
    header: dict[str, str], receive: Receive, session: Session, ada: Subscriber
) -> None:
    receive(written(subject="leave", **header))

    session.refresh(ada)
    assert (ada.state, waiting(session)) == (SubscriberState.ACTIVE, [])


@pytest.mark.parametrize(
    ("sender", "envelope"),
    [
        (ADA, ""),
        (f"Digest <{US}>", US),
        ("MAILER-DAEMON@uni.example", "x@uni.example"),
        ("no-reply@uni.example", "x@uni.example"),
        ("papers-request@uni.example", "x@uni.example"),
        (f"{ADA}, bob@else.example", ADA),
        ("undisclosed", ADA),
    ],
)
def test_no_reply_goes_to_unattended_addresses(
    sender: str, envelope: str, receive: Receive, session: Session, ada: Subscriber
) -> None:
    assert receive(written("subscribe\nhelp", sender=sender), sender=envelope).startswith("shunted")
    assert waiting(session) == []


def test_a_bounced_reply_gets_no_reply(
    receive: Receive, deliver_mail: DeliverMail, session: Session, site: Site, ada: Subscriber
) -> None:
    receive(written(subject="help"))
    deliver_mail()
    (number,) = session.scalars(select(Delivery.id))

    for _ in range(3):
        receive(written(subject="help"), to=links.bounce_address(site, number))

    assert waiting(session) == ["help"]


def test_twelve_mails_a_day_are_answered_and_later_ones_kept_for_a_person(
    receive: Receive, deliver_mail: DeliverMail, now: datetime, ada: Subscriber
) -> None:
    """Each mail differs, so only the total for an address limits the answers."""
    outcomes = [receive(written(f"drop {number}"), at=now + timedelta(hours=number)) for number in range(12)]

    assert not any(outcome.startswith("shunted") for outcome in outcomes)
    assert len(deliver_mail(at=now + timedelta(hours=12))) == 12
    late = receive(written("resume"), at=now + timedelta(hours=13))
    assert late == "shunted: its writer got 12 answers today"
    later = now + timedelta(hours=25)
    assert not receive(written("help"), at=later).startswith("shunted")
    assert len(deliver_mail(at=later)) == 1


@pytest.mark.parametrize(
    "bait",
    [
        "https://win.example/",
        "win.example",
        "call +47 555 01 234",
        "write to x@win.example",
        "\\\\win\\share",
    ],
)
def test_a_reply_does_not_repeat_advertisements(
    bait: str, receive: Receive, deliver_mail: DeliverMail, ada: Subscriber
) -> None:
    """A forged From line could otherwise make us send it."""
    asked = f"add {bait}\nadd (({bait}\nat {bait}\npause {bait}\ndrop {bait}"

    receive(written(asked, subject=f"Re: {bait}"))

    (answer,) = deliver_mail()
    said = re.sub(r"https://digest\.example\.org/m/\S+", "", text_of(answer))  # it waits on their own page
    assert bait not in said + str(answer["Subject"])
    assert "…" in said


@pytest.mark.parametrize(
    "subject",
    ["=?utf-8?q?help=0ABcc:_x@y.z?=", "help\u202e", "he\0lp", "add " + "(" * 1900, "pause 999 months"],
)
def test_hostile_mail_is_processed_safely(
    subject: str, receive: Receive, deliver_mail: DeliverMail, ada: Subscriber
) -> None:
    raw = written("add <script>: {{ 7*7 }}\nlist\n").replace(
        b"Subject: \r\n", f"Subject: {subject}\r\n".encode()
    )

    receive(raw)

    for mail in deliver_mail():
        assert "Bcc" not in mail
        assert "49" not in text_of(mail)


# ── through the door ────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def lmtp(engine: Engine, site: Site, now: datetime, tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "lmtp.sock"
    settings = load_settings(
        {
            "data_dir": tmp_path,
            "inbound": f"smtp://127.0.0.1:{free_port()}, lmtp://{path}",
            "inbound_domain": "example.org",
        }
    )
    with opened(AppContext(settings=settings, engine=engine, site=site, clock=lambda: now)):
        yield path


def test_a_command_over_lmtp_is_applied_and_other_mail_kept_for_a_person(
    lmtp: Path, engine: Engine, ada: Subscriber, site: Site, now: datetime
) -> None:
    with smtplib.LMTP(str(lmtp), timeout=HANG_SECONDS) as client:
        client.sendmail(ADA, [US], written("pause 2 weeks"))
        client.sendmail("bob@else.example", [US], written(subject="subscribe", sender="bob@else.example"))
        client.sendmail(ADA, [US], wire("From: ada@uni.example\nSubject: Lovely\n\nThank you!\n"))

    with db.write_session(engine) as session:
        assert subscriber_rows.get(session, ADA).state == SubscriberState.PAUSED
        assert waiting(session) == ["reply", "no_command"]
        assert sign_up_queue.send_confirmations(session, site, now) == 1
        assert [(row.state, row.reason) for row in stored_mail.list_mails(session)] == [
            (MailState.SHUNTED, "it has no command; subscriber 1 was sent examples")
        ]


@pytest.mark.parametrize("elsewhere", ["", "bounce.example.org"])
def test_a_letter_invites_replies_only_if_mail_is_received(
    elsewhere: str, site: Site, templates: Templates
) -> None:
    values = {"manage_url": "https://x/m", "unsubscribe_url": "https://x/u", "until": "6 January"}

    here, there = (
        render_letter(templates, "paused", {**values, "site": one})
        for one in (site, replace(site, inbound_domain=elsewhere))
    )

    assert "Or reply with one word: help, pause, unsubscribe." in here.text
    assert "You can also reply with one word: help, pause, unsubscribe." in here.html
    assert "one word" not in there.text + there.html
    assert not classification.is_accepted_recipient(replace(site, inbound_domain=elsewhere), US)
