"""A reply of yes to a confirmation confirms; an automatic reply never does."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from email.message import EmailMessage

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from digest.db.tables.deliveries import Delivery
from digest.db.tables.subscribers import Consent, Subscriber, SubscriberState
from digest.inbound import classification, stored_mail
from digest.inbound.mail_rules import MailRules
from digest.site.site_profile import Site
from digest.subscribers import confirmations, subscriber_rows, subscriber_topics
from digest.subscribers.reader_settings import ReaderSettings
from tests.inbound.conftest import Deliver
from tests.inbound.signed_replies import reply
from tests.inbound.test_mail_commands import text_of

BOB = "bob@else.example"
QUOTED = "\nOn Fri, 20 Nov 2026 at 08:00, Example Digest\n<digest@example.org> wrote:\n> Confirm:\n> yes\n"


@pytest.fixture
def question(session: Session, site: Site, deliver: Deliver, now: datetime) -> EmailMessage:
    """The letter that asks Bob to confirm."""
    requested = ReaderSettings(topics={"robots": "robot*"})
    confirmations.request_subscription(session, site, BOB, requested=requested, now=now)
    session.commit()
    (letter,) = deliver()
    return letter


Answer = Callable[..., str]


@pytest.fixture
def answer(session: Session, site: Site, question: EmailMessage, now: datetime) -> Answer:
    """Return a function that lets Bob reply to the question and returns the outcome."""

    def arrived(
        body: str,
        *,
        subject: str = "",
        sender: str = BOB,
        to: str = "",
        after: timedelta = timedelta(),
        **headers: str,
    ) -> str:
        to = to or str(question["Reply-To"])
        subject = subject or f"Re: {question['Subject']}"
        content = reply(to, body, sender=sender, subject=subject, **headers)
        (number,) = stored_mail.store_mail(
            session, sender=sender, recipients=[to], content=content, now=now + after
        )
        rules = MailRules(may_sign_up=None)
        return classification.process_mail(session, site=site, number=number, rules=rules, now=now + after)

    return arrived


def bob(session: Session) -> Subscriber:
    return subscriber_rows.get(session, BOB)


def test_only_a_reply_to_the_letter_closes_the_request(answer: Answer, session: Session) -> None:
    assert answer("no", to="digest@example.org").startswith(
        "asked subscriber"
    )  # anybody can write in Bob's name
    assert bob(session).state == SubscriberState.PENDING

    assert answer("no") == f"subscriber {bob(session).id} said no to the confirmation"
    assert bob(session).state == SubscriberState.UNSUBSCRIBED


def test_the_letter_says_that_a_reply_confirms(question: EmailMessage, site: Site) -> None:
    assert question["Reply-To"].startswith("digest-confirm+1.")
    assert "Or reply “yes” to this email." in text_of(question)
    assert classification.is_accepted_recipient(site, question["Reply-To"])
    assert not classification.is_accepted_recipient(site, question["Reply-To"].replace("+1.", "+2."))


@pytest.mark.parametrize(
    "body",
    [
        "yes",
        "Yes!",
        "ok",
        "OK, thanks.",
        "Confirm",
        "Yes, I confirm",
        "Hi,\n\nyes please\n\nBob",
        f"yes\n{QUOTED}",
        "okay\n\nSent from my phone",
        "ja",
        "Oui !",
        "sí, gracias",
        "да",
        "是的",
        "はい",
    ],
)
def test_a_reply_of_yes_confirms(body: str, answer: Answer, deliver: Deliver, session: Session) -> None:
    assert answer(body) == f"subscriber {bob(session).id} confirmed"

    assert bob(session).state == SubscriberState.ACTIVE
    assert [topic.name for topic in subscriber_topics.topics_of(session, bob(session))] == ["robots"]
    assert session.scalars(select(Consent.how)).one() == "confirmed by reply"
    (welcome,) = deliver()
    assert (welcome["To"], welcome["Reply-To"][:6]) == (BOB, "reply+")


def test_a_new_mail_with_yes_in_its_subject_alone_confirms(answer: Answer, session: Session) -> None:
    assert answer("", subject="yes") == f"subscriber {bob(session).id} confirmed"


@pytest.mark.parametrize(
    "body",
    [
        "",
        "yes?",
        "Who are you?",
        "yes, but I did not ask for this",
        f"Hello\n{QUOTED}",
        QUOTED,
        "confirm later",
        "👍",
        "yes\nI am out of the office until 6 January.",
        "I am on annual leave.",
    ],
)
def test_any_other_reply_is_answered_once_with_the_link(
    body: str, answer: Answer, deliver: Deliver, session: Session, site: Site
) -> None:
    outcomes = [answer(body), answer(body)]

    assert outcomes[0] == f"asked subscriber {bob(session).id} to confirm again"
    assert outcomes[1].startswith("shunted")
    assert bob(session).state == SubscriberState.PENDING
    (again,) = deliver()
    assert (again["In-Reply-To"], again["Auto-Submitted"]) == ("<reply@uni.example>", "auto-replied")
    assert "Your reply did not say yes, so nothing has changed yet." in text_of(again)
    assert "/c/" in text_of(again)


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        ("yes", {"Auto_Submitted": "auto-replied"}),
        ("ok", {"Precedence": "bulk"}),
        ("ok", {"X_Auto_Response_Suppress": "All"}),
    ],
)
def test_an_automatic_reply_neither_confirms_nor_is_answered(
    body: str, headers: dict[str, str], answer: Answer, deliver: Deliver, session: Session
) -> None:
    answer(body, **headers)

    assert bob(session).state == SubscriberState.PENDING
    assert deliver() == []


def test_a_bounce_of_the_question_confirms_nothing(
    question: EmailMessage, session: Session, site: Site, now: datetime
) -> None:
    to = str(question["Reply-To"])
    (number,) = stored_mail.store_mail(session, sender="", recipients=[to], content=reply(to, "yes"), now=now)

    classification.process_mail(session, site=site, number=number, now=now)

    assert bob(session).state == SubscriberState.PENDING


def test_a_refusal_unsubscribes_and_gets_no_answer(
    answer: Answer, deliver: Deliver, session: Session
) -> None:
    answer("unsubscribe")

    assert bob(session).state == SubscriberState.UNSUBSCRIBED
    assert deliver() == []


def test_a_second_yes_gets_the_settings_link(answer: Answer, deliver: Deliver, session: Session) -> None:
    answer("yes")
    deliver()

    assert answer("yes").endswith("had confirmed before")
    (letter,) = deliver()
    assert letter["Subject"] == "Your settings link"


def test_after_confirming_the_reply_address_takes_commands(
    answer: Answer, deliver: Deliver, session: Session
) -> None:
    answer("yes")
    deliver()

    answer("pause 2 weeks")

    assert bob(session).state == SubscriberState.PAUSED


def test_an_expired_confirmation_confirms_nothing_and_says_how_to_subscribe(
    answer: Answer, session: Session
) -> None:
    answer("yes", after=timedelta(hours=49))

    assert bob(session).state == SubscriberState.PENDING
    assert session.scalars(select(Delivery.letter).order_by(Delivery.id.desc())).first() == "how_to_subscribe"


def test_a_yes_to_the_sender_address_confirms_nothing(
    question: EmailMessage, session: Session, site: Site, now: datetime
) -> None:
    """Without the reply address, anybody could confirm in anybody's name."""
    mail = reply(site.sender_address, "yes", sender=BOB)
    (number,) = stored_mail.store_mail(
        session, sender=BOB, recipients=[site.sender_address], content=mail, now=now
    )

    classification.process_mail(session, site=site, number=number, now=now)

    assert bob(session).state == SubscriberState.PENDING
