"""Stored mail has limits that no stranger can use up for others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

import pytest
from sqlalchemy import Engine, select, text, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from digest import db
from digest.db.tables.inbound_mail import InboundMail, MailPurpose, MailState
from digest.db.tables.subscribers import SignUp
from digest.inbound import classification, mail_rules, stored_mail, writer_checks
from digest.inbound.mail_text import read_mail
from digest.inbound.stored_mail import InboxFull
from digest.monitoring import problems
from digest.site.site_profile import Site

ROLE, US = "abuse@example.org", "digest@example.org"


@pytest.fixture
def session(sqlite_engine: Engine) -> Iterator[Session]:
    with db.write_session(sqlite_engine) as session:
        yield session


def keep(session: Session, now: datetime, *, to: str = ROLE, network: str, count: int = 1) -> None:
    """Keep mail from one network, each from another sender."""
    for number in range(count):
        session.add(
            InboundMail(
                received_at=now, sender=f"{number}@x.example", recipient=to, purpose=stored_mail.purpose_of(to),
                network=network, content=b"x", state=MailState.SHUNTED,
            )
        )  # fmt: skip
    session.commit()


def is_refused(
    session: Session, site: Site, *, to: str, content: bytes = b"hello", network: str = "192.0.2.1"
) -> bool:
    try:
        stored_mail.check_storage(
            session, sender="bob@uni.example", network=network, recipient=to, size=len(content),
            may_be_kept=classification.may_be_kept(site, to, read_mail(content)),
        )  # fmt: skip
    except InboxFull:
        return True
    return False


def test_kept_mail_refuses_no_command_and_no_mail_to_a_signed_address(
    session: Session, site: Site, now: datetime
) -> None:
    from_bob = b"From: bob@uni.example\r\n\r\n"
    for to in (ROLE, US, "bounce+1.x@example.org"):
        keep(session, now, to=to, network="192.0.2.1", count=stored_mail.NETWORK_LIMIT.mails)

    assert is_refused(session, site, to=ROLE)
    assert is_refused(session, site, to=US, content=from_bob + b"a letter\r\n")
    assert not is_refused(session, site, to=US, content=from_bob + b"unsubscribe\r\n")
    assert not is_refused(session, site, to=US, content=from_bob + b"add Robots: robot*\r\n")
    for local in ("bounce+1.x", "unsubscribe+1.x", "reply+1.x", "digest-confirm+1.x"):
        assert not is_refused(session, site, to=f"{local}@example.org"), local


def test_one_network_uses_up_no_other_networks_space(session: Session, site: Site, now: datetime) -> None:
    keep(session, now, network="192.0.2.1", count=stored_mail.NETWORK_LIMIT.mails)

    assert is_refused(session, site, to=ROLE)
    assert not is_refused(session, site, to=ROLE, network="192.0.2.2")
    assert not is_refused(session, site, to=US)


def test_mail_that_waits_is_limited_also_for_commands(session: Session, site: Site, now: datetime) -> None:
    keep(session, now, to=US, network="192.0.2.1", count=stored_mail.NETWORK_LIMIT.mails)
    session.execute(update(InboundMail).values(state=MailState.NEW))

    assert is_refused(session, site, to=US, content=b"Subject: help\r\n\r\n")
    assert not is_refused(session, site, to=US, content=b"Subject: help\r\n\r\n", network="192.0.2.2")


def test_sign_ups_by_mail_wait_with_the_network_that_sent_them(
    session: Session, site: Site, now: datetime
) -> None:
    """Otherwise ten forged sign-ups would block those of everybody whose mail server does not sign."""
    site = replace(site, inbound_domain="example.org")
    for number, network in enumerate(("192.0.2.1", "192.0.2.2", "192.0.2.2", "", "")):
        content = f"From: r{number}@uni.example\r\nTo: {US}\r\nSubject: subscribe\r\n\r\n".encode()
        (mail,) = stored_mail.store_mail(
            session, sender=f"r{number}@uni.example", recipients=[US], content=content, network=network, now=now
        )  # fmt: skip
        classification.process_mail(
            session, site=site, number=mail, rules=mail_rules.MailRules(may_sign_up=None), now=now
        )

    first, *second, third, fourth = session.scalars(select(SignUp.network).order_by(SignUp.id))
    assert second[0] == second[1]
    assert third == fourth == "mail"
    assert len({first, second[0], third}) == 3
    assert "192.0.2" not in first + second[0]


def test_a_mail_that_the_database_refuses_blocks_no_later_mail(
    session: Session, site: Site, now: datetime
) -> None:
    for sender in ("eve@x.example", "bob@x.example"):
        stored_mail.store_mail(session, sender=sender, recipients=[ROLE], content=b"x", now=now)
    refuse = (
        "CREATE TRIGGER no BEFORE UPDATE ON inbound_mail WHEN new.id = 1 BEGIN SELECT raise(abort, 'no'); END"
    )
    session.execute(text(refuse))
    session.commit()

    with pytest.raises(DBAPIError):
        classification.process_stored_mails(session, site=site, now=now)

    assert session.scalars(select(InboundMail.state).order_by(InboundMail.id)).all() == ["new", "shunted"]


def test_above_the_total_limit_the_largest_network_loses_its_oldest_mail(
    session: Session, now: datetime
) -> None:
    most = stored_mail.TOTAL_LIMIT.mails
    keep(session, now, network="honest")
    keep(session, now, network="flood", count=most - 1)
    assert list(problems.full_inbox(session)) != []
    keep(session, now, network="late", count=2)

    assert stored_mail.delete_surplus(session, MailPurpose.ROLE) == 2

    left = session.execute(select(InboundMail.id, InboundMail.network).order_by(InboundMail.id)).all()
    assert [row.network for row in left if row.network != "flood"] == ["honest", "late", "late"]
    assert [row.id for row in left][:2] == [1, 4]


def test_the_sending_network_is_that_of_the_client_of_the_mail_server_in_front() -> None:
    networks = {
        "from mx.else.example (unknown [198.51.100.7]) by mail.example.org (Postfix) with ESMTP id 1": "198.51.100.7",
        "from [203.0.113.9] (mx [IPv6:2001:db8:0:1::7]) by mail.example.org": "2001:db8:0:1::/64",
        "from mx.else.example ([::ffff:192.0.2.1]) by mail.example.org": "192.0.2.1",
        "from mx.else.example ([fe80::1]) by mail.example.org": "fe80::/64",
        "by localhost (Postfix, from userid 0)": "",
    }
    forged = "Received: from mx.else.example ([203.0.113.1]) by mx.else.example"
    for received, network in networks.items():
        mail = read_mail(f"Received: {received}\r\n{forged}\r\n\r\nhello".encode())
        assert writer_checks.sending_network(mail) == network, received
    assert writer_checks.sending_network(None) == ""
