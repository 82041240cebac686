"""Each reader gets an update to a paper they were sent, once."""

from __future__ import annotations

import json

import pytest
from sqlalchemy import Engine, select, update

from digest import db
from digest.db.tables import Delivery, DeliveryState, FollowupSent
from digest.editions import shown
from digest.editions.compose import Digest, FollowUp
from digest.letters import Templates
from digest.papers import Announcement, Record
from digest.publishing import PublishReport
from digest.publishing.why import why
from digest.site_profile import Site
from tests.support.publishing_world import Newsroom, at
from tests.support.shared_caches import CACHES

ALICE, DORA = "alice@example.org", "dora@example.org"
GRAPHS = {"Graphs": "graph"}
ONE = Record(title="Graph one", abstract="About it.", ids={"arxiv": "2611.00001"})
PUBLISHED = Record(title="Graph one", ids={"arxiv": "2611.00001"}, journal="J. Graphs 12 (2026)")
WITHDRAWN = Record(title="Graph one", ids={"arxiv": "2611.00001"}, announcement=Announcement.WITHDRAWN)
NEWS = FollowUp(paper=1, kind="published", title="Graph one", detail="J. Graphs 12 (2026)")


@pytest.fixture
def newsroom(engine: Engine, site: Site, templates: Templates) -> Newsroom:
    """Return a newsroom in which Alice was sent a paper on Friday."""
    newsroom = Newsroom(engine=engine, site=site, templates=templates)
    newsroom.subscribe(ALICE, GRAPHS)
    newsroom.dump("20T00:00", [ONE])
    newsroom.publish("20T08:00")
    end_all(newsroom, DeliveryState.SENT)
    return newsroom


def end_all(newsroom: Newsroom, state: DeliveryState) -> None:
    with db.write_session(newsroom.engine) as session:
        waiting = list(session.scalars(select(Delivery.id).where(Delivery.state == DeliveryState.QUEUED)))
        session.execute(update(Delivery).where(Delivery.id.in_(waiting)).values(state=state))
        shown.release(session, waiting)
        session.commit()


def news(newsroom: Newsroom, email: str = ALICE) -> tuple[FollowUp, ...]:
    """Return the updates in the latest digest."""
    return Digest.from_json(newsroom.deliveries(email)[-1].decision).news


def nothing_today_letters(newsroom: Newsroom) -> list[Delivery]:
    with db.read_session(newsroom.engine) as session:
        return list(
            session.scalars(select(Delivery).where(Delivery.letter == "nothing_today").order_by(Delivery.id))
        )


def test_the_next_digest_has_the_update_once(newsroom: Newsroom):
    newsroom.dump("21T00:00", [PUBLISHED, "Graph two"])
    previewed = newsroom.preview(ALICE, "21T08:00")
    newsroom.publish("21T08:00")

    assert news(newsroom) == previewed.digest.news == (NEWS,)
    assert previewed.json["updates"][0]["kind"] == "published"
    for body in (previewed.letter.html, previewed.letter.text):
        assert "Updates to papers we sent you" in body
        assert "Published: J. Graphs 12 (2026)" in body
    assert newsroom.digest(ALICE) == {"Graphs": ["Graph two"]}  # an update is not a showing

    newsroom.dump("22T00:00", [PUBLISHED, "Graph three"])
    newsroom.publish("22T08:00")

    assert news(newsroom) == ()


def test_a_reader_who_was_not_sent_the_paper_gets_no_update(newsroom: Newsroom):
    newsroom.subscribe(DORA, {"All": "graph OR robot"}, now="20T12:00")
    newsroom.dump("21T00:00", [PUBLISHED, "Graph two"])

    newsroom.publish("21T08:00")

    assert news(newsroom, DORA) == ()


def test_a_paper_that_was_never_delivered_has_no_update(newsroom: Newsroom):
    newsroom.dump("21T00:00", ["Graph two"])
    newsroom.publish("21T08:00")
    end_all(newsroom, DeliveryState.FAILED)
    newsroom.dump("22T00:00", [Record(title="Graph two", journal="J. Graphs")])

    newsroom.publish("22T08:00")

    assert newsroom.digest(ALICE) == {"Graphs": ["Graph two"]}
    assert news(newsroom) == ()


def test_history_makes_no_updates(newsroom: Newsroom):
    newsroom.dump("21T00:00", [PUBLISHED], is_history=True)
    newsroom.dump("21T00:00", ["Graph two"])

    newsroom.publish("21T08:00")

    assert news(newsroom) == ()


def test_a_change_before_the_paper_was_shown_is_no_update(newsroom: Newsroom):
    newsroom.dump("21T00:00", ["Graph two"])
    newsroom.dump("21T06:00", [Record(title="Graph two", journal="J. Graphs")])
    newsroom.publish("21T08:00")
    end_all(newsroom, DeliveryState.SENT)
    newsroom.dump("22T00:00", ["Graph three"])

    newsroom.publish("22T08:00")

    assert news(newsroom) == ()


def test_an_update_in_an_undelivered_digest_is_sent_again(newsroom: Newsroom):
    newsroom.dump("21T00:00", [PUBLISHED, "Graph two"])
    newsroom.publish("21T08:00")
    end_all(newsroom, DeliveryState.FAILED)

    newsroom.publish("22T08:00")

    assert news(newsroom) == (NEWS,)


def test_updates_wait_for_a_digest_with_papers(newsroom: Newsroom):
    newsroom.dump("21T00:00", [PUBLISHED])
    assert newsroom.publish("21T08:00") == PublishReport(due=1, empty=1)
    newsroom.dump("23T00:00", ["Graph two"])
    newsroom.publish("22T08:00")
    newsroom.publish("23T08:00")

    assert news(newsroom) == (NEWS,)
    assert nothing_today_letters(newsroom) == []


def test_after_a_week_without_papers_a_letter_brings_the_update_once(newsroom: Newsroom):
    newsroom.dump("21T00:00", [WITHDRAWN])
    for day in range(21, 31):
        newsroom.publish(f"{day}T08:00")

    (letter,) = nothing_today_letters(newsroom)
    updates = json.loads(letter.decision)["news"]
    assert letter.dated_at == at("28T08:00")
    assert [(one["title"], one["text"]) for one in updates] == [("Graph one", "Withdrawn by its authors.")]


def test_updates_also_reach_a_reader_with_a_minimum_of_papers(newsroom: Newsroom):
    newsroom.change(ALICE, min_papers=5)
    newsroom.dump("21T00:00", [WITHDRAWN, "Graph two"])
    for day in range(21, 30):
        newsroom.publish(f"{day}T08:00")

    (letter,) = nothing_today_letters(newsroom)
    assert json.loads(letter.decision)["checked"] == 0  # it does not say that none matched
    newsroom.dump("30T00:00", [f"Graph {number}" for number in range(4)])
    newsroom.publish("30T08:00")
    assert "Graph two" in newsroom.digest(ALICE)["Graphs"]  # the held paper is still new


def test_a_nothing_today_letter_brings_the_updates(newsroom: Newsroom):
    newsroom.change(ALICE, wants_nothing_today_letters=True)
    newsroom.dump("21T00:00", [PUBLISHED, "Robot"])
    newsroom.publish("21T08:00")

    (letter,) = nothing_today_letters(newsroom)
    assert len(json.loads(letter.decision)["news"]) == 1
    with db.read_session(newsroom.engine) as session:
        assert session.scalars(select(FollowupSent.delivery_id)).all() == [letter.id]


def test_why_names_the_change_and_when_its_update_was_sent(newsroom: Newsroom):
    newsroom.dump("21T00:00", [PUBLISHED, "Graph two"])
    newsroom.publish("21T08:00")

    with db.read_session(newsroom.engine) as session:
        answer = why(
            session, site=newsroom.site, templates=newsroom.templates, caches=CACHES, email=ALICE, reference="Graph one",
            now=at("21T09:00"),
        )  # fmt: skip

    assert any(
        "published since" in line and "update sent on 2026-11-21 in daily-2026-11-21" in line
        for line in answer.lines
    )
