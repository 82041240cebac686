"""Rehearsals: what a run would make, into a folder; and what changes from one to the next."""

from __future__ import annotations

import pytest
from sqlalchemy import Engine

from digest import db
from digest.links import Site
from digest.publishing import rehearsals
from digest.publishing.rehearsals import Played, differ
from digest.rendering import Templates
from tests.newsroom import Newsroom, at

ALICE, BOB = "alice@example.org", "bob@example.org"


@pytest.fixture
def newsroom(engine: Engine, site: Site, templates: Templates) -> Newsroom:
    return Newsroom(engine=engine, site=site, templates=templates)


def rehearsed(newsroom: Newsroom, now: str) -> list[Played]:
    with db.reading(newsroom.engine) as session:
        found = rehearsals.rehearse(session, site=newsroom.site, templates=newsroom.templates, now=at(now))
        return [played for played, _ in found]


def test_a_rehearsal_is_what_the_run_then_does_and_changes_nothing(newsroom: Newsroom):
    newsroom.dump("20T00:00", ["Graph one", "Graph two", "Robot three"])
    newsroom.subscribe(ALICE, {"Graphs": "graph"})
    newsroom.subscribe(BOB, {"Proofs": "proof"})

    first, again = rehearsed(newsroom, "20T08:00"), rehearsed(newsroom, "20T08:00")

    assert first == again
    assert newsroom.deliveries() == [] == newsroom.shown()
    assert [(one.email, one.letter, one.papers) for one in first] == [(ALICE, "digest", 2), (BOB, "", 0)]
    newsroom.publish("20T08:00")
    with db.reading(newsroom.engine) as session:
        ran = {one.email: one for one in rehearsals.last_run(session, site=newsroom.site)}
    assert (ran[ALICE].papers, ran[ALICE].subject) == (2, first[0].subject)
    assert differ(ran.values(), first).gains == differ(ran.values(), first).loses == ()


def test_what_was_decided_already_is_not_rehearsed(newsroom: Newsroom):
    newsroom.dump("20T00:00", ["Graph one"])
    newsroom.subscribe(ALICE, {"Graphs": "graph"})
    newsroom.publish("20T08:00")
    newsroom.change(ALICE, next_due_at=None)

    assert rehearsed(newsroom, "20T09:00") == []


def played(email: str, papers: int, **more: object) -> Played:
    told = {"edition": "daily-2026-11-20", "letter": "digest", "bytes": 1000 * papers, "subject": "One"}
    return Played(email=email, papers=papers, **{**told, **more})  # type: ignore[arg-type]


def test_a_difference_names_who_gains_who_loses_and_what_changes():
    before = [played(ALICE, 2), played(BOB, 3), played("carol@example.org", 1)]
    after = [played(ALICE, 4), played("dora@example.org", 1), played("carol@example.org", 1)]

    found = differ(before, after)

    assert (found.gains, found.loses, found.same) == (("dora@example.org",), (BOB,), 1)
    assert found.changed == ({"email": ALICE, "papers": [2, 4], "bytes": [2000, 4000]},)
    assert (found.mails, found.papers) == ((3, 3), (6, 6))


def test_an_empty_edition_is_no_mail_and_what_cannot_be_known_is_no_change():
    before = [played(ALICE, 2, bytes=None, subject=None), played(BOB, 0, letter="")]
    after = [played(ALICE, 2), played(BOB, 1)]

    found = differ(before, after)

    assert (found.gains, found.changed, found.same) == ((BOB,), (), 1)
