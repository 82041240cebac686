"""A reader who erases their data on the page is named nowhere: no row, no log of changes, no stored letter."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from digest.db.tables.subscribers import SubscriberState
from digest.inbound import classification, mail_rules, stored_mail
from digest.site import links
from digest.subscribers import account, confirmations, subscriber_rows
from tests.inbound.command_corpus import MailCase
from tests.support.clock import Clock
from tests.web.conftest import ServedSite, opened, path_of, settings_for

OLD, NEW = "Alice@uni.example", "alice@home.example"
QUESTION = MailCase(sender=OLD, to="digest@localhost", subject="A question", body="Who chooses the papers?\n")


@pytest.fixture(params=["sqlite", "postgresql"])
def stored(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[ServedSite]:
    """The site on one database; its letters are stored in a Maildir."""
    url = request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "postgres_url")
    yield from opened(settings_for(url, tmp_path, operator_email="op@else.example"), clock)


def deliver(served: ServedSite) -> None:
    with served.writing() as session, served.context.open_transport() as transport:
        served.deliver(session, transport)


def receive(served: ServedSite, mail: MailCase, now: datetime) -> None:
    """Process a mail to us, and store another that nobody understands."""
    with served.writing() as session:
        rules = mail_rules.rules_of(served.context)
        for content in (mail.content(), f"From: x@else.example\r\n\r\nWhere is {OLD}?\r\n".encode()):
            (number,) = stored_mail.store_mail(
                session, sender=mail.envelope, recipients=[mail.to], content=content, now=now
            )
            classification.process_mail(session, site=served.site, number=number, rules=rules, now=now)


def account_path_after_a_move(served: ServedSite, now: datetime) -> str:
    """Let a reader write to us and move to another address; return the path of the page with their data."""
    with served.writing() as session:
        alice = subscriber_rows.add(
            session, OLD, topics={"Vision": "title:image*"}, state=SubscriberState.ACTIVE, consent="asked",
            now=now, site=served.site,
        )  # fmt: skip
        session.commit()
        confirmations.send_link(session, served.site, alice, now)
    receive(served, QUESTION, now)
    deliver(served)
    with served.writing() as session:
        alice = subscriber_rows.get(session, OLD)
        account.change_address(session, served.site, alice, NEW, now=now)
        account.queue_account_link(session, served.site, alice, now=now)
        made_at = int(now.timestamp())
        path = path_of(links.account_url(served.site, alice.id, alice.link_version, made_at))
    deliver(served)
    return path


def files_naming(folder: Path, name: bytes) -> list[Path]:
    """Return the files that contain a name: databases, logs of changes, letters."""
    return [path for path in folder.rglob("*") if path.is_file() and name in path.read_bytes().lower()]


def test_an_erasure_on_the_page_leaves_the_reader_named_nowhere(
    stored: ServedSite, tmp_path: Path, now: datetime
) -> None:
    path = account_path_after_a_move(stored, now)
    copies = [file for file in files_naming(tmp_path, b"alice") if file.parent.name == "new"]
    letters = [letter for letter, _ in stored.letters()]
    assert "alice" in stored.everything().lower()

    erased = stored.client.post(path, data={"do": "erase", "sure": "yes"})

    assert "Your data is erased." in erased.text
    assert {"account_link", "how_to_subscribe", "no_command", "passed_on", "settings_link"} <= set(letters)
    assert len(copies) == len(letters) - 1  # all but the answer to somebody else
    assert "alice" not in stored.everything().lower()
    assert files_naming(tmp_path, b"alice") == []


def test_an_erasure_deletes_no_letter_to_anybody_else(
    stored: ServedSite, tmp_path: Path, now: datetime
) -> None:
    with stored.writing() as session:
        bob = subscriber_rows.add(
            session,
            "bob@uni.example",
            state=SubscriberState.ACTIVE,
            consent="asked",
            now=now,
            site=stored.site,
        )
        session.commit()
        confirmations.send_link(session, stored.site, bob, now)
    path = account_path_after_a_move(stored, now)

    stored.client.post(path, data={"do": "erase", "sure": "yes"})

    assert [file.parent.name for file in files_naming(tmp_path / "outbox", b"bob@uni.example")] == ["new"]
    assert "bob@uni.example" in stored.everything()
