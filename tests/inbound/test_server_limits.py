"""Silent, slow and numerous clients use bounded memory and lose no mail: they get a temporary error."""

from __future__ import annotations

import asyncio
import re
import smtplib
import socket
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import pytest
from sqlalchemy import Engine

from digest.app_context import AppContext
from digest.inbound import server as inbound_server
from digest.inbound import stored_mail
from digest.inbound.server import MAX_BYTES, MAX_CONNECTIONS, RECEIVED_AT_ONCE, MailReceiver
from digest.settings import load_settings
from digest.site.site_profile import Site
from tests.support.product_processes import Installation, installation
from tests.support.real_servers import free_port
from tests.support.waiting import HANG_SECONDS, wait_until

TO = "postmaster@back.example.org"


@pytest.fixture
def context(sqlite_engine: Engine, site: Site, now: datetime, tmp_path: Path) -> AppContext:
    settings = load_settings({"data_dir": tmp_path, "inbound": f"lmtp://{tmp_path}/lmtp.sock"})
    site = replace(site, inbound_domain="back.example.org")
    return AppContext(settings=settings, engine=sqlite_engine, site=site, clock=lambda: now)


@dataclass(kw_only=True)
class Served:
    """A server in this process, and its clients."""

    receiver: MailReceiver
    path: str
    clients: list[Client]

    async def connect(self) -> Client:
        """Connect a client."""
        self.clients.append(Client(*await asyncio.open_unix_connection(self.path)))
        return self.clients[-1]


@asynccontextmanager
async def served(context: AppContext, *, wait_seconds: float = 30) -> AsyncIterator[Served]:
    """Serve on a socket; close the server and its clients at the end."""
    (url,) = context.settings.inbound
    receiver = MailReceiver(context, wait_seconds=wait_seconds)
    server = await inbound_server.start_listening(receiver, url)
    found = Served(receiver=receiver, path=url.removeprefix("lmtp://"), clients=[])
    try:
        yield found
    finally:
        server.close()
        receiver.threads.shutdown()
        for client in found.clients:
            await client.close()
        await until("the clients to leave", lambda: not receiver.clients)


async def until(what: str, is_so: Callable[[], bool]) -> None:
    """Wait until something is so, while the server runs."""
    await asyncio.to_thread(wait_until, what, is_so)


class Client:
    """A connection to a server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def close(self) -> None:
        """Close the connection."""
        self.writer.close()
        await self.writer.wait_closed()

    async def replies(self, *lines: bytes, count: int = 1) -> list[str]:
        """Send lines and return the codes of the next replies."""
        self.writer.writelines(line + b"\r\n" for line in lines)
        await self.writer.drain()
        read = [await self.reader.readline() for _ in range(count)]
        return [line[:3].decode() for line in read]

    async def begin_data(self, *, recipients: int = 1) -> None:
        """Begin a message up to its DATA command, whose reply is not read."""
        to = [b"RCPT TO:<%b>" % TO.encode()] * recipients
        greeted = await self.replies(b"LHLO x", count=5)
        begun = await self.replies(b"MAIL FROM:<a@else.example>", *to, count=1 + recipients)
        assert set(greeted + begun) == {"250"}, (greeted, begun)
        self.writer.write(b"DATA\r\n")


def test_beyond_the_limits_a_client_or_message_gets_a_temporary_error_and_a_free_place_serves_it(
    context: AppContext,
) -> None:
    async def scene() -> None:
        async with served(context, wait_seconds=0.01) as server:
            clients = [await server.connect() for _ in range(MAX_CONNECTIONS)]
            assert [await client.replies() for client in clients] == [["220"]] * MAX_CONNECTIONS
            refused = await server.connect()
            assert (await refused.replies(), await refused.reader.read()) == (["421"], b"")

            *stalled, late = clients[: RECEIVED_AT_ONCE + 1]
            for client in stalled:
                await client.begin_data()
                assert await client.replies() == ["354"]
            await late.begin_data(recipients=2)
            assert await late.replies(count=2) == ["452", "452"]

            await stalled[0].close()
            await until("a free place", lambda: len(server.receiver.clients) < MAX_CONNECTIONS)
            assert await late.replies(b"DATA") == ["354"]
            assert await late.replies(b"Subject: hello", b"", b"hello", b".", count=2) == ["250", "250"]
            assert await (await server.connect()).replies() == ["220"]

    asyncio.run(scene())


def test_a_client_that_ends_after_its_data_command_is_not_answered_forever(context: AppContext) -> None:
    async def scene() -> None:
        async with served(context) as server:
            for length in range(40):  # the end comes at another moment each time
                client = await server.connect()
                begin = [b"LHLO x", b"MAIL FROM:<a@else.example>", b"RCPT TO:<%b>" % TO.encode(), b"DATA"]
                client.writer.write(b"\r\n".join([b"NOOP"] * length + begin) + b"\r\n")
                client.writer.write_eof()
                said = 0
                while read := await client.reader.read(65_536):
                    said += len(read)
                    assert said < 65_536

    asyncio.run(scene())


def test_a_message_that_is_too_large_is_refused_for_each_recipient_with_a_sentence(
    context: AppContext,
) -> None:
    async def scene() -> None:
        async with served(context) as server:
            client = await server.connect()
            assert await client.replies() == ["220"]
            await client.begin_data(recipients=2)
            assert await client.replies() == ["354"]
            client.writer.write((b"x" * 70 + b"\r\n") * (MAX_BYTES // 72 + 1) + b".\r\n")
            said = [await client.reader.readline() for _ in range(2)]
            assert said == [inbound_server.TOO_LARGE.encode() + b"\r\n"] * 2

    asyncio.run(scene())


def test_a_server_that_stops_closes_its_connections(context: AppContext) -> None:
    async def scene() -> None:
        (url,) = context.settings.inbound
        path, stop = Path(url.removeprefix("lmtp://")), asyncio.Event()
        serving = asyncio.create_task(inbound_server.serve_until(context, (url,), stop))
        await until("the server", path.exists)
        client = Client(*await asyncio.open_unix_connection(path))
        assert await client.replies() == ["220"]
        stop.set()
        await serving
        assert await client.reader.read() == b""
        await client.close()

    asyncio.run(scene())


# ── a process, flooded ──────────────────────────────────────────────────────────────────────────

FILES = 256  #: that the process may open: fewer than its clients
WITH_FEW_FILES = ("sh", "-c", f'ulimit -n {FILES}; exec "$0" "$@"', sys.executable, "-m", "digest")


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


def is_accepted(port: int) -> bool:
    """Return whether a mail is accepted now."""
    with (
        suppress(OSError, smtplib.SMTPException),
        smtplib.SMTP("127.0.0.1", port, timeout=HANG_SECONDS) as client,
    ):
        client.sendmail("bob@else.example", [TO], b"Subject: hello\r\n\r\nhello\r\n")
        return True
    return False


@pytest.mark.slow
def test_a_flood_of_idle_connections_fills_neither_the_log_nor_the_open_files_and_loses_no_mail(
    server: Installation, port: int
) -> None:
    with ExitStack() as flood:
        for _ in range(2 * FILES):
            with suppress(OSError):
                flood.enter_context(socket.create_connection(("127.0.0.1", port), 5))
        assert not is_accepted(port)
    wait_until("a mail to be accepted", lambda: is_accepted(port))

    lines = server.logs().splitlines()
    assert len(server.logs()) < 20_000
    assert not any("Traceback" in line or "Too many open files" in line for line in lines)
    assert sum("were refused" in line for line in lines) <= 1


def deliver(port: int, number: int, wire: bytes) -> str:
    """Send bytes as one mail and return the last reply code."""
    hello = f"EHLO x\r\nMAIL FROM:<{number}@else.example>\r\nRCPT TO:<{TO}>\r\n"
    said = b""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 100) as line:
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
    wire = b"Subject: large\r\n\r\n" + (b"x" * 76 + b"\r\n") * 26_000 + b".\r\n"
    with ThreadPoolExecutor(300) as clients:
        codes = Counter(clients.map(lambda number: deliver(port, number, wire), range(300)))

    (process,) = server.started
    peak = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{process.pid}/status").read_text())
    stored = sum(file.stat().st_size for file in server.data_dir.glob("digest.sqlite3"))
    print(codes, peak, stored)
    assert peak
    assert int(peak[1]) < 200 * 1024
    assert stored < 60 * 1024 * 1024
    assert codes["250"] >= stored_mail.NETWORK_LIMIT.size // len(wire)
    assert not {code for code in codes if code.startswith("5")}  # a mail is stored, or may come again
    assert codes[""] == 0  # nobody waits for an answer in vain
