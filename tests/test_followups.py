"""Follow-ups: what became of papers that readers were sent is told to each of them once."""

from __future__ import annotations

import json

import pytest
from sqlalchemy import Engine, select, update

from digest import db, showings
from digest.composition import Digest, FollowUp
from digest.links import Site
from digest.model import Delivery, DeliveryState, Told
from digest.papers import Announcement, Record
from digest.publishing import Published
from digest.rendering import Templates
from digest.why import why
from tests.newsroom import Newsroom, at

ALICE, DORA = "alice@example.org", "dora@example.org"
GRAPHS = {"Graphs": "graph"}
ONE = Record(title="Graph one", abstract="About it.", ids={"arxiv": "2611.00001"})
PUBLISHED = Record(title="Graph one", ids={"arxiv": "2611.00001"}, journal="J. Graphs 12 (2026)")
WITHDRAWN = Record(title="Graph one", ids={"arxiv": "2611.00001"}, announcement=Announcement.WITHDRAWN)
NEWS = FollowUp(paper=1, kind="published", title="Graph one", says="J. Graphs 12 (2026)")


@pytest.fixture
def newsroom(engine: Engine, site: Site, templates: Templates) -> Newsroom:
    """A house in which Alice was sent a paper on Friday."""
    newsroom = Newsroom(engine=engine, site=site, templates=templates)
    newsroom.subscribe(ALICE, GRAPHS)
    newsroom.dump("20T00:00", [ONE])
    newsroom.publish("20T08:00")
    end_all(newsroom, DeliveryState.SENT)
    return newsroom


def end_all(newsroom: Newsroom, state: DeliveryState) -> None:
    with db.writing(newsroom.engine) as session:
        waiting = list(session.scalars(select(Delivery.id).where(Delivery.state == DeliveryState.QUEUED)))
        session.execute(update(Delivery).where(Delivery.id.in_(waiting)).values(state=state))
        showings.release(session, waiting)
        session.commit()


def news(newsroom: Newsroom, email: str = ALICE) -> tuple[FollowUp, ...]:
    """What the latest digest tells of earlier papers."""
    return Digest.from_json(newsroom.deliveries(email)[-1].decision).news


def quiet_letters(newsroom: Newsroom) -> list[Delivery]:
    with db.reading(newsroom.engine) as session:
        return list(session.scalars(select(Delivery).where(Delivery.letter == "quiet").order_by(Delivery.id)))


def test_the_next_digest_tells_what_became_of_a_paper_once(newsroom: Newsroom):
    newsroom.dump("21T00:00", [PUBLISHED, "Graph two"])
    previewed = newsroom.preview(ALICE, "21T08:00")
    newsroom.publish("21T08:00")

    assert news(newsroom) == previewed.digest.news == (NEWS,)
    assert previewed.json["news"][0]["became"] == "published"
    for body in (previewed.letter.html, previewed.letter.text):
        assert "News about papers you received" in body
        assert "Published: J. Graphs 12 (2026)" in body
    assert newsroom.digest(ALICE) == {"Graphs": ["Graph two"]}  # it is no showing

    newsroom.dump("22T00:00", [PUBLISHED, "Graph three"])
    newsroom.publish("22T08:00")

    assert news(newsroom) == ()


def test_who_was_not_sent_the_paper_hears_nothing(newsroom: Newsroom):
    newsroom.subscribe(DORA, {"All": "graph OR robot"}, now="20T12:00")
    newsroom.dump("21T00:00", [PUBLISHED, "Graph two"])

    newsroom.publish("21T08:00")

    assert news(newsroom, DORA) == ()


def test_a_paper_that_was_never_delivered_has_no_follow_up(newsroom: Newsroom):
    newsroom.dump("21T00:00", ["Graph two"])
    newsroom.publish("21T08:00")
    end_all(newsroom, DeliveryState.FAILED)
    newsroom.dump("22T00:00", [Record(title="Graph two", journal="J. Graphs")])

    newsroom.publish("22T08:00")

    assert newsroom.digest(ALICE) == {"Graphs": ["Graph two"]}
    assert news(newsroom) == ()


def test_history_makes_no_follow_ups(newsroom: Newsroom):
    newsroom.dump("21T00:00", [PUBLISHED], is_history=True)
    newsroom.dump("21T00:00", ["Graph two"])

    newsroom.publish("21T08:00")

    assert news(newsroom) == ()


def test_what_was_known_when_the_paper_was_shown_is_no_news(newsroom: Newsroom):
    newsroom.dump("21T00:00", ["Graph two"])
    newsroom.dump("21T06:00", [Record(title="Graph two", journal="J. Graphs")])
    newsroom.publish("21T08:00")
    end_all(newsroom, DeliveryState.SENT)
    newsroom.dump("22T00:00", ["Graph three"])

    newsroom.publish("22T08:00")

    assert news(newsroom) == ()


def test_news_told_by_a_digest_that_never_arrived_is_told_again(newsroom: Newsroom):
    newsroom.dump("21T00:00", [PUBLISHED, "Graph two"])
    newsroom.publish("21T08:00")
    end_all(newsroom, DeliveryState.FAILED)

    newsroom.publish("22T08:00")

    assert news(newsroom) == (NEWS,)


def test_news_wait_for_papers_to_come_with(newsroom: Newsroom):
    newsroom.dump("21T00:00", [PUBLISHED])
    assert newsroom.publish("21T08:00") == Published(due=1, empty=1)
    newsroom.dump("23T00:00", ["Graph two"])
    newsroom.publish("22T08:00")
    newsroom.publish("23T08:00")

    assert news(newsroom) == (NEWS,)
    assert quiet_letters(newsroom) == []


def test_after_a_week_without_papers_news_come_alone_and_once(newsroom: Newsroom):
    newsroom.dump("21T00:00", [WITHDRAWN])
    for day in range(21, 31):
        newsroom.publish(f"{day}T08:00")

    (letter,) = quiet_letters(newsroom)
    told = json.loads(letter.decision)["news"]
    assert letter.dated_at == at("28T08:00")
    assert [(one["title"], one["says"]) for one in told] == [("Graph one", "Withdrawn by its authors.")]


def test_news_reach_also_who_waits_for_several_papers(newsroom: Newsroom):
    newsroom.change(ALICE, min_papers=5)
    newsroom.dump("21T00:00", [WITHDRAWN, "Graph two"])
    for day in range(21, 30):
        newsroom.publish(f"{day}T08:00")

    (letter,) = quiet_letters(newsroom)
    assert json.loads(letter.decision)["checked"] == 0  # it does not say that none matched
    newsroom.dump("30T00:00", [f"Graph {number}" for number in range(4)])
    newsroom.publish("30T08:00")
    assert "Graph two" in newsroom.digest(ALICE)["Graphs"]  # what waited waits on


def test_a_quiet_letter_that_comes_anyway_brings_the_news(newsroom: Newsroom):
    newsroom.change(ALICE, wants_quiet_letters=True)
    newsroom.dump("21T00:00", [PUBLISHED, "Robot"])
    newsroom.publish("21T08:00")

    (letter,) = quiet_letters(newsroom)
    assert len(json.loads(letter.decision)["news"]) == 1
    with db.reading(newsroom.engine) as session:
        assert session.scalars(select(Told.delivery_id)).all() == [letter.id]


def test_why_says_what_became_of_a_paper_and_when_it_was_told(newsroom: Newsroom):
    newsroom.dump("21T00:00", [PUBLISHED, "Graph two"])
    newsroom.publish("21T08:00")

    with db.reading(newsroom.engine) as session:
        answer = why(
            session, site=newsroom.site, templates=newsroom.templates, email=ALICE, reference="Graph one",
            now=at("21T09:00"),
        )  # fmt: skip

    assert any(
        "published since" in line and "told on 2026-11-21 in daily-2026-11-21" in line
        for line in answer.lines
    )
