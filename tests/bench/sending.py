"""Compare our pipelined SMTP with the standard library's and Postfix's, and measure the cost of recording deliveries.

Messages of 40 KB are sent over the loopback interface to a sink in C, which is not the bottleneck. First both
clients send to a server that stores the messages, which are compared byte by byte. Without a C compiler a
sink in Python is used; it limits the rates, so no gate applies. Postfix's `smtp-source` is measured if it is
installed (`SMTP_SOURCE` is its path if it is elsewhere).
"""

from __future__ import annotations

import os
import random
import shutil
import smtplib
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import Engine, update

from digest import db, settings
from digest.db.tables.deliveries import Delivery, DeliveryState, Lane
from digest.delivery import delivery_run, rendering_inputs
from digest.delivery.message_rendering import RenderContext, render_delivery
from digest.delivery.outbox import attempts, enqueue, recipients, transitions
from digest.delivery.outbox.attempts import AttemptRecord
from digest.delivery.outbox.transitions import ClaimedDelivery, Intent
from digest.delivery.transports.smtp import MailServer, SmtpTransport
from digest.delivery.transports.transport import Message, Verdict
from digest.letters.templates import Templates
from digest.process import gc_control
from digest.publishing import publish_due
from digest.publishing.publication import Publication
from digest.site.site_profile import Site
from tests.bench import process_usage, sink, world
from tests.bench.world import World
from tests.conftest import connected, fresh_database
from tests.support import endings
from tests.support.mail_sink import run_mail_sink
from tests.support.plain_letters import plain_letter
from tests.support.real_servers import postgres
from tests.support.shared_caches import CACHES

PIPELINED_GATE = 5.0  #: minimum speed-up over smtplib on a persistent connection
POSTFIX_GATE = 1.3  #: minimum speed-up over Postfix's smtp-source
DELAYED_GATE = 3.8  #: minimum speed-up over smtplib if every reply takes 20 ms
LEDGER_GATE = 0.35  #: maximum share of the rate that recording deliveries may cost
FAR = 100  #: number of messages if replies are delayed, so that the greeting's delay is negligible
SMTP_SOURCE = os.environ.get("SMTP_SOURCE") or shutil.which("smtp-source", path="/usr/sbin:/usr/bin") or ""
BYTES = 40_000
ROUNDS = 7  #: number of runs, of which the best counts, because other load only slows a run
LEDGER_ROUNDS = 4  #: the same for delivering with and without recording
SITE = Site(keys=(b"bench",))


def main(full: bool) -> int:
    count = 20_000 if full else 1_000
    compare(messages(40))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        is_fast = sink.is_fast()
        if not is_fast:
            print("   no C compiler: the sink is in Python and slower than what it measures; no gate holds")
        with sink.fastest(folder) as taker:
            print("   on the loopback")
            fast, beside_postfix = ratios(taker.port, messages(count))
            own = process_usage.seconds(taker.pid) / taker.accepted_count()
            print(
                f"   the sink itself, in {taker.language}: {own * 1e6:,.0f} µs of its processor for a message"
            )
        far = DELAYED_GATE
        if is_fast:
            with sink.fastest(folder, 20) as taker:
                print("   with replies that take 20 ms")
                far = delayed_speedup(taker.port, messages(FAR))
        with postgres("synchronous_commit=on") as server, sink.fastest(folder) as taker:
            share = print_ledger_cost(server, folder, count, taker.port)
    print(
        f"   ratios {fast:.1f} (gate {PIPELINED_GATE}) to smtplib and {beside_postfix:.1f} (gate {POSTFIX_GATE})"
        f" to smtp-source, {far:.2f} (gate {DELAYED_GATE}) at 20 ms;"
        f" the ledger takes {share:.0%} of the rate (gate {LEDGER_GATE:.0%})"
    )
    holds = fast >= PIPELINED_GATE and beside_postfix >= POSTFIX_GATE and far >= DELAYED_GATE
    return 0 if not is_fast or (holds and share < LEDGER_GATE) else 1


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
    """Raise AssertionError unless an independent server receives the same bytes from both."""
    for way in (ours, theirs):
        with run_mail_sink() as sink:
            way(int(sink.url.rpartition(":")[2]), window)
        assert [mail.content for mail in sink.mails] == [message.content for message in window]
        assert [mail.recipients for mail in sink.mails] == [(message.recipient,) for message in window]


# ── the two ways ────────────────────────────────────────────────────────────────────────────────


def ours(port: int, window: Sequence[Message]) -> None:
    transport = SmtpTransport(MailServer(scheme="smtp", host="127.0.0.1", port=port), helo="example.org")
    for start in range(0, len(window), 50):
        outcomes = list(transport.send(window[start : start + 50]))
        assert all(outcome.verdict is Verdict.ACCEPTED for outcome in outcomes)
    transport.close()


def theirs(port: int, window: Sequence[Message]) -> None:
    with smtplib.SMTP("127.0.0.1", port, local_hostname="example.org") as connection:
        for message in window:
            connection.sendmail(message.sender, [message.recipient], message.content)


def ratios(port: int, window: Sequence[Message]) -> tuple[float, float]:
    """Time each client in turn, print the rates, and return how much faster ours is than the other two."""
    seconds = {"pipelined": 9e9, "smtplib, persistent": 9e9, "smtp-source": 9e9}
    for _round in range(ROUNDS):
        for name, way in (("pipelined", ours), ("smtplib, persistent", theirs), ("smtp-source", postfix)):
            if way is not postfix or SMTP_SOURCE:
                seconds[name] = min(seconds[name], timed(way, port, window))
    print_rates({name: each for name, each in seconds.items() if each < 9e9}, len(window))
    if not SMTP_SOURCE:
        print("   smtp-source          is not installed: that gate is not held to")
    ours_took, theirs_took, postfix_took = seconds.values()
    return theirs_took / ours_took, postfix_took / ours_took


def postfix(port: int, window: Sequence[Message]) -> None:
    """Send as many messages of the same size with Postfix's smtp-source, over one connection."""
    size, count = str(len(window[0].content)), str(len(window))
    command = [SMTP_SOURCE, "-4", "-d", "-s", "1", "-m", count, "-l", size, f"127.0.0.1:{port}"]
    subprocess.run(command, check=True)


def delayed_speedup(port: int, window: Sequence[Message]) -> float:
    """Return how much faster ours is with a server that delays each reply: pipelining needs fewer round trips."""
    seconds = {"pipelined": timed(ours, port, window), "smtplib, persistent": timed(theirs, port, window)}
    print_rates(seconds, len(window))
    return seconds["smtplib, persistent"] / seconds["pipelined"]


def print_rates(seconds: dict[str, float], count: int) -> None:
    for name, took in seconds.items():
        print(f"   {name:20} {count / took:>9,.0f} messages/s  {took / count * 1e6:>8,.0f} µs each")


def timed(way: Callable[[int, Sequence[Message]], None], port: int, window: Sequence[Message]) -> float:
    began = time.perf_counter()
    way(port, window)
    return time.perf_counter() - began


# ── the ledger ──────────────────────────────────────────────────────────────────────────────────


def print_ledger_cost(server: str, folder: Path, count: int, port: int) -> float:
    """Print the cost of recording deliveries on both databases, with windows of 1 and 50.

    Return the share of the rate that recording costs on PostgreSQL with windows of 50.
    """
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
    with fresh_database(server, template="template0") as url, connected(url) as engine:
        World(readers=LEDGER_ROUNDS * max(2_000, count // 4)).build(engine)
        return ledger_share(engine, port)


def ledger_share(engine: Engine, port: int) -> float:
    """Send digests without recording them, deliver others with recording; return the share that recording takes.

    The best of several rounds counts for each way; each round has digests of its own.
    """
    templates, site = Templates(settings.templates_dir()), world.SITE
    bare = kept = 9e9
    with db.write_session(engine) as session, closing(opened(port)) as transport:
        published = publish_due.publish(
            Publication(session, site=site, templates=templates, caches=CACHES, now=world.NOW)
        )
        analyse(engine)
        part = published.queued // (LEDGER_ROUNDS * 50) * 50  # whole windows: a run stops after one
        for _round in range(LEDGER_ROUNDS):
            bare = min(bare, send_without_ledger(session, transport, templates, part))
            kept = min(kept, deliver_some(session, transport, templates, part))
    print(f"   digests without a ledger {1 / bare:>7,.0f}/s, with it {1 / kept:,.0f}/s")
    return 1 - bare / kept


def deliver_some(session: db.Session, transport: SmtpTransport, templates: Templates, part: int) -> float:
    """Deliver some of the due digests, and return the seconds per digest."""
    done = 0

    def progress(so_far: int) -> None:
        nonlocal done
        done = so_far

    began = time.perf_counter()
    report = delivery_run.deliver(
        session, site=world.SITE, templates=templates, caches=CACHES, transport=transport, clock=lambda: world.NOW,
        is_stopping=lambda: done >= part, progress=progress,
    )  # fmt: skip
    took = time.perf_counter() - began
    assert report.sent == done >= part
    return took / done


@gc_control.gc_paused()
def send_without_ledger(
    session: db.Session, transport: SmtpTransport, templates: Templates, part: int
) -> float:
    """Render and send the same digests without recording anything, and return the seconds per digest.

    They are sent twice, because the first time fills the caches. Garbage collection is paused, as in a run.
    """
    claimed = transitions.claim(session, lane=Lane.BULK, now=world.NOW, limit=part)
    render_context = rendering_inputs.load_context(
        session, RenderContext(site=world.SITE, templates=templates), claimed, known_filters={}, caches=CACHES
    )
    session.commit()
    session.rollback()
    seconds = 0.0
    for _time in ("cold", "warm"):
        began = time.perf_counter()
        for start in range(0, len(claimed), 50):
            window = claimed[start : start + 50]
            at = replace(
                render_context, digests=rendering_inputs.load_digests(window)
            )  # reading a decision is part of rendering
            written = [render_delivery(at, each) for each in window]
            assert all(
                outcome.verdict is Verdict.ACCEPTED
                for outcome in transport.send([each.message for each in written if each])
            )
        seconds = time.perf_counter() - began
    # Building the context committed the claim: release it.
    with db.write_session(session.get_bind().engine) as other:
        given_back = {"state": DeliveryState.QUEUED, "lease": None, "leased_until": None}
        other.execute(update(Delivery).where(Delivery.state == DeliveryState.CLAIMED).values(**given_back))
        other.commit()
    return seconds / len(claimed)


def opened(port: int) -> SmtpTransport:
    return SmtpTransport(MailServer(scheme="smtp", host="127.0.0.1", port=port), helo="example.org")


def analyse(engine: Engine) -> None:
    """Run ANALYZE, as autovacuum does in a running service."""
    with engine.begin() as connection:
        connection.exec_driver_sql("ANALYZE")


def ledger(engine: Engine, count: int, window: int) -> float:
    """Take letters from queued to sent without sending them, and return the seconds for one."""
    now = datetime(2026, 11, 20, 8, tzinfo=UTC)
    with db.write_session(engine) as session:
        for number in range(count):
            enqueue.queue_letter(
                session, letter=plain_letter("help", str(number)), subscriber_id=None, email=f"reader{number}@example.org",
                site=SITE, now=now, expires_at=now + timedelta(days=1),
            )  # fmt: skip
        session.commit()
        began = time.perf_counter()
        while batch := transitions.claim(session, lane=Lane.PROMPT, now=now, limit=window * 10):
            session.commit()
            for start in range(0, len(batch), window):
                send_window(session, batch[start : start + window], now)
        return (time.perf_counter() - began) / count


def send_window(session: db.Session, part: Sequence[ClaimedDelivery], now: datetime) -> None:
    """Take one window from claimed to sent, with a commit before and after it would be sent."""
    lease, ids = part[0].lease, [each.id for each in part]
    recipients.load_recipients_with_versions(session, (each.subscriber_id for each in part))
    transitions.intend(
        session,
        [Intent(id=each, message_id="<m@example.org>", content_hash="0" * 64) for each in ids],
        lease=lease,
        until=transitions.renewed_lease(part[0].leased_until, now),
    )
    session.commit()
    endings.settle(session, ids, DeliveryState.SENT, from_state=DeliveryState.SENDING, lease=lease, now=now)
    attempts.record_attempts(
        session,
        [AttemptRecord(each, now, "accepted", "dot", 250, "taken") for each in ids],
        lease=lease,
        now=now,
    )
    session.commit()
