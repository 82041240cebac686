"""Publishing and delivering, one command at a time."""

from __future__ import annotations

import email
import email.policy
import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import dkim as oracle
import pytest

from tests.cli.conftest import FRIDAY, Digest
from tests.conftest import ROOT
from tests.support.faulty_smtp_server import Fault, faulty_server
from tests.support.waiting import HANG_SECONDS, wait_until

NOTHING_PUBLISHED = {"due": 0, "queued": 0, "empty": 0, "already": 0, "expired": 0}
NOTHING_DELIVERED = {
    "sent": 0, "deferred": 0, "failed": 0, "suppressed": 0, "expired": 0, "stuck": 0, "in_doubt": 0,
}  # fmt: skip


def outbox(tmp_path: Path) -> list[Path]:
    """The mails in the local Maildir."""
    return sorted((tmp_path / "data" / "outbox" / "new").glob("*"))


@pytest.mark.usefixtures("catalog")
def test_due_digests_are_published_once_and_delivered_once(digest: Digest, ada: str, tmp_path: Path) -> None:
    published = [digest("publish", "--now", FRIDAY, "--json").document for _ in range(2)]
    delivered = [digest("deliver", "--now", FRIDAY, "--json").document for _ in range(2)]

    assert published == [
        NOTHING_PUBLISHED | {"due": 1, "queued": 1},
        NOTHING_PUBLISHED | {"due": 1, "already": 1},
    ]
    assert delivered == [NOTHING_DELIVERED | {"sent": 1}, NOTHING_DELIVERED]
    assert len(outbox(tmp_path)) == 1
    mail = email.message_from_bytes(outbox(tmp_path)[0].read_bytes(), policy=email.policy.default)
    assert ada in str(mail["To"])
    assert "Borrowed Light" in str(mail["Subject"])


@pytest.mark.parametrize(("window", "in_doubt"), [("", 3), ("1", 1)])
@pytest.mark.usefixtures("catalog", "ada")
def test_a_killed_delivery_leaves_one_window_in_doubt(
    digest: Digest, monkeypatch: pytest.MonkeyPatch, window: str, in_doubt: int
) -> None:
    if window:
        monkeypatch.setenv("DIGEST_WINDOW", window)
    for name in ("bo", "cy"):
        add = ("subscribers", "add", f"{name}@uni.example", "--topic", "Light=light", "--at", "06:00")
        assert digest(*add, "--confirmed", "--consent", "a test").code == 0
    digest("publish", "--now", FRIDAY)
    kill_delivery_at("intended")

    assert len(digest("deliveries", "--state", "sending", "--json").lines) == in_doubt


@pytest.mark.usefixtures("catalog", "ada")
def test_letters_that_a_killed_delivery_had_only_claimed_are_sent_by_the_next_one(digest: Digest) -> None:
    digest("publish", "--now", FRIDAY)
    kill_delivery_at("claimed")
    assert len(digest("deliveries", "--state", "claimed", "--json").lines) == 1

    assert digest("deliver", "--now", FRIDAY, "--json").document == NOTHING_DELIVERED | {"sent": 1}


def kill_delivery_at(failpoint: str) -> None:
    code = f"""
from digest import cli
from digest.process import failpoints
failpoints.armed_failpoints["{failpoint}"] = 0
cli.main(["deliver", "--now", "{FRIDAY}"])
"""
    killed = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False, capture_output=True)
    assert killed.returncode == -signal.SIGKILL


@pytest.mark.usefixtures("catalog")
def test_a_preview_is_what_will_be_sent_and_changes_nothing(digest: Digest, ada: str, tmp_path: Path) -> None:
    before = [digest("subscribers", "show", ada).out, status_lines(digest)]
    report = digest("preview", ada, "--now", FRIDAY, "--out", tmp_path / "preview", "--json").document
    after = [digest("subscribers", "show", ada).out, status_lines(digest)]
    digest("publish", "--now", FRIDAY)
    digest("deliver", "--now", FRIDAY)

    written = {path.name: path.read_bytes() for path in (tmp_path / "preview").iterdir()}
    assert sorted(written) == ["digest.eml", "digest.html", "digest.json", "digest.txt"]
    assert before == after
    sent = email.message_from_bytes(outbox(tmp_path)[0].read_bytes(), policy=email.policy.default)
    seen = email.message_from_bytes(written["digest.eml"], policy=email.policy.default)
    for kind, name in (("plain", "digest.txt"), ("html", "digest.html")):
        bodies = [mail.get_body((kind,)) for mail in (sent, seen)]
        texts = [body.get_content().replace("\r\n", "\n") for body in bodies if body is not None]
        assert texts == [written[name].decode()] * 2
    assert sent["Subject"] == seen["Subject"]
    assert [paper["title"][:14] for section in report["sections"] for paper in section["papers"]] == [
        "Borrowed Light"
    ]


@pytest.mark.usefixtures("ada")
def test_run_reads_the_folder_publishes_and_delivers(digest: Digest, dump: Path, tmp_path: Path) -> None:
    folder = tmp_path / "data" / "dumps"
    folder.mkdir(parents=True)
    shutil.move(dump, folder / "today.txt")
    (folder / "empty.txt").touch()

    ran = digest("run", "--now", FRIDAY, "--json").document
    again = digest("run", "--now", FRIDAY, "--json").document

    assert {(Path(one["path"]).name, one["state"], one["new"]) for one in ran["dumps"]} == {
        ("today.txt", "loaded", 3),
        ("empty.txt", "rejected", 0),
    }
    assert (ran["published"]["queued"], ran["delivered"]["sent"]) == (1, 1)
    assert (again["dumps"], again["published"]["already"], again["delivered"]["sent"]) == ([], 1, 0)
    assert (folder / "done" / "today.txt").exists()
    assert (folder / "rejected" / "empty.txt.reason.txt").exists()


@pytest.mark.usefixtures("catalog")
def test_deliveries_lists_every_letter_and_its_state(digest: Digest, ada: str) -> None:
    digest("subscribers", "add", "bob@example.org", "--now", FRIDAY)
    digest("publish", "--now", FRIDAY)

    lines = digest("deliveries", "--json").lines
    assert [(line["letter"], line["email"], line["state"]) for line in lines] == [
        ("digest", ada, "queued"),
        ("confirm", "bob@example.org", "queued"),
    ]
    assert [line["email"] for line in digest("deliveries", "--email", ada.upper(), "--json").lines] == [ada]
    assert digest("deliveries", "--state", "sent", "--json").out == ""
    assert "daily-2026-11-20" in digest("deliveries").out


@pytest.mark.usefixtures("catalog")
def test_a_mail_server_that_does_not_answer_defers_and_loses_nothing(
    digest: Digest, ada: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest("publish", "--now", FRIDAY)
    monkeypatch.setenv("DIGEST_MAIL_URL", "smtp://127.0.0.1:1")

    ran = digest("deliver", "--now", FRIDAY, "--json")
    states = [line["state"] for line in digest("deliveries", "--json").lines]

    assert "Traceback" not in ran.err
    assert ran.document["sent"] == 0
    assert states == ["queued"]
    monkeypatch.delenv("DIGEST_MAIL_URL")
    assert digest("deliver", "--now", "2026-11-20T12:00:00Z", "--json").document["sent"] == 1


@pytest.mark.usefixtures("catalog", "ada")
def test_mail_is_refused_while_its_links_point_to_this_machine(
    digest: Digest, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest("publish", "--now", FRIDAY)
    monkeypatch.setenv("DIGEST_MAIL_URL", "smtp://mail.example.org:25")

    ran = digest("deliver", "--now", FRIDAY)

    assert ran.code == 1
    assert "DIGEST_BASE_URL" in ran.err


@pytest.mark.usefixtures("catalog")
def test_ctrl_c_ends_a_delivery_between_mails_and_leaves_none_in_doubt(
    digest: Digest, tmp_path: Path
) -> None:
    rows = "".join(f"reader{number}@example.org,active\n" for number in range(1_500))
    (tmp_path / "people.csv").write_text(f"email,state\n{rows}")
    digest("subscribers", "import", tmp_path / "people.csv", "--consent", "x", "--now", FRIDAY)
    assert digest("publish", "--now", FRIDAY, "--json").document["queued"] == 1_500

    delivering = subprocess.Popen(
        [sys.executable, "-m", "digest", "deliver", "--now", FRIDAY, "--json"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until("the first letters", lambda: outbox(tmp_path))
    delivering.send_signal(signal.SIGINT)
    stdout, stderr = delivering.communicate(timeout=HANG_SECONDS)

    sent = json.loads(stdout)["sent"]
    assert delivering.returncode == 130
    assert stderr.startswith(
        f"digest: Stopped. {sent:,} letters were sent, {1_500 - sent:,} wait in the outbox."
    )
    assert 0 < sent < 1_500
    assert len(outbox(tmp_path)) == sent
    assert status_of(digest) == {"sent": sent, "queued": 1_500 - sent}
    assert digest("deliver", "--now", FRIDAY, "--json").document["sent"] == 1_500 - sent


def status_lines(digest: Digest) -> list[str]:
    """The lines of the status, without the free disk space, which other processes change."""
    return [
        line for line in digest("status", "--now", FRIDAY).out.splitlines() if not line.startswith("Disk")
    ]


def status_of(digest: Digest) -> dict[str, int]:
    """How many deliveries are in each state."""
    return {
        state: number for state, number in digest("status", "--json").document["outbox"].items() if number
    }


# ── signatures ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("catalog")
def test_a_key_that_was_made_signs_what_is_sent(
    digest: Digest, ada: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = digest("dkim", "keygen", "--selector", "mail", "--ed25519", "--json").document
    key = tmp_path / "data" / "dkim-mail.pem"
    for setting, value in made["settings"].items():
        monkeypatch.setenv(setting, value)
    records_shown, listed = (
        digest("dkim", "keygen", "--list").out,
        digest("dkim", "keygen", "--list", "--json"),
    )
    records = {f"{one['name']}.".encode(): one["value"].encode() for one in listed.document["records"]}
    digest("run", "--now", FRIDAY)

    assert key.stat().st_mode & 0o777 == 0o600
    assert made["records"] == listed.document["records"]
    assert made["settings"] == {
        "DIGEST_DKIM_KEYS": f"mail:{key}, mailed:{key.with_name('dkim-mailed.pem')}",
    }  # fmt: skip
    assert all(name.decode() in records_shown for name in records)
    (path,) = outbox(tmp_path)
    assert oracle.DKIM(path.read_bytes()).verify(dnsfunc=lambda name, **_: records[name])
    assert b"a=ed25519-sha256" in path.read_bytes()


def test_keygen_never_overwrites_a_key(digest: Digest) -> None:
    made = digest("dkim", "keygen", "--selector", "mail")

    again = digest("dkim", "keygen", "--selector", "mail")

    assert (made.out[:30], "DIGEST_DKIM_KEYS=mail:" in made.err) == (
        "mail._domainkey.localhost. IN ",
        True,
    )
    assert "exists already" in again.err


def test_an_invalid_dkim_key_is_reported(
    digest: Digest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "key.pem").write_text("not a key")
    monkeypatch.setenv("DIGEST_DKIM_KEYS", f"mail:{tmp_path / 'key.pem'}")

    assert "not a private key" in digest("dkim", "keygen", "--list").err


@pytest.mark.usefixtures("catalog")
def test_an_operators_template_overrides_the_shipped_one(digest: Digest, ada: str, tmp_path: Path) -> None:
    own = tmp_path / "data" / "templates" / "letters" / "_base" / "footer_links.txt"
    own.parent.mkdir(parents=True)
    own.write_text("Our own words: {{ unsubscribe_url }}\n")
    digest("db", "upgrade")  # which takes the templates of this machine

    digest("run", "--now", FRIDAY)

    (path,) = outbox(tmp_path)
    mail = email.message_from_bytes(path.read_bytes(), policy=email.policy.default)
    text = mail.get_body(("plain",))
    assert text is not None
    assert "Our own words: http" in text.get_content()


@pytest.mark.usefixtures("catalog")
def test_stopped_mail_waits_until_the_operator_resumes_it(digest: Digest, ada: str) -> None:
    digest("publish", "--now", FRIDAY)

    assert digest("deliveries", "stop", "--reason", "a wrong template", "--now", FRIDAY).code == 0
    held = digest("deliver", "--now", FRIDAY, "--json").document
    status = digest("status", "--now", FRIDAY, "--json").document
    shown = digest("status", "--now", FRIDAY).out

    assert (held["sent"], held["deferred"]) == (0, 1)
    assert [(stop["scope"], stop["reason"]) for stop in status["stops"]] == [("bulk", "a wrong template")]
    assert "digest deliveries resume" in shown.replace("\n", " ")
    assert digest("deliveries", "--json").lines[0]["reason"] == "stopped: a wrong template"

    assert digest("deliveries", "resume", "--now", FRIDAY, "--json").document == {"lifted": 1, "due": 1}
    assert digest("deliver", "--now", FRIDAY, "--json").document["sent"] == 1
    assert digest("deliveries", "resume", "--now", FRIDAY).out.startswith(
        "Nothing is stopped. To send deferred letters now: "
    )


def test_deferred_letters_are_sent_at_once_after_resume_deferred(
    digest: Digest, monkeypatch: pytest.MonkeyPatch
) -> None:
    with faulty_server() as server:
        monkeypatch.setenv("DIGEST_MAIL_URL", f"smtp://127.0.0.1:{server.port}")
        server.plan = lambda _recipient: Fault.RCPT_451
        digest("subscribers", "add", "bo@localhost")
        digest("deliver")
        server.plan = lambda _recipient: None
        waiting = digest("deliver", "--json").document["sent"]

        resumed = [digest("deliveries", "resume", "--deferred", *more).out for more in (["--dry-run"], [])]

        assert (waiting, digest("deliver", "--json").document["sent"]) == (0, 1)
    assert [line.splitlines()[-1] for line in resumed] == [
        "Dry run: mail would be resumed, with 1 letter due at once.",
        "Nothing is stopped; 1 letter due now.",
    ]
