"""Scenes of a service: each time and cause that `why` and `history` name is what happened."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta

import pytest
from sqlalchemy import Engine

from digest import db
from digest.backups.expire_past import expire_past
from digest.db.tables.deliveries import DeliveryState
from digest.db.tables.subscribers import SubscriberState
from digest.editions.schedule import Cadence
from digest.letters.templates import Templates
from digest.process import heartbeats
from digest.publishing import reader_history
from digest.publishing.publication import Publication
from digest.publishing.why.explain_paper import why
from digest.publishing.why.missing_edition import why_edition
from digest.site.site_profile import Site
from digest.subscribers import pauses, subscriber_rows, undo_changes, unsubscribe_and_undo
from digest.subscribers.reader_settings import ReaderSettings
from tests.support.publishing_world import PublishingWorld, at
from tests.support.shared_caches import CACHES

ALICE = "alice@example.org"
GRAPHS = {"Graphs": "graph*"}


@pytest.fixture
def world(sqlite_engine: Engine, site: Site, templates: Templates) -> PublishingWorld:
    return PublishingWorld(engine=sqlite_engine, site=site, templates=templates)


def ask(world: PublishingWorld, now: str, edition: str | None = None) -> tuple[str, str]:
    """Return the cause and the sentence of `digest why ALICE --edition`."""
    with db.read_session(world.engine) as session:
        found = why_edition(session, site=world.site, email=ALICE, edition=edition, now=at(now))
    return found.json["cause"], found.json["verdict"]


def history(world: PublishingWorld) -> list[tuple[str, str]]:
    """Return the times and events of the subscriber's history, oldest first."""
    with db.read_session(world.engine) as session:
        events = reader_history.reader_history(session, world.site, ALICE)
    return [(f"{one.at:%dT%H:%M}", one.event) for one in reversed(events)]


def test_a_reader_who_was_just_imported_gets_todays_edition(world: PublishingWorld):
    world.dump("20T00:00", ["Graph one"])
    world.subscribe(ALICE, GRAPHS, now="20T10:00")

    cause, verdict = ask(world, "20T10:01")
    assert (cause, verdict.partition(" and")[0]) == (
        "not published",
        "It has been due since 2026-11-20 10:00 UTC",
    )
    assert ask(world, "20T10:01", "2026-11-19")[0] == "before"
    assert ask(world, "20T10:01", "2026-11-21") == ("not due yet", "It is due on 2026-11-21 08:00 UTC.")

    world.publish("20T10:02")
    assert ask(world, "20T10:03") == ("queued", "It has been waiting to be sent since 2026-11-20 10:02 UTC.")
    assert ("20T10:02", "daily-2026-11-20: queued") in history(world)
    assert history(world)[0] == ("20T10:00", "added")


def test_a_deferred_digest_names_its_next_attempt(world: PublishingWorld):
    world.dump("20T00:00", ["Graph one"])
    world.subscribe(ALICE, GRAPHS)
    world.publish("20T08:00")
    world.change_deliveries(due_at=at("20T09:15"), reason="452 4.2.2 mailbox full", attempts=1)

    waits = "It waits until 2026-11-20 09:15 UTC for the next attempt: 452 4.2.2 mailbox full."
    assert ask(world, "20T08:30") == ("queued", waits)
    assert ("20T08:00", "daily-2026-11-20: queued") in history(world)
    assert ask(world, "20T09:30")[1].startswith("It has been waiting to be sent since 2026-11-20 09:15 UTC")


def test_a_digest_that_a_dead_worker_holds_says_that_the_worker_has_died(world: PublishingWorld):
    world.dump("20T00:00", ["Graph one"])
    world.subscribe(ALICE, GRAPHS)
    world.publish("20T08:00")
    own, until = heartbeats.new_lease(), at("20T08:15")
    machine, _, token = own.split("-")
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    dead = f"{machine}-{ended.pid:x}-{token}"
    died, taken_over = "Its worker has died", "; the next worker takes it over."
    for state, lease, now, verdict in [
        (DeliveryState.CLAIMED, own, "20T08:10", "A worker is about to send it."),
        (DeliveryState.CLAIMED, dead, "20T08:10", died + taken_over),
        (DeliveryState.CLAIMED, own, "20T08:20", died + taken_over),
        (DeliveryState.SENDING, own, "20T08:10", "It is being sent."),
        (DeliveryState.SENDING, dead, "20T08:10",
         f"{died}, and the mail server may have accepted it{taken_over}"),
    ]:  # fmt: skip
        world.change_deliveries(state=state, lease=lease, leased_until=until)
        assert ask(world, now) == (state, verdict)


def test_stopped_roles_are_named_until_the_edition_is_missed(world: PublishingWorld):
    world.subscribe(ALICE, GRAPHS, now="19T00:00", next_due_at=at("19T08:00"))
    world.dump("19T00:00", ["Graph one"])

    assert ask(world, "19T20:00")[1].startswith(
        "It has been due since 2026-11-19 08:00 UTC and is not composed"
    )
    closed = (
        "Nothing was published before it closed on 2026-11-20 00:00 UTC. Its papers are in the next edition."
    )
    assert ask(world, "20T07:00", "yesterday") == ("missed", closed)

    world.publish("20T08:00")
    assert ask(world, "20T08:01", "yesterday")[0] == "expired"
    assert world.digest(ALICE, "daily-2026-11-20") == {"Graphs": ["Graph one"]}


def test_an_edition_that_began_before_the_schedule_is_not_called_due(world: PublishingWorld):
    world.dump("01T00:00", ["Graph one"])
    world.subscribe(ALICE, GRAPHS, now="01T00:00")
    world.publish("20T08:00")
    with db.write_session(world.engine) as session:
        alice = subscriber_rows.get(session, ALICE)
        monthly = ReaderSettings(texts={"cadence": "monthly"})
        undo_changes.edit(session, alice, monthly, now=at("20T09:00"))
        session.commit()

    began = (
        "It began before their present schedule or pause. Next: monthly-2026-12, due 2026-12-01 08:00 UTC."
    )
    assert ask(world, "20T09:01") == ("not promised", began)


def test_what_a_backup_does_not_know_is_not_denied(world: PublishingWorld):
    """The digest and the list of the 20th may have been mailed and loaded after the backup was made."""
    world.subscribe(ALICE, GRAPHS, now="18T00:00")
    world.dump("19T00:00", ["Graph one"])
    world.publish("19T08:00")
    with db.write_session(world.engine) as session:
        expire_past(session, world.site, made_at=at("19T09:00"), now=at("20T12:00"))
        session.commit()

    for edition in ("2026-11-19", "2026-11-20"):
        assert ask(world, "20T13:00", edition) == (
            "restored", "It may have been sent before the database was restored from a backup (2026-11-20 12:00 UTC).",
        )  # fmt: skip
    with db.read_session(world.engine) as session:
        unknown = why(Publication(session, site=world.site, templates=world.templates, caches=CACHES, now=at("20T13:00")), email=ALICE, reference="Graph two")  # fmt: skip
    assert "restored from a backup on 2026-11-20 12:00 UTC" in unknown.verdict
    assert "No dump contained" not in unknown.verdict


def test_no_next_edition_is_named_for_a_reader_who_left(world: PublishingWorld):
    world.subscribe(ALICE, GRAPHS, cadence=Cadence.WEEKLY, now="18T00:00")
    with db.write_session(world.engine) as session:
        alice = subscriber_rows.get(session, ALICE)
        unsubscribe_and_undo.unsubscribe(session, world.site, alice, now=at("18T09:00"))
        session.commit()

    assert ask(world, "24T13:00", "2026-11-24") == (
        "unsubscribed",
        "They unsubscribed on 2026-11-18 09:00 UTC.",
    )


def test_a_pause_that_was_undone_is_not_named(world: PublishingWorld):
    world.dump("20T00:00", ["Graph one"])
    world.subscribe(ALICE, GRAPHS, now="19T00:00", next_due_at=at("20T08:00"))
    with db.write_session(world.engine) as session:
        alice = subscriber_rows.get(session, ALICE)
        pauses.pause(session, alice, None, at("20T07:00"))
        session.commit()
        assert ask(world, "20T07:01")[0] == "paused"
        pauses.resume(session, alice, at("20T07:02"))
        assert alice.state == SubscriberState.ACTIVE
        session.commit()

    assert ask(world, "20T07:03", "today") == ("not due yet", "It is due on 2026-11-20 08:00 UTC.")
    assert world.publish("20T08:00").queued == 1
    assert at("20T08:00") - at("20T07:02") < timedelta(hours=1)


def test_the_footer_names_all_topics_and_those_without_new_papers(world: PublishingWorld):
    topics = {"Graphs": "graph*", "Colours": "colour*", "Chairs": "chair*", "Cups": "cup*"}
    world.subscribe(ALICE, topics)
    world.dump("20T00:00", ["Graph colours", "Graph two"])
    found = world.preview(ALICE, "20T08:00")

    assert [section.topic for section in found.digest.sections] == ["Graphs"]
    assert (found.digest.others, found.digest.silent) == (("Colours",), ("Chairs", "Cups"))
    said = "Your topics: Graphs; Colours; Chairs (nothing today); Cups (nothing today)"
    assert said in " ".join(found.letter.text.split())
    assert said in found.letter.html
