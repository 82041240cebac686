"""Test an operator's week on the command line; each test runs a whole sequence of commands."""

from __future__ import annotations

import json
import os
import signal
import smtplib
import socket
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from email import message_from_bytes, policy
from pathlib import Path

import pytest

from digest.bounces.broken_domains import MASS_FAILURE_COUNT
from digest.process.heartbeats import SILENT_AFTER
from tests.cli import conftest as command_line
from tests.cli.conftest import Digest
from tests.support import sample_mails
from tests.support.faulty_smtp_server import Fault, FaultyServer, faulty_server
from tests.support.mail_sink import MailSink, run_mail_sink
from tests.support.product_processes import installation
from tests.support.real_servers import free_port
from tests.support.waiting import HANG_SECONDS, current_time, wait_until

alone = command_line.alone  # the fixtures that run a command in this process, on a data directory of its own
digest = command_line.digest

PACK = "pack: lab\n\ntides = tide*\n\nkites = kite*\n"
THEMES = ("tides", "kites")
CONSENT = ("--consent", "they are members of the lab")
JOINED = "2026-11-18T07:00Z"
KEYS = {"SECRET_KEY": "the key of the tests", "PEPPER": "the pepper of the tests"}


@pytest.fixture
def mail_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyServer]:
    """A mail server that a test can make fail; every command sends to it."""
    with faulty_server() as server:
        monkeypatch.setenv("DIGEST_MAIL_URL", f"smtp://127.0.0.1:{server.port}")
        yield server


@pytest.fixture(autouse=True)
def _equal_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give all services the same keys: the templates of a digest are split once per site."""
    for name, value in KEYS.items():
        monkeypatch.setenv(f"DIGEST_{name}", value)


# ── readers, papers, mornings ───────────────────────────────────────────────────────────────────


def packs_of(number: int) -> tuple[str, ...]:
    """Return the themes of a reader: tides, kites, or both."""
    return (THEMES[:1], THEMES[1:], THEMES)[number % 3]


def addresses_at(domain: str, count: int) -> list[str]:
    return [f"reader{number:03}@{domain}" for number in range(count)]


def write_members(path: Path, emails: list[str]) -> Path:
    """Write the members of the lab as a spreadsheet exports them, each with their packs."""
    rows = [
        f"{email},Reader {number},active,{'; '.join(f'lab/{theme}' for theme in packs_of(number))}"
        for number, email in enumerate(emails)
    ]
    path.write_text("\n".join(["email,name,state,packs", *rows, ""]))
    return path


def publish_pack(digest: Digest, folder: Path) -> None:
    (folder / "lab.pack").write_text(PACK)
    assert digest("topics", "pack", "publish", folder / "lab.pack").code == 0


def import_members(digest: Digest, folder: Path, emails: list[str], *, now: str = JOINED) -> None:
    publish_pack(digest, folder)
    members = write_members(folder / "members.csv", emails)
    done = digest("subscribers", "import", members, *CONSENT, "--now", now, "--json")
    assert (done.code, done.document["added"]) == (0, len(emails)), done.err


def title(theme: str, day: object) -> str:
    return f"{theme.title()} measured on day {day}"


def write_list(folder: Path, *days: object) -> Path:
    """Write a list with one paper of each theme for each of these days."""
    file = folder / f"list-{'-'.join(map(str, days))}.jsonl"
    rows = [
        {"title": title(theme, day), "abstract": f"We measure {theme} and report figure {day}."}
        for day in days
        for theme in THEMES
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def read_list(digest: Digest, folder: Path, day: int, *earlier: int) -> None:
    file = write_list(folder, day, *earlier)
    read = digest("intake", file, "--date", f"2026-11-{day}", "--now", f"2026-11-{day}T07:30Z")
    assert read.code == 0, read.err


def morning(digest: Digest, folder: Path, day: int, *earlier: int) -> int:
    """Read the list of a day, publish and deliver; return how many letters were sent."""
    read_list(digest, folder, day, *earlier)
    ran = digest("run", "--now", f"2026-11-{day}T08:30Z", "--json")
    assert ran.code == 0, ran.err
    return int(ran.document["delivered"]["sent"])


def papers_in(content: bytes, days: range = range(18, 30)) -> set[str]:
    """Return the titles of invented papers that a letter shows."""
    body = message_from_bytes(content, policy=policy.default).get_body(("plain",))
    assert body is not None
    text = " ".join(body.get_content().split())
    return {title(theme, day) for theme in THEMES for day in days if title(theme, day) in text}


def mailed(server: FaultyServer) -> Counter[tuple[str, str]]:
    """Count how often each paper was mailed to each address."""
    with server.lock:
        taken = list(server.taken)
    return Counter((mail.recipient, paper) for mail in taken for paper in papers_in(mail.content))


def expected_papers(emails: list[str], *days: int) -> Counter[tuple[str, str]]:
    """Return what every reader must get, once: the papers of their packs of these days."""
    return Counter(
        (email, title(theme, day))
        for number, email in enumerate(emails)
        for theme in packs_of(number)
        for day in days
    )


def causes(digest: Digest, now: str) -> list[str]:
    return [one["cause"] for one in digest("status", "--now", now, "--json").document["problems"]]


# ── the journeys ────────────────────────────────────────────────────────────────────────────────


def test_three_hundred_imported_people_get_the_papers_of_their_packs_once(
    digest: Digest, tmp_path: Path, mail_server: FaultyServer
) -> None:
    emails = addresses_at("lab.example", 300)
    publish_pack(digest, tmp_path)
    members = write_members(tmp_path / "members.csv", emails)

    planned = digest(
        "subscribers", "import", members, *CONSENT, "--dry-run", "--now", JOINED, "--json"
    ).document
    nobody = digest("subscribers", "list", "--json").lines
    done = digest("subscribers", "import", members, *CONSENT, "--now", JOINED, "--json").document
    again = digest("subscribers", "import", members, *CONSENT, "--now", JOINED, "--json").document
    sent = morning(digest, tmp_path, 20)
    repeated = digest("run", "--now", "2026-11-20T09:00Z", "--json").document["delivered"]["sent"]
    status = digest("status", "--now", "2026-11-20T09:01Z", "--json")

    assert (planned["added"], nobody) == (300, [])
    assert (done["added"], done["rejected"], again["added"]) == (300, 0, 0)
    assert (sent, repeated) == (300, 0)
    assert mailed(mail_server) == expected_papers(emails, 20)
    assert status.document["subscribers"]["active"] == 300
    assert (status.code, status.document["problems"]) == (0, [])


def test_a_domain_whose_addresses_all_bounce_is_named_and_its_readers_return_when_forgiven(
    digest: Digest, tmp_path: Path, mail_server: FaultyServer
) -> None:
    flooded, dry = addresses_at("flooded.example", 30), addresses_at("dry.example", 9)
    emails = [*flooded, *dry]
    import_members(digest, tmp_path, emails)
    assert morning(digest, tmp_path, 19) == len(emails)
    mail_server.plan = lambda email: Fault.RCPT_550 if email in flooded else None
    morning(digest, tmp_path, 20)
    bounced = digest("bounces", "list", "--domain", "flooded.example", "--json").lines
    shown = digest("status", "--now", "2026-11-20T09:00Z")

    mail_server.plan = lambda _: None
    forgive = ("bounces", "forgive", "--domain", "flooded.example", "--now", "2026-11-20T12:00Z", "--json")
    planned = digest(*forgive, "--dry-run").document
    still = causes(digest, "2026-11-20T12:00Z")
    forgiven = digest(*forgive).document
    digest("deliveries", "resume", "--now", "2026-11-20T12:01Z")
    after = causes(digest, "2026-11-20T12:02Z")
    morning(digest, tmp_path, 21)

    assert "addresses of flooded.example failed within a day" in shown.out
    assert "dry.example" not in shown.out
    assert "frozen-flooded.example" in still
    assert len(bounced) >= MASS_FAILURE_COUNT
    assert planned == forgiven == {"domain": "flooded.example", "forgiven": len(bounced), "lifted": 0}
    assert (after, digest("suppressions", "list", "--json").lines) == ([], [])
    assert max(mailed(mail_server).values()) == 1
    assert expected_papers(emails, 19, 21) <= mailed(mail_server)


@pytest.mark.slow  # starts a real process
def test_a_reader_who_complains_is_never_mailed_again_and_no_import_brings_them_back(
    digest: Digest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = free_port()
    today = current_time().replace(hour=8, minute=30)
    with run_mail_sink() as sink:
        inbound = {
            "MAIL_URL": sink.url, "SENDER": "Example Digest <digest@example.org>",
            "INBOUND": f"smtp://127.0.0.1:{port}", "INBOUND_DOMAIN": "back.example.org",
            **KEYS,
        }  # fmt: skip
        for name, value in inbound.items():
            monkeypatch.setenv(f"DIGEST_{name}", value)
        emails = addresses_at("lab.example", 3)
        import_members(digest, tmp_path, emails, now=(today - timedelta(days=3)).isoformat())
        digest_of_day(digest, tmp_path, today - timedelta(days=2))
        with installation(tmp_path / "data", settings=inbound) as ours:
            ours.start("inbound")
            complain(sink, emails[0], port)
            wait_until(
                "the complaint", lambda: digest("bounces", "list", "--kind", "complaint", "--json").lines
            )
            assert ours.stop() == [0]
        before = len(sink.to(emails[0]))
        imported = digest("subscribers", "import", tmp_path / "members.csv", *CONSENT, "--json").document
        synced = digest("subscribers", "sync", tmp_path / "members.csv", *CONSENT, "--yes", "--json").document
        added = digest("subscribers", "add", emails[0], "--confirmed", *CONSENT)
        digest_of_day(digest, tmp_path, today - timedelta(days=1))

    (suppression,) = digest("suppressions", "list", "--json").lines
    states = {one["email"]: one["state"] for one in digest("subscribers", "list", "--json").lines}
    assert suppression["reason"] == "complaint"
    assert states == dict(zip(emails, ["unsubscribed", "active", "active"], strict=True))
    assert (imported["added"], synced["added"], synced["kept_out"]) == (0, 0, 1)
    assert added.code != 0, added.out
    assert [len(sink.to(email)) for email in emails] == [before, 2, 2]


def digest_of_day(digest: Digest, folder: Path, at: datetime) -> None:
    """Read the list of a day, publish and deliver."""
    file = write_list(folder, at.day)
    read = digest("intake", file, "--date", f"{at:%Y-%m-%d}", "--now", (at - timedelta(hours=1)).isoformat())
    ran = digest("run", "--now", at.isoformat())
    assert (read.code, ran.code) == (0, 0), read.err + ran.err


def complain(sink: MailSink, email: str, port: int) -> None:
    """Report a reader's letter as spam, as a mailbox provider does once the inbound server listens."""
    (letter,) = sink.to(email)
    report = sample_mails.complaint(quoted=f"Return-Path: <{letter.sender}>")
    wait_until("the inbound server", lambda: is_open(port))
    with smtplib.SMTP("127.0.0.1", port, timeout=HANG_SECONDS) as client:
        client.sendmail("feedback@mailbox.example", ["abuse@back.example.org"], report)


def is_open(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def test_a_wrong_dump_is_hidden_and_digests_that_wait_expire_without_it(
    digest: Digest, tmp_path: Path, mail_server: FaultyServer
) -> None:
    emails = addresses_at("lab.example", 6)
    import_members(digest, tmp_path, emails)
    read_list(digest, tmp_path, 20)  # the right list
    wrong = write_list(tmp_path, 21)
    digest("intake", wrong, "--date", "2026-11-20", "--now", "2026-11-20T07:40Z")
    digest("publish", "--now", "2026-11-20T08:30Z")

    stopped = digest("deliveries", "stop", "--reason", "a wrong list", "--now", "2026-11-20T08:31Z")
    hidden = digest("hide", "--dump", "2", "--now", "2026-11-20T08:32Z", "--json").document
    kept_back = digest("run", "--now", "2026-11-20T08:35Z", "--json").document["delivered"]["sent"]
    expired = digest("run", "--now", "2026-11-21T00:10Z", "--json").document["delivered"]["expired"]
    resumed = digest("deliveries", "resume", "--now", "2026-11-21T07:00Z")
    sent = digest("run", "--now", "2026-11-21T08:30Z", "--json").document["delivered"]["sent"]

    assert (stopped.code, hidden["changed"], kept_back, resumed.code) == (0, 2, 0, 0)
    assert (expired, sent) == (6, 6)
    assert mailed(mail_server) == expected_papers(emails, 20)


def test_an_erasure_request_leaves_nothing_in_database_files_and_letters(
    digest: Digest, tmp_path: Path
) -> None:
    emails = ["zebrafinch@lab.example", "reader@lab.example"]
    import_members(digest, tmp_path, emails)
    digest(
        "subscribers",
        "edit",
        emails[0],
        "--name",
        "Zoe Finch",
        "--topic",
        "Zebrafish=zebrafish*",
        "--now",
        JOINED,
    )
    morning(digest, tmp_path, 19)
    read_list(digest, tmp_path, 20)
    digest("publish", "--now", "2026-11-20T08:30Z")  # one of their letters is still in the outbox
    before = traces(digest, tmp_path, "before")

    planned = digest("subscribers", "erase", emails[0], "--dry-run", "--now", "2026-11-20T08:31Z")
    untouched = digest("subscribers", "show", emails[0]).code
    refused = digest("subscribers", "erase", emails[0], "--now", "2026-11-20T08:31Z")
    erased = digest("subscribers", "erase", emails[0], "--suppress", "--yes", "--now", "2026-11-20T08:31Z")
    digest("run", "--now", "2026-11-20T08:35Z")
    back = digest("subscribers", "import", tmp_path / "members.csv", *CONSENT, "--now", "2026-11-20T09:00Z")
    after = traces(digest, tmp_path, "after")

    assert {"digest.sqlite3", "backup-before", "new"} <= before
    assert (planned.code, untouched, refused.code, erased.code) == (0, 0, 2, 0)
    assert "--yes" in refused.err
    assert back.code == 0
    assert after == set()
    assert [one["email"] for one in digest("subscribers", "list", "--json").lines] == [emails[1]]
    letters = [path.read_bytes() for path in (tmp_path / "data" / "outbox" / "new").iterdir()]
    assert sorted(paper for letter in letters for paper in papers_in(letter)) == [
        title("kites", 19), title("kites", 20),
    ]  # fmt: skip


def traces(digest: Digest, folder: Path, name: str) -> set[str]:
    """Return the files of the service, and the folders of letters, that still name the reader.

    A backup is written first: one file with every row of the database.
    """
    assert digest("backup", folder / "data" / f"backup-{name}", "--with-keys").code == 0
    files = [path for path in (folder / "data").rglob("*") if path.is_file()]
    naming = [path for path in files if any(word in path.read_bytes().lower() for word in NAMES)]
    found = {path.parent.name if path.suffix == ".eml" else path.name for path in naming}
    (folder / "data" / f"backup-{name}").unlink()
    return found


NAMES = (b"zebrafinch", b"zoe finch")


@pytest.fixture(params=["sqlite", "postgresql"])
def next_database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of an empty database, of either kind."""
    if request.param == "postgresql":
        return str(request.getfixturevalue("empty_postgres_url"))
    return f"sqlite:///{tmp_path / 'next.sqlite3'}"


def test_a_restore_mails_nobody_twice_and_brings_back_nobody_who_left(
    digest: Digest,
    tmp_path: Path,
    mail_server: FaultyServer,
    next_database: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    emails = addresses_at("lab.example", 12)
    import_members(digest, tmp_path, emails)
    morning(digest, tmp_path, 19)
    assert digest("backup", tmp_path / "digest.backup", "--now", "2026-11-19T12:00Z").code == 0
    morning_with_three_deferred_letters(digest, tmp_path, mail_server, emails[3:6])
    three_readers_leave(digest, *emails[:3])
    before = mailed(mail_server)

    monkeypatch.setenv("DIGEST_DATABASE_URL", next_database)
    restored = digest("restore", tmp_path / "digest.backup", "--now", "2026-11-20T10:00Z", "--json")
    stopped = digest("status", "--now", "2026-11-20T10:01Z")
    while_stopped = morning(digest, tmp_path, 20)
    expired = [one for one in digest("deliveries", "--json").lines if one["reason"] == "restored"]
    resumed = digest("deliveries", "resume", "--now", "2026-11-20T10:10Z")
    digest("run", "--now", "2026-11-20T12:00Z")
    same_day, _ = mailed(mail_server), morning(digest, tmp_path, 21)

    assert (restored.code, stopped.code, while_stopped, resumed.code) == (0, 1, 0, 0)
    assert (restored.document["opt_outs"], restored.document["damaged"]) == (3, 0)
    assert "digest deliveries resume" in stopped.out
    assert ({one["edition"] for one in expired}, same_day) == ({"daily-2026-11-20"}, before)
    afterwards = mailed(mail_server) - before
    assert afterwards.keys() >= {pair for pair in expected_papers(emails, 21) if pair[0] in emails[3:]}
    assert {email for email, _ in afterwards} == set(emails[3:])
    assert max(mailed(mail_server).values()) == 1
    assert_that_three_stayed_away(digest, *emails[:3])


def morning_with_three_deferred_letters(
    digest: Digest, folder: Path, mail_server: FaultyServer, deferred: list[str]
) -> None:
    mail_server.plan = lambda email: Fault.RCPT_451 if email in deferred else None
    morning(digest, folder, 20)
    mail_server.plan = lambda _: None


def three_readers_leave(digest: Digest, left: str, refused: str, erased: str) -> None:
    """Unsubscribe, suppress and erase one reader each; the next run records this outside the database."""
    done = [
        digest("subscribers", "remove", left, "--yes", "--now", "2026-11-20T08:31Z"),
        digest("suppressions", "add", refused, "--now", "2026-11-20T08:31Z"),
        digest("subscribers", "erase", erased, "--yes", "--now", "2026-11-20T08:31Z"),
        digest("run", "--now", "2026-11-20T08:31Z"),
    ]
    assert [ran.code for ran in done] == [0, 0, 0, 0]


def assert_that_three_stayed_away(digest: Digest, left: str, refused: str, erased: str) -> None:
    states = {one["email"]: one["state"] for one in digest("subscribers", "list", "--json").lines}
    suppressed = [one["note"] for one in digest("suppressions", "list", "--json").lines]
    assert (states[left], states[refused], erased in states) == ("unsubscribed", "active", False)
    assert suppressed == ["recovered after a restore"]


def test_a_service_copied_to_postgresql_continues_where_sqlite_stopped(
    digest: Digest,
    tmp_path: Path,
    mail_server: FaultyServer,
    empty_postgres_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    emails = addresses_at("lab.example", 12)
    import_members(digest, tmp_path, emails)
    mail_server.plan = lambda email: Fault.RCPT_451 if email == emails[5] else None
    assert morning(digest, tmp_path, 19) == 11
    mail_server.plan = lambda _: None

    copied = digest("db", "copy", empty_postgres_url, "--json")
    again = digest("db", "copy", empty_postgres_url)
    listed = digest("subscribers", "list", "--json").lines
    monkeypatch.setenv("DIGEST_DATABASE_URL", empty_postgres_url)
    moved = digest("subscribers", "list", "--json").lines
    evening = digest("run", "--now", "2026-11-19T20:00Z", "--json").document["delivered"]["sent"]
    first = morning(digest, tmp_path, 20, 19)  # a list that repeats the papers of the day before
    late = digest("subscribers", "add", "late@lab.example", "--topic", "lab/tides=use:lab/tides", "--confirmed",
                  *CONSENT, "--now", "2026-11-20T12:00Z")  # fmt: skip
    second = morning(digest, tmp_path, 21, 20)

    assert (copied.code, copied.document["subscriber"], again.code != 0) == (0, 12, True)
    assert moved == listed
    assert (evening, first, late.code, second) == (
        1,
        12,
        0,
        13,
    )  # the deferred letter is sent from PostgreSQL
    found = mailed(mail_server)
    assert max(found.values()) == 1
    assert found - Counter({("late@lab.example", title("tides", 21)): 1}) == expected_papers(
        emails, 19, 20, 21
    )
    assert digest("status", "--now", "2026-11-21T09:00Z", "--json").code == 0


@pytest.mark.promise
@pytest.mark.whole
@pytest.mark.slow  # starts a real process
def test_a_worker_that_was_killed_is_noticed_by_status_until_another_runs(
    digest: Digest, tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIGEST_BROKER_URL", redis_url)

    def last_heartbeats(*, at: str = "") -> dict[int, tuple[datetime, bool]]:
        found = digest("status", *(["--now", at] if at else []), "--json").document["heartbeats"]
        return {one["pid"]: (datetime.fromisoformat(one["at"]), one["is_alive"]) for one in found}

    with installation(tmp_path / "data", settings={"BROKER_URL": redis_url, **KEYS}) as ours:
        digest("status")
        killed = ours.start("worker")
        ours.wait_until("a heartbeat of the worker", last_heartbeats)
        os.killpg(killed.pid, signal.SIGKILL)
        ours.started.clear()
        later = (current_time() + timedelta(minutes=3)).isoformat()
        shown, advice = digest("status", "--now", later), digest("doctor", "--now", later)
        new = ours.start("worker")
        ours.wait_until("a heartbeat of the new worker", lambda: new.pid in last_heartbeats())
        while_new_is_alive = (last_heartbeats()[new.pid][0] + SILENT_AFTER - timedelta(seconds=1)).isoformat()
        alive = last_heartbeats(at=while_new_is_alive)
        replaced = causes(digest, while_new_is_alive)
        assert ours.stop() == [0]
    killed.wait()

    assert (shown.code, "The worker has stopped" in shown.out) == (1, True)
    assert (advice.code, "The worker has stopped" in advice.out, "digest worker" in advice.out) == (
        1,
        True,
        True,
    )
    assert {pid: is_alive for pid, (_, is_alive) in alive.items()} == {killed.pid: False, new.pid: True}
    assert [cause for cause in replaced if cause.endswith("-worker")] == []
