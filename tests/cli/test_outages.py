"""Due work that nobody does is an outage, and what status and doctor say about it is true."""

from __future__ import annotations

import json
import re
import socket
import ssl
from contextlib import suppress
from pathlib import Path
from threading import Thread

import pytest
from sqlalchemy import text

from digest.cli import command_context
from digest.monitoring import supervisor
from digest.process import heartbeats
from tests.cli.conftest import EXAMPLE, Digest
from tests.support.certificates import make
from tests.support.mail_sink import run_mail_sink


def problems_at(digest: Digest, moment: str) -> dict[str, str]:
    """Return the cause and the message of each problem, with its facts."""
    found = digest("status", "--now", moment, "--json").document["problems"]
    return {
        one["cause"]: "; ".join([one["message"], *one["facts"]]) for one in found if not one["is_warning"]
    }


@pytest.fixture
def readers(digest: Digest) -> None:
    """Three readers at 08:00, and papers."""
    digest("intake", EXAMPLE, "--now", "2026-11-20T05:00Z")
    for name in ("ada", "bo", "cy"):
        digest(
            "subscribers", "add", f"{name}@uni.example", "--topic", "T=light", "--at", "08:00", "--confirmed",
            "--consent", "x", "--now", "2026-11-20T06:00Z",
        )  # fmt: skip


@pytest.mark.usefixtures("readers")
def test_due_digests_that_nothing_composes_are_an_outage(digest: Digest) -> None:
    assert problems_at(digest, "2026-11-20T08:14Z") == {}
    message = "3 digests are due, and none is composed; no scheduler runs; no worker runs"
    assert problems_at(digest, "2026-11-20T08:16Z") == {"untaken-digests": message}
    assert digest("doctor", "--now", "2026-11-20T08:16Z").code == 1

    digest("publish", "--now", "2026-11-20T08:17Z")
    assert problems_at(digest, "2026-11-20T08:31Z") == {}
    message = "3 letters are due, and none is sent; no scheduler runs; no worker runs"
    assert problems_at(digest, "2026-11-20T08:33Z") == {"late-bulk": message}

    digest("deliver", "--now", "2026-11-20T08:34Z")
    assert problems_at(digest, "2026-11-20T23:00Z") == {}


@pytest.mark.usefixtures("readers")
def test_a_mail_server_that_refuses_tls_is_named_at_once_and_soon_an_outage(
    digest: Digest, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = "the server does not offer STARTTLS, which DIGEST_MAIL_URL requires (connect)"

    def silence(moment: str) -> list[tuple[str, str]]:
        """Return the start and the severity of the problem with this error."""
        found = digest("status", "--now", moment, "--json").document["problems"]
        return [(one["since"], one["severity"]) for one in found if error in str(one["facts"])]

    digest("publish", "--now", "2026-11-20T08:01Z")
    with run_mail_sink() as sink:
        monkeypatch.setenv("DIGEST_MAIL_URL", f"{sink.url}?starttls=true")
        for minute in range(2, 20):  # each try moves the time at which the letters are due
            digest("deliver", "--now", f"2026-11-20T08:{minute:02}Z")
        first = "2026-11-20T08:02:00+00:00"
        assert silence("2026-11-20T08:03:30Z") == [(first, "warning")]
        assert silence("2026-11-20T08:19:30Z") == [(first, "outage")]
        assert not sink.mails

        monkeypatch.setenv("DIGEST_MAIL_URL", sink.url)
        digest("deliver", "--now", "2026-11-20T08:20Z")
        assert len(sink.mails) == 3
    assert silence("2026-11-20T08:20Z") == []


@pytest.mark.usefixtures("readers")
def test_letters_that_a_dead_worker_was_sending_are_due_when_its_lease_is_over(digest: Digest) -> None:
    digest("publish", "--now", "2026-11-20T08:00Z")
    with command_context.open_context() as context, context.write_session() as session:
        session.execute(text("UPDATE delivery SET state = 'sending', leased_until = '2026-11-20 08:15:00'"))
        session.commit()

    assert "late-bulk" not in problems_at(digest, "2026-11-20T08:14Z")
    assert "late-bulk" in problems_at(digest, "2026-11-20T12:00Z")


@pytest.mark.usefixtures("readers")
def test_roles_that_ran_before_are_missed_while_another_role_runs(digest: Digest) -> None:
    with command_context.open_context() as context, context.write_session() as session:
        clock = context.clock()
        heartbeats.record_heartbeat(session, "web", clock)
        session.commit()
        assert "silent-worker" not in problems_at(digest, clock.isoformat())
        heartbeats.record_queue_heartbeat(session, clock)
        session.commit()

        found = problems_at(digest, clock.isoformat())
        assert (found["silent-scheduler"], found["silent-worker"]) == (
            "There is no scheduler",
            "There is no worker",
        )
        said = digest("status", "--now", clock.isoformat()).out
        assert f"There is no worker since {clock:%Y-%m-%d %H:%M} UTC" in " ".join(said.split())
        heartbeats.record_run(session, clock.replace(year=clock.year + 1))
        session.commit()
        assert "silent-worker" not in problems_at(digest, clock.isoformat())


def test_letters_of_readers_imported_after_their_hour_are_not_overdue(digest: Digest) -> None:
    digest("intake", EXAMPLE, "--now", "2026-11-20T05:00Z")
    digest(
        "subscribers", "add", "ada@uni.example", "--topic", "T=light", "--at", "00:00", "--confirmed",
        "--consent", "x", "--now", "2026-11-19T23:00Z",
    )  # fmt: skip
    digest("subscribers", "pause", "ada@uni.example", "--now", "2026-11-19T23:00Z")
    digest("subscribers", "resume", "ada@uni.example", "--now", "2026-11-20T14:00Z")
    digest("publish", "--now", "2026-11-20T14:00Z")

    assert problems_at(digest, "2026-11-20T14:00:10Z") == {}


@pytest.mark.usefixtures("readers")
def test_a_cron_run_before_the_readers_hour_is_reported_with_the_time_in_which_nothing_ran(
    digest: Digest,
) -> None:
    first, second = (digest("run", "--now", f"2026-11-{day}T06:00Z") for day in (20, 21))

    assert (first.err, first.code) == ("", 0)
    cause = (
        "3 of daily-2026-11-20: nothing composed digests between 2026-11-20 08:00 and 2026-11-21 00:00 UTC"
    )
    assert f"3 digests expired unsent: {cause}." in second.err
    assert re.search(r"5 \* \* \* \* /\S+ .*--data-dir \S+ run", second.err)
    found = problems_at(digest, "2026-11-21T09:00Z")
    assert found == {"expired-digests": f"3 digests expired unsent; {cause}"}
    late = problems_at(digest, "2026-11-21T09:31Z")
    last = "3 digests are due, and none is composed; digest run last ran 2026-11-21 06:00 UTC"
    assert late == {**found, "untaken-digests": last}
    assert digest("status", "--now", "2026-11-21T09:00Z").code == 1
    assert "Last run     2026-11-21 06:00Z" in digest("status", "--now", "2026-11-21T09:00Z").out


@pytest.mark.usefixtures("readers")
def test_a_run_mails_the_operator_about_expired_digests(
    digest: Digest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DIGEST_OPERATOR_EMAIL", "op@localhost")
    digest("run", "--now", "2026-11-20T06:00Z")
    digest("run", "--now", "2026-11-21T06:00Z")

    (mail,) = (tmp_path / "data" / "outbox" / "new").iterdir()
    assert re.search(rb"Subject: .*3 digests expired unsent", mail.read_bytes())


@pytest.mark.usefixtures("readers")
def test_days_without_papers_are_a_problem_with_what_the_sources_brought(digest: Digest) -> None:
    for moment in ("2026-11-20T09:00Z", "2026-11-21T09:00Z", "2026-11-24T09:00Z"):
        digest("run", "--now", moment)

    assert "no-papers" not in problems_at(digest, "2026-11-25T09:00Z")
    message = "No new papers came since Friday, 2026-11-20; no source is polled"
    assert problems_at(digest, "2026-11-26T09:00Z")["no-papers"] == message


def test_fixes_name_the_commands_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    units = tmp_path / "units"
    units.mkdir()
    monkeypatch.setattr(supervisor, "ENABLED_UNITS", units)
    made = [supervisor.find_supervisor(tmp_path)]
    (tmp_path / "up.lock").touch()
    made.append(supervisor.find_supervisor(tmp_path))
    for name in ("digest@worker.service", "digest@scheduler.service", "nginx.service"):
        (units / name).touch()
    made.append(supervisor.find_supervisor(tmp_path))
    (units / "digest@up.service").touch()
    made.append(supervisor.find_supervisor(tmp_path))

    assert [one.restart("worker", "scheduler") for one in made] == [
        "digest worker and digest scheduler",
        "digest up",
        "systemctl restart digest@worker digest@scheduler",
        "systemctl restart digest@up",
    ]
    assert made[2].log("worker") == "journalctl -u digest@worker -n 50"
    assert made[2].start_server("postfix") == "Start it (systemctl start postfix)"
    assert made[0].hourly_run.endswith(f" --data-dir {tmp_path} run")


def test_an_invalid_certificate_is_not_a_stopped_web_server(
    digest: Digest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*make(tmp_path, "localhost"))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]

        def answer() -> None:
            connection, _ = listening.accept()
            with suppress(OSError), context.wrap_socket(connection, server_side=True):
                pass

        thread = Thread(target=answer)
        thread.start()
        monkeypatch.setenv("DIGEST_BASE_URL", f"https://localhost:{port}")
        (found,) = [line for line in digest("doctor", "--json").lines if line["subject"] == "proxies"]
        thread.join()

    assert f"The certificate of https://localhost:{port} is not valid" in found["message"]
    assert "certbot renew" in found["fix"]
    assert "digest web" not in found["fix"]


def test_a_source_that_brings_nothing_is_a_problem_while_others_bring_papers(
    digest: Digest, tmp_path: Path
) -> None:
    digest("sources", "add", "https://127.0.0.1:1/list.json", "--backfill", "0", "--now", "2026-11-02T05:00Z")
    digest(
        "subscribers", "add", "a@uni.example", "--confirmed", "--consent", "x", "--now", "2026-11-02T05:00Z"
    )
    for day in range(2, 7):
        (tmp_path / "list.json").write_text(
            json.dumps([{"title": f"Kites of day {day}", "abstract": "They fly and are measured."}])
        )
        assert digest("intake", tmp_path / "list.json", "--now", f"2026-11-0{day}T06:00Z").code == 0

    assert "silent-sources" not in problems_at(digest, "2026-11-05T07:00Z")
    found = problems_at(digest, "2026-11-06T07:00Z")
    assert "no-papers" not in found
    assert found["silent-sources"] == (
        "A source brings no papers; https://127.0.0.1:1/list.json: no list came so far"
    )
