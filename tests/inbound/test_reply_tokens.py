"""A reply changes settings at once only with the token of the reader's own letter and a proven sender."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from sqlalchemy import delete
from sqlalchemy.orm import Session

from digest.db.tables.deliveries import Delivery
from digest.db.tables.subscribers import Subscriber, SubscriberState
from digest.delivery.outbox import enqueue
from digest.inbound import classification, sender_proof, stored_mail
from digest.inbound.mail_rules import MailRules
from digest.inbound.mail_text import read_mail
from digest.site import links
from digest.site.site_profile import Site
from digest.subscribers import subscriber_rows, subscriber_topics, undo_changes, unsubscribe_and_undo
from tests.inbound.conftest import Deliver
from tests.inbound.signed_replies import ADA, lookup, reply, signed_reply
from tests.inbound.test_mail_commands import text_of
from tests.support.plain_letters import plain_letter

BOB = "bob@uni.example"
TRUSTED = "mx.example.org"
US = "digest@example.org"


@pytest.fixture
def bob(session: Session, now: datetime) -> Subscriber:
    row = subscriber_rows.add(session, BOB, state=SubscriberState.ACTIVE, consent="a test", now=now)
    session.commit()
    return row


@pytest.fixture
def token(session: Session, site: Site, ada: Subscriber, deliver: Deliver, now: datetime) -> str:
    """The reply address of a letter that Ada got."""
    enqueue.queue_letter(
        session, letter=plain_letter("settings", "one"), subscriber_id=ada.id, email=ADA, site=site, now=now
    )  # fmt: skip
    session.commit()
    (letter,) = deliver()
    return str(letter["Reply-To"])


Receive = Callable[..., str]


@pytest.fixture
def receive(session: Session, site: Site, now: datetime) -> Receive:
    """Return a function that stores and processes a mail and returns the outcome."""

    def arrived(content: bytes, to: str, *, authserv_id: str = "", after: timedelta = timedelta()) -> str:
        rules = MailRules(may_sign_up=None, lookup=lookup, authserv_id=authserv_id)
        (number,) = stored_mail.store_mail(
            session, sender=ADA, recipients=[to], content=content, now=now + after
        )
        return classification.process_mail(session, site=site, number=number, rules=rules, now=now + after)

    return arrived


def state_of(session: Session, reader: Subscriber) -> SubscriberState:
    """Return the stored state."""
    session.refresh(reader)
    return SubscriberState(reader.state)


def topics(session: Session, reader: Subscriber) -> list[str]:
    return [topic.name for topic in subscriber_topics.topics_of(session, reader)]


def test_mail_in_a_readers_name_blocks_no_signed_reply(
    receive: Receive, session: Session, ada: Subscriber, token: str
) -> None:
    forged = [
        receive(reply("digest@example.org", f"drop {number}"), "digest@example.org") for number in range(13)
    ]
    assert forged[-1] == "shunted: its writer got 12 answers today"

    assert receive(reply(token, "pause 2 weeks"), token) == f"ran for subscriber {ada.id}: pause"


def test_a_signed_reply_to_a_letter_changes_settings_at_once_and_the_answer_undoes_it(
    receive: Receive,
    deliver: Deliver,
    session: Session,
    site: Site,
    ada: Subscriber,
    token: str,
    now: datetime,
) -> None:
    asked = "add robots: robot*\ndel flows\nweekly fri 9am Europe/Oslo\npause 2 weeks\n"

    outcome = receive(signed_reply(token, asked), token)

    assert outcome == f"ran for subscriber {ada.id}, at once: add, drop, at, pause"
    session.refresh(ada)
    assert topics(session, ada) == ["robots"]
    assert (ada.cadence, ada.weekday, f"{ada.at:%H:%M}", ada.timezone) == (
        "weekly",
        4,
        "09:00",
        "Europe/Oslo",
    )
    assert ada.state == SubscriberState.PAUSED
    (answer,) = deliver()
    said = text_of(answer)
    assert "> add robots: robot*\nAdded: robots." in said
    assert "> del flows\nRemoved: Flows." in said
    assert (
        said.count("aused until 4 December 2026") == 1
    )  # the outcome says it, so the state does not repeat it
    assert "\nYour digest: Every Friday at 09:00, Oslo, on robots.\n" in said
    change = undo_changes.find_change(session, ada, now=now)
    assert change
    assert f"Undo:\n{links.manage_url(site, ada.id, 0)}?change={change.id}\n" in said
    assert "Not you? Undo it: open the link, or reply “undo”." in " ".join(said.split())


def test_every_answer_has_its_own_reply_address_which_works_too(
    receive: Receive, deliver: Deliver, session: Session, ada: Subscriber, token: str
) -> None:
    receive(signed_reply(token, "list\n"), token)
    (answer,) = deliver()

    receive(signed_reply(answer["Reply-To"], "add robots: robot*\n"), answer["Reply-To"])

    assert answer["Reply-To"] != token
    assert topics(session, ada) == ["Flows", "robots"]


def test_a_topic_added_again_gets_the_new_filter_and_undo_restores_the_old_one(
    receive: Receive, deliver: Deliver, session: Session, ada: Subscriber, token: str
) -> None:
    receive(signed_reply(token, "add FLOWS: rectified flow\n"), token)

    (topic,) = subscriber_topics.topics_of(session, ada)
    assert (topic.name, topic.typed) == ("Flows", 'about:"rectified flow"')
    said = text_of(*deliver())
    assert "Changed: Flows." in said


def test_a_mistake_in_a_trusted_reply_changes_nothing(
    receive: Receive, deliver: Deliver, session: Session, ada: Subscriber, token: str
) -> None:
    receive(signed_reply(token, "add flows: (flow OR\nat 25:00\ndel robots\n"), token)

    assert topics(session, ada) == ["Flows"]
    said = text_of(*deliver())
    assert "Column 7" in said
    assert "is not a time of day" in said
    assert "Undo:" not in said


def is_waiting_for_a_click(session: Session, reader: Subscriber, deliver: Deliver) -> bool:
    """Return whether nothing changed and the reply has the link to confirm."""
    session.refresh(reader)
    answers = deliver()
    return topics(session, reader) == ["Flows"] and "Check and save:" in text_of(answers[-1])


def test_a_token_without_a_signature_changes_nothing_lasting(
    receive: Receive, deliver: Deliver, session: Session, ada: Subscriber, token: str
) -> None:
    receive(reply(token, "add robots: robot*\n"), token)

    assert is_waiting_for_a_click(session, ada, deliver)


@pytest.mark.parametrize("domain", ["else.example", "b.uni.example"])
def test_a_signature_of_another_domain_changes_nothing_lasting(
    domain: str, receive: Receive, deliver: Deliver, session: Session, ada: Subscriber, token: str
) -> None:
    receive(signed_reply(token, "add robots: robot*\n", domain=domain), token)

    assert is_waiting_for_a_click(session, ada, deliver)


def test_a_signed_mail_without_a_token_changes_nothing_lasting(
    receive: Receive, deliver: Deliver, session: Session, site: Site, ada: Subscriber
) -> None:
    receive(signed_reply(site.sender_address, "add robots: robot*\n"), site.sender_address)

    assert is_waiting_for_a_click(session, ada, deliver)


def test_a_token_in_another_address_than_the_signed_one_changes_nothing_lasting(
    receive: Receive, deliver: Deliver, session: Session, site: Site, ada: Subscriber, token: str
) -> None:
    """A mail that Ada signed for somebody else cannot be sent on to her reply address."""
    receive(signed_reply(site.sender_address, "add robots: robot*\n"), token)

    assert is_waiting_for_a_click(session, ada, deliver)


def test_the_token_of_a_forwarded_letter_does_not_work_for_another_reader(
    receive: Receive, deliver: Deliver, session: Session, ada: Subscriber, bob: Subscriber, token: str
) -> None:
    receive(signed_reply(token, "add robots: robot*\n", sender=BOB), token)

    (answer,) = deliver()
    assert answer["To"] == BOB
    assert "Check and save:" in text_of(answer)
    assert (topics(session, ada), topics(session, bob)) == (["Flows"], [])


def test_a_stranger_with_a_forwarded_letter_is_sent_how_to_subscribe(
    receive: Receive, deliver: Deliver, session: Session, ada: Subscriber, token: str
) -> None:
    receive(signed_reply(token, "add robots: robot*\n", sender="eve@uni.example"), token)

    (answer,) = deliver()
    assert (answer["To"], "You get no digests at this address" in text_of(answer)) == (
        "eve@uni.example",
        True,
    )
    assert topics(session, ada) == ["Flows"]


def test_a_token_expires_when_its_letter_is_deleted(
    receive: Receive, deliver: Deliver, session: Session, ada: Subscriber, token: str
) -> None:
    session.execute(delete(Delivery))
    session.commit()

    receive(signed_reply(token, "add robots: robot*\n"), token)

    assert is_waiting_for_a_click(session, ada, deliver)


def test_a_token_is_revoked_with_the_other_links(
    receive: Receive, deliver: Deliver, session: Session, ada: Subscriber, token: str
) -> None:
    ada.link_version += 1
    session.commit()

    receive(signed_reply(token, "add robots: robot*\n"), token)

    assert is_waiting_for_a_click(session, ada, deliver)


def test_a_changed_token_is_no_address(site: Site, token: str) -> None:
    local, _, domain = token.partition("@")
    other = f"{local[:-1]}{'0' if local[-1] != '0' else '1'}@{domain}"

    assert classification.is_accepted_recipient(site, token.upper())
    assert not classification.is_accepted_recipient(site, other)
    assert not classification.is_accepted_recipient(site, token.replace("reply+", "bounce+"))
    assert not classification.is_accepted_recipient(replace(site, keys=(b"another key",)), token)


# ── the result of the operator's mail server ────────────────────────────────────────────────────


def test_the_result_of_our_mail_server_is_as_good_as_a_signature(
    receive: Receive, session: Session, ada: Subscriber, token: str
) -> None:
    result = f"{TRUSTED}; dmarc=pass (p=none dis=none) header.from=uni.example"

    receive(reply(token, "add robots: robot*\n", Authentication_Results=result), token, authserv_id=TRUSTED)

    assert topics(session, ada) == ["Flows", "robots"]


@pytest.mark.parametrize(
    "result",
    [
        f"{TRUSTED}; dmarc=pass (p=none dis=none) header.from=uni.example",
        f"{TRUSTED} 1; spf=fail smtp.mailfrom=else.example; dkim=pass header.d=uni.example header.s=s",
        f'{TRUSTED}; dkim=pass reason="2048-bit key" header.i=@uni.example',
        "MX.Example.org; spf=pass smtp.mailfrom=bounces@uni.example",
    ],
)
def test_a_result_for_the_senders_domain_proves_the_sender(result: str) -> None:
    mail = reply(US, "add robots: robot*\n", Authentication_Results=result)

    proof = sender_proof.trusted_result(read_mail(mail), ADA, to=US, authserv_id=TRUSTED)

    assert proof is not None
    assert (proof.domain, proof.message_id) == ("uni.example", "<reply@uni.example>")
    assert sender_proof.trusted_result(read_mail(mail), ADA, to=US, authserv_id="") is None


@pytest.mark.parametrize(
    "results",
    [
        ["mx.else.example; dmarc=pass header.from=uni.example"],
        [f"{TRUSTED}; dmarc=none header.from=uni.example"],
        [f"{TRUSTED}; dmarc=pass header.from=else.example"],
        [f"{TRUSTED}; dkim=pass header.d=else.example"],
        [f"{TRUSTED}; dkim=fail header.d=uni.example"],
        [f"{TRUSTED}; spf=pass smtp.mailfrom=eve@else.example"],
        [f"{TRUSTED}; arc=pass header.d=uni.example"],
        [f"{TRUSTED}; (dmarc=pass header.from=uni.example)"],
        [
            f"{TRUSTED}; spf=pass"
            " smtp.mailfrom==?utf-8?q?x=3B_dmarc=3Dpass_header.from=3Duni.example_y?=@else.example"
        ],
        [f"{TRUSTED}; spf=none (a (nested; dmarc=pass header.from=uni.example) comment)"],
        [f'{TRUSTED}; spf=pass smtp.mailfrom="x; dmarc=pass header.from=uni.example y"@else.example'],
        [f'{TRUSTED}; spf=pass smtp.mailfrom="x \\" ; dmarc=pass header.from=uni.example y"@else.example'],
        [f'{TRUSTED}; spf=pass smtp.mailfrom="x ; dmarc=pass header.from=uni.example y'],
        [f"{TRUSTED}; none"],
        ["mx.else.example; none", f"{TRUSTED}; dmarc=pass header.from=uni.example"],
        [f"{TRUSTED}; none", f"{TRUSTED}; dmarc=pass header.from=uni.example"],
        [f"x{TRUSTED}; dmarc=pass header.from=uni.example"],
        [""],
    ],
)
def test_untrusted_authentication_results_prove_nothing(results: list[str]) -> None:
    """The topmost header is that of our mail server; the sender may have written the others."""
    above = "".join(f"Authentication-Results: {result}\r\n" for result in results).encode()

    mail = above + reply(US, "add robots: robot*\n")

    assert sender_proof.trusted_result(read_mail(mail), ADA, to=US, authserv_id=TRUSTED) is None


def test_results_prove_nothing_unless_a_mail_server_is_configured(
    receive: Receive, deliver: Deliver, session: Session, ada: Subscriber, token: str
) -> None:
    result = f"{TRUSTED}; dmarc=pass header.from=uni.example"

    receive(reply(token, "add robots: robot*\n", Authentication_Results=result), token)

    assert is_waiting_for_a_click(session, ada, deliver)


def test_a_result_for_a_mail_with_two_senders_proves_nothing() -> None:
    result = f"Authentication-Results: {TRUSTED}; dmarc=pass header.from=uni.example\r\n"
    mail = reply(US, "add robots: robot*\n").replace(
        b"From: Ada Ito <ada@uni.example>", b"From: Eve <eve@uni.example>, Ada Ito <ada@uni.example>"
    )

    assert (
        sender_proof.trusted_result(read_mail(result.encode() + mail), ADA, to=US, authserv_id=TRUSTED)
        is None
    )


# ── forged mail ─────────────────────────────────────────────────────────────────────────────────


def test_what_a_forged_from_line_does_is_undone_in_one_step(
    receive: Receive, session: Session, site: Site, ada: Subscriber, now: datetime
) -> None:
    receive(reply(site.sender_address, "pause 4 weeks\n", subject="x"), site.sender_address)
    assert state_of(session, ada) == SubscriberState.PAUSED
    receive(reply(site.sender_address, "resume\n", subject="x"), site.sender_address)
    assert state_of(session, ada) == SubscriberState.ACTIVE
    receive(reply(site.sender_address, "unsubscribe\n", subject="x"), site.sender_address)
    assert state_of(session, ada) == SubscriberState.UNSUBSCRIBED

    ada.confirmed_at = now
    assert unsubscribe_and_undo.undo(session, ada, now=now)
    assert (ada.state, topics(session, ada)) == (SubscriberState.ACTIVE, ["Flows"])


def test_an_automatic_reply_to_a_letter_is_answered_once_a_week_if_unmarked_and_never_if_marked(
    receive: Receive, deliver: Deliver, session: Session, ada: Subscriber, token: str
) -> None:
    away = "I am out of the office until 6 January, and will be back then.\n"

    receive(reply(token, "add robots: robot*\n", Auto_Submitted="auto-replied"), token)
    receive(reply(token, away, subject="Automatic reply: papers"), token)
    assert deliver() == []
    outcomes = [receive(reply(token, away), token, after=timedelta(days=day)) for day in (0, 1, 3)]

    assert ["was sent examples" in outcome for outcome in outcomes] == [
        True,
        False,
        True,
    ]  # Friday, Saturday, Monday
    assert topics(session, ada) == ["Flows"]
