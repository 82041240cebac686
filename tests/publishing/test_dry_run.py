"""A dry run renders the letters of a real run."""

from __future__ import annotations

import pytest
from sqlalchemy import Engine

from digest import db
from digest.letters.templates import Templates
from digest.publishing import dry_run
from digest.publishing.dry_run import DryRunResult
from digest.publishing.publication import Publication
from digest.site.site_profile import Site
from tests.support.publishing_world import PublishingWorld, at
from tests.support.shared_caches import CACHES

ALICE, BOB = "alice@example.org", "bob@example.org"


@pytest.fixture
def world(sqlite_engine: Engine, site: Site, templates: Templates) -> PublishingWorld:
    return PublishingWorld(engine=sqlite_engine, site=site, templates=templates)


@pytest.fixture
def on_both(engine: Engine, site: Site, templates: Templates) -> PublishingWorld:
    """The same on SQLite and on PostgreSQL, for what rests on statements that differ between them."""
    return PublishingWorld(engine=engine, site=site, templates=templates)


def dry_run_results(world: PublishingWorld, now: str) -> list[DryRunResult]:
    with db.read_session(world.engine) as session:
        found = dry_run.dry_run(
            Publication(session, site=world.site, templates=world.templates, caches=CACHES, now=at(now))
        )
        return [result for result, _ in found]


def test_a_dry_run_equals_the_real_run_and_changes_nothing(on_both: PublishingWorld):
    on_both.dump("20T00:00", ["Graph one", "Graph two", "Robot three"])
    on_both.subscribe(ALICE, {"Graphs": "graph"})
    on_both.subscribe(BOB, {"Proofs": "proof"})

    first, again = dry_run_results(on_both, "20T08:00"), dry_run_results(on_both, "20T08:00")

    assert first == again
    assert on_both.deliveries() == [] == on_both.shown()
    assert [(one.email, one.letter, one.papers) for one in first] == [(ALICE, "digest", 2), (BOB, "", 0)]
    on_both.publish("20T08:00")
    assert sum(map(len, on_both.digest(ALICE).values())) == first[0].papers


def test_a_decided_edition_is_left_out_of_a_dry_run(world: PublishingWorld):
    world.dump("20T00:00", ["Graph one"])
    world.subscribe(ALICE, {"Graphs": "graph"})
    world.publish("20T08:00")
    world.change(ALICE, next_due_at=None)

    assert dry_run_results(world, "20T09:00") == []
