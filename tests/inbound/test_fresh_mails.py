"""Every mail gets its answer: what is done, what could not be read, what was left unread; nothing is guessed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import dkim
import pytest
from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from digest import db
from digest.db.tables.deliveries import Delivery
from digest.db.tables.subscribers import SignUp
from digest.inbound import classification, stored_mail
from digest.inbound.mail_rules import MailRules
from digest.letters.templates import Templates
from digest.process.caches import Caches
from digest.site.site_profile import Site
from digest.subscribers import confirmations, subscriber_rows, subscriber_topics, unsubscribe_and_undo
from tests.inbound.conftest import failing
from tests.inbound.fresh_mail_corpus import ADA, ALL, BOB, EVE, LETTER, QUESTION, FreshMail
from tests.inbound.signed_replies import lookup
from tests.inbound.test_sender_proof import key
from tests.support.delivered_mail import deliver_due
from tests.support.mail_bodies import body_of
from tests.support.publishing_world import PublishingWorld, at

NOW = at("20T09:00")


@dataclass(frozen=True)
class Answered:
    """What came of a mail."""

    outcome: str
    letters: list[str]
    text: str
    state: str
    topics: list[str]
    sign_up: str | None


@pytest.fixture
def world(sqlite_engine: Engine, site: Site, templates: Templates) -> dict[str, str]:
    """A reader with a digest of three papers, somebody yet to confirm, and somebody who left; the reply addresses."""
    world = PublishingWorld(engine=sqlite_engine, site=site, templates=templates)
    world.subscribe(ADA, {"Flows": '"flow matching"'}, now="19T00:00")
    world.subscribe(EVE, {}, now="19T00:00")
    titles = [
        "Flow matching on meshes",
        "Flow matching for images",
        "Flow matching in lines",
        "Robots that ask",
    ]
    world.dump("20T06:00", titles)
    world.publish("20T08:00")
    with db.write_session(sqlite_engine) as session:
        unsubscribe_and_undo.mark_unsubscribed(session, subscriber_rows.get(session, EVE), now=NOW)
        confirmations.request_subscription(session, site, BOB, now=NOW)
        session.commit()
        sent = deliver_due(session, site=site, templates=templates, now=NOW)
    to = {str(letter["To"]): str(letter["Reply-To"]) for letter in sent}
    return {LETTER: to[ADA], QUESTION: to[BOB]}


def signed(content: bytes) -> bytes:
    """Return a mail with the signature of the readers' university."""
    covered = [b"from", b"to", b"subject", b"message-id"]
    header: bytes = dkim.sign(content, b"s", b"uni.example", key().pem, include_headers=covered)
    return header + content


Arrive = Callable[[FreshMail], Answered]


@pytest.fixture
def arrive(
    world: dict[str, str], sqlite_engine: Engine, site: Site, templates: Templates, tmp_path: Path
) -> Arrive:
    """Return a function that processes a mail in a copy of the world, and delivers the answers."""
    with sqlite_engine.connect() as connection:
        path = Path(str(connection.engine.url.database))
    sqlite_engine.dispose()

    caches = Caches()  # shared ones may hold other papers with the same ids

    def arrived(case: FreshMail) -> Answered:
        copy = tmp_path / "copy.sqlite3"
        shutil.copyfile(path, copy)
        engine = db.make_engine(f"sqlite:///{copy}")
        with db.write_session(engine) as session:
            result = processed(session, case)
        engine.dispose()
        return result

    def processed(session: Session, case: FreshMail) -> Answered:
        to = world.get(case.to, case.to)
        content = signed(case.content(to)) if case.is_signed else case.content(to)
        known = session.scalars(select(Delivery.id).order_by(Delivery.id.desc())).first() or 0
        (number,) = stored_mail.store_mail(
            session, sender=case.sender, recipients=[to], content=content, now=NOW
        )
        rules = MailRules(may_sign_up=None, lookup=lookup, templates=templates, caches=caches)
        outcome = classification.process_mail(session, site=site, number=number, rules=rules, now=NOW)
        messages = deliver_due(session, site=site, templates=templates, now=NOW)
        texts = [body_of(one.as_bytes(), "plain") for one in messages]
        row = subscriber_rows.find(session, case.sender) or (
            subscriber_rows.find(session, ADA) if case.to == LETTER else None
        )
        return Answered(
            outcome=outcome,
            letters=list(
                session.scalars(select(Delivery.letter).where(Delivery.id > known).order_by(Delivery.id))
            ),
            text=" ".join(" ".join(texts).replace("\u2060", "").split()),
            state=row.state if row else "",
            topics=[topic.name for topic in subscriber_topics.topics_of(session, row)] if row else [],
            sign_up=session.scalars(select(SignUp.requested_settings)).one_or_none(),
        )

    return arrived


def test_every_mail_of_the_fresh_corpus_is_answered_as_expected(arrive: Arrive) -> None:
    def wrong(case: FreshMail) -> object:
        found = arrive(case)
        is_right = (
            (found.letters, found.state, found.topics) == (list(case.letters), case.state, list(case.topics))
            and all(part in found.text for part in case.says)
            and not any(part in found.text for part in case.silent_on)
            and (case.sign_up in (found.sign_up or "") if case.sign_up else found.sign_up is None)
        )
        return not is_right and found

    assert failing(ALL, wrong) == ""
