"""Sending: our pipelined SMTP beside the standard library's, and what the ledger costs.

40 KB messages over the loopback to a sink in C, which is not the bottleneck. Before anything is timed,
both ways write to a server that keeps what it gets, and that is compared byte by byte.
"""

from __future__ import annotations

import random
import shutil
import smtplib
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import Engine

from digest import db, outbox
from digest.links import Site
from digest.model import DeliveryState, Lane
from digest.outbox import Intent, Tried
from digest.transport import Message, Verdict
from digest.transport.smtp import Server, Smtp
from tests.conftest import connected, fresh_database
from tests.mailroom import open_mailroom
from tests.servers import postgres

PIPELINED_GATE = 5.0  #: times smtplib on a persistent connection
DELAYED_GATE = 3.8  #: the same, where every reply takes 20 ms
BYTES = 40_000
ROUNDS = 7  #: the best of which counts: a busy machine only ever slows
SITE = Site(keys=(b"bench",))


def main(full: bool) -> int:
    if not shutil.which("cc"):
        print("   skipped: needs a C compiler for a sink that is not the bottleneck")
        return 0
    count = 20_000 if full else 1_000
    compare(messages(40))
    with tempfile.TemporaryDirectory() as folder:
        program = compiled(Path(folder))
        with sink(program, 0) as port:
            print("   on the loopback")
            fast = ratio(port, messages(count))
        with sink(program, 20) as port:
            print("   with replies that take 20 ms")
            far = ratio(port, messages(50))
        with postgres("synchronous_commit=on") as server:
            ledgers(server, Path(folder), count)
    print(
        f"   ratios {fast:.1f} (gate {PIPELINED_GATE}) on the loopback, {far:.2f} (gate {DELAYED_GATE}) at 20 ms"
    )
    return 0 if fast >= PIPELINED_GATE and far >= DELAYED_GATE else 1


# ── messages ────────────────────────────────────────────────────────────────────────────────────


def messages(count: int) -> list[Message]:
    """Return distinct messages of 40 KB, with dots at the beginning of some lines."""
    chance = random.Random(1)
    lines = [chance.randbytes(35).hex().encode() for _ in range(BYTES // 72)]
    lines[7::50] = [b".a line with a dot" for _ in lines[7::50]]
    body = b"\r\n".join(lines)
    return [
        Message(
            delivery_id=number,
            sender="digest@example.org",
            recipient=f"reader{number}@example.org",
            content=b"Subject: %d\r\n\r\n%s\r\n" % (number, body),
        )
        for number in range(count)
    ]


def compare(window: Sequence[Message]) -> None:
    """Raise AssertionError unless an independent server gets the same bytes from both."""
    for way in (ours, theirs):
        with open_mailroom() as room:
            way(int(room.url.rpartition(":")[2]), window)
        assert [mail.content for mail in room.mails] == [message.content for message in window]
        assert [mail.recipients for mail in room.mails] == [(message.recipient,) for message in window]


# ── the two ways ────────────────────────────────────────────────────────────────────────────────


def ours(port: int, window: Sequence[Message]) -> None:
    transport = Smtp(Server(scheme="smtp", host="127.0.0.1", port=port), helo="example.org")
    for start in range(0, len(window), 50):
        outcomes = list(transport.send(window[start : start + 50]))
        assert all(outcome.verdict is Verdict.ACCEPTED for outcome in outcomes)
    transport.close()


def theirs(port: int, window: Sequence[Message]) -> None:
    with smtplib.SMTP("127.0.0.1", port, local_hostname="example.org") as connection:
        for message in window:
            connection.sendmail(message.sender, [message.recipient], message.content)


def ratio(port: int, window: Sequence[Message]) -> float:
    """Time both ways in turn, print their rates, and return how much faster ours is."""
    seconds = {way: min(timed(way, port, window) for _ in range(ROUNDS)) for way in (ours, theirs)}
    for way, name in ((ours, "pipelined"), (theirs, "smtplib, persistent")):
        rate = len(window) / seconds[way]
        print(f"   {name:20} {rate:>9,.0f} messages/s  {1e6 / rate:>8,.0f} µs each")
    return seconds[theirs] / seconds[ours]


def timed(way: Callable[[int, Sequence[Message]], None], port: int, window: Sequence[Message]) -> float:
    began = time.perf_counter()
    way(port, window)
    return time.perf_counter() - began


# ── the ledger alone ────────────────────────────────────────────────────────────────────────────


def ledgers(server: str, folder: Path, count: int) -> None:
    """Print what a letter's way through the ledger costs on both databases, at windows of 1 and 50."""
    for kind in ("sqlite", "postgresql"):
        for window in (1, 50):
            size = count // 4 if window == 1 else count
            if kind == "sqlite":
                with connected(f"sqlite:///{folder}/ledger{window}.sqlite3") as engine:
                    db.upgrade(engine)
                    cost = ledger(engine, size, window)
            else:
                with fresh_database(server, template="template0") as url, connected(url) as engine:
                    db.upgrade(engine)
                    cost = ledger(engine, size, window)
            print(f"   ledger on {kind:10} window {window:>2}: {cost * 1e6:>6.0f} µs a letter")


def ledger(engine: Engine, count: int, window: int) -> float:
    """Take letters from queued to sent without sending them, and return the seconds for one."""
    now = datetime(2026, 11, 20, 8, tzinfo=UTC)
    with db.writing(engine) as session:
        for number in range(count):
            outbox.put_letter(
                session, letter="help", subscriber_id=None, email=f"reader{number}@example.org", decision={},
                dedupe_key=str(number), site=SITE, now=now, expires_at=now + timedelta(days=1),
            )  # fmt: skip
        session.commit()
        began = time.perf_counter()
        while batch := outbox.claim(session, lane=Lane.PROMPT, now=now, limit=window * 10):
            session.commit()
            for start in range(0, len(batch), window):
                pass_through(session, batch[start : start + window], now)
        return (time.perf_counter() - began) / count


def pass_through(session: db.Session, part: Sequence[outbox.Claimed], now: datetime) -> None:
    """Take one window from claimed to sent, with a commit before and after it would be sent."""
    lease, ids = part[0].lease, [each.id for each in part]
    outbox.readers(session, (each.subscriber_id for each in part))
    outbox.intend(
        session,
        [Intent(id=each, message_id="<m@example.org>", content_hash="0" * 64) for each in ids],
        lease=lease,
        now=now,
    )
    session.commit()
    outbox.end(session, ids, DeliveryState.SENT, was=DeliveryState.SENDING, lease=lease, now=now)
    outbox.keep_attempts(
        session, [Tried(each, now, "accepted", "dot", 250, "taken") for each in ids], lease=lease, now=now
    )
    session.commit()


# ── the sink ────────────────────────────────────────────────────────────────────────────────────


def compiled(folder: Path) -> Path:
    """Return the sink's program."""
    source, program = Path(__file__).with_name("fastsink.c"), folder / "fastsink"
    subprocess.run(["cc", "-O2", "-o", str(program), str(source)], check=True)
    return program


@contextmanager
def sink(program: Path, delay: int) -> Iterator[int]:
    """Run the sink and yield its port; every reply takes so many milliseconds."""
    with subprocess.Popen([str(program), str(delay)], stdout=subprocess.PIPE) as process:
        assert process.stdout
        try:
            yield int(process.stdout.readline())
        finally:
            process.terminate()
