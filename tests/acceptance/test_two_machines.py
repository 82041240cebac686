"""Two machines with folders of their own share one PostgreSQL and one Redis; either delivers alone."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.test_main_job import zone_in_daytime
from tests.support.mail_sink import MailSink, run_mail_sink
from tests.support.product_processes import Installation, installation
from tests.support.waiting import HANG_SECONDS

pytestmark = [pytest.mark.slow, pytest.mark.whole, pytest.mark.promise]

ZONE = zone_in_daytime("Asia/Tokyo", "Pacific/Auckland", "Europe/Oslo", "America/Los_Angeles")
READERS = sorted(f"reader{number:03}@lab.example" for number in range(120))


@pytest.fixture
def mail_sink() -> Iterator[MailSink]:
    with run_mail_sink() as sink:
        yield sink


@pytest.fixture
def machines(
    tmp_path: Path, empty_postgres_url: str, redis_url: str, mail_sink: MailSink
) -> Iterator[tuple[Installation, Installation]]:
    """A machine with scheduler and worker, and a machine with a worker; they share servers and keys."""
    settings = {
        "DATABASE_URL": empty_postgres_url, "BROKER_URL": redis_url, "MAIL_URL": mail_sink.url,
        "BASE_URL": "https://digest.example.org", "SENDER": "Papers <papers@digest.example.org>",
        "POSTAL_ADDRESS": "1 Main Street", "SECRET_KEY": "shared", "PEPPER": "shared too",
    }  # fmt: skip
    with (
        installation(tmp_path / "one", settings=settings) as one,
        installation(tmp_path / "two", settings=settings) as two,
    ):
        yield one, two


def drop(machine: Installation, name: str, title: str) -> None:
    machine.dumps.mkdir(parents=True, exist_ok=True)
    paper = {"title": title, "abstract": "We measure a tide with a stick."}
    (machine.dumps / name).write_text(json.dumps(paper) + "\n")


def import_readers(machine: Installation, emails: list[str]) -> None:
    members = machine.data_dir.parent / f"{emails[0]}.csv"
    rows = [f"{email},active,00:00,{ZONE},Tides=tide*" for email in emails]
    members.write_text("\n".join(["email,state,at,timezone,topics", *rows]))
    machine.run("subscribers", "import", str(members), "--consent", "members of the lab")


def test_either_machine_delivers_and_nobody_is_mailed_twice(
    machines: tuple[Installation, Installation], mail_sink: MailSink
) -> None:
    one, two = machines
    one.run("db", "upgrade")
    drop(one, "today.jsonl", "Tide Tables for a Stick")
    one.start("scheduler")
    one.wait_until("the paper", lambda: one.lines("papers"))
    import_readers(one, READERS[:60])
    workers = one.start("worker"), two.start("worker")
    mail_sink.wait_for(60)
    seen = [row for row in one.json("status")["heartbeats"] if row["role"] == "worker"]

    workers[0].send_signal(signal.SIGTERM)
    workers[0].wait(timeout=HANG_SECONDS)
    one.started.remove(workers[0])
    import_readers(two, READERS[60:])
    mail_sink.wait_for(120)

    assert len(seen) == 2
    assert mail_sink.recipients() == READERS
    assert (one.stop(), two.stop()) == ([0], [0])
    assert (one.data_dir / "dumps" / "done" / "today.jsonl").exists()
    assert not (two.data_dir / "secret_key").exists()
