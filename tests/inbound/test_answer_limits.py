"""However many senders a stranger invents, few letters follow, and readers are still answered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from digest.db.tables.deliveries import Delivery
from digest.db.tables.inbound_mail import InboundMail
from digest.db.tables.subscribers import Confirmation, SubscriberState
from digest.inbound import answer_limits, classification, mail_without_command, stored_mail
from digest.inbound.mail_rules import MailRules
from digest.site.site_profile import Site
from digest.subscribers import sign_up_queue, subscriber_rows
from tests.inbound.signed_replies import reply

US, READER, OPERATOR = "digest@example.org", "ada@uni.example", "operator@else.example"
HERE, ELSEWHERE = "192.0.2.1", "198.51.100.1"

Receive = Callable[..., Counter[str]]


@pytest.fixture
def receive(session: Session, site: Site, now: datetime) -> Receive:
    """Return a function that processes mails of these senders and returns how many letters of each kind followed."""
    reader = subscriber_rows.add(session, READER, state=SubscriberState.ACTIVE, consent="a test", now=now)
    reader.confirmed_at = now
    session.commit()

    def arrived(
        senders: list[str],
        body: str = "What is this?",
        *,
        network: str = HERE,
        after: timedelta = timedelta(),
    ) -> Counter[str]:
        rules = MailRules(may_sign_up=None, operator=OPERATOR)
        for number, sender in enumerate(senders):
            content = reply(US, body, sender=sender, subject=f"Number {number} at {after}")
            (stored,) = stored_mail.store_mail(
                session, sender=sender, recipients=[US], content=content, network=network, now=now + after
            )
            classification.process_mail(session, site=site, number=stored, rules=rules, now=now + after)
        return Counter(session.scalars(select(Delivery.letter)))

    return arrived


@pytest.mark.postgresql
def test_invented_senders_get_few_answers_and_send_the_operator_few_letters(
    receive: Receive, session: Session, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    senders = [f"x{number}@forged.example" for number in range(30)]

    of_network = receive(senders)
    assert of_network == {"how_to_subscribe": 20, "passed_on": 20}
    assert session.query(InboundMail).count() == 30  # all are kept

    assert receive(["y@forged.example"], network=ELSEWHERE) == of_network + Counter(of_network.keys())
    monkeypatch.setattr(answer_limits, "MAX_IN_ALL", 21)
    monkeypatch.setattr(mail_without_command, "MAX_PASSED_ON_IN_ALL", 21)
    assert receive(["z@forged.example"], network=ELSEWHERE).total() == 42
    assert receive([READER], "help")["help"] == 1  # a reader's command is answered
    assert receive([READER], "Who chooses?")["passed_on"] == 22  # and a reader's question passed on

    assert receive(["z@forged.example"], after=timedelta(days=1)).total() == 47


def test_addresses_of_one_mailbox_share_its_limits(
    receive: Receive, session: Session, site: Site, now: datetime
) -> None:
    asked = receive([f"ada+{number}@else.example" for number in range(15)])
    assert asked == {"how_to_subscribe": 12, "passed_on": 5}

    for number in range(5):
        sign_up_queue.request(session, f"eve+{number}@else.example", network=f"network {number}", now=now)
    sign_up_queue.send_confirmations(session, site, now)
    assert receive([])["confirm"] == 3
    assert session.query(Confirmation).count() == 3
