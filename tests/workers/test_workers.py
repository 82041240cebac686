"""Worker and scheduler run as real processes on a real broker, and lose no work when they die."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
import redis
from sqlalchemy.orm import Session

from digest import db
from digest.db.tables.subscribers import SubscriberState
from digest.errors import SetupMismatch
from digest.process import key_fingerprints
from digest.publishing import due_readers
from digest.site.site_profile import Site
from digest.subscribers import subscriber_rows
from tests.conftest import ROOT
from tests.support.mail_sink import MailSink, run_mail_sink
from tests.support.product_processes import Installation, installation
from tests.support.waiting import HANG_SECONDS, current_time, wait_until

pytestmark = pytest.mark.postgresql


@pytest.fixture
def mail_sink() -> Iterator[MailSink]:
    with run_mail_sink() as sink:
        yield sink


@pytest.fixture
def service(tmp_path: Path, postgres_url: str, redis_url: str, mail_sink: MailSink) -> Iterator[Installation]:
    """Worker and scheduler on PostgreSQL, Redis and SMTP."""
    settings = {"DATABASE_URL": postgres_url, "BROKER_URL": redis_url, "MAIL_URL": mail_sink.url}
    with installation(tmp_path / "data", settings=settings) as ours:
        yield ours


def subscribe(url: str, *emails: str, now: datetime) -> None:
    """Make a digest due at once for these readers."""
    engine = db.make_engine(url)
    with db.write_session(engine) as session:
        for email in emails:
            subscriber_rows.add(
                session, email, texts={"at": "00:00"}, state=SubscriberState.ACTIVE,
                consent="a test", now=now,
            )  # fmt: skip
        session.commit()
    engine.dispose()


def drop(service: Installation) -> None:
    """Drop the sample into the folder as a real dump."""
    sample = next((ROOT / "digest" / "dumps" / "sample").glob("*.txt"))
    service.dumps.mkdir(exist_ok=True)
    (service.dumps / "dump.txt.part").write_bytes(sample.read_bytes())
    (service.dumps / "dump.txt.part").rename(service.dumps / "dump.txt")


@contextmanager
def no_digest_written(url: str) -> Iterator[None]:
    """Block writes to the outbox until the end of this block."""
    engine = db.make_engine(url)
    with engine.begin() as connection:
        connection.exec_driver_sql("LOCK TABLE delivery IN EXCLUSIVE MODE")
        yield
    engine.dispose()


@pytest.mark.slow
def test_digests_are_delivered_although_redis_forgets_and_workers_die(
    service: Installation, mail_sink: MailSink, postgres_url: str, redis_url: str
) -> None:
    readers = [f"reader{number}@example.org" for number in range(40)]
    subscribe(postgres_url, *readers, now=current_time())
    drop(service)
    service.start("scheduler")
    broker = redis.Redis.from_url(redis_url)
    wait_until("work to be announced", lambda: broker.keys("digest:*"))
    broker.flushall()
    with no_digest_written(postgres_url):  # or one would be claimed, and stay so for a quarter of an hour
        worker = service.start("worker")
        wait_until("the dump to be loaded", lambda: not (service.dumps / "dump.txt").exists())
        broker.flushall()
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()
    service.started.remove(worker)
    broker.flushall()
    broker.close()

    service.start("worker")

    mail_sink.wait_for(40)
    assert mail_sink.recipients() == sorted(readers)
    assert service.stop(how=signal.SIGTERM) == [0, 0]
    assert service.processes() == []
    assert mail_sink.recipients() == sorted(readers)


def run_in(service: Installation, code: str) -> subprocess.CompletedProcess[str]:
    """Run a few lines of Python as a process of this installation."""
    return subprocess.run(
        [sys.executable, "-c", code], env=service.environment, cwd=ROOT, capture_output=True, text=True, timeout=HANG_SECONDS,
        check=True,
    )  # fmt: skip


def test_a_tick_enqueues_work_only_once(service: Installation) -> None:
    code = """
from workers import scheduler, tasks
from workers.app import BULK, PROMPT
for _ in range(5):
    scheduler.tidy()
    scheduler.probe_queue()
scheduler.enqueue(tasks.deliver, "bulk", queue=BULK, times=3)
print(scheduler.count_queued(BULK), scheduler.count_queued(PROMPT))
"""
    assert run_in(service, code).stdout == "1 1\n"


def test_the_weekly_report_is_mailed_once(service: Installation, mail_sink: MailSink) -> None:
    code = """
import os
from sqlalchemy import text
from workers import scheduler
from workers.worker_context import app_context
os.environ["DIGEST_OPERATOR_EMAIL"] = "op@example.org"
for weekly_report in ("off", "on", "on"):
    os.environ["DIGEST_WEEKLY_REPORT"] = weekly_report
    app_context.cache_clear()  # as in a new process
    scheduler.report_week()
    scheduler.report_week()
    with app_context().read_session() as session:
        print(session.scalar(text("SELECT count(*) FROM delivery")))
"""
    assert run_in(service, code).stdout.split() == ["0", "1", "1"]

    service.run("deliver")

    (letter,) = mail_sink.to("op@example.org")
    assert letter.parsed()["Subject"].startswith("[Digest] Weekly report: 7 days, ")


def test_a_due_source_is_polled_by_one_worker(service: Installation) -> None:
    code = """
from digest.dumps.sources import stored_sources
from workers import scheduler, tasks
from workers.app import BULK
from workers.worker_context import app_context
scheduler.poll()
print(scheduler.count_queued(BULK))
with app_context().write_session() as session:
    stored_sources.add(session, "https://127.0.0.1/papers.json", now=app_context().clock())
    session.commit()
scheduler.poll()
scheduler.poll()
print(scheduler.count_queued(BULK))
for _ in range(2):
    tasks.poll_source("https://127.0.0.1/papers.json")
with app_context().read_session() as session:
    (row,) = stored_sources.list_sources(session)
    print(row.failures, row.result, stored_sources.due(session, app_context().clock()))
"""
    assert run_in(service, code).stdout.splitlines() == [
        "0",
        "1",
        "1 127.0.0.1 leads to 127.0.0.1, an address that is not on the open internet. []",
    ]


def test_publishing_waits_for_a_dump_that_is_still_being_written(tmp_path: Path) -> None:
    from workers.scheduler import ARRIVAL_SECONDS, is_arriving

    (tmp_path / "done").mkdir()
    assert not is_arriving(tmp_path, current_time())
    assert not is_arriving(tmp_path / "nowhere", current_time())

    (tmp_path / "dump.txt").write_text("half a du")

    assert is_arriving(tmp_path, current_time())
    assert not is_arriving(tmp_path, current_time() + timedelta(seconds=ARRIVAL_SECONDS))


def test_a_task_carries_no_content(service: Installation, redis_url: str) -> None:
    run_in(
        service,
        'from workers import tasks; tasks.publish_chunks.delay("press", 17, "2026-11-20T08:00:00+00:00")',
    )

    with redis.Redis.from_url(redis_url) as broker:
        (message,) = broker.lrange("digest:bulk", 0, -1)
    assert len(message) < 1500
    assert broker.llen("digest:prompt") == 0


def test_the_scheduler_survives_a_broker_outage(tmp_path: Path) -> None:
    settings = {"BROKER_URL": "redis://127.0.0.1:1/0"}
    code = """
import logging; logging.basicConfig(format="%(message)s")
from digest import db
from workers import scheduler
from workers.worker_context import app_context
db.ensure_schema(app_context().engine)
for tick in scheduler.TICKS:
    scheduler.safe_tick(tick)()
"""
    with installation(tmp_path / "data", settings=settings) as service:
        printed = run_in(service, code).stderr

    assert "tidy failed: " in printed
    assert "Traceback" not in printed


def test_each_chunk_begins_where_the_previous_one_ends(session: Session, now: datetime) -> None:
    for number in range(23):
        subscriber_rows.add(
            session, f"reader{number}@example.org", state=SubscriberState.ACTIVE, consent="a test", now=now
        )
    session.commit()

    starts = due_readers.chunk_starts(session, now, size=10)

    assert [later - earlier for earlier, later in pairwise(starts)] == [10] * 2


def test_a_task_publishes_several_chunks_and_the_next_task_the_rest(
    service: Installation, mail_sink: MailSink, postgres_url: str
) -> None:
    readers = [f"reader{number}@example.org" for number in range(7)]
    subscribe(postgres_url, *readers, now=current_time())
    drop(service)
    code = """
from celery.signals import task_prerun
from digest.dumps.intake import load_dump
from digest.publishing import publish_due
from workers import tasks
from workers.app import app
from workers.worker_context import app_context
context = app_context()
with context.write_session() as session:
    load_dump.load(session, context.settings.dumps / "dump.txt", now=context.clock())
app.conf.task_always_eager = True
task_prerun.connect(lambda task, **_: print(task.name), weak=False)
publish_due.CHUNK_SUBSCRIBERS, tasks.CHUNKS_PER_TASK = 2, 2
tasks.publish()
"""

    began = run_in(service, code).stdout.split()

    assert began.count("workers.tasks.publish_chunks") == 2
    assert began.count("workers.tasks.deliver") == 4
    assert mail_sink.recipients() == sorted(readers)


# ── machines that do not belong together ────────────────────────────────────────────────────────


def other(site: Site, **details: object) -> Site:
    from dataclasses import replace

    return replace(site, **details)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("details", "templates", "what"),
    [
        ({"keys": (b"quite another",)}, "a", "DIGEST_SECRET_KEY lacks the key"),
        ({"pepper": b"another"}, "a", "DIGEST_PEPPER is not the pepper"),
        ({}, "b", "The templates on this machine differ from the templates on the other machines"),
    ],
)
def test_a_machine_with_other_keys_schema_or_templates_refuses_to_work(
    session: Session, site: Site, now: datetime, details: dict[str, object], templates: str, what: str
) -> None:
    key_fingerprints.check_fingerprints(session, site, "a", now=now)
    key_fingerprints.check_fingerprints(session, site, "a", now=now)

    with pytest.raises(SetupMismatch, match=what):
        key_fingerprints.check_fingerprints(session, other(site, **details), templates, now=now)


def test_a_key_is_rotated_by_putting_a_new_one_in_front(session: Session, site: Site, now: datetime) -> None:
    key_fingerprints.check_fingerprints(session, site, "a", now=now)
    rotated = other(site, keys=(b"brand new", *site.keys))

    key_fingerprints.check_fingerprints(session, rotated, "a", now=now + timedelta(days=1))

    with pytest.raises(SetupMismatch, match="Add it after the new key"):
        key_fingerprints.check_fingerprints(session, site, "a", now=now)


def test_an_upgrade_may_change_the_templates(session: Session, site: Site, now: datetime) -> None:
    key_fingerprints.check_fingerprints(session, site, "a", now=now)

    key_fingerprints.adopt_templates(session, "b", now=now)

    key_fingerprints.check_fingerprints(session, site, "b", now=now)


def test_objects_of_the_app_context_are_frozen_for_the_garbage_collector(service: Installation) -> None:
    opened = run_in(
        service,
        "import gc; from workers import tasks; from workers.worker_context import open_before_first_task; open_before_first_task();"
        "print(gc.get_freeze_count(), len(gc.get_objects()))",
    )

    passed_over, walked_through = map(int, opened.stdout.split())
    assert passed_over > 100 * walked_through


def test_a_worker_on_a_mismatched_machine_prints_one_line(service: Installation) -> None:
    run_in(service, "from workers.worker_context import app_context; app_context().check_setup()")
    service.settings = {**service.settings, "PEPPER": "another"}

    ended = service.run("worker", check=False)

    assert ended.returncode == 1
    assert ended.stderr.startswith("digest: DIGEST_PEPPER is not the pepper")
    assert "Traceback" not in ended.stderr


def test_a_worker_that_an_error_ends_exits_with_1_and_is_reported_dead(
    service: Installation, redis_url: str
) -> None:
    with redis.Redis.from_url(redis_url) as broker:
        broker.acl_setuser(
            "limited", enabled=True, nopass=True, keys=["*"], channels=["*"], commands=["+@all", "-brpop"]
        )
    limited = redis_url.replace("redis://", "redis://limited:any@")
    service.settings = {**service.settings, "BROKER_URL": limited}

    ended = service.run("worker", check=False)

    assert (ended.returncode, "no permissions" in ended.stderr) == (1, True)
    (process,) = json.loads(service.run("status", "--json", check=False).stdout)["heartbeats"]
    assert (process["role"], process["is_alive"]) == ("worker", False)


@pytest.mark.whole
@pytest.mark.slow
def test_an_error_in_an_overridden_digest_template_is_reported_and_stops_no_other_letter(
    service: Installation, mail_sink: MailSink
) -> None:
    own = service.data_dir / "templates" / "letters" / "digest" / "body.html"
    own.parent.mkdir(parents=True)
    own.write_text("<p>{% if %}</p>")

    for role in ("worker", "scheduler"):
        service.start(role)
    service.wait_until("the mistake in the log", lambda: "Digests cannot be rendered" in service.logs())
    service.run("subscribers", "add", "bob@example.org")
    mail_sink.wait_for(1)

    assert "letters/digest/body.html, line 1" in service.logs()
    assert mail_sink.recipients() == ["bob@example.org"]
