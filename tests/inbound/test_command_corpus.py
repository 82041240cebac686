"""A hundred invented mails of readers, strangers and machines: each gets the answer that it must get."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from digest.db.tables.deliveries import Delivery
from digest.db.tables.subscribers import SignUp, SubscriberState
from digest.delivery import delivery_run
from digest.delivery.transports.memory import MemoryTransport
from digest.inbound import classification, stored_mail
from digest.inbound.mail_rules import MailRules
from digest.letters.templates import Templates
from digest.site.site_profile import Site
from digest.subscribers import subscriber_rows
from tests.inbound.command_corpus import (
    ALL,
    READER,
    STRANGER,
    MailCase,
)
from tests.inbound.conftest import empty, failing
from tests.inbound.mail_corpus import MUST_ACT, MUST_NOT
from tests.support.mail_bodies import body_of
from tests.support.shared_caches import CACHES

OPERATOR = "operator@else.example"


@dataclass(frozen=True)
class Arrived:
    """The result of a mail: the letters sent and their text, the queued sign-up, and the reader's state."""

    letters: list[str]
    text: str
    sign_up: str | None
    outcome: str


Arrive = Callable[..., Arrived]


@pytest.fixture
def arrive(session: Session, site: Site, templates: Templates, now: datetime) -> Arrive:
    """Return a function that processes a mail and delivers its answer; the site has one reader."""
    add_reader(session, now)

    def arrived(case: MailCase, *, operator: str = "", after: timedelta = timedelta()) -> Arrived:
        at = now + after
        inbound_row = stored_mail.store_mail(
            session, sender=case.envelope, recipients=[case.to], content=case.content(), now=at
        )
        rules = MailRules(may_sign_up=None, operator=operator)
        outcome = classification.process_mail(session, site=site, number=inbound_row[0], rules=rules, now=at)
        memory = MemoryTransport()
        delivery_run.deliver(
            session, site=site, templates=templates, caches=CACHES, transport=memory, clock=lambda: at
        )
        texts = [body_of(one.content, "plain") for one in memory.messages]
        asked = session.scalars(select(SignUp.requested_settings)).one_or_none()
        return Arrived(
            letters=list(session.scalars(select(Delivery.letter).order_by(Delivery.id))),
            text=" ".join(" ".join(texts).split()),
            sign_up=None if asked is None else without_remarks(asked),
            outcome=outcome,
        )

    return arrived


def add_reader(session: Session, now: datetime) -> None:
    row = subscriber_rows.add(
        session, READER, state=SubscriberState.ACTIVE, consent="a test", now=now, topics={"Flows": "flow matching"}
    )  # fmt: skip
    row.confirmed_at = now
    session.commit()


def without_remarks(asked: str) -> str:
    """Return the settings of a sign-up without what the confirmation letter says about them."""
    settings = {name: value for name, value in json.loads(asked).items() if name != "remarks"}
    return json.dumps(settings, separators=(",", ":"), ensure_ascii=False)


def test_the_two_corpora_are_two_hundred_mails() -> None:
    assert len({case.content() for case in [*MUST_ACT, *MUST_NOT]}) + len(ALL) >= 200


def test_every_mail_of_a_reader_gets_one_answer_a_sign_up_one_letter_and_a_machine_none(
    arrive: Arrive, session: Session, now: datetime
) -> None:
    def wrong(case: MailCase) -> object:
        empty(session)
        add_reader(session, now)
        arrived = arrive(case)
        expected = list(case.letters), case.sign_up
        return ((arrived.letters, arrived.sign_up) != expected or case.says not in arrived.text) and arrived

    assert failing(ALL, wrong) == ""


# ── the operator ────────────────────────────────────────────────────────────────────────────────

QUESTION = MailCase(subject="A question", body="Hello,\n\nwho chooses the papers?\n\nAda\n")


def test_mail_without_a_command_is_passed_on_to_the_operator_who_can_reply(
    arrive: Arrive, session: Session
) -> None:
    arrived = arrive(QUESTION, operator=OPERATOR)

    assert sorted(arrived.letters) == ["no_command", "passed_on"]
    assert "We passed your message on to the people who run" in arrived.text
    assert "From: ada@uni.example Subject: A question | Hello, | | who chooses the papers?" in arrived.text
    assert "operator" not in arrived.text


def test_a_mail_of_the_operator_is_not_passed_on(arrive: Arrive) -> None:
    arrived = arrive(replace(QUESTION, sender=OPERATOR), operator=OPERATOR)

    assert arrived.letters == ["how_to_subscribe"]
    assert "passed" not in arrived.text


def test_a_writer_is_answered_once_a_day_and_passed_on_five_times(arrive: Arrive) -> None:
    outcomes = [
        arrive(QUESTION, operator=OPERATOR, after=timedelta(minutes=number)).outcome for number in range(6)
    ]

    assert outcomes[5] == "shunted: its writer was already answered on the same words"
    arrived = arrive(QUESTION, operator=OPERATOR, after=timedelta(days=1))
    assert sorted(arrived.letters) == ["no_command"] * 2 + ["passed_on"] * 6


def test_hostile_text_stays_text_in_the_letter_to_the_operator(arrive: Arrive) -> None:
    case = replace(
        QUESTION,
        subject="<script>x</script> {{ 7*7 }}",
        body="<b>bold</b> {{ 7*7 }}\r\nBcc: eve@else.example\n",
    )

    arrived = arrive(case, operator=OPERATOR)

    assert "| <b>bold</b> {{ 7*7 }} | Bcc: eve@else.example" in arrived.text
    assert "49" not in arrived.text


def test_a_suppressed_stranger_gets_no_answer(
    arrive: Arrive, session: Session, site: Site, now: datetime
) -> None:
    from digest.bounces import suppressions
    from digest.bounces.suppressions import SuppressionReason

    suppressions.suppress(session, site, STRANGER, SuppressionReason.COMPLAINT, "", now)

    assert arrive(MailCase(sender=STRANGER, body="help")).letters == []
