"""Load dumps and receive digests, through the real processes and over real SMTP.

The test runs on one machine with SQLite and the embedded broker under `digest up`, and as three roles on
PostgreSQL and Redis. Both times the same readers get the same papers exactly once.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import EmailMessage
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from lxml import html

from digest.editions.compose import relevance_bits
from tests.acceptance.recorded_dumps import INTERESTS, Material, invented, real
from tests.conftest import connected
from tests.support.mail_bodies import body_of
from tests.support.mail_sink import Mail, MailSink, run_mail_sink
from tests.support.product_processes import ROOT, Installation, installation
from tests.support.real_servers import free_port
from tests.support.waiting import current_time

pytestmark = [pytest.mark.slow, pytest.mark.promise, pytest.mark.whole]

CAP = 10  #: papers in a digest, by default
SITE_URL = "https://digest.example.org"
ROLES = {"sqlite": [("up",)], "postgresql": [("worker",), ("scheduler",), ("web",)]}


# ── an installation, its readers, its dumps ─────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def material() -> Material:
    """Return the real dumps beside the checkout, or the invented one if they are absent."""
    seeds = ROOT.parent / "shared" / "seeds"
    return real(seeds) if seeds.is_dir() else invented()


@pytest.fixture
def mail_sink() -> Iterator[MailSink]:
    with run_mail_sink() as mail_sink:
        yield mail_sink


@pytest.fixture(params=["sqlite", "postgresql"])
def service(request: pytest.FixtureRequest, tmp_path, mail_sink: MailSink) -> Iterator[Installation]:
    """Yield an installation that mails to the test server, once for each kind of set-up."""
    settings = {
        "MAIL_URL": mail_sink.url,
        "BASE_URL": SITE_URL,
        "SENDER": "Example Digest <digest@example.org>",
        "POSTAL_ADDRESS": "Example Lab, 1 Example Street, 0150 Oslo, Norway",
        "LISTEN": f"127.0.0.1:{free_port()}",
    }
    if request.param == "postgresql":
        settings["DATABASE_URL"] = request.getfixturevalue("postgres_url")
        settings["BROKER_URL"] = request.getfixturevalue("redis_url")
    with installation(tmp_path / "home", settings=settings, roles=ROLES[request.param]) as ours:
        ours.run("db", "upgrade")  # tests look into the database from the beginning
        yield ours


@dataclass(frozen=True, kw_only=True)
class AddedReader:
    """A subscriber that the operator adds, and the expected result."""

    email: str
    topics: tuple[str, ...] = ()
    zone: str = "UTC"
    gets_digest: bool = True


def zone_in_daytime(*candidates: str) -> str:
    """Return a zone in which midnight is hours away: a test must not run into the next edition."""
    now = current_time()
    return next(zone for zone in candidates if 2 <= now.astimezone(ZoneInfo(zone)).hour < 22)


EAST = zone_in_daytime("Asia/Tokyo", "Pacific/Auckland", "Europe/Oslo", "America/Los_Angeles")
WEST = zone_in_daytime("America/Los_Angeles", "America/Sao_Paulo", "Asia/Kolkata", "Asia/Tokyo")

READERS = [
    AddedReader(email="alice@example.org", topics=("Benchmarks",), zone=EAST),
    AddedReader(email="dora@example.org", topics=("Reasons", "Titles"), zone=WEST),
    AddedReader(email="emil@example.org", zone=EAST),  # no topics: trending papers
    AddedReader(email="frida@example.org", topics=("Nowhere",), zone=WEST, gets_digest=False),
]


def admit(service: Installation, *readers: AddedReader) -> None:
    """Import readers who have agreed."""
    members = service.data_dir / "members.csv"
    with members.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["email", "state", "at", "timezone", "topics"])
        for reader in readers:
            topics = {name: INTERESTS[name].filter for name in reader.topics}
            rows.writerow([reader.email, "active", "00:00", reader.zone, json.dumps(topics)])
    service.run("subscribers", "import", str(members), "--consent", "asked at the group meeting")


def drop(service: Installation, material: Material) -> None:
    """Move every dump into the folder atomically, as a careful script does."""
    service.dumps.mkdir(parents=True, exist_ok=True)
    for name, content in material.dumps.items():
        beside = service.data_dir / name
        beside.write_bytes(content)
        beside.rename(service.dumps / name)


def stored(service: Installation, query: str) -> list[Any]:
    """Return rows of the database; a command for each look would take longer than what it waits for."""
    url = service.settings.get("DATABASE_URL", f"sqlite:///{service.data_dir / 'digest.sqlite3'}")
    with connected(url) as engine, engine.connect() as connection:
        return [tuple(row) for row in connection.exec_driver_sql(query)]


def digests_of(service: Installation) -> dict[str, str]:
    """Return the state of every digest by its address."""
    return dict(stored(service, "SELECT email, state FROM delivery WHERE letter = 'digest'"))


# ── the test ────────────────────────────────────────────────────────────────────────────────────


def test_dumps_go_in_and_each_reader_gets_their_digest_once(
    service: Installation, mail_sink: MailSink, material: Material
) -> None:
    deliver_a_morning(service, mail_sink, material)

    assert service.stop() == [0] * len(service.roles)
    assert service.processes() == []


def test_a_service_that_is_started_again_sends_nothing_twice(
    service: Installation, mail_sink: MailSink, material: Material
) -> None:
    deliver_a_morning(service, mail_sink, material)
    service.stop()
    before = len(mail_sink.mails)
    drop(service, material)
    service.open()
    wait_for_a_whole_round(service)

    assert len(mail_sink.mails) == before
    assert service.stop() == [0] * len(service.roles)
    assert service.processes() == []


def deliver_a_morning(service: Installation, mail_sink: MailSink, material: Material) -> None:
    """Load the dumps, let each reader get their digest, and check every mail."""
    service.open()
    drop(service, material)
    service.wait_until(
        f"every paper of the {material.name} in the catalog",
        lambda: stored(service, "SELECT count(*) FROM paper") == [(len(material.papers),)],
    )
    service.run("subscribers", "add", "bob@example.org", "--topic", "All=benchmark*", "--at", "00:00")
    admit(service, *READERS)

    expected = sorted([reader.email for reader in READERS if reader.gets_digest] + ["bob@example.org"])
    mail_sink.wait_for(len(expected))
    states = {reader.email: "sent" if reader.gets_digest else "empty" for reader in READERS}
    service.wait_until("every digest settled", lambda: digests_of(service) == states)

    assert mail_sink.recipients() == expected
    listed = {row["email"]: row["state"] for row in service.lines("deliveries") if row["letter"] == "digest"}
    assert listed == states
    catalog = {paper["display_title"]: paper for paper in service.lines("papers")}
    for reader in READERS:
        for mail in mail_sink.to(reader.email):
            assert_valid(mail)
            assert_right_papers(service, reader, sections_in(mail.parsed()), catalog, material)
    assert_asks_and_says_nothing_else(mail_sink.to("bob@example.org"), catalog)


def wait_for_a_whole_round(service: Installation) -> None:
    """Wait until a restarted service has read its dumps, published and delivered again.

    A reader added now is served by that round, so anything sent twice would be sent with it.
    """
    late = AddedReader(email="late@example.org", topics=("Nowhere",), zone=EAST, gets_digest=False)
    admit(service, late)
    service.wait_until("the late reader's edition", lambda: digests_of(service).get(late.email) == "empty")
    service.wait_until("the dumps to be taken", lambda: not list(service.dumps.glob("*.txt")))
    service.wait_until(
        "an empty outbox",
        lambda: not stored(service, "SELECT id FROM delivery WHERE settled_at IS NULL"),
    )


# ── assertions ──────────────────────────────────────────────────────────────────────────────────


def sections_in(message: EmailMessage) -> dict[str, list[str]]:
    """Return the titles of each topic of the HTML part, in reading order.

    The first title may be the headline; if no paper follows it, its topic is empty.
    """
    document = html.fromstring(body_of(message, "html"))
    sections: dict[str, list[str]] = {}
    lead: list[str] = []
    for element in document.iter("h1", "h2", "h3"):
        words = " ".join(element.text_content().split())
        if element.tag == "h1":
            lead = [words] if element.find("a") is not None else []
        elif element.tag == "h2":
            topic = " ".join((element.text or "").split())
            sections[topic.removeprefix("More: ") if lead else topic] = lead
            lead = []
        else:
            sections[list(sections)[-1]].append(words)
    return sections | ({"": lead} if lead else {})


def assert_right_papers(
    service: Installation,
    reader: AddedReader,
    sections: dict[str, list[str]],
    catalog: dict[str, Any],
    material: Material,
) -> None:
    """Assert that every paper is under a topic it matches, none is shown twice, and the best come first."""
    shown = [title for titles in sections.values() for title in titles]
    assert len(shown) == len(set(shown))
    assert set(shown) <= set(catalog)

    if not reader.topics:
        trending = [
            paper["display_title"]
            for paper in service.lines("papers", "--order", "trending", "--limit", str(CAP))
        ]
        assert shown == trending
        return
    wanted = {topic: material.titles_for(topic) for topic in reader.topics}
    assert len(shown) == min(CAP, len(set().union(*wanted.values())))
    for heading, titles in sections.items():
        topic = heading or reader.topics[0]
        assert {catalog[title]["title"] for title in titles} <= wanted[topic]
        ranking = by_worth(service, topic, catalog)
        assert titles == sorted(titles, key=ranking.index)
        if len(reader.topics) == 1:
            assert titles == ranking[:CAP]


def by_worth(service: Installation, topic: str, catalog: dict[str, Any]) -> list[str]:
    """Return every match of a topic, best first: band of relevance and trending score, in bits."""
    score = {paper["id"]: paper["score"] for paper in catalog.values()}
    title = {paper["id"]: shown for shown, paper in catalog.items()}
    matches = service.json("topics", "test", INTERESTS[topic].filter)["matches"]
    worth = {one["id"]: score[one["id"]] + relevance_bits(one["score"]) for one in matches}
    return [title[number] for number in sorted(worth, key=worth.__getitem__, reverse=True)]


def assert_valid(mail: Mail) -> None:
    """Assert that the mail follows RFC 5322, 2045, 2369 and 8058, and both parts have the same papers."""
    message = mail.parsed()

    assert mail.content.isascii()
    assert not set(b"\r\n") & set(mail.content.replace(b"\r\n", b""))
    assert max(map(len, mail.content.split(b"\r\n"))) <= 998
    assert [defect for part in message.walk() for defect in part.defects] == []
    assert [name for name, value in message.items() if value.defects] == []
    assert [part.get_content_type() for part in message.walk()] == [
        "multipart/alternative",
        "text/plain",
        "text/html",
    ]
    for name in ("From", "To", "Subject", "Date", "Message-ID", "MIME-Version", "List-Unsubscribe"):
        assert len(message.get_all(name, [])) == 1, name
    assert (message["To"],) == mail.recipients
    assert f"<{SITE_URL}/u/" in message["List-Unsubscribe"]
    assert message["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    text = " ".join(body_of(message, "plain").split())
    assert [title for titles in sections_in(message).values() for title in titles if title not in text] == []


def assert_asks_and_says_nothing_else(mails: list[Mail], catalog: dict[str, Any]) -> None:
    """Assert that Bob, who has not confirmed, got the confirmation letter and nothing else."""
    (mail,) = mails
    text = body_of(mail.parsed(), "plain")

    assert f"{SITE_URL}/c/" in text
    assert [title for title in catalog if title in text] == []
