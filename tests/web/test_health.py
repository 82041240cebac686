"""Health checks, metrics and alarm letters."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from digest import db
from digest.app_context import AppContext
from digest.cli.keys import new_key
from digest.db.tables.deliveries import Delivery
from digest.delivery.outbox import silent_server
from digest.monitoring import probes
from digest.monitoring.probes import Disk
from digest.process import heartbeats
from digest.settings import load_settings
from digest.web import watchdog
from tests.support.real_servers import free_port
from tests.web.conftest import ServedSite
from tests.web.test_pages import FORWARDING_HEADERS

MB = 10**6


def beat(served: ServedSite, role: str, **ago: float) -> None:
    with served.writing() as session:
        heartbeats.record_heartbeat(session, role, served.clock.now - timedelta(**ago))


def ready(served: ServedSite) -> tuple[int, str]:
    served.clock.now += timedelta(seconds=20)  # past what was remembered
    answer = served.client.get("/readyz")
    lines = [
        line for line in answer.text.splitlines(keepends=True) if not line.startswith("warning: The disk")
    ]
    return answer.status_code, "".join(lines)


# ── readyz ──────────────────────────────────────────────────────────────────────────────────────


def test_health_fails_while_a_role_has_no_heartbeat(served: ServedSite) -> None:
    beat(served, "scheduler")
    beat(served, "worker")
    assert ready(served) == (200, "ok\n")

    beat(served, "worker", minutes=5)
    assert ready(served) == (503, "The worker has stopped\n")

    beat(served, "worker")
    assert ready(served) == (200, "ok\n")


def test_health_fails_while_a_server_does_not_respond(served: ServedSite, redis_url: str) -> None:
    nobody = f"127.0.0.1:{free_port()}"
    for setting, url, wrong in (
        ("mail_url", f"smtp://{nobody}", "The mail server does not respond"),
        ("broker_url", f"redis://{nobody}/0", "The broker does not respond"),
    ):
        served.app.state.context = with_settings(served.context, **{setting: url})
        assert ready(served) == (503, f"{wrong}\n")
    served.app.state.context = with_settings(served.context, broker_url=redis_url)
    assert ready(served) == (200, "ok\n")


def test_health_reports_a_database_outage_in_plain_text(served: ServedSite, tmp_path: Path) -> None:
    away = db.make_engine(f"postgresql://nobody:hidden@127.0.0.1:{free_port()}/digest")
    served.app.state.context = replace(served.context, engine=away)

    answer = served.client.get("/readyz")

    assert (answer.status_code, answer.text) == (503, "The database cannot be used\n")
    assert answer.headers["content-type"].startswith("text/plain")


def test_health_warns_of_a_nearly_full_disk_and_fails_before_it_is_full(tmp_path: Path) -> None:
    def reported(free: int, size: int) -> list[tuple[str, bool]]:
        disk = Disk(folder=tmp_path, free=free, size=size)
        found = probes.check_data(load_settings({"data_dir": tmp_path}), [disk]).problems
        return [(one.message.partition(":")[0], one.is_warning) for one in found]

    assert reported(501 * MB, 4_000 * MB) == []
    assert reported(499 * MB, 4_000 * MB) == [("The disk is nearly full", True)]
    assert reported(9_900 * MB, 100_000 * MB) == [("The disk is nearly full", True)]
    assert reported(40 * MB, 4_000 * MB) == [("The disk is full", False)]
    assert reported(48 * MB, 56 * MB) == reported(300 * MB, 400 * MB) == []  # small and mostly free
    assert reported(5 * MB, 56 * MB) == [("The disk is full", False)]


def with_settings(context: AppContext, **changed: str) -> AppContext:
    parsed = load_settings(changed)
    return AppContext(
        settings=replace(context.settings, **{name: getattr(parsed, name) for name in changed}),
        engine=context.engine,
        site=context.site,
        clock=context.clock,
        caches=context.caches,
    )


# ── metrics ─────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def neighbour(served: ServedSite) -> TestClient:
    """A client on this machine."""
    return TestClient(served.client.app, base_url="http://127.0.0.1:8000", client=("127.0.0.1", 50_000))


def test_the_metrics_are_valid_for_prometheus(served: ServedSite, neighbour: TestClient) -> None:
    beat(served, "worker", seconds=30)
    served.sign_up("ada@uni.example")
    with db.write_session(served.context.engine) as session:
        silent_server.note_silence(session, "535 no (connect)", now=served.clock.now - timedelta(minutes=10))
        session.commit()

    answer = neighbour.get("/metrics")

    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'digest_deliveries{state="queued"} 1\n' in answer.text
    assert 'digest_subscribers{state="pending"} 1\n' in answer.text
    assert re.search(
        r'^digest_heartbeat_age_seconds\{role="worker",host=".+",pid="\d+"\} 35$', answer.text, re.MULTILINE
    )
    assert re.search(r'^digest_disk_free_bytes\{folder=".+"\} [\d.e+]+$', answer.text, re.MULTILINE)
    assert 'digest_stops{scope="bulk"} 0\n' in answer.text
    assert "digest_mail_refused_seconds 600\n" in answer.text
    assert "uni.example" not in answer.text
    for line in answer.text.splitlines():
        assert re.fullmatch(r'# (HELP|TYPE) \w+ .+|\w+(\{\w+="[^"]*"(,\w+="[^"]*")*\})? -?[\d.e+]+', line), (
            line
        )


def test_metrics_are_for_private_addresses_only(served: ServedSite, neighbour: TestClient) -> None:
    def asking_from(address: str, host: str = "127.0.0.1:8000") -> int:
        client = TestClient(served.client.app, base_url=f"http://{host}", client=(address, 50_000))
        return client.get("/metrics").status_code

    ours, others = (
        ("127.0.0.1", "::1", "10.1.2.3", "::ffff:10.1.2.3"),
        ("9.9.9.9", "2001:4860::1", "::ffff:9.9.9.9", "x"),
    )
    assert {asking_from(address) for address in ours} == {200}
    assert {asking_from(address) for address in others} == {404}
    assert (
        asking_from("127.0.0.1", host="localhost:8000") == asking_from("10.1.2.3", host="digest.lab") == 200
    )
    for host in (
        "evil.example",
        "127.0.0.1.evil.example",
    ):  # a page whose name was made to point to this machine
        assert asking_from("127.0.0.1", host=host) == asking_from("::1", host=host) == 404, host
    for name in FORWARDING_HEADERS:
        assert neighbour.get("/metrics", headers={name: "203.0.113.9"}).status_code == 404, name


# ── the letter to the operator ──────────────────────────────────────────────────────────────────


def test_the_web_server_sends_the_alarm_if_the_worker_has_stopped(served: ServedSite, tmp_path: Path) -> None:
    (key := tmp_path / "key.pem").write_bytes(new_key("ed25519"))
    context = with_settings(
        served.context,
        operator_email="op@example.org",
        mail_url=f"maildir://{tmp_path}/mail",
        dkim_keys=f"mail:{key}",
    )
    beat(served, "scheduler")
    assert watchdog.check_once(context) == watchdog.check_once(context)  # there is no worker

    with served.writing() as session:
        (letter,) = session.query(Delivery).all()
    assert (letter.letter, letter.email, letter.state) == ("alarm", "op@example.org", "sent")
    (mail,) = (tmp_path / "mail" / "new").iterdir()
    assert b"There is no worker" in mail.read_bytes()
    assert b"is sent daily" in mail.read_bytes()
    assert mail.read_bytes().startswith(b"DKIM-Signature: ")


def test_a_problem_is_logged_when_it_begins(served: ServedSite, caplog: pytest.LogCaptureFixture) -> None:
    beat(served, "scheduler")

    known = watchdog.log_new_problems(watchdog.check_once(served.context), set())
    watchdog.log_new_problems(watchdog.check_once(served.context), known)

    assert [record.message for record in caplog.records if record.name == "digest.web.watchdog"] == [
        "There is no worker. Start it again: digest worker. Its log: what digest worker prints."
    ]
