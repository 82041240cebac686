"""Scenes of a service: what `digest status` and the alarms say is what happens."""

from __future__ import annotations

import os
import signal
import sys
from datetime import datetime

import pytest
from sqlalchemy import Engine, update

from digest import db
from digest.cli import up
from digest.cli.status import problem_in_words
from digest.db.tables.deliveries import Delivery, DeliveryState
from digest.db.tables.dumps import DumpRow
from digest.db.tables.service_state import Heartbeat
from digest.editions.schedule import Cadence
from digest.letters.templates import Templates
from digest.monitoring import figures, problems
from digest.process import heartbeats
from digest.site.site_profile import Site
from digest.subscribers import pauses, subscriber_rows
from tests.support.publishing_world import PublishingWorld, at

ALICE, BELA = "alice@example.org", "bela@example.org"
GRAPHS = {"Graphs": "graph*"}


@pytest.fixture
def world(sqlite_engine: Engine, site: Site, templates: Templates) -> PublishingWorld:
    return PublishingWorld(engine=sqlite_engine, site=site, templates=templates)


def look(world: PublishingWorld, now: str) -> tuple[int, datetime | None, list[str]]:
    """Return what the status says is due, when the next digest is due, and its problems."""
    with db.read_session(world.engine) as session:
        found = figures.count_figures(session, now=at(now))
        listed = problems.find_problems(session, now=at(now), figures=found)
    assert found.next_due_at is None or found.next_due_at > at(now)
    assert all(one.since is None or one.since <= at(now) for one in listed)
    shown = [problem_in_words(one) for one in listed if "arrived" not in one.message]
    return found.due_now, found.next_due_at, shown


def test_the_status_names_the_digests_that_the_next_run_makes(world: PublishingWorld):
    world.dump("20T00:00", ["Graph one"])
    world.subscribe(ALICE, GRAPHS, now="20T10:00", hour="18:00")  # just imported, before their hour
    world.subscribe(BELA, GRAPHS, now="20T10:00", cadence=Cadence.WEEKLY, weekday=0)

    assert look(world, "20T10:01")[:2] == (0, at("20T18:00"))
    assert world.publish("20T10:02").queued == 0
    assert look(world, "20T18:00")[:2] == (1, at("21T18:00"))
    assert world.publish("20T18:01").queued == 1
    assert look(world, "20T18:02")[:2] == (0, at("21T18:00"))


def test_after_an_outage_nothing_is_due_in_the_past(world: PublishingWorld):
    world.dump("19T00:00", ["Graph one"])
    world.subscribe(ALICE, GRAPHS, now="18T00:00")
    world.publish("19T08:00")
    with db.write_session(world.engine) as session:
        session.execute(update(Delivery).values(state=DeliveryState.SENT, settled_at=at("19T08:01")))
        session.execute(update(DumpRow).values(papers=1))
        session.commit()

    due, following, listed = look(world, "22T05:00")  # off for three days; today's edition is due at 08:00
    assert (due, following) == (0, at("22T08:00"))
    assert look(world, "22T09:00")[:2] == (1, at("23T08:00"))
    assert listed == [
        "1 digest is due, and none is composed since 2026-11-20 08:00 UTC (no scheduler runs; no worker runs)"
    ]


def test_a_pause_that_was_undone_promises_the_next_edition(world: PublishingWorld):
    world.dump("20T00:00", ["Graph one"])
    world.subscribe(ALICE, GRAPHS, now="18T00:00")
    world.publish("20T08:00")
    with db.write_session(world.engine) as session:
        alice = subscriber_rows.get(session, ALICE)
        pauses.pause(session, alice, None, at("20T09:00"))
        session.commit()
    assert look(world, "20T09:01")[:2] == (0, None)

    with db.write_session(world.engine) as session:
        pauses.resume(session, subscriber_rows.get(session, ALICE), at("20T09:02"))
        session.commit()
    assert look(world, "20T09:03")[:2] == (0, at("21T08:00"))


def test_deferred_letters_and_those_of_dead_workers_are_late_since_they_could_be_sent(world: PublishingWorld):
    world.dump("20T00:00", ["Graph one"])
    world.subscribe(ALICE, GRAPHS, now="18T00:00")
    world.publish("20T08:00")

    world.change_deliveries(due_at=at("20T09:15"), reason="452 4.2.2 mailbox full", attempts=1)
    assert look(world, "20T09:14")[2] == []
    assert look(world, "20T09:40")[2] == [
        "1 letter is due, and none is sent since 2026-11-20 09:15 UTC (no scheduler runs; no worker runs)"
    ]

    lease = heartbeats.new_lease()
    world.change_deliveries(state=DeliveryState.CLAIMED, lease=lease, leased_until=at("20T09:56"))
    assert look(world, "20T09:50")[2] != []
    world.change_deliveries(state=DeliveryState.SENDING)
    assert look(world, "20T09:50")[2] == []  # it is being sent
    assert look(world, "20T10:30")[2] != []  # its worker has died


def test_stopped_roles_are_named_with_the_time_of_their_last_sign_of_life(world: PublishingWorld):
    world.subscribe(ALICE, GRAPHS, now="18T00:00")
    with db.write_session(world.engine) as session:
        heartbeats.record_heartbeat(session, "scheduler", at("20T08:00"))
        heartbeats.record_heartbeat(session, "worker", at("20T09:00"))
        session.commit()

    assert look(world, "20T09:01")[2] == ["The scheduler has stopped since 2026-11-20 08:00 UTC"]
    assert look(world, "20T07:59")[2] == []


def test_a_role_that_hangs_is_named_by_the_status_and_once_by_up(
    world: PublishingWorld, capsys: pytest.CaptureFixture[str]
):
    """A process of the role exists, but a stopped one records no heartbeat."""
    command = [sys.executable, "-c", "import time; time.sleep(600)", "worker"]
    child = up.ChildProcess(name="worker", command=command, environment=os.environ)
    child.start()
    assert child.process is not None
    pid = child.process.pid
    child.process.send_signal(signal.SIGSTOP)
    try:
        with db.write_session(world.engine) as session:
            heartbeats.record_heartbeat(session, "scheduler", at("20T09:00"))
            heartbeats.record_heartbeat(session, "worker", at("20T08:00"))
            session.execute(update(Heartbeat).where(Heartbeat.role == "worker").values(pid=pid))
            session.commit()

        assert look(world, "20T08:01")[2] == []
        up.name_hung([child], world.engine, at("20T08:01"))
        assert capsys.readouterr().err == ""

        assert look(world, "20T09:01")[2] == [
            f"The worker does not respond (process {pid}) since 2026-11-20 08:00 UTC"
        ]
        for _again in range(2):
            up.name_hung([child], world.engine, at("20T09:01"))
        said = " ".join(capsys.readouterr().err.split())
        assert (
            said.count(
                f"The worker (process {pid}) has not responded since 08:00 UTC. To restart it: kill -9 {pid}"
            )
            == 1
        )
    finally:
        child.process.kill()
        child.process.wait()
    assert look(world, "20T09:01")[2] == ["The worker has stopped since 2026-11-20 08:00 UTC"]
