"""`why` gives the true reason why a subscriber did or did not get a paper."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from sqlalchemy import Engine, delete, update

from digest import db
from digest.bounces import suppressions
from digest.bounces.suppressions import SuppressionReason
from digest.db.tables.deliveries import Delivery, DeliveryState, PressRow
from digest.db.tables.subscribers import SubscriberState
from digest.delivery import shown
from digest.errors import NotFound
from digest.letters.templates import Templates
from digest.papers.paper_record import Announcement, Record
from digest.publishing.publication import Publication
from digest.publishing.why.explain_paper import why
from digest.publishing.why.question import WhyAnswer, WhyCause
from digest.site.site_profile import Site
from digest.subscribers import subscriber_rows, undo_changes
from digest.subscribers.reader_settings import ReaderSettings
from tests.support.publishing_world import PublishingWorld, at
from tests.support.shared_caches import CACHES

ALICE = "alice@example.org"
GRAPHS = {"Graphs": "ti:graph*"}


@pytest.fixture
def world(sqlite_engine: Engine, site: Site, templates: Templates) -> PublishingWorld:
    return PublishingWorld(engine=sqlite_engine, site=site, templates=templates)


def ask(world: PublishingWorld, reference: str, now: str = "20T09:00") -> WhyAnswer:
    with db.read_session(world.engine) as session:
        return why(
            Publication(session, site=world.site, templates=world.templates, caches=CACHES, now=at(now)),
            email=ALICE,
            reference=reference,
        )


def test_a_paper_that_was_shown_says_when_where_and_why(world: PublishingWorld):
    world.subscribe(ALICE, {"Proofs": "proof*", **GRAPHS})
    world.dump("20T00:00", ["Graph one"])
    world.publish("20T08:00")

    answer = ask(world, "Graph one")

    assert answer.json["cause"] == WhyCause.SHOWN
    assert answer.verdict == "Shown on 2026-11-20 in daily-2026-11-20, under Graphs."
    assert "Graphs matches: graph* in the title" in answer.lines
    assert "the digest is queued" in answer.lines


def test_a_paper_no_dump_had_is_answered_with_a_suggestion(world: PublishingWorld):
    world.subscribe(ALICE)
    world.dump("20T00:00", ["Graph attention everywhere"])

    answer = ask(world, "Graph attention everywher")

    assert answer.json["cause"] == WhyCause.UNKNOWN
    assert "Graph attention everywhere" in answer.verdict


def test_an_unknown_address_is_an_error(world: PublishingWorld):
    with pytest.raises(NotFound):
        ask(world, "Graph one")


def test_a_paper_no_topic_matches_names_the_failed_clause(world: PublishingWorld):
    world.subscribe(ALICE, GRAPHS)
    world.dump("20T00:00", ["Robots", "Graph one"])
    world.publish("20T08:00")

    answer = ask(world, "Robots")

    assert answer.json["cause"] == WhyCause.UNMATCHED
    assert answer.verdict == "daily-2026-11-20 considered it, and no topic matches it."
    assert any(line.startswith("Graphs does not match: ") for line in answer.lines)


def test_a_paper_over_the_limit_is_answered_with_its_rank(world: PublishingWorld):
    world.subscribe(ALICE, GRAPHS, max_papers=2)
    world.dump("20T00:00", [Record(title=f"Graph {n}", signals={"upvotes": 90 - n}) for n in range(5)])
    world.publish("20T08:00")

    answer = ask(world, "Graph 3")

    assert answer.json["cause"] == WhyCause.OVER_CAP
    assert answer.json["rank"] == 4
    assert answer.verdict == "It matched, but daily-2026-11-20 was full: it had rank 4."
    assert "Graphs: rank 4 among the new papers; the digest showed 2" in answer.lines


def test_the_rank_is_that_of_its_edition_whatever_came_later(world: PublishingWorld):
    world.subscribe(ALICE, max_papers=1)
    world.dump("20T00:00", [Record(title=f"Graph {n}", signals={"upvotes": 90 - n}) for n in range(3)])
    world.publish("20T08:00")
    world.dump("21T00:00", [Record(title="Better", signals={"upvotes": 900})])
    world.publish("21T08:00")

    assert ask(world, "Graph 2", "21T09:00").json["rank"] == 3


def test_a_topic_added_after_an_empty_edition_did_not_match_then(world: PublishingWorld):
    world.subscribe(ALICE, {"Proofs": "proof*"})
    world.dump("20T00:00", ["Graph one"])
    world.publish("20T08:00")
    with db.write_session(world.engine) as session:
        given = ReaderSettings(topics=GRAPHS)
        undo_changes.edit(session, subscriber_rows.get(session, ALICE), given, now=at("20T08:30"))
        session.commit()

    answer = ask(world, "Graph one")
    assert answer.json["cause"] == WhyCause.UNMATCHED
    assert "no topic matched it then" in answer.verdict


def test_a_paper_for_the_next_edition_is_answered_with_its_due_time(world: PublishingWorld):
    world.subscribe(ALICE, GRAPHS)
    world.dump("20T00:00", ["Graph one"])
    world.publish("20T08:00")
    world.dump("20T12:00", ["Graph two"])

    answer = ask(world, "Graph two", "20T13:00")

    assert answer.json["cause"] == WhyCause.NOT_DUE
    assert answer.verdict == "It is new for daily-2026-11-21, due 2026-11-21 08:00 UTC: rank 1 so far."
    assert "a digest made now would show it" in answer.lines


def test_history_is_never_shown(world: PublishingWorld):
    world.subscribe(ALICE)
    world.dump("20T00:00", ["Graph one"], is_history=True)

    assert ask(world, "Graph one").json["cause"] == WhyCause.HISTORY


def test_withdrawn_papers_are_never_shown(world: PublishingWorld):
    world.subscribe(ALICE)
    world.dump("20T00:00", [Record(title="Graph one", announcement=Announcement.WITHDRAWN)])

    assert ask(world, "Graph one").json["cause"] == WhyCause.WITHDRAWN


def test_a_deleted_press_does_not_change_the_answer(world: PublishingWorld):
    world.subscribe(ALICE, GRAPHS)
    world.dump("20T00:00", ["Graph one", "Robots"])
    world.publish("20T08:00")
    with db.write_session(world.engine) as session:
        session.execute(delete(PressRow))
        session.commit()
    CACHES.clear("press")

    assert ask(world, "Robots").json["cause"] == WhyCause.UNMATCHED


def test_a_paper_from_before_the_subscription_is_answered(world: PublishingWorld):
    world.dump("10T00:00", ["Graph one"])
    world.subscribe(ALICE, GRAPHS)
    world.publish("20T08:00")

    assert ask(world, "Graph one").json["cause"] == WhyCause.BEFORE


def test_a_paper_that_arrived_after_its_day_was_published_is_late(world: PublishingWorld):
    world.subscribe(ALICE, GRAPHS, now="09T00:00")
    world.dump("10T00:00", ["Graph one"])
    world.publish("10T08:00")
    world.publish("20T08:00")
    world.dump("10T00:00", ["Graph two"])  # in the afternoon of the 20th, ten days after its day

    assert ask(world, "Graph two", "20T13:00").json["cause"] == WhyCause.LATE


@pytest.mark.parametrize(
    ("state", "cause"),
    [
        (SubscriberState.PENDING, WhyCause.PENDING),
        (SubscriberState.PAUSED, WhyCause.PAUSED),
        (SubscriberState.UNSUBSCRIBED, WhyCause.UNSUBSCRIBED),
    ],
)
def test_a_subscriber_without_mail_is_answered_with_their_state(
    world: PublishingWorld, state: SubscriberState, cause: WhyCause
):
    world.subscribe(ALICE, state=state)
    world.dump("20T00:00", ["Graph one"])

    assert ask(world, "Graph one").json["cause"] == cause


def test_a_suppressed_address_is_the_reason(world: PublishingWorld):
    world.subscribe(ALICE)
    world.dump("20T00:00", ["Graph one"])
    with db.write_session(world.engine) as session:
        suppressions.suppress(
            session,
            world.site,
            ALICE,
            SuppressionReason.OPERATOR,
            "asked by phone",
            at("20T01:00"),
        )
        session.commit()

    assert ask(world, "Graph one").json["cause"] == WhyCause.SUPPRESSED


def test_a_digest_that_was_never_sent_is_named(world: PublishingWorld):
    world.subscribe(ALICE, GRAPHS)
    world.dump("20T00:00", ["Graph one"])
    world.publish("20T08:00")
    number = world.deliveries()[-1].id
    with db.write_session(world.engine) as session:
        session.execute(update(Delivery).values(state=DeliveryState.FAILED, reason="550 no such user"))
        shown.release(session, [number])
        session.commit()

    answer = ask(world, "Graph one")

    assert "daily-2026-11-20 was not sent (failed: 550 no such user)" in answer.lines
    assert answer.json["cause"] == WhyCause.NOT_DUE  # it is new again


def test_a_merged_paper_is_found_by_either_id(world: PublishingWorld):
    world.subscribe(ALICE)
    world.dump("20T00:00", [Record(title="On graphs", ids={"arxiv": "2611.00001"})])
    (younger,) = world.dump("20T00:00", [Record(title="Graphs, at last", ids={"doi": "10.5555/1"})])
    world.dump("20T01:00", [Record(title="On graphs", ids={"arxiv": "2611.00001", "doi": "10.5555/1"})])
    world.publish("20T08:00")

    answer = ask(world, str(younger))

    assert answer.json["cause"] == WhyCause.SHOWN
    assert f"paper {younger} was merged into this one" in answer.lines


def test_an_answer_changes_nothing(world: PublishingWorld):
    world.subscribe(ALICE, GRAPHS)
    world.dump("20T00:00", ["Graph one"])

    ask(world, "Graph one", "20T07:00")

    assert world.deliveries() == []
    assert world.shown() == []
    assert world.subscriber(ALICE).next_due_at is None
    assert world.subscriber(ALICE).created_at == datetime(2026, 11, 20, tzinfo=UTC)
