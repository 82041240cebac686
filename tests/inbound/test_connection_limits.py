"""Under floods, silent, slow and numerous clients do not block other ones."""

from __future__ import annotations

import re
import smtplib
import socket
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import pytest

from digest.inbound import storage_quota
from digest.inbound.connection_limits import (
    LOG_EVERY,
    Connections,
    MailConnection,
    MemoryBudget,
    Stage,
    network_of,
)
from tests.support.product_processes import Installation, installation
from tests.support.real_servers import free_port
from tests.support.waiting import HANG_SECONDS, wait_until

Connect = Callable[..., tuple[MailConnection, bool]]


@pytest.fixture
def connections() -> Connections:
    return Connections(most=4, most_by_network=2)


@pytest.fixture
def gone() -> list[str]:
    return []


@pytest.fixture
def connect(connections: Connections, gone: list[str]) -> Connect:
    """Return a function that opens a connection and returns whether it was accepted."""

    def connected(
        network: str, *, at: float, name: str = "", stage: Stage = Stage.SILENT
    ) -> tuple[MailConnection, bool]:
        client = MailConnection(
            network=network,
            close=lambda: gone.append(name or network),
            stage_entered_at=at,
            mailed_at=at,
            stage=stage,
        )
        return client, connections.admit(client, at)

    return connected


def test_a_silent_client_is_closed_for_a_new_one_of_its_network(connect: Connect, gone: list[str]) -> None:
    assert [connect("a", at=at, name=f"{at}")[1] for at in range(5)] == [True] * 5

    assert gone == ["0", "1", "2"]


def test_an_active_client_keeps_its_connection_for_a_while(connect: Connect, gone: list[str]) -> None:
    for stage in (Stage.IDLE, Stage.RECEIVING):
        connect("a", at=0, name=stage.value, stage=stage)

    assert [connect("a", at=at, name="late")[1] for at in (4, 5)] == [False, True]
    assert gone == ["idle"]


def test_a_connection_whose_mail_is_being_stored_is_never_closed(connect: Connect, gone: list[str]) -> None:
    for _ in range(2):
        connect("a", at=0, stage=Stage.STORING)

    assert not connect("a", at=10_000)[1]
    assert gone == []


def test_a_client_without_mail_may_be_closed_after_a_minute(connect: Connect, gone: list[str]) -> None:
    for name in ("first", "second"):
        client, _ = connect("a", at=0, name=name)
        client.enter(Stage.IDLE, 59)

    assert not connect("a", at=59.5)[1]
    assert connect("a", at=61)[1]


def test_at_the_limit_the_network_with_most_connections_loses_one(connect: Connect, gone: list[str]) -> None:
    for network in ("honest", "flood", "flood", "other"):
        connect(network, at=0)

    assert connect("new", at=1)[1]
    assert gone == ["flood"]


def test_a_flood_is_logged_once_a_minute(connections: Connections, connect: Connect) -> None:
    for _ in range(1_002):
        connect("192.0.2.1", at=0)

    assert connections.report(0) == (
        "1,000 connections were rejected, 1,000 of them from 192.0.2.1; 2 are open"
    )
    connect("192.0.2.1", at=1)
    assert connections.report(LOG_EVERY - 1) is None
    assert (connections.report(LOG_EVERY) or "").startswith("1 connection was")
    assert connections.report(10 * LOG_EVERY) is None


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8::1:2:3:4", "2001:db8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
    ],
)
def test_addresses_of_one_network_count_together(address: str, network: str) -> None:
    assert network_of(address) == network


def test_memory_is_reserved_up_to_the_limit_and_released() -> None:
    memory = MemoryBudget(100)

    assert [memory.take(count) for count in (60, 41, 40, 1)] == [True, False, True, False]
    memory.release(60)
    assert memory.take(60)


# ── a process, flooded ──────────────────────────────────────────────────────────────────────────

FILES = 256  #: that the process may open: fewer than its clients
WITH_FEW_FILES = ("sh", "-c", f'ulimit -n {FILES}; exec "$0" "$@"', sys.executable, "-m", "digest")
TO = "postmaster@back.example.org"


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def server(port: int, tmp_path: Path) -> Iterator[Installation]:
    """The mail server in its own process, started as an operator does."""
    settings = {"INBOUND": f"smtp://127.0.0.1:{port}", "INBOUND_DOMAIN": "back.example.org"}
    with installation(tmp_path / "data", settings=settings, command=WITH_FEW_FILES) as running:
        running.start("inbound")
        running.wait_until("it listens", lambda: answers(port))
        yield running


def answers(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 2):
        return True
    return False


def send(port: int, *, source: str = "127.0.0.1") -> None:
    """Send a mail as a mail server does, retrying after a 421."""
    with smtplib.SMTP("127.0.0.1", port, timeout=HANG_SECONDS, source_address=(source, 0)) as client:
        client.sendmail("bob@else.example", [TO], b"Subject: hello\r\n\r\nhello\r\n")


def is_accepted(port: int, *, source: str) -> bool:
    """Return whether a mail is accepted now."""
    with suppress(OSError, smtplib.SMTPException):
        send(port, source=source)
        return True
    return False


@pytest.mark.slow
def test_idle_connections_do_not_block_other_clients(server: Installation, port: int) -> None:
    """They do not fill the log or use up the process's open files either."""
    with ExitStack() as flood:
        for number in range(2 * FILES):
            source = f"127.0.0.{2 + number % 16}"
            with suppress(OSError):
                flood.enter_context(
                    socket.create_connection(("127.0.0.1", port), 5, source_address=(source, 0))
                )

        for source in ("127.0.0.1", "127.0.0.2"):  # one of the flood's addresses, too
            wait_until(f"a mail from {source} to be accepted", partial(is_accepted, port, source=source))

    lines = server.logs().splitlines()
    assert len(server.logs()) < 20_000
    assert not any("Traceback" in line or "Too many open files" in line for line in lines)
    assert sum("were rejected" in line for line in lines) <= 1


def deliver(port: int, number: int, wire: bytes) -> str:
    """Send bytes as one mail and return the last reply code."""
    source = (f"127.0.0.{2 + number % 15}", 0)
    hello = f"EHLO x\r\nMAIL FROM:<{number}@else.example>\r\nRCPT TO:<{TO}>\r\n"
    said = b""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 100, source_address=source) as line:
        replies = line.makefile("rb")
        said = replies.readline()
        for part, count in ((hello.encode(), 7), (b"DATA\r\n", 1), (wire, 1)):
            if said[:1] not in {b"2", b"3"}:
                break
            line.sendall(part)
            said = [replies.readline() for _ in range(count)][-1]
    return said[:3].decode()


@pytest.mark.slow
@pytest.mark.timeout(600)  # 600 MB are sent
def test_three_hundred_large_mails_at_once_stay_under_200_mb_of_memory_and_60_mb_of_disk(
    server: Installation, port: int
) -> None:
    wire = b"Subject: large\r\n\r\n" + b"x" * 76 * 26_000 + b"\r\n.\r\n"
    with ThreadPoolExecutor(300) as clients:
        codes = Counter(clients.map(lambda number: deliver(port, number, wire), range(300)))

    (process,) = server.started
    peak = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{process.pid}/status").read_text())
    stored = sum(file.stat().st_size for file in server.data_dir.glob("digest.sqlite3"))
    print(codes, peak, stored)
    assert peak
    assert int(peak[1]) < 200 * 1024
    assert stored < 60 * 1024 * 1024
    assert codes["250"] >= storage_quota.NETWORK_LIMIT.size // len(wire)
    assert not {code for code in codes if code.startswith("5")}  # a mail is stored, or may come again
