"""Is the house well: what a supervisor, Prometheus and the operator are told."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from digest import watching
from digest.cli.dkim import new_key
from digest.house import House
from digest.model import Delivery
from digest.settings import Settings
from digest.web import watch
from tests.servers import free_port
from tests.web.conftest import Door


def beat(door: Door, role: str, **ago: float) -> None:
    with door.writing() as session:
        watching.beat(session, role, door.clock.now - timedelta(**ago))


def ready(door: Door) -> tuple[int, str]:
    door.clock.now += timedelta(seconds=20)  # past what was remembered
    answer = door.client.get("/readyz")
    return answer.status_code, answer.text


# ── readyz ──────────────────────────────────────────────────────────────────────────────────────


def test_it_is_red_while_a_role_is_silent(door: Door) -> None:
    beat(door, "scheduler")
    beat(door, "worker")
    assert ready(door) == (200, "ok\n")

    beat(door, "worker", minutes=5)
    assert ready(door) == (503, "The worker has stopped\n")

    beat(door, "worker")
    assert ready(door) == (200, "ok\n")


def test_it_is_red_while_a_server_does_not_answer(door: Door, redis_url: str) -> None:
    nobody = f"127.0.0.1:{free_port()}"
    for setting, url, wrong in (
        ("mail_url", f"smtp://{nobody}", "The mail server does not answer"),
        ("broker_url", f"redis://{nobody}/0", "The broker does not answer"),
    ):
        door.client.app.state.house = with_settings(door.house, **{setting: url})
        assert ready(door) == (503, f"{wrong}\n")
    door.client.app.state.house = with_settings(door.house, broker_url=redis_url)
    assert ready(door) == (200, "ok\n")


def with_settings(house: House, **changed: str) -> House:
    given = house.settings.model_dump(exclude_unset=True) | changed
    return House(
        settings=Settings(**given),
        engine=house.engine,
        site=house.site,
        clock=house.clock,
        memory=house.memory,
    )


# ── metrics ─────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def neighbour(door: Door) -> TestClient:
    """Somebody on this machine."""
    return TestClient(door.client.app, base_url="http://127.0.0.1:8000", client=("127.0.0.1", 50_000))


def test_prometheus_can_read_the_figures(door: Door, neighbour: TestClient) -> None:
    beat(door, "worker", seconds=30)
    door.ask("ada@uni.example")

    answer = neighbour.get("/metrics")

    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert 'digest_deliveries{state="queued"} 1\n' in answer.text
    assert 'digest_subscribers{state="pending"} 1\n' in answer.text
    assert re.search(r'^digest_heartbeat_age_seconds\{role="worker"\} 35$', answer.text, re.MULTILINE)
    assert 'digest_stops{covers="bulk"} 0\n' in answer.text
    assert "uni.example" not in answer.text
    for line in answer.text.splitlines():
        assert re.fullmatch(r'# (HELP|TYPE) \w+ .+|\w+(\{\w+="[^"]*"\})? -?[\d.e+]+', line), line


def test_figures_are_for_neighbours_only(door: Door, neighbour: TestClient) -> None:
    def asking_from(address: str) -> int:
        client = TestClient(door.client.app, base_url="http://127.0.0.1:8000", client=(address, 50_000))
        return client.get("/metrics").status_code

    ours, others = (
        ("127.0.0.1", "::1", "10.1.2.3", "::ffff:10.1.2.3"),
        ("9.9.9.9", "2001:4860::1", "::ffff:9.9.9.9", "x"),
    )
    assert {asking_from(address) for address in ours} == {200}
    assert {asking_from(address) for address in others} == {404}
    assert neighbour.get("/metrics", headers={"x-forwarded-for": "203.0.113.9"}).status_code == 404


# ── the letter to the operator ──────────────────────────────────────────────────────────────────


def test_when_the_worker_has_stopped_the_web_door_sends_the_letter_itself(door: Door, tmp_path: Path) -> None:
    house = with_settings(
        door.house,
        operator_email="op@example.org",
        mail_url=f"maildir://{tmp_path}/mail",
        dkim_key=new_key("ed25519"),
    )
    beat(door, "scheduler")
    assert watch.look(house) == watch.look(house)  # there is no worker

    with door.writing() as session:
        (letter,) = session.query(Delivery).all()
    assert (letter.letter, letter.email, letter.state) == ("alarm", "op@example.org", "sent")
    (mail,) = (tmp_path / "mail" / "new").iterdir()
    assert b"There is no worker" in mail.read_bytes()
    assert b"Written once a day, until it is mended." in mail.read_bytes()
    assert mail.read_bytes().startswith(b"DKIM-Signature: ")


def test_a_trouble_is_logged_when_it_begins(door: Door, caplog: pytest.LogCaptureFixture) -> None:
    beat(door, "scheduler")

    known = watch.tell(watch.look(door.house), set())
    watch.tell(watch.look(door.house), known)

    assert [record.message for record in caplog.records if record.name == "digest.web.watch"] == [
        "There is no worker. Start it again: digest up, or digest worker. Its log says why it ended."
    ]
