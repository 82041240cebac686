"""Only a certain command unsubscribes: of a hundred invented mails, fifty must and fifty must not."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from digest.db.tables.deliveries import Delivery
from digest.db.tables.subscribers import Subscriber, SubscriberState
from digest.inbound import classification, stored_mail
from digest.inbound.mail_rules import MailRules
from digest.site.site_profile import Site
from digest.subscribers import subscriber_rows
from tests.inbound.conftest import empty, failing
from tests.inbound.mail_corpus import MUST_ACT, MUST_NOT, US, WRITER, CorpusMail

Became = Callable[[CorpusMail], tuple[str, list[str]]]


@pytest.fixture
def became(session: Session, site: Site, now: datetime) -> Became:
    """Process a mail of an active reader; return the reader's new state and the letters sent in reply."""

    def arrived(case: CorpusMail) -> tuple[str, list[str]]:
        empty(session)
        row = subscriber_rows.add(
            session, WRITER, state=SubscriberState.ACTIVE, consent="a test", now=now, topics={"Flows": "flow matching"}
        )  # fmt: skip
        row.confirmed_at = now
        (number,) = stored_mail.store_mail(
            session, sender=WRITER, recipients=[US], content=case.content(), now=now
        )
        classification.process_mail(
            session, site=site, number=number, rules=MailRules(may_sign_up=None), now=now
        )
        state = session.scalars(select(Subscriber.state)).one()
        return state, list(session.scalars(select(Delivery.letter)))

    return arrived


def test_the_corpus_is_a_hundred_mails() -> None:
    assert (len(MUST_ACT), len(MUST_NOT)) == (50, 50)
    assert len({case.content() for case in [*MUST_ACT, *MUST_NOT]}) == 100


def test_a_bare_command_unsubscribes(became: Became) -> None:
    expected = SubscriberState.UNSUBSCRIBED, ["goodbye"]

    assert failing(MUST_ACT, lambda case: (found := became(case)) != expected and found) == ""


def test_ordinary_mail_unsubscribes_nobody(became: Became) -> None:
    def wrong(case: CorpusMail) -> object:
        found = became(case)
        return found != (SubscriberState.ACTIVE, case.letters) and found

    assert failing(MUST_NOT, wrong) == ""
