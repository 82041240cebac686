"""`digest up`: the whole house with one command, and nothing of it left behind."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from digest import lifeline
from digest.cli import broker
from digest.errors import Unreachable
from digest.settings import Settings
from tests.processes import Installation, installation, wait_until
from tests.servers import free_port

pytestmark = pytest.mark.slow


@pytest.fixture
def house(tmp_path: Path) -> Iterator[Installation]:
    """An empty data directory with a port of its own."""
    with installation(tmp_path / "data", settings={"PORT": str(free_port())}) as ours:
        yield ours


def outbox(house: Installation) -> list[Path]:
    """The mails that lie in the local Maildir."""
    return sorted((house.data_dir / "outbox" / "new").glob("*.eml"))


def started(house: Installation) -> int:
    """Start the house, wait for its banner, and return its process id."""
    before = house.logs().count("Digest is up")
    process = house.start("up")
    wait_until(
        "the banner", lambda: house.logs().count("Digest is up") > before or process.poll() is not None
    )
    assert process.poll() is None
    return process.pid


def get(house: Installation, path: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", int(house.settings["PORT"]), timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()


def answers(house: Installation, path: str) -> bool:
    try:
        return get(house, path) == 200
    except OSError:
        return False


def rows(house: Installation, query: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(house.data_dir / "digest.sqlite3", timeout=30)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def test_one_command_gives_a_digest_to_look_at_and_ctrl_c_leaves_nothing_running(house: Installation) -> None:
    began = time.monotonic()
    started(house)
    wait_until("a digest in the outbox", lambda: outbox(house))

    assert time.monotonic() - began < 60
    assert get(house, "/") == 200
    assert f"http://127.0.0.1:{house.settings['PORT']}/outbox/" in house.logs()
    assert str(house.dumps) in house.logs()
    (mail,) = outbox(house)
    assert b"\r\nTo: you@localhost\r\n" in mail.read_bytes()

    began = time.monotonic()
    assert house.stop() == [0]
    assert time.monotonic() - began < 20
    assert house.processes() == []

    started(house)
    wait_until("a publish that finds nothing due", lambda: rows(house, "SELECT at FROM heartbeat"))
    time.sleep(6)  # every tick has come by
    assert house.stop(how=signal.SIGTERM) == [0]
    assert outbox(house) == [mail]
    assert house.processes() == []


def test_whoever_dies_is_started_again_and_who_kills_us_leaves_no_orphan(house: Installation) -> None:
    pid = started(house)

    def children() -> set[int]:
        """The process ids of our children that are alive."""
        found = set()
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                state, parent, *_ = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(parent) == pid and state != "Z":
                found.add(int(folder.name))
        return found

    before = children()
    assert len(before) == 4  # broker, worker, web, scheduler
    for victim in before:
        os.kill(victim, signal.SIGKILL)
    wait_until("all four to be back", lambda: len(children() - before) == 4)
    wait_until("the page", lambda: answers(house, "/healthz"))
    assert house.logs().count("starting it again") >= 4

    os.kill(pid, signal.SIGKILL)
    house.started[0].wait()
    wait_until("nothing to be left", lambda: not house.processes(), seconds=40)


def test_a_dump_dropped_into_the_folder_is_loaded_in_seconds_and_the_log_says_so(house: Installation) -> None:
    started(house)
    dump = house.dumps / "2026-11-20.txt"
    dump.with_suffix(".part").write_text(
        "Title: A paper nobody has written\nAbstract: It says nothing, at some length, about nothing at all.\n"
    )
    dump.with_suffix(".part").rename(dump)

    wait_until("the dump to be put away", lambda: not dump.exists(), seconds=30)

    assert (house.dumps / "done" / dump.name).exists() or (house.dumps / "rejected" / dump.name).exists()
    wait_until("the worker's log to tell of it", lambda: f"dump {dump.name}: " in house.logs(), seconds=10)
    assert house.stop() == [0]


def test_the_sample_never_reaches_a_real_set_up(house: Installation) -> None:
    started(house)
    assert house.stop() == [0]
    assert rows(house, "SELECT count(*) FROM paper WHERE is_sample") > [(0,)]
    assert rows(house, "SELECT count(*) FROM subscriber WHERE is_sample") == [(1,)]

    house.settings = {**house.settings, "MAIL_URL": f"maildir://{house.data_dir}/real"}
    started(house)

    assert rows(house, "SELECT count(*) FROM paper") == [(0,)]
    assert rows(house, "SELECT count(*) FROM subscriber") == [(0,)]
    assert house.stop() == [0]


def test_a_second_house_on_the_same_folder_is_refused(house: Installation) -> None:
    started(house)

    second = house.run("up", check=False)

    assert second.returncode == 1
    assert f"Another digest up runs on {house.data_dir}." in second.stderr
    assert "Traceback" not in second.stderr
    assert house.stop() == [0]


def test_a_port_that_is_taken_is_named(house: Installation) -> None:
    with socket.create_server(("127.0.0.1", int(house.settings["PORT"]))):
        refused = house.run("up", check=False)

    assert refused.returncode == 2
    assert f"DIGEST_PORT: 127.0.0.1:{house.settings['PORT']}: Address already in use" in refused.stderr


# ── the embedded broker ─────────────────────────────────────────────────────────────────────────


def test_the_broker_listens_on_a_socket_that_only_we_may_open(tmp_path: Path) -> None:
    running = broker.start(Settings(data_dir=tmp_path))
    try:
        assert running.url == f"redis+socket://{tmp_path}/broker/broker.sock"
        assert running.socket.parent.stat().st_mode & 0o777 == 0o700
        assert running.socket.stat().st_mode & 0o777 == 0o700
    finally:
        running.process.terminate()
        running.process.wait()


def test_a_data_directory_deep_down_still_gets_a_broker(tmp_path: Path) -> None:
    running = broker.start(Settings(data_dir=tmp_path / ("deep" * 20) / ("down" * 20)))
    try:
        assert len(os.fsencode(running.socket)) < 100
        assert running.socket.parent.stat().st_mode & 0o777 == 0o700
    finally:
        running.process.terminate()
        running.process.wait()


def test_without_any_broker_program_the_setting_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(broker, "inside", lambda *_: [])

    with pytest.raises(Unreachable, match="Set DIGEST_BROKER_URL to a Redis"):
        broker.command()


def test_a_tied_child_ends_with_its_parent(tmp_path: Path) -> None:
    told = tmp_path / "pid"
    parent = os.fork()
    if parent == 0:
        child = os.fork()
        if child == 0:
            lifeline.tie(signal.SIGKILL)
            told.write_text(str(os.getpid()))
            time.sleep(60)
            os._exit(0)
        while not told.exists():
            time.sleep(0.01)
        os._exit(0)
    os.waitpid(parent, 0)

    def is_gone() -> bool:
        try:
            return Path(f"/proc/{told.read_text()}/stat").read_text().split()[2] == "Z"
        except OSError:
            return True

    wait_until("the child to be gone", is_gone, seconds=5)
