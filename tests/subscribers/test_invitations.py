"""An imported address gets one invitation, and nothing more until its owner accepts."""

from __future__ import annotations

import io
from collections.abc import Callable
from datetime import datetime, timedelta
from email import message_from_bytes, policy
from email.message import EmailMessage

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from digest.bounces import suppressions
from digest.bounces.suppressions import SuppressionReason
from digest.db.tables.deliveries import Delivery, DeliveryState
from digest.db.tables.subscribers import Confirmation, Consent, SubscriberState
from digest.delivery import delivery_run
from digest.delivery.transports.memory import MemoryTransport
from digest.letters.templates import Templates
from digest.site import links
from digest.site.site_profile import Site
from digest.subscribers import (
    account,
    confirmation_letters,
    confirmations,
    operator_acts,
    subscriber_rows,
    unsubscribe_and_undo,
)
from digest.subscribers.confirmations import SignUpOutcome
from digest.subscribers.csv_import import import_list
from digest.subscribers.csv_import.file_rows import CsvRows
from digest.subscribers.csv_import.import_list import ImportReport
from tests.support.shared_caches import CACHES

DORA, EMIL = "dora@uni.edu", "emil@uni.edu"
HOUR, DAY = timedelta(hours=1), timedelta(days=1)

Import = Callable[..., ImportReport]
Deliver = Callable[..., list[EmailMessage]]


@pytest.fixture
def load(session: Session, site: Site, now: datetime) -> Import:
    """Import addresses without consent."""

    def loaded(*emails: str, after: timedelta = timedelta(), by: str = "") -> ImportReport:
        rows = CsvRows(io.StringIO("email\n" + "".join(f"{email}\n" for email in emails)))
        done = import_list.import_in_batches(session, site, rows, invited_by=by, now=now + after)
        session.commit()
        return done

    return loaded


@pytest.fixture
def deliver(session: Session, site: Site, templates: Templates, now: datetime) -> Deliver:
    """Deliver what is due after that time, and return it."""

    def delivered(after: timedelta = HOUR) -> list[EmailMessage]:
        memory = MemoryTransport()
        delivery_run.deliver(
            session,
            site=site,
            templates=templates,
            caches=CACHES,
            transport=memory,
            clock=lambda: now + after,
        )
        return [message_from_bytes(one.content, policy=policy.default) for one in memory.messages]

    return delivered


def token_in(session: Session, site: Site) -> str:
    number = session.scalars(select(Confirmation.id)).one()
    return links.confirm_url(site, number).rpartition("/")[2]


def endings(session: Session) -> list[tuple[str, str]]:
    rows = session.execute(select(Delivery.letter, Delivery.state).order_by(Delivery.id))
    return [(row.letter, row.state) for row in rows]


def test_an_address_imported_without_consent_gets_one_invitation_with_the_reason(
    load: Import, deliver: Deliver
) -> None:
    assert load(DORA, by="Anna at Example Lab").invited == 1

    (letter,) = deliver()

    body = letter.get_body(("plain",))
    text = " ".join(body.get_content().split()) if body else ""
    assert letter["To"] == DORA
    assert "Anna at Example Lab put your address on the invitation list of" in text
    assert "You get no more mail unless you accept" in text


def test_accepting_an_invitation_starts_digests_and_is_stored_as_consent(
    session: Session, site: Site, now: datetime, load: Import
) -> None:
    load(DORA)

    confirmations.confirm(session, site, token_in(session, site), now + 13 * DAY)

    assert subscriber_rows.get(session, DORA).state == SubscriberState.ACTIVE
    assert session.scalars(select(Consent.how)).one() == "confirmed by link"


def test_an_invitation_expires(session: Session, site: Site, now: datetime, load: Import) -> None:
    load(DORA)

    assert confirmations.confirm(session, site, token_in(session, site), now + 15 * DAY) is None


def test_nobody_is_invited_twice(
    session: Session, site: Site, now: datetime, load: Import, deliver: Deliver
) -> None:
    load(DORA)
    assert len(deliver()) == 1

    again = load(DORA, "Dora@Uni.edu", after=DAY)
    account.erase(session, site, DORA, now=now + DAY)
    after_erasure = load(DORA, after=2 * DAY)

    assert (again.invited, after_erasure.invited) == (0, 0)
    assert deliver(3 * DAY) == []


def test_no_reminder_follows_an_invitation(
    session: Session, site: Site, now: datetime, load: Import, deliver: Deliver
) -> None:
    load(DORA)
    deliver()

    assert confirmation_letters.queue_reminders(session, site, now + 2 * DAY) == 0


def test_invitations_go_out_one_a_minute_and_the_next_list_follows(
    session: Session, now: datetime, load: Import
) -> None:
    load(*(f"reader{number}@uni.edu" for number in range(5)))
    load(EMIL, after=timedelta(minutes=2))

    due = session.scalars(select(Delivery.due_at).order_by(Delivery.id)).all()

    assert due == [now + minute * timedelta(minutes=1) for minute in range(6)]


@pytest.mark.parametrize("when", ["before", "after"], ids=["before the import", "after it"])
def test_a_suppressed_address_is_never_invited(
    session: Session, site: Site, now: datetime, load: Import, deliver: Deliver, when: str
) -> None:
    if when == "after":
        load(DORA)
    suppressions.suppress(session, site, DORA, SuppressionReason.COMPLAINT, "", now)
    if when == "before":
        load(DORA)

    assert deliver() == []


def test_an_unsubscribed_address_is_never_invited(
    session: Session, site: Site, now: datetime, load: Import, deliver: Deliver
) -> None:
    subscriber_rows.add(session, DORA, state=SubscriberState.ACTIVE, consent="a test", now=now)
    operator_acts.remove_by_operator(session, DORA, operator="mara", now=now)

    assert load(DORA).invited == 0
    assert deliver() == []


def test_an_address_with_a_confirmation_is_not_invited(
    session: Session, site: Site, now: datetime, load: Import
) -> None:
    confirmations.request_subscription(session, site, DORA, now=now)

    assert load(DORA).invited == 0


def test_a_sign_up_replaces_a_waiting_invitation(
    session: Session, site: Site, now: datetime, load: Import, deliver: Deliver
) -> None:
    load(EMIL, DORA)

    asked = confirmations.request_subscription(session, site, DORA, now=now)
    session.commit()
    deliver()

    assert asked.outcome is SignUpOutcome.ASKED
    assert endings(session) == [
        ("invite", DeliveryState.SENT), ("invite", DeliveryState.SUPPRESSED), ("confirm", DeliveryState.SENT),
    ]  # fmt: skip


def test_declining_forever_takes_one_click_and_sends_no_letter(
    session: Session, site: Site, now: datetime, load: Import, deliver: Deliver
) -> None:
    load(DORA)
    (letter,) = deliver()
    dora = subscriber_rows.get(session, DORA)

    assert links.unsubscribe_url(site, dora.id, dora.link_version) in letter["List-Unsubscribe"]
    assert unsubscribe_and_undo.unsubscribe(session, site, dora, now=now + 2 * HOUR)
    session.commit()

    assert deliver(3 * HOUR) == []
    assert load(DORA, after=DAY).invited == 0


def test_a_waiting_invitation_is_dropped_once_its_owner_confirmed_or_declined(
    session: Session, site: Site, now: datetime, load: Import, deliver: Deliver
) -> None:
    load(DORA, EMIL)
    subscriber_rows.get(session, DORA).state = SubscriberState.ACTIVE
    operator_acts.remove_by_operator(session, EMIL, operator="mara", now=now)
    session.commit()

    assert deliver() == []
