"""`digest up`: the whole service with one command, and no process left behind."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from digest.cli import up
from digest.errors import Unreachable
from digest.process import child_processes
from digest.settings import load_settings
from tests.support.product_processes import Installation, installation
from tests.support.real_servers import free_port
from tests.support.waiting import HANG_SECONDS, pause, wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def stopped(tmp_path: Path) -> Iterator[Installation]:
    """An empty data directory with its own port."""
    with installation(tmp_path / "data", settings={"LISTEN": f"127.0.0.1:{free_port()}"}) as ours:
        yield ours


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """The whole service on an empty data directory; a test leaves it running."""
    folder = tmp_path_factory.mktemp("up") / "data"
    with installation(folder, settings={"LISTEN": f"127.0.0.1:{free_port()}"}) as ours:
        started(ours)
        wait_until("a digest in the outbox", lambda: outbox(ours))
        yield ours


def outbox(service: Installation) -> list[Path]:
    """The mails in the local Maildir."""
    return sorted((service.data_dir / "outbox" / "new").glob("*.eml"))


def started(service: Installation) -> int:
    """Start the service, wait for its banner, and return its process id."""
    before = service.logs().count("Digest is up")
    process = service.start("up")
    service.wait_until("the banner", lambda: service.logs().count("Digest is up") > before)
    return process.pid


def get(service: Installation, path: str) -> int:
    connection = http.client.HTTPConnection(service.settings["LISTEN"], timeout=HANG_SECONDS)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()


def answers(service: Installation, path: str) -> bool:
    try:
        return get(service, path) == 200
    except OSError:
        return False


def rows(service: Installation, query: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(service.data_dir / "digest.sqlite3", timeout=HANG_SECONDS)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


# ── one service ─────────────────────────────────────────────────────────────────────────────────


def test_up_makes_a_sample_digest_and_names_its_pages_and_folders(running: Installation) -> None:
    wait_until("the page", lambda: answers(running, "/"))

    assert f"http://{running.settings['LISTEN']}/outbox/" in running.logs()
    assert str(running.dumps) in running.logs()
    assert "uvicorn" not in running.logs()
    assert "GET /" not in running.logs()
    (mail,) = outbox(running)
    assert b"\r\nTo: you@localhost\r\n" in mail.read_bytes()


def test_a_dump_dropped_into_the_folder_is_loaded_and_the_log_says_so(running: Installation) -> None:
    dump = running.dumps / "2026-11-20.txt"
    dump.with_suffix(".part").write_text(
        "Title: A paper nobody has written\nAbstract: It says nothing, at some length, about nothing at all.\n"
    )
    dump.with_suffix(".part").rename(dump)

    wait_until("the dump to be put away", lambda: not dump.exists())

    folders = (running.dumps / "done", running.dumps / "rejected")
    assert any((folder / dump.name).exists() for folder in folders)
    wait_until("the worker's log to name it", lambda: f"dump {dump.name}: " in running.logs())


def test_a_second_service_on_the_same_folder_is_refused(running: Installation) -> None:
    second = running.run("up", check=False)

    assert second.returncode == 1
    assert f"Another digest up runs on {running.data_dir}." in second.stderr
    assert "Traceback" not in second.stderr


def test_a_dead_child_is_restarted(running: Installation) -> None:
    up = running.started[0].pid
    wait_until("broker, worker, web and scheduler", lambda: len(children(up)) == 4)
    before = children(up)
    for victim in before:
        os.kill(victim, signal.SIGKILL)

    wait_until("all four to be back", lambda: len(children(up) - before) == 4)
    wait_until("the page", lambda: answers(running, "/healthz"))
    assert running.logs().count("starting it again") >= 4


def children(parent: int) -> set[int]:
    """Return the process ids of the children that are alive."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, its_parent, *_ = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(its_parent) == parent and state != "Z":
            found.add(int(folder.name))
    return found


# ── start and stop ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.whole
@pytest.mark.promise
def test_a_stopped_service_leaves_no_process_and_a_real_setting_removes_the_sample(
    stopped: Installation,
) -> None:
    started(stopped)
    wait_until("a digest in the outbox", lambda: outbox(stopped))
    assert stopped.stop() == [0]
    assert stopped.processes() == []
    assert rows(stopped, "SELECT count(*) FROM paper WHERE is_sample") > [(0,)]
    assert rows(stopped, "SELECT count(*) FROM subscriber WHERE is_sample") == [(1,)]
    (mail,) = outbox(stopped)

    stopped.settings = {**stopped.settings, "MAIL_URL": f"maildir://{stopped.data_dir}/real"}
    up = started(stopped)
    wait_until("a publish that finds nothing due", lambda: rows(stopped, "SELECT at FROM heartbeat"))
    assert rows(stopped, "SELECT count(*) FROM paper") == [(0,)]
    assert rows(stopped, "SELECT count(*) FROM subscriber") == [(0,)]
    assert outbox(stopped) == [mail]

    os.kill(up, signal.SIGKILL)
    stopped.started[0].wait()
    wait_until("a killed parent to leave no orphan", lambda: not stopped.processes())


@pytest.mark.whole
@pytest.mark.promise
def test_a_service_that_is_started_again_sends_no_second_digest(stopped: Installation) -> None:
    started(stopped)
    wait_until("a digest in the outbox", lambda: outbox(stopped))
    assert stopped.stop() == [0]
    sent = outbox(stopped)

    started(stopped)
    wait_until("a publish that finds nothing due", lambda: rows(stopped, "SELECT at FROM heartbeat"))
    pause(6, "every tick comes by")
    assert stopped.stop(how=signal.SIGTERM) == [0]
    assert outbox(stopped) == sent
    assert stopped.processes() == []


def test_a_port_in_use_is_reported(stopped: Installation) -> None:
    host, _, port = stopped.settings["LISTEN"].partition(":")
    with socket.create_server((host, int(port))):
        refused = stopped.run("up", check=False)

    assert refused.returncode == 2
    assert f"DIGEST_LISTEN: {stopped.settings['LISTEN']}: Address already in use" in refused.stderr


# ── the embedded broker ─────────────────────────────────────────────────────────────────────────


def test_the_embedded_broker_listens_on_a_private_socket_even_below_a_long_path(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / ("deep" * 20) / ("down" * 20)):
        settings = load_settings({"data_dir": folder})
        child = up.broker_child(settings, {})
        child.start()
        try:
            assert settings.broker == f"redis+socket://{settings.broker_socket}"
            assert settings.broker_socket.parent.stat().st_mode & 0o777 == 0o700
            assert settings.broker_socket.stat().st_mode & 0o777 == 0o700
        finally:
            child.stop()


def test_a_missing_broker_program_is_reported_with_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(up, "package_files", lambda *_: [])

    with pytest.raises(Unreachable, match="Set DIGEST_BROKER_URL to a Redis"):
        up.broker_command(Path("broker.sock"))


def test_a_child_process_ends_with_its_parent(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    parent = os.fork()
    if parent == 0:
        child = os.fork()
        if child == 0:
            child_processes.end_with_parent(signal.SIGKILL)
            pid_file.write_text(str(os.getpid()))
            pause(600, "it is to end with its parent")
            os._exit(0)
        wait_until("the child", pid_file.exists)
        os._exit(0)
    os.waitpid(parent, 0)

    def is_gone() -> bool:
        try:
            return Path(f"/proc/{pid_file.read_text()}/stat").read_text().split()[2] == "Z"
        except OSError:
            return True

    wait_until("the child to be gone", is_gone)
