"""After a morning with many failures, the logs are valid JSON lines and name no reader."""

from __future__ import annotations

import json
import re
import signal
import sqlite3
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller

from tests.acceptance.test_main_job import zone_in_daytime
from tests.support.mail_sink import MailSink
from tests.support.product_processes import ROOT, Installation, installation
from tests.support.real_servers import free_port
from tests.support.waiting import HANG_SECONDS, pause, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.whole, pytest.mark.promise]

NAME = "zebrafinch"  #: begins every reader's address, and occurs nowhere else
NOT_OURS = (
    "── ",
    "worker: Warm shutdown",
)  #: headings, and Celery's last line, which bypasses the loggers
ENDS = {"well": "sent", "unknown": "failed", "later": "queued", "spoilt": "stuck"}


class Gossip(MailSink):
    """A mail server that repeats addresses in its replies."""

    async def handle_RCPT(  # noqa: N802
        self, server: Any, session: Any, envelope: Any, address: str, options: list[str]
    ) -> str:
        if "unknown" in address:
            return f"550 5.1.1 <{address}>: nobody of the name {address}"
        if "later" in address:
            return f"451 4.2.0 {address} is busy"
        envelope.rcpt_tos.append(address)
        return f"250 {address} is fine"


@contextmanager
def gossip() -> Iterator[Gossip]:
    server = Gossip()
    controller = Controller(server, hostname="127.0.0.1", port=free_port())
    controller.start()
    server.url = f"smtp://127.0.0.1:{controller.port}"
    try:
        yield server
    finally:
        controller.stop()


def address(kind: str) -> str:
    return f"{NAME}.{kind}@uni.example"


def spoil(ours: Installation) -> None:
    """Make one decision unreadable, and every change of one delivery fail with its parameters in the error."""
    with closing(
        sqlite3.connect(ours.data_dir / "digest.sqlite3", isolation_level=None, timeout=HANG_SECONDS)
    ) as base:
        base.execute(
            "CREATE TRIGGER spoilt AFTER INSERT ON delivery WHEN new.email LIKE '%spoilt%' BEGIN"
            " UPDATE delivery SET decision = '{\"sections\": [[' WHERE id = new.id; END"
        )
        base.execute(
            "CREATE TRIGGER cursed BEFORE INSERT ON confirmation BEGIN SELECT RAISE(ABORT, 'cursed'); END"
        )


def ends_of(ours: Installation) -> dict[str, str]:
    return {row["email"]: row["state"] for row in ours.lines("deliveries") if row["letter"] == "digest"}


def test_the_logs_of_a_bad_morning_are_json_lines_without_addresses(tmp_path: Path, redis_url: str) -> None:
    port = free_port()
    with gossip() as server:
        settings = {
            "BROKER_URL": redis_url, "MAIL_URL": server.url, "LOG_FORMAT": "json", "LISTEN": f"127.0.0.1:{port}",
            "BASE_URL": f"http://127.0.0.1:{port}", "OPERATOR_EMAIL": address("operator"),
        }  # fmt: skip
        with installation(tmp_path / "home", settings=settings) as ours:
            for kind in ENDS:
                zone = zone_in_daytime("Asia/Tokyo", "Europe/Oslo", "America/Los_Angeles")
                ours.run(
                    "subscribers", "add", address(kind), "--at", "00:00", "--timezone", zone, "--confirmed",
                    "--consent", "asked",
                )  # fmt: skip
            spoil(ours)
            ours.dumps.mkdir(exist_ok=True)
            sample = next((ROOT / "digest" / "dumps" / "sample").glob("*.txt"))
            (ours.dumps / f"{NAME}@uni.example.txt").write_bytes(sample.read_bytes())
            for role in ("web", "worker", "scheduler"):
                ours.start(role)
            wait_until("the page", lambda: asks_for_a_digest(settings["BASE_URL"]))
            wait_until(
                "the morning to be over",
                lambda: ends_of(ours) == {address(kind): end for kind, end in ENDS.items()},
            )
            ours.stop(how=signal.SIGTERM)
            said = ours.logs()

    assert "Traceback" in said
    assert NAME not in said, [line for line in said.splitlines() if NAME in line][:5]
    lines = [line for line in said.splitlines() if line and not line.startswith(NOT_OURS)]
    assert all({"at", "level", "logger", "event"} <= set(json.loads(line)) for line in lines)


def asks_for_a_digest(url: str) -> bool:
    """Sign up on the web page as a person does; errors inside are for the log."""
    try:
        with urllib.request.urlopen(url, timeout=HANG_SECONDS) as page:  # noqa: S310  (our own server)
            made = re.search(r'name="made" value="([^"]+)"', page.read().decode())
        pause(2.1, "a person needs two seconds to fill in the form")
        form = urllib.parse.urlencode({"made": made[1] if made else "", "email": address("cursed")}).encode()
        urllib.request.urlopen(url, form, timeout=HANG_SECONDS).close()  # noqa: S310
    except urllib.error.HTTPError as error:
        return error.code == 500
    except OSError:
        return False
    return True
