"""`digest status`, `doctor`, `init`, `db`, `bounces` and `inbox`."""

from __future__ import annotations

import os
import pty
import re
import shutil
import socket
import sqlite3
import ssl
import subprocess
import sys
import tomllib
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from datetime import timedelta
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
import redis
from sqlalchemy import text

from digest import db
from digest.cli import keys
from digest.delivery.transports.mail_url import parse_mail_url
from digest.inbound import stored_mail
from digest.letters.dkim_signing import Signer
from digest.mail import dns_records
from digest.mail.dns_records import DnsUnavailable
from digest.monitoring import letter_checks, probes, setup_checks
from digest.monitoring.check_results import Check
from digest.monitoring.supervisor import Supervisor
from digest.process import heartbeats
from digest.settings import NAMES, load_settings
from digest.site.site_profile import Site
from tests.cli.conftest import EXAMPLE, FRIDAY, Digest, Ran
from tests.conftest import NOW, ROOT, connected
from tests.support import sample_mails
from tests.support.certificates import make
from tests.support.faulty_smtp_server import Fault, FaultyServer, faulty_server
from tests.support.mail_sink import run_mail_sink
from tests.support.product_processes import installation
from tests.support.real_servers import Server, free_port, restartable_broker, valkey_program
from tests.support.served_apps import serve_site
from tests.support.waiting import HANG_SECONDS


@pytest.mark.usefixtures("catalog", "ada")
def test_status_counts_people_papers_and_mail(digest: Digest) -> None:
    digest("publish", "--now", FRIDAY)

    status = digest("status", "--now", FRIDAY, "--json").document

    assert status["subscribers"] == {"pending": 0, "active": 1, "paused": 0, "unsubscribed": 0}
    assert (status["catalog"]["papers"], status["catalog"]["dumps"]) == (3, 1)
    assert status["outbox"]["queued"] == 1
    assert status["next_due_at"] == "2026-11-21T08:00:00+00:00"
    assert (status["due_now"], status["heartbeats"]) == (0, [])
    assert [dump["new"] for dump in status["dumps"]] == [3]


def test_status_shows_no_secret(digest: Digest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIGEST_SECRET_KEY", "hidden-key")
    monkeypatch.setenv("DIGEST_PEPPER", "hidden-pepper")
    monkeypatch.setenv("DIGEST_BROKER_URL", "redis://user:hidden-word@127.0.0.1:6379/0")
    monkeypatch.setenv("DIGEST_MAIL_URL", "smtp://me:hidden-pass@127.0.0.1:587?starttls=true")

    shown = [digest("status", *options) for options in ([], ["--json"])]

    for ran in shown:
        assert ran.code == 1  # neither of them answers
        assert "hidden" not in ran.out + ran.err
        assert "redis://user:***@127.0.0.1:6379/0" in ran.out


def test_status_reports_a_broker_or_mail_server_that_does_not_respond(
    digest: Digest, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert digest("status").code == 0
    for setting, url, wrong in (
        ("BROKER_URL", "redis://127.0.0.1:1/0", "The broker does not respond"),
        ("MAIL_URL", "smtp://127.0.0.1:1", "The mail server does not respond"),
    ):
        with monkeypatch.context() as patched:
            patched.setenv(f"DIGEST_{setting}", url)
            ran, found = digest("status"), digest("status", "--json")

        assert (ran.code, found.code, found.document["is_well"]) == (1, 1, False)
        assert f"Problem      {wrong} ({url}: " in ran.out
        assert [one["message"] for one in found.document["problems"]] == [wrong]


def test_status_shows_what_it_can_while_the_database_is_away(
    digest: Digest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIGEST_DATABASE_URL", "postgresql://digest:hidden@127.0.0.1:1/digest")

    ran = digest("status")

    assert (ran.code, ran.err) == (1, "")
    assert ran.out.startswith("Problem   The database cannot be used (connection")
    assert "Mail      maildir://" in ran.out
    assert "hidden" not in ran.out


def test_every_process_is_in_status_with_its_machine_and_dead_ones_are_marked(
    digest: Digest, tmp_path: Path
) -> None:
    digest("status")
    with (
        connected(f"sqlite:///{tmp_path / 'data' / 'digest.sqlite3'}") as engine,
        db.write_session(engine) as session,
    ):
        heartbeats.record_heartbeat(session, "scheduler", NOW - timedelta(hours=1))
        heartbeats.record_heartbeat(session, "worker", NOW)

    rows = [line.split() for line in digest("status", "--now", NOW.isoformat()).out.splitlines()]
    where = [str(os.getpid()), heartbeats.machine_name()]
    assert ["scheduler", *where, "1", "h", "ago", "DEAD"] in rows
    assert ["worker", *where, "0", "s", "ago", "alive"] in rows


# ── a full disk ─────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of two megabytes that is full with a database."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a small disk")
    try:
        with connected(f"sqlite:///{folder / 'digest.sqlite3'}") as engine:
            db.upgrade(engine)
        with suppress(OSError), (folder / "rest").open("wb", buffering=0) as file:
            while True:
                file.write(b"x" * 4096)
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_disk_is_reported_by_every_command_and_by_doctor(
    digest: Digest, full_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIGEST_DATA_DIR", str(full_disk))

    status, doctor = digest("status"), digest("doctor")
    others = [digest("papers"), digest("run"), digest("intake", ROOT / "docs" / "examples" / "today.txt")]

    assert (status.code, doctor.code) == (1, 1)
    for ran in (status, doctor):
        assert f"The disk is full: 0 MB (0%) free in {full_disk}" in ran.out
    assert [ran.code for ran in others] == [1, 1, 1]
    for ran in others:
        assert len(ran.err.splitlines()) == 1
        assert "Make sure that the disk is not full" in ran.err or "No space left on device" in ran.err


def test_a_backup_to_a_full_disk_names_the_backup(digest: Digest, full_disk: Path) -> None:
    assert digest("subscribers", "add", "ada@example.org").code == 0
    for size in (0, 300_000):  # nothing can be written, or a part
        os.truncate(full_disk / "rest", (full_disk / "rest").stat().st_size - size)
        ran = digest("backup", full_disk / "digest.backup")

        assert (ran.code, ran.err.count("\n")) == (1, 1)
        assert f"{full_disk / 'digest.backup'}: No space left on device." in ran.err
        assert "database" not in ran.err
        assert not list(full_disk.glob("*.backup*"))


def test_a_new_service_is_healthy(digest: Digest) -> None:
    findings = {line["subject"]: line for line in digest("doctor", "--json").lines}

    assert digest("doctor").code == 0
    assert {"data", "secrets", "dumps", "templates", "database", "broker", "mail", "address"} == set(findings)
    assert not [thing for thing, finding in findings.items() if finding["status"] == "error"]


def test_doctor_checks_that_the_mail_folder_is_writable(
    digest: Digest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    found = {}
    for scheme in ("maildir", "eml"):
        for place in ("ok", "file/below"):
            monkeypatch.setenv("DIGEST_MAIL_URL", f"{scheme}://{tmp_path}/{place}")
            found[scheme, place] = mail_of(digest("doctor", "--json"))["status"]

    assert found == {
        ("maildir", "ok"): "ok", ("maildir", "file/below"): "error",
        ("eml", "ok"): "ok", ("eml", "file/below"): "error",
    }  # fmt: skip


def test_status_names_each_of_several_servers_and_no_password(
    digest: Digest, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = "smtp://me:hidden@a.example:587?rate=5/s, smtps://me:hidden@b.example?weight=3"
    monkeypatch.setenv("DIGEST_MAIL_URL", servers)

    found = digest("status").out

    assert "Mail         smtp://a.example:587, smtps://b.example:465\n" in found
    assert "hidden" not in found


def test_doctor_names_servers_that_do_not_respond_and_the_fix(
    digest: Digest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIGEST_DATABASE_URL", "postgresql://digest:hidden@127.0.0.1:1/digest")
    monkeypatch.setenv("DIGEST_BROKER_URL", "redis://:hidden@127.0.0.1:1/0")
    monkeypatch.setenv("DIGEST_MAIL_URL", "smtp://127.0.0.1:1")

    ran = digest("doctor", "--json")

    wrong = {line["subject"]: line for line in ran.lines if line["status"] == "error"}
    assert (ran.code, sorted(wrong)) == (1, ["broker", "database", "mail"])
    assert all("127.0.0.1:1" in line["message"] for line in wrong.values())
    assert all("DIGEST_" in line["message"] + line["fix"] for line in wrong.values())
    assert "hidden" not in ran.out


def test_doctor_reports_keys_that_others_can_read(digest: Digest, tmp_path: Path) -> None:
    digest("status")
    (tmp_path / "data" / "secret_key").chmod(0o644)

    ran = digest("doctor", "--json")

    assert [line["fix"] for line in ran.lines if line["status"] == "error"] == [
        f"chmod 600 {tmp_path / 'data' / 'secret_key'}"
    ]


@pytest.mark.parametrize("name", ["digest.sqlite3", "digest.sqlite3-wal"])
def test_doctor_reports_a_database_that_others_can_read(digest: Digest, tmp_path: Path, name: str) -> None:
    digest("status")
    path = tmp_path / "data" / name
    path.touch()
    path.chmod(0o644)

    wrong = [line for line in digest("doctor", "--json").lines if line["status"] == "error"]

    assert [line["fix"] for line in wrong] == [f"chmod 600 {path}"]


def test_files_in_an_existing_folder_are_private_and_doctor_warns_of_the_folder(
    digest: Digest, tmp_path: Path
) -> None:
    folder = tmp_path / "data"
    folder.mkdir(mode=0o755)
    digest("subscribers", "add", "ada@example.org")
    digest("deliver")

    with sqlite3.connect(folder / "digest.sqlite3") as connection:
        connection.execute("UPDATE subscriber SET name = 'Ada'")
        connection.commit()
        modes = {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir() if path.is_file()}
    hints = [line["fix"] for line in digest("doctor", "--json").lines if line["subject"] == "secrets"]

    assert {"digest.sqlite3", "digest.sqlite3-wal", "digest.sqlite3-shm", "pepper"} <= set(modes)
    assert set(modes.values()) == {0o600}
    assert hints == [f"chmod 700 {folder}"]


def test_a_folder_that_digest_creates_is_private(digest: Digest, tmp_path: Path) -> None:
    digest("status")

    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700


def test_doctor_connects_to_a_real_broker(
    digest: Digest, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIGEST_BROKER_URL", redis_url)

    broker = next(line for line in digest("doctor", "--json").lines if line["subject"] == "broker")

    assert broker["status"] == "ok"


@pytest.mark.parametrize("password", ["plain", 'two words "and a quote', "%C3%A9%25"])
def test_doctor_passes_any_password_to_the_broker(password: str) -> None:
    with (
        restartable_broker(valkey_program()) as server,
        redis.Redis(port=port_of(server)) as admin,
    ):
        assert admin.config_set("requirepass", password)
        where = f"127.0.0.1:{port_of(server)}/0"

        assert check_broker(f"redis://:{quote(password)}@{where}").problems == ()
        assert "NOAUTH" in str(check_broker(f"redis://:not-it@{where}").problems)


def test_a_broker_that_refuses_writes_is_an_outage_named_at_once(tmp_path: Path) -> None:
    with (
        restartable_broker(valkey_program()) as server,
        redis.Redis(port=port_of(server)) as admin,
    ):
        assert check_broker(server.url).problems == ()
        for setting, value, message in (
            ("maxmemory", "1", "The broker has no memory for new tasks"),
            ("replicaof", f"127.0.0.1 {free_port()}", "The broker is a replica"),
        ):
            if setting == "replicaof":
                admin.execute_command("REPLICAOF", *value.split())
            else:
                admin.config_set(setting, value)
            (problem,) = check_broker(server.url).problems
            assert (problem.message, problem.is_outage) == (message, True)
            admin.config_set("maxmemory", "0")

        admin.execute_command("REPLICAOF", "NO", "ONE")
        assert check_broker(server.url).problems == ()
    absent = f"redis://127.0.0.1:{free_port()}/0"
    (unused,) = probes.check_broker(
        load_settings({"broker_url": absent}), Supervisor(), is_used=False
    ).problems
    assert (unused.is_warning, "digest run needs no broker" in unused.message) == (True, True)


def check_broker(url: str) -> Check:
    return probes.check_broker(load_settings({"broker_url": url}), Supervisor())


def port_of(server: Server) -> int:
    return urlsplit(server.url).port or 0


def test_init_with_options_asks_nothing(digest: Digest, tmp_path: Path) -> None:
    first = digest("init", "--site-name", 'Papers & "More"', "--sender", "Papers <papers@localhost>")
    digest("init", "--signup", "uni.example")

    path = tmp_path / "data" / "digest.toml"
    assert first.code == 0
    assert path.stat().st_mode & 0o777 == 0o600
    assert tomllib.loads(path.read_text()) == {
        "site_name": 'Papers & "More"',
        "sender": "Papers <papers@localhost>",
        "signup": "uni.example",
    }
    assert digest("status", "--json").document["settings"]["site_name"] == 'Papers & "More"'


def test_init_does_not_write_an_invalid_setting(digest: Digest, tmp_path: Path) -> None:
    ran = digest("init", "--base-url", "digest.example.org")

    assert (ran.code, "DIGEST_BASE_URL" in ran.err) == (2, True)
    assert not (tmp_path / "data" / "digest.toml").exists()


def test_a_test_mail_arrives(digest: Digest, tmp_path: Path) -> None:
    ran = digest("init", "--test-to", "me@localhost", "--json")

    (mail,) = (tmp_path / "data" / "outbox" / "new").iterdir()
    assert (ran.code, ran.document) == (
        0, {"file": str(tmp_path / "data" / "digest.toml"), "changed": [], "papers": [], "test_mail_to": "me@localhost"},
    )  # fmt: skip
    assert b"To: me@localhost" in mail.read_bytes()


def test_the_body_of_a_test_mail_is_ascii_if_the_site_has_another_name(
    digest: Digest, tmp_path: Path
) -> None:
    digest("init", "--site-name", "Größe", "--test-to", "me@localhost")

    (mail,) = (tmp_path / "data" / "outbox" / "new").iterdir()
    assert mail.read_bytes().isascii()
    assert b"Gr=C3=B6=C3=9Fe" in mail.read_bytes()


def test_a_test_mail_that_cannot_be_sent_is_reported(digest: Digest) -> None:
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]

        ran = digest("init", "--mail-url", f"smtp://127.0.0.1:{port}", "--test-to", "me@localhost")

    assert ran.code == 1
    assert "was not accepted" in ran.err


def test_eight_questions_are_asked_at_a_terminal(tmp_path: Path) -> None:
    answers = [
        "Papers",
        "",
        "nonsense",
        "",
        "",
        "1 Main Street",
        "closed",
        "twitter",
        str(tmp_path / "lists"),
        "me@localhost",
        "n",
    ]
    (tmp_path / "lists").mkdir()
    shutil.copy(EXAMPLE, tmp_path / "lists")
    os.utime(tmp_path / "lists" / EXAMPLE.name, (0, 0))
    master, slave = pty.openpty()
    with os.fdopen(master, "wb", buffering=0) as typing, os.fdopen(slave):
        typing.write("".join(f"{answer}\n" for answer in answers).encode())
        asked = subprocess.run(
            [sys.executable, "-m", "digest", "init"],
            stdin=slave,
            capture_output=True,
            text=True,
            cwd=ROOT,
            check=True,
            timeout=HANG_SECONDS,
        )

    assert tomllib.loads((tmp_path / "data" / "digest.toml").read_text()) == {
        "site_name": "Papers",
        "base_url": "http://127.0.0.1:8000",
        "sender": "Digest <digest@localhost>",
        "postal_address": "1 Main Street",
        "signup": "closed",
        "dumps_dir": str(tmp_path / "lists"),
    }
    assert "there is no preset 'twitter'; use hf-daily" in asked.stderr
    assert "today.txt: 3 papers, 3 new" in asked.stderr
    assert "DIGEST_MAIL_URL: write smtp" in asked.stderr
    assert "Sent a test mail to me@localhost." in asked.stdout


@pytest.mark.whole
def test_init_adds_a_source_that_it_cannot_reach_yet(digest: Digest) -> None:
    ran = digest("init", "--papers", "https://127.0.0.1:1/list.json", "--json")

    (source,) = digest("sources", "list", "--json").lines
    assert (ran.code, source["is_on"], source["failures"]) == (0, True, 1)
    assert len(ran.document["papers"]) == 2


@pytest.mark.whole
@pytest.mark.promise
@pytest.mark.slow  # starts real processes
def test_init_ends_with_a_test_mail_and_a_running_service(tmp_path: Path) -> None:
    port = free_port()
    with installation(tmp_path / "home", settings={"LISTEN": f"127.0.0.1:{port}"}) as ours:
        ours.start("init", "--site-name", "Papers", "--test-to", "me@localhost", "--start")
        ours.wait_until("the service", lambda: "Digest is up" in ours.logs())

        with urllib.request.urlopen(f"http://127.0.0.1:{port}/") as page:
            assert "Papers" in page.read().decode()
        assert ours.stop() == [0]

    mails = [path.read_bytes() for path in (tmp_path / "home" / "outbox" / "new").iterdir()]
    assert [b"A test: this letter arrived" in mail for mail in mails].count(True) == 1
    assert (tmp_path / "home" / "digest.toml").exists()


def test_the_schema_is_made_once(digest: Digest) -> None:
    made = digest("db", "upgrade", "--json").document
    again = digest("db", "upgrade", "--json").document

    assert (made["from"], made["changed"]) == (None, True)
    assert again == {"from": made["to"], "to": made["to"], "changed": False}


@pytest.mark.usefixtures("catalog")
def test_the_commands_work_on_postgresql(
    digest: Digest, dump: Path, empty_postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIGEST_DATABASE_URL", empty_postgres_url)

    assert digest("intake", dump, "--date", "2026-11-20").code == 0
    digest("subscribers", "add", "ada@example.org", "--confirmed", "--consent", "x", "--now", FRIDAY)
    ran = digest("run", "--now", FRIDAY, "--json").document

    assert len(digest("papers", "--json").lines) == 3
    assert (ran["published"]["queued"], ran["delivered"]["sent"]) == (1, 1)


@pytest.mark.parametrize("name", ["DIGEST_SECRET_KEY", "DIGEST_PEPPER"])
def test_a_machine_with_other_keys_may_not_write(
    digest: Digest, ada: str, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "a key of another service")

    ran = digest("subscribers", "edit", ada, "--name", "Eve")

    assert (ran.code, name in ran.err) == (1, True)
    assert digest("subscribers", "show", ada, "--json").document["name"] == ""


def test_a_new_key_in_front_of_the_old_one_is_accepted(
    digest: Digest, ada: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    old = (tmp_path / "data" / "secret_key").read_text()
    monkeypatch.setenv("DIGEST_SECRET_KEY", f"a-new-key,{old}")

    assert digest("subscribers", "edit", ada, "--name", "Ada").code == 0


@pytest.mark.usefixtures("catalog", "ada")
def test_db_copy_moves_everything_to_postgresql(
    digest: Digest, empty_postgres_url: str, monkeypatch: pytest.MonkeyPatch, dump: Path
) -> None:
    digest("run", "--now", FRIDAY)
    shown = [
        ["papers", "--json"],
        ["subscribers", "list", "--json"],
        ["deliveries", "--json"],
        ["dumps", "list"],
    ]
    before = [digest(*arguments).out for arguments in shown]

    counts = digest("db", "copy", empty_postgres_url, "--json").document
    again = digest("db", "copy", empty_postgres_url)
    monkeypatch.setenv("DIGEST_DATABASE_URL", empty_postgres_url)
    after = [digest(*arguments).out for arguments in shown]

    assert (counts["paper"], counts["subscriber"], counts["delivery"], counts["shown"]) == (3, 1, 1, 1)
    assert (again.code, "is not empty" in again.err) == (2, True)
    assert after == before
    assert digest("run", "--now", FRIDAY, "--json").document["published"]["already"] == 1
    dump.write_text(dump.read_text().replace("Tide Tables", "Almanacs"))
    assert digest("intake", dump, "--json").document["dumps"][0]["new"] == 1


def test_db_copy_keeps_merged_papers_merged(digest: Digest, catalog: None, tmp_path: Path) -> None:
    from digest import db

    engine = db.make_engine(f"sqlite:///{tmp_path / 'data' / 'digest.sqlite3'}")
    with db.write_session(engine) as session:
        session.execute(text("UPDATE paper SET merged_into = 3 WHERE id = 1"))
        session.commit()
    engine.dispose()

    copied = digest("db", "copy", f"sqlite:///{tmp_path / 'copy.sqlite3'}")

    assert copied.code == 0
    engine = db.make_engine(f"sqlite:///{tmp_path / 'copy.sqlite3'}")
    with db.read_session(engine) as session:
        assert session.execute(text("SELECT id, merged_into FROM paper")).all() == [
            (1, 3),
            (2, None),
            (3, None),
        ]
    engine.dispose()


# ── the mail path ───────────────────────────────────────────────────────────────────────────────


def test_doctor_checks_tls_and_login_of_the_mail_server(
    digest: Digest, monkeypatch: pytest.MonkeyPatch
) -> None:
    with run_mail_sink() as mail_sink:
        monkeypatch.setenv("DIGEST_MAIL_URL", mail_sink.url)
        fine = mail_of(digest("doctor", "--json"))
        monkeypatch.setenv("DIGEST_MAIL_URL", mail_sink.url + "?starttls=true")
        no_tls = mail_of(digest("doctor", "--json"))
        monkeypatch.setenv("DIGEST_MAIL_URL", mail_sink.url.replace("smtp://", "smtp://me:hidden@"))
        no_login = mail_of(digest("doctor", "--json"))
        monkeypatch.setenv("DIGEST_MAIL_URL", mail_sink.url.replace("smtp://", "smtps://"))
        no_tls_at_once = mail_of(digest("doctor", "--json"))

    assert fine["status"] == "ok"
    assert (no_tls["status"], "STARTTLS" in no_tls["message"]) == ("error", True)
    assert (no_tls_at_once["status"], "smtps" in no_tls_at_once["fix"]) == ("error", True)
    assert (no_login["status"], "hidden" in str(no_login)) == ("error", False)


@pytest.mark.parametrize("scheme", ["smtps", "smtp"])
def test_doctor_and_delivery_verify_the_certificate_with_tls_and_starttls(
    digest: Digest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, scheme: str
) -> None:
    pair = make(tmp_path, "localhost")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*pair)
    there = FaultyServer(offers=("STARTTLS",), tls=context, is_tls_at_once=scheme == "smtps")
    with faulty_server(there) as server:
        url = f"{scheme}://localhost:{server.port}?starttls={'no' if scheme == 'smtps' else 'yes'}"
        monkeypatch.setenv("DIGEST_MAIL_URL", f"{url}&cafile={pair[0]}")
        vouched = mail_of(digest("doctor", "--json"))
        monkeypatch.setenv("DIGEST_MAIL_URL", url)
        unknown = mail_of(digest("doctor", "--json"))
        (check,) = probes.check_mail(
            parse_mail_url(url), Supervisor()
        )  # what /readyz shows; it does not go as far as STARTTLS

    assert (vouched["status"], "certificate checked" in vouched["message"]) == ("ok", True)
    assert (unknown["status"], "certificate" in unknown["message"]) == ("error", True)
    assert "cafile" in unknown["fix"]
    assert scheme == "smtp" or "certificate" in str(check.problems)


def test_doctor_sends_a_test_letter_to_an_address(digest: Digest, monkeypatch: pytest.MonkeyPatch) -> None:
    with run_mail_sink() as mail_sink:
        monkeypatch.setenv("DIGEST_MAIL_URL", mail_sink.url)
        ran = digest("doctor", "--send-test", "ada@uni.example", "--json")

        assert [line["status"] for line in ran.lines if line["subject"] == "test"] == ["ok"]
        (mail,) = mail_sink.to("ada@uni.example")
        assert b"A test: this letter arrived" in mail.content


@pytest.fixture
def signer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Signer:
    """A service that signs, and a DNS that has its key."""
    pem = keys.new_key("ed25519")
    signer = Signer(domain="digest.invalid", selector="digest", pem=pem)
    monkeypatch.setenv("DIGEST_BASE_URL", "https://digest.invalid")
    monkeypatch.setenv("DIGEST_SENDER", "Digest <digest@digest.invalid>")
    (tmp_path / "dkim.pem").write_bytes(pem)
    monkeypatch.setenv("DIGEST_DKIM_KEYS", f"digest:{tmp_path / 'dkim.pem'}")
    monkeypatch.setattr(
        dns_records, "txt_records", lambda name: [signer.dns_record] if name == signer.dns_name else []
    )
    return signer


def said(check: Check) -> tuple[bool, str]:
    """Return whether a check found no problem, and its message."""
    return not check.problems, "; ".join(one.message for one in check.problems) or check.message


def lines_of_test(ran: Ran) -> list[tuple[str, str]]:
    return [(line["status"], line["message"]) for line in ran.lines if line["subject"] == "test"]


def test_doctor_verifies_the_signature_and_one_click_headers_of_its_letter(
    digest: Digest, monkeypatch: pytest.MonkeyPatch, signer: Signer
) -> None:
    with run_mail_sink() as mail_sink:
        monkeypatch.setenv("DIGEST_MAIL_URL", mail_sink.url)
        found = lines_of_test(digest("doctor", "--send-test", "ada@uni.example", "--json"))
        (mail,) = mail_sink.to("ada@uni.example")

    assert found[1:] == [
        ("ok", "has the one-click headers"),
        ("ok", "signed for digest.invalid (ed25519-sha256), including the list headers"),
        ("ok", f"the signature verifies with the key at {signer.dns_name}"),
    ]
    assert mail.parsed()["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"


def test_doctor_waits_for_its_letter_in_a_maildir_and_checks_it(
    digest: Digest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, signer: Signer
) -> None:
    box = tmp_path / "box"
    monkeypatch.setenv("DIGEST_MAIL_URL", f"maildir://{box}")

    found = lines_of_test(digest("doctor", "--send-test", "ada@uni.example", "--received", box, "--json"))

    assert {status for status, _ in found} == {"ok"}
    assert found[3][1] == f"received in {box}"
    assert found[-1][1] == f"the signature verifies with the key at {signer.dns_name}"


@pytest.mark.parametrize(
    ("on_the_way", "status", "message"),
    [
        (lambda mail: b"Received: by elsewhere\n" + mail.replace(b"\r\n", b"\n"), "ok", "the signature verifies"),
        (lambda mail: mail + b"-- \r\nscanned by a gateway\r\n", "error", "the body was changed in transit"),
        (lambda mail: mail.replace(b"\r\nSubject: ", b"\r\nSubject: [list] "), "error", "the headers were changed"),
        (lambda mail: mail.replace(b"=One-Click", b"=Two-Click"), "error", "The letter has no one-click headers"),
        (lambda mail: mail.replace(b"d=digest.invalid", b"d=relay.invalid"), "error", "The letter is signed for relay.invalid"),
        (lambda mail: b"Authentication-Results: mx; spf=fail; dkim=pass\r\n" + mail, "error", "dkim pass, spf fail"),
        (lambda mail: b"Authentication-Results: mx; spf=pass;\r\n dmarc=pass\r\n" + mail, "ok", "dmarc pass, spf pass"),
    ],
    ids=["a relay", "a footer", "a subject", "the pair", "another domain", "SPF fails", "the receiver is content"],
)  # fmt: skip
def test_doctor_reports_changes_made_to_its_letter_in_transit(
    digest: Digest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, signer: Signer,
    on_the_way: Callable[[bytes], bytes], status: str, message: str,
) -> None:  # fmt: skip
    box, saved = tmp_path / "box", tmp_path / "saved.eml"
    monkeypatch.setenv("DIGEST_MAIL_URL", f"maildir://{box}")
    digest("doctor", "--send-test", "ada@uni.example")
    (sent,) = (box / "new").iterdir()
    saved.write_bytes(on_the_way(sent.read_bytes()))

    found = lines_of_test(digest("doctor", "--received", saved, "--json"))

    assert any(each == status and message in shown for each, shown in found), found
    assert status == "error" or {each for each, _ in found} == {"ok"}


def test_a_wrong_path_of_a_received_letter_is_reported(digest: Digest, tmp_path: Path) -> None:
    (tmp_path / "program").write_bytes(b"\x7fELF\xff\xfe: no letter\r\n")
    (tmp_path / "table").write_bytes(b"email,name\r\nada@uni.example,Ada\r\n")
    for path, message in (
        (tmp_path / "nowhere", "does not exist"),
        (tmp_path, "add --send-test EMAIL"),
        (tmp_path / "program", "is not a letter"),
        (tmp_path / "table", "is not a letter"),
    ):
        *_, (status, shown) = lines_of_test(digest("doctor", "--received", path, "--json"))
        assert (status, message in shown) == ("error", True)


@pytest.mark.parametrize("forms", ["relaxed/relaxed", "relaxed/simple", "simple/simple", "simple"])
def test_signatures_of_another_implementation_are_verified(
    forms: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """dkimpy signs in every canonical form, including ours."""
    import dkim as dkimpy

    key = Signer(domain="x.example", selector="s", pem=keys.new_key("rsa"))
    letter = (
        b"From: A <a@x.example>\r\nSubject:  two   blanks\r\n\tand a fold\r\n\r\nhello  \t you \r\n\r\n\r\n"
    )
    header, _, body = forms.partition("/")
    top = dkimpy.sign(
        letter, b"s", b"x.example", key.pem, include_headers=[b"from", b"subject"],
        canonicalize=(header.encode(), (body or "simple").encode()),
    )  # fmt: skip
    site = Site(url="https://x.example", sender_address="a@x.example")
    monkeypatch.setattr(dns_records, "txt_records", lambda _: [key.dns_record])

    def found(content: bytes) -> list[bool]:
        return [not one.problems for one in letter_checks.verify_signatures(content, site)]

    assert found(top + letter) == [True]
    assert found(top + letter.replace(b"two", b"three")) == [False]
    assert found(top + letter.replace(b"hello", b"hallo")) == [False]


def test_doctor_reports_a_signature_of_another_domain_or_without_one_click_headers() -> None:
    site = Site(url="https://digest.example.org", sender_address="digest@digest.example.org")
    covered = "from:subject:list-unsubscribe:list-unsubscribe-post"

    def found(domain: str, headers: str) -> list[str]:
        letter = f"From: a@{domain}\r\nDKIM-Signature: v=1; a=rsa-sha256; d={domain};\r\n h={headers}; b=AA==\r\n\r\n"
        return [said(one)[1] for one in letter_checks.check_headers(letter.encode(), site, is_signed=True)][
            1:
        ]

    assert found("example.org", covered) == [
        "signed for example.org (rsa-sha256), including the list headers"
    ]
    assert found("elsewhere.example", covered) == [
        "The letter is signed for elsewhere.example, but comes from digest.example.org."
    ]
    assert found("digest.example.org", "from:subject") == [
        "The signature does not cover list-unsubscribe, list-unsubscribe-post."
    ]


# ── the public address ──────────────────────────────────────────────────────────────────────────


def test_doctor_checks_what_responds_at_the_public_address(
    digest: Digest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    digest("status")
    with serve_site(load_settings({"data_dir": tmp_path / "data"})) as port:
        for path, status, message in (
            ("", "ok", "responds"),
            ("/static", "error", "Another service responds"),
        ):
            monkeypatch.setenv("DIGEST_BASE_URL", f"http://127.0.0.1:{port}{path}")
            (found,) = [line for line in digest("doctor", "--json").lines if line["subject"] == "proxies"]

            assert (found["status"], message in found["message"]) == (status, True), found


def test_an_https_address_without_a_counted_proxy_is_reported() -> None:
    site, healthy = Site(url="https://digest.example.org"), probes.WebReply(status=200, content=b"ok\n")

    assert said(setup_checks.check_front(site, healthy, proxies=1))[0]
    is_ok, message = said(setup_checks.check_front(site, healthy, proxies=0))
    assert (is_ok, "DIGEST_PROXIES is 0" in message) == (False, True)
    moved = probes.WebReply(status=301, redirects_to="https://www.example.org")
    assert "must not be redirected" in said(setup_checks.check_front(site, moved, proxies=1))[1]


def test_doctor_reports_failed_dns_queries(digest: Digest, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(name: str) -> list[str]:
        raise DnsUnavailable("no name server")

    monkeypatch.setattr(dns_records, "txt_records", nobody)
    monkeypatch.setenv("DIGEST_BASE_URL", "https://digest.invalid")
    monkeypatch.setenv("DIGEST_SENDER", "Digest <digest@digest.invalid>")
    with run_mail_sink() as mail_sink:
        monkeypatch.setenv("DIGEST_MAIL_URL", mail_sink.url)
        ran = digest("doctor", "--json")

    found = [line["message"] for line in ran.lines if line["subject"] in {"letter", "names"}]
    assert ran.code == 0
    assert found[:2] == ["letters have one-click unsubscribe (RFC 8058)", "Digest does not sign letters."]
    assert found[2].startswith("Could not look up SPF, DKIM and DMARC (no name server)")
    assert found[3].startswith("Could not look up the reverse name")


def test_doctor_compares_dns_records_with_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(url="https://digest.example.org", sender_address="digest@digest.example.org")
    signer = Signer(domain="digest.example.org", selector="mail", pem=keys.new_key("ed25519"))
    zone = {
        "digest.example.org": ["v=spf1 a -all", "something else"],
        signer.dns_name: [signer.dns_record],
        "_dmarc.example.org": ["v=DMARC1; p=none"],
    }
    monkeypatch.setattr(dns_records, "txt_records", lambda name: zone.get(name, []))

    assert [said(one)[0] for one in setup_checks.check_dns(site, [signer])] == [True, True, True]

    zone[signer.dns_name] = ["v=DKIM1; k=ed25519; p=AAAA"]
    zone["digest.example.org"].append("v=spf1 -all")
    del zone["_dmarc.example.org"]
    assert [said(one)[0] for one in setup_checks.check_dns(site, [signer])] == [False, False, False]


def mail_of(ran: Ran) -> dict[str, str]:
    return next(line for line in ran.lines if line["subject"] == "mail")


# ── bounces and incoming mail ───────────────────────────────────────────────────────────────────


def test_a_letter_is_found_by_the_providers_message_id(
    digest: Digest, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest("subscribers", "add", "ada@uni.example", "--topic", "Robots=robot*")
    with faulty_server() as server:
        server.thanks = "250 Ok 0102018f6a3b7c11-aa11bb22-000000"
        monkeypatch.setenv("DIGEST_MAIL_URL", f"smtp://127.0.0.1:{server.port}?profile=ses")
        digest("deliver")

    (row,) = digest("deliveries", "--json").lines
    traced = digest(
        "deliveries", "show", "<0102018f6a3b7c11-aa11bb22-000000@eu-west-1.amazonses.com>", "--json"
    ).document
    assert (row["provider_id"], traced["id"]) == ("0102018f6a3b7c11-aa11bb22-000000", row["id"])


def test_trace_shows_the_attempts_and_a_bounce_can_be_forgiven(
    digest: Digest, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest("subscribers", "add", "nobody@uni.example", "--topic", "Robots=robot*")
    with faulty_server() as server:
        server.plan = lambda *_: Fault.RCPT_550
        monkeypatch.setenv("DIGEST_MAIL_URL", f"smtp://127.0.0.1:{server.port}")
        digest("deliver")

    (row,) = digest("deliveries", "--json").lines
    traced = digest("deliveries", "show", str(row["id"]), "--json").document
    assert (traced["state"], len(traced["attempts"]), traced["attempts"][0]["code"]) == ("failed", 1, 550)
    assert [back["reported_by"] for back in traced["bounces"]] == ["smtp"]
    assert digest("deliveries", "show", str(row["message_id"])).code == 0
    assert digest("deliveries", "show", "999").code == 1

    found = digest("deliveries", "show", str(row["id"])).out
    assert "failed" in found
    assert "refused at rcpt: 550 5.1.1 no such user" in found
    assert found.rstrip().endswith("bounced: hard 5.1.1 550 5.1.1 no such user")

    (listed,) = digest("bounces", "list", "--json").lines
    assert (listed["domain"], listed["delivery_id"]) == ("uni.example", row["id"])
    forgiven = digest("bounces", "forgive", "--domain", "uni.example", "--json").document
    assert forgiven == {"domain": "uni.example", "forgiven": 1, "lifted": 0}
    assert digest("bounces", "list", "--kind", "nonsense").code == 2


def test_an_unparsable_mail_is_listed_and_shown(digest: Digest, tmp_path: Path) -> None:
    digest("status")
    odd = (
        b"Content-Type: message/rfc822\r\n\r\n" * 3000,
        b"Subject: =?x?b?\xff?=\r\n\r\n\0\x1b[2J",
        b"",
        b"Subject: half a =?utf-7?q?+2AA-?=\r\n\r\nsurrogate",
        b"Subject: " + b"long " * 2_000 + b"\r\n\r\nlong",
    )
    with (
        connected(f"sqlite:///{tmp_path / 'data' / 'digest.sqlite3'}") as engine,
        db.write_session(engine) as session,
    ):
        for content in [*odd, *[sample_mails.A_LETTER] * 20]:
            stored_mail.store_mail(
                session, sender="a@x.example", recipients=["postmaster@localhost"], content=content, now=NOW
            )

    assert digest("inbox", "show", "1").code == 0
    listed = digest("inbox", "list")
    assert (len(listed.out.splitlines()), listed.err) == (21, "5 more; --limit 25 shows them all.\n")
    assert [row["subject"] for row in digest("inbox", "list", "--json").lines][3] == "half a ?"
    assert max(map(len, listed.out.splitlines())) < 400  # one long subject does not widen every line
    for number in (1, 2, 3, 4):
        shown = digest("inbox", "show", str(number))
        assert (shown.code, "\x1b" in shown.out) == (0, False)


def test_a_long_list_of_deliveries_says_how_many_more_there_are(digest: Digest) -> None:
    digest("subscribers", "add", "ada@uni.example", "--topic", "Robots=robot*")
    assert "more" not in digest("deliveries").err

    for number in range(3):
        digest("subscribers", "add", f"r{number}@uni.example", "--topic", "Robots=robot*")
    shown = digest("deliveries", "--limit", "2")

    assert len(shown.out.splitlines()) == 1 + 2
    assert shown.err == "2 more; --limit 4 shows them all. Narrow with --state or --email.\n"
    assert len(digest("deliveries", "--json").lines) == 4
    assert digest("deliveries", "--state", "stuck").err == "No deliveries.\n"


def test_status_reports_a_problem_and_doctor_its_fix(digest: Digest, tmp_path: Path) -> None:
    digest("status")
    with (
        connected(f"sqlite:///{tmp_path / 'data' / 'digest.sqlite3'}") as engine,
        db.write_session(engine) as session,
    ):
        heartbeats.record_heartbeat(session, "scheduler", NOW)

    now = ("--now", NOW.isoformat())
    found = digest("status", *now)
    assert "Problem      There is no worker\n             To fix: run digest doctor\n" in found.out
    assert [one["cause"] for one in digest("status", *now, "--json").document["problems"]] == [
        "silent-worker"
    ]
    (found,) = [line for line in digest("doctor", *now, "--json").lines if line["subject"] == "service"]
    assert (found["message"], found["status"]) == ("There is no worker.", "error")
    assert found["fix"].startswith("Start it again")
    assert digest("doctor", *now).code == 1  # as red as /readyz


def test_doctor_asks_for_an_operator_address_once_mail_goes_out(
    digest: Digest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def asks() -> bool:
        return "DIGEST_OPERATOR_EMAIL" in digest("doctor").out

    assert not asks()
    monkeypatch.setenv("DIGEST_MAIL_URL", f"maildir://{tmp_path}/mail")
    assert asks()
    monkeypatch.setenv("DIGEST_OPERATOR_EMAIL", "op@example.org")
    assert not asks()


def test_doctor_reports_stopped_mail(digest: Digest) -> None:
    digest("deliveries", "stop", "--reason", "a fire")
    stopped = digest("doctor", "--json")
    digest("deliveries", "resume")

    assert stopped.code == 1
    (found,) = [line for line in stopped.lines if line["subject"] == "service"]
    assert (found["status"], found["message"]) == ("error", "Digests are stopped: a fire")
    assert digest("doctor").code == 0


def test_unclassified_mail_can_be_listed_shown_and_deleted(digest: Digest, tmp_path: Path) -> None:
    digest("status")
    with (
        connected(f"sqlite:///{tmp_path / 'data' / 'digest.sqlite3'}") as engine,
        db.write_session(engine) as session,
    ):
        stored_mail.store_mail(
            session, sender="", recipients=["postmaster@x"], content=sample_mails.A_LETTER, now=NOW
        )

    (row,) = digest("inbox", "list", "--json").lines
    assert (row["subject"], row["state"]) == ("Lovely", "new")
    assert "Could you add a paper of mine?" in digest("inbox", "show", "1").out
    document = digest("inbox", "show", "1", "--json").document
    assert (document["subject"], "Could you add a paper" in document["content"]) == ("Lovely", True)
    assert digest("inbox", "delete", "1", "--yes").code == 0
    assert digest("inbox", "list", "--json").lines == []
    assert digest("inbox", "show", "1").code == 1
    for options in ((), ("1", "--all"), ("--all", "--from", "a@x.example")):
        assert digest("inbox", "delete", *options, "--yes").code == 2


def test_mail_of_one_sender_or_all_mail_can_be_deleted(digest: Digest, tmp_path: Path) -> None:
    digest("status")
    with (
        connected(f"sqlite:///{tmp_path / 'data' / 'digest.sqlite3'}") as engine,
        db.write_session(engine) as session,
    ):
        for sender in ("A@x.example", "a@x.example.org", "b@x.example", "c@y.example", "ba@x.example"):
            stored_mail.store_mail(
                session, sender=sender, recipients=["abuse@x"], content=b"", network=f"net-{sender[0]}", now=NOW
            )  # fmt: skip

    def left(*options: str) -> list[str]:
        assert digest("inbox", "delete", *options, "--yes").code == 0
        return [row["from"] for row in digest("inbox", "list", "--json").lines]

    assert left("--from", "a@X.example") == ["a@x.example.org", "b@x.example", "c@y.example", "ba@x.example"]
    assert left("--from", "net-c") == ["a@x.example.org", "b@x.example", "ba@x.example"]
    assert left("--from", "@x.example") == ["a@x.example.org"]
    assert left("--all") == []


def test_config_shows_the_settings_in_use_and_where_each_comes_from_but_no_secret(
    digest: Digest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DIGEST_SITE_NAME", "Papers of the lab")
    monkeypatch.setenv("DIGEST_SECRET_KEY", "a key that nobody may see")
    monkeypatch.setenv("DIGEST_MAIL_URL", "smtp://lab:unseen@mail.example:587")

    ran = digest("config", "--json")

    found = {line["setting"]: (line["value"], line["from"]) for line in ran.lines}
    assert found["DIGEST_SITE_NAME"] == ("Papers of the lab", "environment")
    assert found["DIGEST_SECRET_KEY"] == ("set", "environment")
    assert found["DIGEST_DATA_DIR"] == (str(tmp_path / "data"), "environment")
    assert found["DIGEST_SIGNUP"][1] == "default"
    assert set(found) == {f"DIGEST_{name.upper()}" for name in NAMES}
    assert not {"nobody", "unseen"} & set(re.findall(r"\w+", ran.out + digest("config").out))
