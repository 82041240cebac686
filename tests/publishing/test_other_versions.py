"""A reader who was shown a preprint is not shown the journal's paper under another title, but is told of it."""

from __future__ import annotations

import pytest
from sqlalchemy import Engine, select

from digest import db
from digest.db.tables.papers import AbstractShingle, EarlierVersion
from digest.editions.compose import Digest
from digest.letters.templates import Templates
from digest.papers.catalog import other_versions
from digest.papers.paper_record import Record
from digest.publishing.publication import Publication
from digest.publishing.why.explain_paper import why
from digest.site.site_profile import Site
from tests.papers.rewritten_papers import PREPRINTS, pairs_of_different_works
from tests.support.publishing_world import PublishingWorld, at
from tests.support.shared_caches import CACHES

TITLE, JOURNAL_TITLE, ABSTRACT, _ = PREPRINTS[0]
PREPRINT = Record(title=TITLE, abstract=ABSTRACT, authors=("Ada Okafor", "Kenji Ito"))
PUBLISHED = Record(
    title=JOURNAL_TITLE, abstract=ABSTRACT.replace("We followed", "Here we followed"),
    authors=("K. Ito", "A. Okafor"), journal="Journal of Rivers",
)  # fmt: skip
EELS = {"Eels": "eel*"}


@pytest.fixture
def world(sqlite_engine: Engine, site: Site, templates: Templates) -> PublishingWorld:
    return PublishingWorld(engine=sqlite_engine, site=site, templates=templates)


@pytest.fixture
def on_both(engine: Engine, site: Site, templates: Templates) -> PublishingWorld:
    """The same on SQLite and on PostgreSQL, for what rests on statements that differ between them."""
    return PublishingWorld(engine=engine, site=site, templates=templates)


def test_a_journal_version_is_left_out_noted_for_why_and_brings_one_update(
    on_both: PublishingWorld, site: Site
):
    on_both.subscribe("alice@example.org", EELS, now="18T00:00")
    on_both.dump("18T00:00", [PREPRINT])
    on_both.publish("18T08:00")
    on_both.deliver(at("18T08:01"))
    on_both.subscribe("bob@example.org", EELS, now="19T00:00")
    on_both.dump("20T00:00", [PUBLISHED, "Eels at sea"])
    on_both.publish("20T08:00")

    assert on_both.digest("alice@example.org", "daily-2026-11-20") == {"Eels": ["Eels at sea"]}
    assert sorted(on_both.digest("bob@example.org")["Eels"]) == [JOURNAL_TITLE, "Eels at sea"]
    sent = [one for one in on_both.deliveries("alice@example.org") if one.edition == "daily-2026-11-20"]
    (update,) = Digest.from_json(sent[0].decision).news
    assert (update.title, update.kind, update.detail) == (TITLE, "published", "Journal of Rivers")
    with db.read_session(on_both.engine) as session:
        answer = why(Publication(session, site=site, templates=on_both.templates, caches=CACHES, now=at("20T09:00")), email="alice@example.org", reference=JOURNAL_TITLE)  # fmt: skip
    assert answer.json["cause"] == "shown in another version"
    assert answer.verdict == f"Left out: daily-2026-11-18 showed it as “{TITLE}”."


def test_two_versions_that_arrive_together_are_one_entry_of_a_digest(world: PublishingWorld):
    world.subscribe("alice@example.org", EELS)
    world.dump("20T00:00", [PREPRINT, PUBLISHED])
    world.publish("20T08:00")

    assert world.digest("alice@example.org") == {"Eels": [TITLE]}


def test_different_papers_of_one_group_are_all_shown(world: PublishingWorld):
    pairs = [(one, other) for _, one, other in pairs_of_different_works() if one.title != other.title]
    works = {work.title: work for pair in pairs for work in pair}
    world.dump("20T00:00", [Record(title=one.title, abstract=one.abstract, authors=tuple(one.authors))
                            for one in works.values()])  # fmt: skip

    with db.read_session(world.engine) as session:
        assert session.scalars(select(EarlierVersion.paper_id)).all() == []
        assert session.scalars(select(AbstractShingle.hash)).first() is not None


def test_shingles_are_deleted_when_no_reader_can_have_been_shown_the_paper(world: PublishingWorld):
    world.dump("10T00:00", [PREPRINT])
    world.dump("20T00:00", [Record(title="Weirs", abstract=PREPRINTS[1][2])])

    with db.write_session(world.engine) as session:
        assert other_versions.delete_old_shingles(session, before=at("15T00:00")) > 0
        left = set(session.scalars(select(AbstractShingle.paper_id)))
    assert left == {world.paper("Weirs")}
