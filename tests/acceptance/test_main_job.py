"""The main job: dumps go in, digests come out, through the real processes and over real SMTP.

On one machine with SQLite and the embedded broker under `digest up`; and as three roles of their own
on PostgreSQL and Redis. Both times the same readers get the same papers, once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import EmailMessage
from zoneinfo import ZoneInfo

import pytest
from lxml import html

from digest.composition import RELEVANCE_BITS
from tests.acceptance.material import INTERESTS, Material, invented, real
from tests.mailroom import Mail, Mailroom, open_mailroom
from tests.processes import ROOT, Installation, installation
from tests.servers import free_port

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

CAP = 10  #: papers in a digest, by default
SITE_URL = "https://digest.example.org"
ROLES = {"sqlite": [("up",)], "postgresql": [("worker",), ("scheduler",), ("web",)]}


# ── a house, its readers, its dumps ─────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def material() -> Material:
    """The real dumps beside the checkout, or the invented one where they are absent."""
    seeds = ROOT.parent / "shared" / "seeds"
    return real(seeds) if seeds.is_dir() else invented()


@pytest.fixture
def mailroom() -> Iterator[Mailroom]:
    with open_mailroom() as mailroom:
        yield mailroom


@pytest.fixture(params=sorted(ROLES))
def house(request: pytest.FixtureRequest, tmp_path, mailroom: Mailroom) -> Iterator[Installation]:
    """An installation that mails to our server: once for each kind of set-up."""
    settings = {
        "MAIL_URL": mailroom.url,
        "BASE_URL": SITE_URL,
        "SENDER": "Example Digest <digest@example.org>",
        "POSTAL_ADDRESS": "Example Lab, 1 Example Street, 0150 Oslo, Norway",
        "PORT": str(free_port()),
    }
    if request.param == "postgresql":
        settings["DATABASE_URL"] = request.getfixturevalue("postgres_url")
        settings["BROKER_URL"] = request.getfixturevalue("redis_url")
    with installation(tmp_path / "home", settings=settings, roles=ROLES[request.param]) as ours:
        yield ours


@dataclass(frozen=True, kw_only=True)
class Reader:
    """Somebody the operator adds, and what must come of it."""

    email: str
    topics: tuple[str, ...] = ()
    zone: str = "UTC"
    gets_digest: bool = True


def zone_in_daytime(*candidates: str) -> str:
    """Return a zone in which midnight is hours away: a test must not run into the next edition."""
    now = datetime.now(UTC)
    return next(zone for zone in candidates if 2 <= now.astimezone(ZoneInfo(zone)).hour < 22)


EAST = zone_in_daytime("Asia/Tokyo", "Pacific/Auckland", "Europe/Oslo", "America/Los_Angeles")
WEST = zone_in_daytime("America/Los_Angeles", "America/Sao_Paulo", "Asia/Kolkata", "Asia/Tokyo")

READERS = [
    Reader(email="alice@example.org", topics=("Benchmarks",), zone=EAST),
    Reader(email="dora@example.org", topics=("Reasons", "Titles"), zone=WEST),
    Reader(email="emil@example.org", zone=EAST),  # no topics: what trends
    Reader(email="frida@example.org", topics=("Nowhere",), zone=WEST, gets_digest=False),
]


def admit(house: Installation, reader: Reader) -> None:
    topics = [part for name in reader.topics for part in ("--topic", f"{name}={INTERESTS[name].filter}")]
    house.run(
        "subscribers", "add", reader.email, *topics, "--at", "00:00", "--timezone", reader.zone,
        "--confirmed", "--consent", "asked at the group meeting",
    )  # fmt: skip


def drop(house: Installation, material: Material) -> None:
    """Put every dump into the folder in one step, as a careful script does."""
    house.dumps.mkdir(parents=True, exist_ok=True)
    for name, content in material.dumps.items():
        beside = house.data_dir / name
        beside.write_bytes(content)
        beside.rename(house.dumps / name)


def digests_of(house: Installation) -> dict[str, str]:
    """Return the state of every digest by its address."""
    return {row["email"]: row["state"] for row in house.lines("deliveries") if row["letter"] == "digest"}


# ── the job ─────────────────────────────────────────────────────────────────────────────────────


def test_dumps_go_in_and_each_reader_gets_their_digest_once(
    house: Installation, mailroom: Mailroom, material: Material
) -> None:
    house.open()
    drop(house, material)
    house.wait_until(
        f"every paper of the {material.name} in the catalog",
        lambda: len(house.lines("papers")) == len(material.papers),
    )
    house.run("subscribers", "add", "bob@example.org", "--topic", "All=benchmark*", "--at", "00:00")
    house.run("suppressions", "add", "charlie@example.org")
    for reader in READERS:
        admit(house, reader)

    expected = sorted([reader.email for reader in READERS if reader.gets_digest] + ["bob@example.org"])
    mailroom.wait_for(len(expected), seconds=90)
    house.wait_until(
        "every digest settled",
        lambda: (
            digests_of(house)
            == {reader.email: "sent" if reader.gets_digest else "empty" for reader in READERS}
        ),
    )

    assert mailroom.recipients() == expected
    catalog = {paper["display_title"]: paper for paper in house.lines("papers")}
    for reader in READERS:
        for mail in mailroom.to(reader.email):
            assert_valid(mail)
            assert_right_papers(house, reader, sections_in(mail.parsed()), catalog, material)
    assert_asks_and_says_nothing_else(mailroom.to("bob@example.org"), catalog)

    assert house.stop() == [0] * len(house.roles)
    assert house.processes() == []

    before = len(mailroom.mails)
    drop(house, material)
    house.open()
    wait_for_a_whole_round(house)

    assert len(mailroom.mails) == before
    assert house.stop() == [0] * len(house.roles)
    assert house.processes() == []


def wait_for_a_whole_round(house: Installation) -> None:
    """Wait until a house that has just been started has read its dumps, published and delivered anew.

    A reader who is added now is served by that round; what it would send twice goes out with it.
    """
    late = Reader(email="late@example.org", topics=("Nowhere",), zone=EAST, gets_digest=False)
    admit(house, late)
    house.wait_until("the late reader's edition", lambda: digests_of(house).get(late.email) == "empty")
    house.wait_until("the dumps to be taken", lambda: not list(house.dumps.glob("*.txt")))
    house.wait_until(
        "an empty outbox",
        lambda: (
            not [row for row in house.lines("deliveries") if row["state"] in {"queued", "claimed", "sending"}]
        ),
    )


# ── what must be true of it ─────────────────────────────────────────────────────────────────────


def sections_in(message: EmailMessage) -> dict[str, list[str]]:
    """Return the titles under each heading of the HTML part, in reading order."""
    document = html.fromstring(message.get_body(("html",)).get_content())
    sections: dict[str, list[str]] = {}
    for element in document.iter("h2", "h3"):
        words = " ".join(element.text_content().split())
        if element.tag == "h2":
            sections[words] = []
        else:
            sections[list(sections)[-1]].append(words)
    return sections


def assert_right_papers(
    house: Installation, reader: Reader, sections: dict[str, list[str]], catalog: dict, material: Material
) -> None:
    """Every paper belongs where it stands, none stands twice, and the best come first."""
    shown = [title for titles in sections.values() for title in titles]
    assert len(shown) == len(set(shown))
    assert set(shown) <= set(catalog)

    if not reader.topics:
        trending = [paper["display_title"] for paper in house.lines("trending", "--limit", str(CAP))]
        assert shown == trending
        return
    wanted = {topic: material.titles_for(topic) for topic in reader.topics}
    assert len(shown) == min(CAP, len(set().union(*wanted.values())))
    for topic, titles in sections.items():
        assert {catalog[title]["title"] for title in titles} <= wanted[topic]
        ranking = by_worth(house, topic, catalog)
        assert titles == sorted(titles, key=ranking.index)
        if len(reader.topics) == 1:
            assert titles == ranking[:CAP]


def by_worth(house: Installation, topic: str, catalog: dict) -> list[str]:
    """Return every match of a topic, best first: attention and fit added up, in bits."""
    score = {paper["id"]: paper["score"] for paper in catalog.values()}
    title = {paper["id"]: shown for shown, paper in catalog.items()}
    matches = house.json("topics", "test", INTERESTS[topic].filter)["matches"]
    worth = {one["id"]: score[one["id"]] + RELEVANCE_BITS * one["score"] for one in matches}
    return [title[number] for number in sorted(worth, key=worth.__getitem__, reverse=True)]


def assert_valid(mail: Mail) -> None:
    """It is what RFC 5322, 2045, 2369 and 8058 ask for, and both parts tell of the same papers."""
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
        assert len(message.get_all(name)) == 1, name
    assert (message["To"],) == mail.recipients
    assert f"<{SITE_URL}/u/" in message["List-Unsubscribe"]
    assert message["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    text = " ".join(message.get_body(("plain",)).get_content().split())
    assert [title for titles in sections_in(message).values() for title in titles if title not in text] == []


def assert_asks_and_says_nothing_else(mails: list[Mail], catalog: dict) -> None:
    """Bob has not confirmed: he gets the one letter that asks him."""
    (mail,) = mails
    text = mail.parsed().get_body(("plain",)).get_content()

    assert f"{SITE_URL}/c/" in text
    assert [title for title in catalog if title in text] == []
