"""`digest up`: the whole service with one command, and no process left behind."""

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

from digest import child_processes
from digest.cli import embedded_broker
from digest.errors import Unreachable
from digest.settings import Settings
from tests.support.product_processes import Installation, installation, wait_until
from tests.support.real_servers import free_port

pytestmark = pytest.mark.slow


@pytest.fixture
def up_installation(tmp_path: Path) -> Iterator[Installation]:
    """An empty data directory with its own port."""
    with installation(tmp_path / "data", settings={"PORT": str(free_port())}) as ours:
        yield ours


def outbox(up_installation: Installation) -> list[Path]:
    """The mails in the local Maildir."""
    return sorted((up_installation.data_dir / "outbox" / "new").glob("*.eml"))


def started(up_installation: Installation) -> int:
    """Start the service, wait for its banner, and return its process id."""
    before = up_installation.logs().count("Digest is up")
    process = up_installation.start("up")
    wait_until(
        "the banner",
        lambda: up_installation.logs().count("Digest is up") > before or process.poll() is not None,
    )
    assert process.poll() is None
    return process.pid


def get(up_installation: Installation, path: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", int(up_installation.settings["PORT"]), timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()


def answers(up_installation: Installation, path: str) -> bool:
    try:
        return get(up_installation, path) == 200
    except OSError:
        return False


def rows(up_installation: Installation, query: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(up_installation.data_dir / "digest.sqlite3", timeout=30)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def test_up_makes_a_sample_digest_and_ctrl_c_ends_every_process(
    up_installation: Installation,
) -> None:
    began = time.monotonic()
    started(up_installation)
    wait_until("a digest in the outbox", lambda: outbox(up_installation))

    assert time.monotonic() - began < 60
    assert get(up_installation, "/") == 200
    assert f"http://127.0.0.1:{up_installation.settings['PORT']}/outbox/" in up_installation.logs()
    assert str(up_installation.dumps) in up_installation.logs()
    assert "uvicorn" not in up_installation.logs()
    assert "GET /" not in up_installation.logs()
    (mail,) = outbox(up_installation)
    assert b"\r\nTo: you@localhost\r\n" in mail.read_bytes()

    began = time.monotonic()
    assert up_installation.stop() == [0]
    assert time.monotonic() - began < 20
    assert up_installation.processes() == []

    started(up_installation)
    wait_until("a publish that finds nothing due", lambda: rows(up_installation, "SELECT at FROM heartbeat"))
    time.sleep(6)  # every tick has come by
    assert up_installation.stop(how=signal.SIGTERM) == [0]
    assert outbox(up_installation) == [mail]
    assert up_installation.processes() == []


def test_a_dead_child_is_restarted_and_a_killed_parent_leaves_no_orphan(
    up_installation: Installation,
) -> None:
    pid = started(up_installation)

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
    wait_until("the page", lambda: answers(up_installation, "/healthz"))
    assert up_installation.logs().count("starting it again") >= 4

    os.kill(pid, signal.SIGKILL)
    up_installation.started[0].wait()
    wait_until("nothing to be left", lambda: not up_installation.processes(), seconds=40)


def test_a_dump_dropped_into_the_folder_is_loaded_in_seconds_and_the_log_says_so(
    up_installation: Installation,
) -> None:
    started(up_installation)
    dump = up_installation.dumps / "2026-11-20.txt"
    dump.with_suffix(".part").write_text(
        "Title: A paper nobody has written\nAbstract: It says nothing, at some length, about nothing at all.\n"
    )
    dump.with_suffix(".part").rename(dump)

    wait_until("the dump to be put away", lambda: not dump.exists(), seconds=30)

    assert (up_installation.dumps / "done" / dump.name).exists() or (
        up_installation.dumps / "rejected" / dump.name
    ).exists()
    wait_until(
        "the worker's log to name it", lambda: f"dump {dump.name}: " in up_installation.logs(), seconds=10
    )
    assert up_installation.stop() == [0]


def test_the_sample_is_removed_by_the_first_real_setting(up_installation: Installation) -> None:
    started(up_installation)
    assert up_installation.stop() == [0]
    assert rows(up_installation, "SELECT count(*) FROM paper WHERE is_sample") > [(0,)]
    assert rows(up_installation, "SELECT count(*) FROM subscriber WHERE is_sample") == [(1,)]

    up_installation.settings = {
        **up_installation.settings,
        "MAIL_URL": f"maildir://{up_installation.data_dir}/real",
    }
    started(up_installation)

    assert rows(up_installation, "SELECT count(*) FROM paper") == [(0,)]
    assert rows(up_installation, "SELECT count(*) FROM subscriber") == [(0,)]
    assert up_installation.stop() == [0]


def test_a_second_service_on_the_same_folder_is_refused(up_installation: Installation) -> None:
    started(up_installation)

    second = up_installation.run("up", check=False)

    assert second.returncode == 1
    assert f"Another digest up runs on {up_installation.data_dir}." in second.stderr
    assert "Traceback" not in second.stderr
    assert up_installation.stop() == [0]


def test_a_port_in_use_is_reported(up_installation: Installation) -> None:
    with socket.create_server(("127.0.0.1", int(up_installation.settings["PORT"]))):
        refused = up_installation.run("up", check=False)

    assert refused.returncode == 2
    assert (
        f"DIGEST_PORT: 127.0.0.1:{up_installation.settings['PORT']}: Address already in use" in refused.stderr
    )


# ── the embedded broker ─────────────────────────────────────────────────────────────────────────


def test_the_embedded_broker_listens_on_a_private_socket(tmp_path: Path) -> None:
    running = embedded_broker.start(Settings(data_dir=tmp_path))
    try:
        assert running.url == f"redis+socket://{tmp_path}/broker/broker.sock"
        assert running.socket.parent.stat().st_mode & 0o777 == 0o700
        assert running.socket.stat().st_mode & 0o777 == 0o700
    finally:
        running.process.terminate()
        running.process.wait()


def test_a_data_directory_with_a_long_path_gets_a_broker(tmp_path: Path) -> None:
    running = embedded_broker.start(Settings(data_dir=tmp_path / ("deep" * 20) / ("down" * 20)))
    try:
        assert len(os.fsencode(running.socket)) < 100
        assert running.socket.parent.stat().st_mode & 0o777 == 0o700
    finally:
        running.process.terminate()
        running.process.wait()


def test_a_missing_broker_program_is_reported_with_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(embedded_broker, "package_files", lambda *_: [])

    with pytest.raises(Unreachable, match="Set DIGEST_BROKER_URL to a Redis"):
        embedded_broker.command()


def test_a_child_process_ends_with_its_parent(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    parent = os.fork()
    if parent == 0:
        child = os.fork()
        if child == 0:
            child_processes.end_with_parent(signal.SIGKILL)
            pid_file.write_text(str(os.getpid()))
            time.sleep(60)
            os._exit(0)
        while not pid_file.exists():
            time.sleep(0.01)
        os._exit(0)
    os.waitpid(parent, 0)

    def is_gone() -> bool:
        try:
            return Path(f"/proc/{pid_file.read_text()}/stat").read_text().split()[2] == "Z"
        except OSError:
            return True

    wait_until("the child to be gone", is_gone, seconds=5)
