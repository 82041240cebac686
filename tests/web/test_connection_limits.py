"""Clients with many or slow connections do not block others."""

from __future__ import annotations

import resource
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest

from digest.web.connection_limits import HEAD_SECONDS, ConnectionLimits, counted_address
from tests.support.connection_flood import KINDS, flood
from tests.support.product_processes import Installation, installation
from tests.support.real_servers import free_port
from tests.support.waiting import HANG_SECONDS, pause, wait_until


@dataclass(eq=False)
class Held:
    """A connection as the limits use it."""

    address: str | None = None
    is_waiting: bool = True

    def abort(self) -> None:
        """Be closed."""


# ── which connection is closed ─────────────────────────────────────────────────────────────────


def test_the_longest_idle_connection_is_closed_for_a_new_one() -> None:
    limits = ConnectionLimits(most=3)
    first, second, third, new = (Held() for _ in range(4))
    assert [limits.add(one) for one in (first, second, third)] == [None] * 3

    limits.mark_active(first)

    assert limits.add(new) is second
    assert list(limits.open) == [third, first, new]


def test_a_connection_with_a_request_is_never_closed_for_another() -> None:
    limits = ConnectionLimits(most=2)
    working, waiting, late, last = Held(is_waiting=False), Held(), Held(is_waiting=False), Held()
    limits.add(working)
    limits.add(waiting)

    assert limits.add(late) is waiting
    assert limits.add(last) is last
    assert list(limits.open) == [working, late]


def test_an_address_at_its_limit_loses_its_own_oldest_connection() -> None:
    limits = ConnectionLimits(most=100, most_of_one=2)
    other, first, second, third = Held("192.0.2.9"), Held("192.0.2.1"), Held("192.0.2.1"), Held("192.0.2.1")
    for one in (other, first, second):
        limits.add(one)

    assert limits.add(third) is first
    assert list(limits.open) == [other, second, third]
    second.is_waiting = third.is_waiting = False
    assert limits.add(Held("192.0.2.1")) is None


def test_many_new_connections_at_once_each_close_another_one() -> None:
    limits = ConnectionLimits(most=10)

    closed = [limits.add(Held()) for _ in range(100)]

    assert closed[:10] == [None] * 10
    assert len(set(closed[10:])) == 90
    assert len(limits.open) == 10


@pytest.mark.parametrize(
    ("address", "counted"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
        ("127.0.0.1", None),
        ("::1", None),
        ("a socket", None),
    ],
)
def test_connections_are_counted_by_the_address_of_one_customer(address: str, counted: str | None) -> None:
    assert counted_address((address, 1), proxies=0) == counted


def test_connections_of_our_own_proxies_are_not_counted_by_address() -> None:
    limits = ConnectionLimits(most=100, most_of_one=2)
    address = counted_address(("192.0.2.1", 1), proxies=1)

    assert address is None
    assert [limits.add(Held(address)) for _ in range(50)] == [None] * 50


# ── a real server ───────────────────────────────────────────────────────────────────────────────

FILES = 256  #: that the server may open; 1,024 is usual


@contextmanager
def small_server(folder: Path) -> Iterator[tuple[Installation, int]]:
    """`digest web`, which may open few files."""
    port = free_port()
    command = ("/bin/sh", "-c", f'ulimit -n {FILES} && exec "$@"', "sh", sys.executable, "-m", "digest")
    with installation(folder / "data", settings={"LISTEN": f"127.0.0.1:{port}"}, command=command) as ours:
        ours.start("web")
        wait_until("the site to answer", lambda: is_answered(port))
        yield ours, port


def is_answered(port: int) -> bool:
    """Return whether a page is served on a new connection."""
    with suppress(httpx2.HTTPError):
        return (
            httpx2.get(f"http://127.0.0.1:{port}/privacy", timeout=HANG_SECONDS, verify=False).status_code
            == 200
        )
    return False


@pytest.fixture
def _many_files() -> Iterator[None]:
    """Raise the limit of open files to what a flood needs."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.whole
@pytest.mark.slow
@pytest.mark.usefixtures("_many_files")
@pytest.mark.parametrize("kinds", [("half a head",), tuple(KINDS)], ids=["half a head", "all kinds"])
def test_a_flood_of_connections_blocks_nobody_and_is_logged_once_a_minute(
    tmp_path: Path, kinds: tuple[str, ...]
) -> None:
    with small_server(tmp_path) as (ours, port):
        with flood(port, many=3 * FILES, kinds=kinds) as floods:
            wait_until("the flood", lambda: sum(one.opened for one in floods) > FILES)
            for _ in range(20):
                assert is_answered(port)
                pause(0.3, "the flood goes on")

        log = ours.logs()
        assert log.count("Too many connections") in {1, 2}  # a minute may end meanwhile
        assert "Traceback" not in log
        assert len(log) < 2000


@pytest.mark.whole
@pytest.mark.slow
def test_an_incomplete_request_does_not_delay_shutdown(tmp_path: Path) -> None:
    with small_server(tmp_path) as (ours, port), socket.create_connection(("127.0.0.1", port)) as half:
        half.sendall(KINDS["half a form"])
        pause(0.5, "the server reads what it can")
        ours.stop(how=signal.SIGTERM)

        assert "Traceback" not in ours.logs()


@pytest.mark.whole
@pytest.mark.slow
def test_a_client_that_sends_single_bytes_is_disconnected(tmp_path: Path) -> None:
    with small_server(tmp_path) as (_, port), socket.create_connection(("127.0.0.1", port)) as slow:
        slow.sendall(b"GET / HTTP/1.1\r\nHost: example.org\r\nX-Slow: ")
        with suppress(ConnectionError):
            for _ in range(int(4 * HEAD_SECONDS / 0.5)):
                slow.sendall(b"x")
                pause(0.5, "one byte at a time")
            pytest.fail("It still takes bytes.")
        assert is_answered(port)
