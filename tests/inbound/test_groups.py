"""A group's members get only digests; its settings, its letters and its end belong to the owner."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from email.message import EmailMessage

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from digest.bounces import suppressions
from digest.bounces.failure_kinds import FailureKind
from digest.db.tables.deliveries import Delivery, DeliveryState, Lane
from digest.db.tables.dumps import DumpRow, DumpState
from digest.db.tables.inbound_mail import BounceRow
from digest.db.tables.subscribers import StillReadingStep, Subscriber, SubscriberState
from digest.errors import BadField
from digest.inbound import classification, stored_mail
from digest.inbound.mail_rules import MailRules
from digest.letters.templates import Templates
from digest.papers.catalog import match_or_add_records
from digest.papers.paper_record import Record
from digest.publishing import digest_preview, publish_due
from digest.publishing.publication import Publication
from digest.site import links
from digest.site.site_profile import Site
from digest.subscribers import (
    account,
    confirmation_letters,
    confirmations,
    operator_acts,
    pauses,
    still_reading,
    subscriber_rows,
    subscriber_topics,
    undo_changes,
    unsubscribe_and_undo,
)
from digest.subscribers.reader_settings import NOTHING_GIVEN, ReaderSettings
from tests.inbound.conftest import Deliver
from tests.inbound.signed_replies import ADA as OWNER
from tests.inbound.signed_replies import lookup, reply, signed_reply
from tests.inbound.test_mail_commands import text_of
from tests.support import sample_mails
from tests.support.delivered_mail import deliver_due
from tests.support.mail_bodies import body_of
from tests.support.shared_caches import CACHES

GROUP = "lab@lists.example"
MEMBER = "bob@uni.example"
US = "digest@example.org"


@pytest.fixture
def group(session: Session, now: datetime) -> Subscriber:
    row = subscriber_rows.add(
        session, GROUP, state=SubscriberState.ACTIVE, owner=OWNER, consent="a test", now=now - timedelta(days=2),
        topics={"Flows": '"flow matching"'},
    )  # fmt: skip
    row.next_due_at = now
    session.commit()
    return row


@pytest.fixture
def papers(session: Session, now: datetime) -> None:
    """Twelve papers on the group's topic: more than a digest lists."""
    dump = DumpRow(
        sha256="0" * 64, path="dump.txt", state=DumpState.LOADED, observed_at=now, read_at=now, date=now.date()
    )  # fmt: skip
    session.add(dump)
    records = [
        Record(title=f"Flow matching in {number} lines", ids={"arxiv": f"2611.0{number:04}"})
        for number in range(1, 13)
    ]
    match_or_add_records.add(session, records, dump=dump)
    session.commit()


@pytest.fixture
def digest(
    session: Session, site: Site, templates: Templates, group: Subscriber, papers: None, now: datetime
) -> EmailMessage:
    """The digest that the group gets."""
    publish_due.publish(Publication(session, site=site, templates=templates, caches=CACHES, now=now))
    (message,) = deliver_due(session, site=site, templates=templates, now=now)
    return message


Receive = Callable[..., str]


@pytest.fixture
def receive(session: Session, site: Site, now: datetime) -> Receive:
    """Return a function that stores and processes a mail and returns the outcome."""

    def arrived(content: bytes, to: str, *, sender: str = OWNER, after: timedelta = timedelta()) -> str:
        rules = MailRules(may_sign_up=None, lookup=lookup)
        (number,) = stored_mail.store_mail(
            session, sender=sender, recipients=[to], content=content, now=now + after
        )
        return classification.process_mail(session, site=site, number=number, rules=rules, now=now + after)

    return arrived


@pytest.fixture
def owners_letter(
    session: Session, site: Site, group: Subscriber, deliver: Deliver, now: datetime
) -> EmailMessage:
    """A letter about the group's settings."""
    confirmations.send_link(session, site, group, now)
    session.commit()
    (letter,) = deliver()
    return letter


def state_of(session: Session, reader: Subscriber) -> SubscriberState:
    session.refresh(reader)
    return SubscriberState(reader.state)


def letters(session: Session) -> list[tuple[str, str | None]]:
    found = session.execute(select(Delivery.letter, Delivery.email).order_by(Delivery.id))
    return [(row.letter, row.email) for row in found]


# ── the digest ──────────────────────────────────────────────────────────────────────────────────


def test_a_digest_to_a_group_has_no_link_header_or_address_of_one_reader(
    digest: EmailMessage, site: Site
) -> None:
    assert digest["To"] == GROUP
    for name in ("Reply-To", "List-Unsubscribe", "List-Unsubscribe-Post"):
        assert digest[name] is None
    assert digest["List-Id"] == "Example Digest <digest.example.org>"
    content = digest.as_bytes().decode()
    assert OWNER not in content
    assert "unsubscribe+" not in content
    assert "reply+" not in content
    for part in ("plain", "html"):
        paths = re.findall(rf"{re.escape(site.url)}/([^\s\"<]*)", body_of(digest.as_bytes(), part))
        assert {path.partition("/")[0] for path in paths} <= {"", "papers", "v"}


def test_a_member_is_offered_a_copy_of_their_own(digest: EmailMessage) -> None:
    said = text_of(digest)

    assert "Want your own topics and time? Get your own copy:" in said
    assert re.search(r"https://digest\.example\.org/v/\S+/topics", said)
    assert "Sent to lab@lists.example." in said
    assert "because your group subscribed to it. The group’s owner" in " ".join(said.split())
    assert "leave the group" in " ".join(said.split())


def test_a_group_is_not_asked_whether_it_still_reads_but_its_owner_is(
    session: Session, site: Site, templates: Templates, group: Subscriber, papers: None, now: datetime
) -> None:
    group.still_reading_step, group.still_reading_at = StillReadingStep.ASKED, now - timedelta(days=1)
    session.add(
        Delivery(
            subscriber_id=group.id, email=GROUP, letter="digest", lane=Lane.BULK, dated_at=now,
            edition="daily-2026-11-19", state=DeliveryState.SENT, due_at=now, expires_at=now, settled_at=now,
        )
    )  # fmt: skip
    session.commit()
    publish_due.publish(Publication(session, site=site, templates=templates, caches=CACHES, now=now))
    (message,) = deliver_due(session, site=site, templates=templates, now=now)

    still_reading.send_letters(session, site, now=now + timedelta(hours=1))

    assert "Still reading?" not in text_of(message)
    assert letters(session)[-1] == ("still_reading", OWNER)


# ── the letters ─────────────────────────────────────────────────────────────────────────────────


def test_every_letter_but_the_digest_goes_to_the_owner(
    session: Session, site: Site, group: Subscriber, templates: Templates, now: datetime
) -> None:
    confirmations.request_subscription(session, site, GROUP, now=now)
    confirmations.send_link(session, site, group, now)
    account.queue_account_link(session, site, group, now=now)
    undo_changes.save_settings(session, site, group, ReaderSettings(topics={"Robots": "robot*"}), now=now)
    pauses.pause_with_letter(session, site, group, None, now=now)
    unsubscribe_and_undo.leave_with_undo(session, site, group, now=now)

    expected = ["settings", "settings_link", "account_link", "changed", "paused", "goodbye"]
    assert letters(session) == [(letter, OWNER) for letter in expected]
    later = now + timedelta(minutes=6)  # an act on a page can be undone for five minutes
    sent = deliver_due(session, site=site, templates=templates, now=later)
    (goodbye,) = [one for one in sent if one["Subject"] == "You are unsubscribed"]
    assert "About the digests of the group lab@lists.example, which you manage." in " ".join(
        text_of(goodbye).split()
    )
    assert GROUP in body_of(goodbye.as_bytes(), "html")


def test_the_letter_instead_of_an_empty_digest_goes_to_the_owner(
    session: Session, site: Site, templates: Templates, group: Subscriber, papers: None, now: datetime
) -> None:
    given = ReaderSettings(topics={"Robots": "robot*"}, texts={"nothing_today": "yes"})
    operator_acts.change_by_operator(session, group, given, now=now)
    group.next_due_at = now
    session.commit()

    publish_due.publish(Publication(session, site=site, templates=templates, caches=CACHES, now=now))

    assert letters(session) == [("digest", GROUP), ("nothing_today", OWNER)]
    found = digest_preview.preview(
        Publication(session, site=site, templates=templates, caches=CACHES, now=now + timedelta(days=1)),
        email=GROUP,
    )
    assert f"To: {OWNER}".encode() in found.message


# ── the operator adds a group ───────────────────────────────────────────────────────────────────


def add_group(session: Session, site: Site, now: datetime) -> None:
    given = ReaderSettings(topics={"Flows": "flow"}, texts={"at": f"{now:%H:%M}"})
    operator_acts.add_by_operator(session, site, GROUP, given, owner=OWNER, now=now)


def test_the_owner_confirms_a_group_that_the_operator_added_and_is_reminded(
    session: Session, site: Site, deliver: Deliver, receive: Receive, now: datetime
) -> None:
    add_group(session, site, now)
    (question,) = deliver()
    confirmation_letters.queue_reminders(session, site, now + timedelta(hours=25))

    assert question["To"] == OWNER
    assert (
        "to send the group lab@lists.example a daily digest of papers on “Flows”. You would manage it"
        in " ".join(text_of(question).split())
    )
    assert letters(session)[-1] == ("reminder", OWNER)

    receive(reply(question["Reply-To"], "yes\n"), question["Reply-To"])

    assert subscriber_rows.get(session, GROUP).state == SubscriberState.ACTIVE
    assert letters(session)[-1] == ("welcome", OWNER)


@pytest.mark.parametrize("owner", [GROUP, "LAB@lists.example", "nobody"])
def test_the_owner_of_a_group_is_another_valid_address(session: Session, owner: str, now: datetime) -> None:
    with pytest.raises(BadField, match="owner: "):
        subscriber_rows.add(
            session, GROUP, state=SubscriberState.ACTIVE, owner=owner, consent="a test", now=now
        )


def test_another_owner_or_a_new_group_revokes_all_links(
    session: Session, site: Site, group: Subscriber, now: datetime
) -> None:
    before = group.link_version

    assert operator_acts.change_by_operator(session, group, NOTHING_GIVEN, owner=MEMBER, now=now)
    assert not operator_acts.change_by_operator(session, group, NOTHING_GIVEN, owner=MEMBER, now=now)

    assert (group.contact_email, group.link_version) == (MEMBER, before + 1)
    assert subscriber_rows.find_by_link(session, group.id, before) is None


def test_an_owner_is_erased_only_when_the_groups_have_another_owner(
    session: Session, site: Site, group: Subscriber, now: datetime
) -> None:
    subscriber_rows.add(session, OWNER, state=SubscriberState.ACTIVE, consent="a test", now=now)
    session.commit()

    with pytest.raises(BadField, match=r"manages the digests of lab@lists\.example"):
        account.erase(session, site, OWNER.upper(), now=now)
    operator_acts.change_by_operator(session, group, NOTHING_GIVEN, owner=MEMBER, now=now)
    account.erase(session, site, OWNER, now=now)

    assert subscriber_rows.find(session, OWNER) is None


# ── mail ────────────────────────────────────────────────────────────────────────────────────────


def test_the_owner_changes_a_group_by_replying_and_a_member_with_the_letter_does_not(
    session: Session,
    site: Site,
    group: Subscriber,
    deliver: Deliver,
    receive: Receive,
    owners_letter: EmailMessage,
) -> None:
    token = owners_letter["Reply-To"]

    receive(signed_reply(token, "add members: everything\n", sender=MEMBER), token, sender=MEMBER)
    receive(signed_reply(token, "add robots: robot*\n"), token)

    assert [topic.name for topic in subscriber_topics.topics_of(session, group)] == ["Flows", "robots"]
    answers = [one for one in deliver() if one["To"] == OWNER]
    (answer,) = answers
    assert "The group’s digest: Every day at 08:00, UTC, on Flows and robots." in " ".join(
        text_of(answer).split()
    )


def test_the_owner_ends_the_digests_of_a_group_by_replying(
    session: Session, group: Subscriber, receive: Receive, owners_letter: EmailMessage
) -> None:
    receive(reply(owners_letter["Reply-To"], "unsubscribe\n"), owners_letter["Reply-To"])

    assert state_of(session, group) == SubscriberState.UNSUBSCRIBED
    assert letters(session)[-1] == ("goodbye", OWNER)


@pytest.mark.parametrize("said", ["unsubscribe", "pause", "del flows", "Hello, all!"])
def test_a_mail_from_the_groups_own_address_changes_nothing_and_is_kept(
    session: Session, group: Subscriber, receive: Receive, said: str
) -> None:
    outcome = receive(reply(US, f"{said}\n", sender=GROUP, subject=said), US, sender=GROUP)

    assert outcome.startswith("shunted: any member of the group may have written it")
    assert (state_of(session, group), letters(session)) == (SubscriberState.ACTIVE, [])


def test_a_member_who_answers_the_digest_gets_instructions_to_subscribe_and_ends_nothing(
    session: Session, group: Subscriber, digest: EmailMessage, receive: Receive
) -> None:
    receive(reply(US, "unsubscribe\n", sender=MEMBER), US, sender=MEMBER)

    assert state_of(session, group) == SubscriberState.ACTIVE
    assert letters(session)[1:] == [("how_to_subscribe", MEMBER)]


# ── reports ─────────────────────────────────────────────────────────────────────────────────────


def bounce_address(session: Session, site: Site, letter: str) -> str:
    number = session.scalars(select(Delivery.id).where(Delivery.letter == letter)).one()
    return links.bounce_address(site, number)


def test_a_complaint_of_a_member_is_counted_and_does_not_end_the_digests(
    session: Session, site: Site, group: Subscriber, digest: EmailMessage, receive: Receive
) -> None:
    to = bounce_address(session, site, "digest")

    outcome = receive(sample_mails.complaint(), to, sender="")

    assert outcome == "a complaint of one member of a group, whose digests continue"
    assert session.scalars(select(BounceRow.kind)).all() == [FailureKind.COMPLAINT]
    assert state_of(session, group) == SubscriberState.ACTIVE
    assert not suppressions.is_suppressed(session, site, GROUP)


def test_a_complaint_of_the_owner_ends_the_digests(
    session: Session, site: Site, group: Subscriber, owners_letter: EmailMessage, receive: Receive
) -> None:
    receive(sample_mails.complaint(), bounce_address(session, site, "settings_link"), sender="")

    assert state_of(session, group) == SubscriberState.UNSUBSCRIBED
    assert suppressions.is_suppressed(session, site, OWNER)


def test_only_failures_of_the_groups_own_address_count_against_it(
    session: Session, site: Site, group: Subscriber, digest: EmailMessage, receive: Receive
) -> None:
    to = bounce_address(session, site, "digest")

    of_member = receive(sample_mails.dsn(recipient=MEMBER), to, sender="")
    assert of_member == "a failure at one member of a group; it counts against no address"
    assert session.scalars(select(BounceRow.id)).all() == []

    receive(sample_mails.dsn(recipient=GROUP), to, sender="")
    assert session.scalars(select(BounceRow.kind)).all() == [FailureKind.HARD]
