"""A sign-up by mail goes ahead of others only if a signature proves its sender; it must be confirmed either way."""

from __future__ import annotations

import smtplib
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import dkim
import pytest
from sqlalchemy import Engine, func, select
from sqlalchemy.orm import Session

from digest import db
from digest.app_context import AppContext
from digest.cli.keys import new_key
from digest.db.tables.deliveries import Delivery
from digest.db.tables.subscribers import Confirmation, Consent, SignUp, Subscriber, SubscriberState
from digest.inbound import classification, sender_proof, stored_mail
from digest.inbound.mail_rules import MailRules
from digest.inbound.mail_text import read_mail
from digest.letters.dkim_signing import Signer
from digest.mail.dns_records import DnsUnavailable
from digest.settings import load_settings
from digest.site import links
from digest.site.site_profile import Site
from digest.subscribers import confirmations, sign_up_limits, sign_up_queue, subscriber_rows
from tests.inbound.test_classification import opened
from tests.support.waiting import HANG_SECONDS, current_time, wait_until

BOB, US = "bob@lab.uni.example", "digest@example.org"
COVERED = ("from", "to", "subject", "date", "message-id")
MAIL = (
    f"From: Bob <{BOB}>\r\nTo: Digest <{US}>\r\nSubject: subscribe\r\n"
    "Date: Fri, 20 Nov 2026 09:00:00 +0100\r\nMessage-ID: <one@lab.uni.example>\r\n\r\nadd robots: robot*\r\n"
)

Zone = dict[str, list[str]]


@cache
def key() -> Signer:
    """A key that everybody in these tests signs with."""
    return Signer(domain="uni.example", selector="s", pem=new_key("rsa"))


class FreeSigner(dkim.DKIM):  # type: ignore[misc]
    """Signs with tags, and without lines, that dkimpy verifies but does not sign."""

    extra: tuple[tuple[bytes, bytes], ...] = ()
    left_out = b""

    def gen_header(self, fields: Any, covered: Any, *rest: Any, **named: Any) -> Any:
        covered = [name for name in covered if name != self.left_out]
        tags = {**dict(fields[:-2]), b"h": b":".join(covered)} | dict([*self.extra, *fields[-2:]])
        return super().gen_header(list(tags.items()), covered, *rest, **named)


def signed(
    mail: str = MAIL,
    *,
    domain: str = "lab.uni.example",
    covers: Sequence[str] = COVERED,
    expires: datetime | None = None,
    length: bool = False,
    left_out: str = "",
) -> bytes:
    signer = FreeSigner(mail.encode())
    signer.left_out = left_out.encode()
    signer.extra = ((b"x", str(int(expires.timestamp())).encode()),) if expires else ()
    header: bytes = signer.sign(
        b"s", domain.encode(), key().pem, include_headers=[one.encode() for one in covers], length=length
    )
    return header + mail.encode()


def zone(*domains: str, record: str = "") -> Zone:
    return {f"s._domainkey.{domain}": [record or key().dns_record] for domain in domains}


def is_proven(content: bytes, now: datetime, names: Zone | None = None, email: str = BOB) -> bool:
    known = names if names is not None else zone("lab.uni.example", "uni.example", "else.example", "example")
    return (
        sender_proof.prove_sender(
            read_mail(content), email, to=US, lookup=lambda name: known.get(name, []), now=now
        )
        is not None
    )


# ── what is a proof ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("domain", ["lab.uni.example", "uni.example"])
def test_a_signature_of_the_domain_or_of_one_above_it_proves_the_sender(domain: str, now: datetime) -> None:
    assert is_proven(signed(domain=domain), now)
    assert is_proven(signed(domain=domain, expires=now + timedelta(days=3650)), now)


@pytest.mark.parametrize("domain", ["else.example", "x.lab.uni.example", "example", "b.uni.example"])
def test_a_signature_of_another_domain_proves_nothing(domain: str, now: datetime) -> None:
    assert not is_proven(signed(domain=domain), now, zone(domain))


@pytest.mark.parametrize("name", ["to", "subject"])
def test_a_signature_that_leaves_out_a_line_proves_nothing(name: str, now: datetime) -> None:
    assert not is_proven(signed(covers=[one for one in COVERED if one != name]), now)


def test_a_signature_that_leaves_out_the_from_line_proves_nothing(now: datetime) -> None:
    content = signed(left_out="from")
    assert dkim.verify(content, dnsfunc=lambda *_, **__: key().dns_record.encode())
    assert not is_proven(content, now)


def test_a_signature_of_a_part_of_the_body_proves_nothing(now: datetime) -> None:
    content = signed(length=True)
    assert b" l=" in content
    assert dkim.verify(content, dnsfunc=lambda *_, **__: key().dns_record.encode())
    assert not is_proven(content, now)


def test_an_expired_signature_proves_nothing(now: datetime) -> None:
    assert not is_proven(signed(expires=now - timedelta(seconds=1)), now)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"robot", b"rabbit"),
        (f"<{BOB}>".encode(), b"<eve@lab.uni.example>"),
        (b"Subject: subscribe", b"Subject: subscribe Eve"),
        (b"a=rsa-sha256", b"a=rsa-sha1"),
    ],
)
def test_a_mail_that_was_changed_proves_nothing(old: bytes, new: bytes, now: datetime) -> None:
    content = signed().replace(old, new)
    assert content != signed()
    assert not is_proven(content, now, email="eve@lab.uni.example" if b"eve" in new else BOB)


def test_a_signed_mail_to_somebody_else_proves_nothing(now: datetime) -> None:
    assert not is_proven(signed(MAIL.replace(US, "digest@elsewhere.example")), now)


@pytest.mark.parametrize(
    "above",
    [
        b"Subject: subscribe\r\n",
        b"To: digest@example.org\r\n",
        b"From: ann@lab.uni.example\r\n",
        b"X-A: b\rFrom: ann@lab.uni.example\rTo: digest@example.org\rSubject: subscribe\r\r",
    ],
)
def test_a_line_that_is_added_above_a_signed_mail_makes_it_no_proof(above: bytes, now: datetime) -> None:
    for email in (BOB, "ann@lab.uni.example"):
        assert not is_proven(above + signed(), now, email=email)


@pytest.mark.parametrize(
    "sender",
    [
        "ann@lab.uni.example <bob@lab.uni.example>",
        "=?utf-8?q?ann=40lab=2Euni=2Eexample=2C?= <bob@lab.uni.example>",
        '"<ann@lab.uni.example>" <bob@lab.uni.example>',
        "ann@lab.uni.example (<bob@lab.uni.example>)",
    ],
)
def test_a_name_that_looks_like_an_address_is_not_proven(sender: str, now: datetime) -> None:
    content = signed(MAIL.replace(f"Bob <{BOB}>", sender))

    assert not is_proven(content, now, email="ann@lab.uni.example")


def test_a_key_that_is_only_tested_or_was_withdrawn_proves_nothing(now: datetime) -> None:
    tested = key().dns_record.replace("v=DKIM1;", "v=DKIM1; t=y:s;")
    for record in (tested, "v=DKIM1; k=rsa; p=", "v=DKIM1; p=!!!", "nonsense"):
        assert not is_proven(signed(), now, zone("lab.uni.example", record=record))
    assert not is_proven(signed(), now, {})


def test_two_signatures_are_looked_up_at_most_and_only_aligned_ones(now: datetime) -> None:
    asked: list[str] = []

    def lookup(name: str) -> list[str]:
        asked.append(name)
        raise DnsUnavailable("timed out")

    others = b"".join(
        signed(domain=domain).partition(b"From: ")[0] for domain in ("else.example", "uni.example") * 3
    )
    assert (
        sender_proof.prove_sender(read_mail(others + MAIL.encode()), BOB, to=US, lookup=lookup, now=now)
        is None
    )
    assert asked == ["s._domainkey.uni.example"] * 2


def test_a_mail_that_was_made_to_be_slow_is_not_verified(now: datetime) -> None:
    for content in (
        signed(MAIL + "x\r\n" * 100_000),
        b"X: a\r\n" * 10_000 + signed(),
        signed().replace(b"h=from", b"h=" + b"a:" * 3_000 + b"from"),
        b"",
        b"\r\n\r\n",
        b" \r\n" + signed(),
    ):
        assert not is_proven(content, now)


# ── what a proof is good for ────────────────────────────────────────────────────────────────────


Receive = Callable[..., str]


@pytest.fixture
def receive(session: Session, site: Site, now: datetime) -> Receive:
    """Let a mail arrive while the DNS has the keys of these domains."""

    def arrived(content: bytes, *domains: str, fails: bool = False, to: str = US) -> str:
        def lookup(name: str) -> list[str]:
            assert not session.in_transaction()  # the database waits for no DNS server
            if fails:
                raise DnsUnavailable("timed out")
            return zone(*domains).get(name, [])

        (number,) = stored_mail.store_mail(session, sender=BOB, recipients=[to], content=content, now=now)
        rules = MailRules(may_sign_up=None, lookup=lookup)
        return classification.process_mail(session, site=site, number=number, rules=rules, now=now)

    return arrived


def letters(session: Session) -> list[tuple[str, str | None]]:
    return [(letter, email) for letter, email in session.execute(select(Delivery.letter, Delivery.email))]


def waiting(session: Session) -> int:
    return session.scalar(select(func.count(SignUp.id))) or 0


def slow_down(session: Session, now: datetime) -> None:
    """Let a hundred confirmations to strangers be unanswered."""
    row = subscriber_rows.add(session, "victim@else.example", state=SubscriberState.PENDING, now=now)
    for number in range(150):
        made = now - timedelta(minutes=2)
        session.add(
            Confirmation(
                subscriber_id=row.id, made_at=made, expires_at=now + timedelta(days=1), network=f"n{number}"
            )
        )
    session.commit()


def test_a_proven_sign_up_is_sent_its_confirmation_at_once_even_at_the_lowest_pace(
    receive: Receive, session: Session, site: Site, now: datetime
) -> None:
    slow_down(session, now)
    assert sign_up_limits.counts(session, now).is_lowest

    assert receive(signed(), "lab.uni.example").startswith("a sign-up, proven")

    assert letters(session) == [("confirm", BOB)]
    assert waiting(session) == 0
    assert (
        subscriber_rows.get(session, BOB).state == SubscriberState.PENDING
    )  # a press on the link is still needed
    number = session.scalars(select(func.max(Confirmation.id))).one()
    confirmations.confirm(session, site, links.confirm_url(site, number).rpartition("/")[2], now)
    assert subscriber_rows.get(session, BOB).state == SubscriberState.ACTIVE
    assert session.scalars(select(Consent.how)).one() == (
        "confirmed by link, requested by mail <one@lab.uni.example> of Fri, 20 Nov 2026 09:00:00 +0100, "
        "confirmed by lab.uni.example"
    )


@pytest.mark.parametrize(
    ("content", "domains", "fails"),
    [
        (MAIL.encode(), ["lab.uni.example"], False),
        (signed(domain="else.example"), ["else.example"], False),
        (signed().replace(b"robot", b"rabbit"), ["lab.uni.example"], False),
        (signed(), [], False),
        (signed(), ["lab.uni.example"], True),
    ],
    ids=["unsigned", "unaligned", "changed", "no key", "no DNS"],
)
def test_an_unproven_sign_up_by_mail_waits_in_the_queue(
    content: bytes, domains: list[str], fails: bool, receive: Receive, session: Session, site: Site, now: datetime
) -> None:  # fmt: skip
    assert receive(content, *domains, fails=fails) == "a sign-up, waiting to be confirmed"

    assert (letters(session), waiting(session)) == ([], 1)
    assert sign_up_queue.send_confirmations(session, site, now) == 1
    assert letters(session) == [("confirm", BOB)]


def test_forged_mail_from_everybody_causes_as_few_letters_as_one_network(
    receive: Receive, session: Session, site: Site, now: datetime
) -> None:
    for number in range(100):
        receive(MAIL.replace("bob@", f"bob-{number}@").encode())
    for minute in range(60):
        sign_up_queue.send_confirmations(session, site, now + timedelta(minutes=minute))

    assert len(letters(session)) == 10
    assert receive(signed(), "lab.uni.example").startswith("a sign-up, proven")


def test_proven_sign_ups_slow_nobody_down_and_an_owner_of_a_domain_causes_few(
    receive: Receive, session: Session, site: Site, now: datetime
) -> None:
    for number in range(30):
        sub = f"sub{number}.uni.example"
        mail = MAIL.replace("lab.uni.example", sub)
        receive(signed(mail, domain=sub), sub)

    assert len(letters(session)) == 10
    assert waiting(session) == 20
    assert sign_up_limits.counts(session, now).unanswered == 0


def test_a_proven_sign_up_gets_one_confirmation_in_24_hours(receive: Receive, session: Session) -> None:
    for _ in range(3):
        receive(signed(), "lab.uni.example")

    assert letters(session) == [("confirm", BOB)]


def test_mail_that_does_not_ask_to_subscribe_queries_no_dns(receive: Receive, session: Session) -> None:
    for word in ("help", "unsubscribe", "Good morning"):
        mail = read_mail(signed(MAIL.replace("subscribe", word)))
        assert sender_proof.usable_signatures(mail, BOB, to=US, now=current_time())
        assert not classification.awaits_proof(
            Site(url="https://x.example", sender_address=US, keys=(b"k",)), US, mail, current_time()
        )  # fmt: skip


@pytest.fixture
def lmtp(engine: Engine, site: Site, now: datetime, tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "lmtp.sock"
    settings = load_settings(
        {"data_dir": tmp_path, "inbound": f"lmtp://{path}", "inbound_domain": "example.org"}
    )
    names = zone("lab.uni.example")
    context = AppContext(
        settings=settings, engine=engine, site=site, clock=lambda: now, lookup=lambda name: names.get(name, [])
    )  # fmt: skip
    with opened(context):
        yield path


def test_a_signed_mail_over_lmtp_is_answered_by_a_confirmation(lmtp: Path, engine: Engine) -> None:
    with smtplib.LMTP(str(lmtp), timeout=HANG_SECONDS) as client:
        client.sendmail(BOB, [US], signed())

    def is_sent() -> bool:
        with db.read_session(engine) as session:
            return letters(session) == [("confirm", BOB)]

    wait_until("a confirmation", is_sent)
    with db.read_session(engine) as session:
        assert session.scalars(select(Subscriber.email)).one() == BOB
