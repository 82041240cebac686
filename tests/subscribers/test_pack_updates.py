"""A new pack version changes the topics that follow the pack, but no pinned topic and no queued letter."""

from __future__ import annotations

import io
import json
import quopri
import threading
from dataclasses import dataclass, replace
from typing import Any

import pytest
from sqlalchemy import Engine, func, select

from digest import db
from digest.db.tables.deliveries import Delivery, Lane
from digest.db.tables.subscribers import PackRow, ResolvedFilter, SubscriberState, Subscription
from digest.delivery.transports.memory import MemoryTransport
from digest.delivery.transports.transport import Message
from digest.errors import BadFilter, NotFound, UsageError
from digest.letters.templates import Templates
from digest.papers.paper_record import Record
from digest.publishing.publication import Publication
from digest.publishing.why.explain_paper import why
from digest.site import links
from digest.site.site_profile import Site
from digest.subscribers import (
    confirmations,
    filter_registry,
    pack_updates,
    stored_packs,
    subscriber_rows,
    subscriber_topics,
    undo_changes,
)
from digest.subscribers.csv_import import import_list
from digest.subscribers.csv_import.file_rows import CsvRows
from digest.subscribers.pack_updates import PackChange
from digest.subscribers.reader_settings import ReaderSettings
from digest.topics import filter_parser, pack_resolution
from digest.topics import pack_files as files
from tests.support.mail_bodies import body_of
from tests.support.publishing_world import PublishingWorld, at
from tests.support.shared_caches import CACHES

ALICE, BOB, DORA = "alice@example.org", "bob@example.org", "dora@example.org"


@dataclass(kw_only=True)
class Lab(PublishingWorld):
    """A publishing world whose group shares filters."""

    def put(self, name="lab", *, now="20T01:00", **filters: str) -> PackChange:
        """Publish a pack."""
        text = f"pack: {name}\n\n" + "\n\n".join(f"{key} = {value}" for key, value in filters.items())
        with db.write_session(self.engine) as session:
            taken = pack_updates.publish(
                session, self.site, files.read(text), effect=lambda before, after: {"gained": len(after) > len(before), "lost": 0, "days": 1}, now=at(now)
            )  # fmt: skip
            session.commit()
            return taken

    def undo(self, name="lab", now="20T02:00") -> PackChange:
        with db.write_session(self.engine) as session:
            former = replace(stored_packs.get(session, name, 1), version=0)
            taken = pack_updates.publish(
                session, self.site, former, effect=lambda *_: {}, puts_back=1, now=at(now)
            )
            session.commit()
            return taken

    def edit(self, email: str, **wanted: str) -> None:
        with db.write_session(self.engine) as session:
            given = ReaderSettings(topics=wanted)
            undo_changes.edit(session, subscriber_rows.get(session, email), given, now=at("20T03:00"))
            session.commit()

    def notices(self) -> list[tuple[str | None, dict[str, Any]]]:
        with db.read_session(self.engine) as session:
            found = select(Delivery).where(Delivery.letter == "changed").order_by(Delivery.id)
            return [(one.email, json.loads(one.decision)) for one in session.scalars(found)]

    def topics(self, email: str) -> dict[str, str]:
        with db.read_session(self.engine) as session:
            theirs = subscriber_topics.topics_of(session, subscriber_rows.get(session, email))
            return {topic.name: topic.resolved for topic in theirs}

    def delivered_at(self, now: str) -> list[Message]:
        """Deliver what is due and return the messages."""
        transport = MemoryTransport()
        self.deliver(at(now), transport)
        return transport.messages

    def why(self, email: str, title: str, now: str = "20T09:00"):
        with db.read_session(self.engine) as session:
            return why(
                Publication(session, site=self.site, templates=self.templates, caches=CACHES, now=at(now)),
                email=email,
                reference=title,
            )


@pytest.fixture
def lab(engine: Engine, site: Site, templates: Templates) -> Lab:
    return Lab(engine=engine, site=site, templates=templates)


# ── versions ────────────────────────────────────────────────────────────────────────────────────


def test_followers_get_a_new_version_and_pinned_topics_stay(lab: Lab):
    lab.put(nlp="ti:graph*")
    lab.subscribe(ALICE, {"NLP": "use:lab/nlp ANDNOT ti:survey"})
    lab.subscribe(BOB, {"NLP": "use:lab/nlp@1"})

    lab.put(nlp="ti:robot*")
    lab.dump("20T02:00", ["Graph one", "Robot one", "A survey of robot arms"])
    lab.publish("20T08:00")

    assert lab.digest(ALICE) == {"NLP": ["Robot one"]}
    assert lab.digest(BOB) == {"NLP": ["Graph one"]}


def test_followers_of_a_pack_get_one_notice_and_others_none(lab: Lab):
    lab.put(nlp="LLM", robots="robot*")
    lab.subscribe(ALICE, {"NLP": "use:lab/nlp", "Also": "use:lab/nlp OR ICL", "Robots": "use:lab/robots"})
    lab.subscribe(BOB, {"NLP": "use:lab/nlp@1"})
    lab.subscribe("charlie@example.org", {"NLP": "use:lab/nlp"}, state=SubscriberState.PENDING)
    lab.subscribe(DORA, {"Robots": "use:lab/robots"})

    lab.put(nlp="LLM OR ICL", robots="robot*")

    ((email, decision),) = lab.notices()
    assert (email, decision["pack"]["name"], decision["pack"]["version"]) == (ALICE, "lab", 2)
    # "Also" asks for what it asked for, in other words: its reader still gets the letter.
    assert [topic["name"] for topic in decision["topics"]] == ["NLP", "Also"]


def test_a_notice_is_in_the_bulk_lane_and_skips_unsubscribed_readers(lab: Lab):
    lab.put(nlp="LLM")
    lab.subscribe(ALICE, {"NLP": "use:lab/nlp"})
    lab.subscribe(BOB, {"NLP": "use:lab/nlp"})
    lab.put(nlp="LLM OR ICL")
    lab.change(BOB, state=SubscriberState.UNSUBSCRIBED)

    with db.read_session(lab.engine) as session:
        lanes = set(session.scalars(select(Delivery.lane).where(Delivery.letter == "changed")))
    (message,) = lab.delivered_at("20T04:00")

    assert lanes == {Lane.BULK}
    assert message.recipient == ALICE
    assert b"List-Unsubscribe: <https://digest.example.org/u/" in message.content
    assert "The filter pack “lab” has a new version" in body_of(message.content, "plain")


def test_an_earlier_version_is_published_again_as_a_new_one(lab: Lab):
    lab.put(nlp="LLM")
    lab.subscribe(ALICE, {"NLP": "use:lab/nlp"})
    lab.put(nlp="LLM OR ICL")

    taken = lab.undo()

    assert (taken.pack.version, dict(taken.pack.filters)) == (3, {"nlp": "LLM"})
    assert lab.topics(ALICE) == {"NLP": "LLM"}
    assert [decision["pack"]["version"] for _, decision in lab.notices()] == [2, 3]


def test_the_newest_version_and_an_unchanged_file_are_not_published(lab: Lab):
    lab.put(nlp="LLM")

    with pytest.raises(UsageError, match="is unchanged since version 1"):
        lab.undo()
    with pytest.raises(UsageError, match="is unchanged since version 1"):
        lab.put(nlp="LLM")
    with pytest.raises(NotFound, match="Did you mean lab"):
        lab.undo("lub")


def test_a_version_is_never_changed(lab: Lab):
    lab.put(nlp="LLM")
    lab.put(nlp="LLM OR ICL")
    lab.undo()

    with db.read_session(lab.engine) as session:
        kept = session.execute(select(PackRow.version, PackRow.filters).order_by(PackRow.version)).all()
    assert [(version, filters["nlp"]) for version, filters in kept] == [
        (1, "LLM"),
        (2, "LLM OR ICL"),
        (3, "LLM"),
    ]


def test_packs_of_packs_are_followed_through(lab: Lab):
    lab.put("base", x="LLM")
    lab.put(nlp="use:base/x AND ti:graph*")
    lab.subscribe(ALICE, {"NLP": "use:lab/nlp", "Pinned": "use:lab/nlp@1"})

    lab.put("base", x="ICL")

    assert lab.topics(ALICE) == {"NLP": "ICL AND ti:graph*", "Pinned": "LLM AND ti:graph*"}
    assert [
        (decision["pack"]["name"], [topic["name"] for topic in decision["topics"]])
        for _, decision in lab.notices()
    ] == [("base", ["NLP"])]


def test_a_pack_with_circular_references_are_not_published(lab: Lab):
    lab.put("base", x="LLM")
    lab.put("lab", nlp="use:base/x")

    with pytest.raises(BadFilter, match="circular reference: base/x uses lab/nlp uses base/x"):
        lab.put("base", x="use:lab/nlp")
    with pytest.raises(BadFilter, match=r"There is no pack bose\. Did you mean use:base/x"):
        lab.put("lab", nlp="use:bose/x")


def test_a_topic_that_a_new_version_would_break_keeps_the_previous_one(lab: Lab):
    lab.put(nlp="LLM", old="ti:graph*")
    lab.subscribe(ALICE, {"Old": "use:lab/old"})

    taken = lab.put(nlp="LLM OR ICL")
    lab.dump("20T02:00", ["Graph one"])
    lab.publish("20T08:00")

    ((turn,), changed) = taken.blocked, taken.applied
    assert (turn.canonical, turn.blocked_reason, changed) == (
        "use:lab/old", "The pack lab has no filter old; it has nlp.", (),
    )  # fmt: skip
    assert lab.digest(ALICE) == {"Old": ["Graph one"]}
    assert lab.notices() == []


# ── one evaluation, one decision ────────────────────────────────────────────────────────────────


def test_resolved_filters_are_stored_and_evaluated_once(lab: Lab):
    lab.put(nlp="ti:graph*")
    lab.subscribe(ALICE, {"A": "use:lab/nlp"})
    lab.subscribe(BOB, {"B": "ti:graph*"})
    lab.subscribe(DORA, {"D": "use:lab"})
    lab.dump("20T02:00", ["Graph one"])
    lab.publish("20T08:00")

    with db.read_session(lab.engine) as session:
        held = set(session.scalars(select(Subscription.filter_id)))
        meant = set(session.scalars(select(ResolvedFilter.resolved_filter_id)))
    decided = {json.loads(one.decision)["sections"][0][1] for one in lab.deliveries()}
    assert len(held) == 3
    assert len(meant) == 1
    assert decided == meant


def test_a_digest_decided_with_one_version_is_unchanged_by_the_next(lab: Lab):
    lab.put(nlp="ti:graph*")
    lab.subscribe(ALICE, {"NLP": "use:lab/nlp"})
    lab.dump("20T02:00", ["Graph one"])
    before = lab.preview(ALICE, "20T08:00").letter.html
    lab.publish("20T08:00")

    lab.put(nlp="ti:robot*", now="20T08:01")

    answer = lab.why(ALICE, "Graph one")
    assert "NLP matches: graph* in the title" in answer.lines
    assert "New today · graph</p>" in before
    (sent,) = [message for message in lab.delivered_at("20T08:02") if b"Graph one" in message.content]
    assert "New today · graph</p>".encode() in quopri.decodestring(sent.content)


def test_a_paper_over_the_limit_is_explained_by_the_pack_version_of_that_day(lab: Lab):
    lab.put(nlp="ti:graph*")
    lab.subscribe(ALICE, {"NLP": "use:lab/nlp"}, max_papers=1)
    lab.dump("20T02:00", ["Graph one", "Graph two"])
    lab.publish("20T08:00")
    (shown,) = lab.digest(ALICE)["NLP"]

    lab.put(nlp="ti:robot*", now="20T08:01")
    answer = lab.why(ALICE, "Graph two" if shown == "Graph one" else "Graph one")

    assert "NLP is use:lab/nlp, which resolved to ti:graph*" in answer.lines
    assert answer.verdict.startswith("It matched, but daily-2026-11-20 was full")


def test_why_shows_what_a_pack_resolves_to(lab: Lab):
    lab.put(nlp="ti:graph*")
    lab.subscribe(ALICE, {"NLP": "use:lab/nlp ANDNOT ti:survey"})
    lab.dump("20T02:00", ["Robot one", "Graph one"])
    lab.publish("20T08:00")

    answer = lab.why(ALICE, "Robot one")

    assert "NLP is use:lab/nlp ANDNOT ti:survey, which resolves to ti:graph* ANDNOT ti:survey" in answer.lines
    assert "NLP does not match: no graph* in the title" in answer.lines


@pytest.mark.parametrize("wrong", ["use:lub/nlp", "use:lab/nlq", "use:lab/nlp@9"])
def test_a_topic_with_an_unknown_pack_is_refused(lab: Lab, wrong: str):
    lab.put(nlp="LLM")
    lab.subscribe(ALICE, {"NLP": "LLM"})

    with pytest.raises(BadFilter, match="Did you mean use:lab/nlp"):
        lab.edit(ALICE, NLP=wrong)

    assert lab.topics(ALICE) == {"NLP": "LLM"}


def test_a_confirmation_succeeds_although_its_pack_filter_was_removed(lab: Lab):
    lab.put(nlp="LLM", old="ICL")
    with db.write_session(lab.engine) as session:
        requested = ReaderSettings(topics={"NLP": "use:lab/nlp", "Old": "use:lab/old"})
        asked = confirmations.request_subscription(
            session, lab.site, ALICE, requested=requested, now=at("20T02:00")
        )
        session.commit()
    lab.put(nlp="LLM")

    with db.write_session(lab.engine) as session:
        assert asked.confirmation_id
        token = links.confirm_url(lab.site, asked.confirmation_id).rpartition("/")[2]
        assert confirmations.confirm(session, lab.site, token, at("20T03:00"))
        session.commit()

    assert lab.topics(ALICE) == {"NLP": "LLM"}


def test_a_topic_refers_to_the_filter_its_digests_use(lab: Lab):
    lab.put(nlp="ti:graph*")
    lab.subscribe(ALICE, {"NLP": "use:lab/nlp", "Own": "ti:robot*"})
    lab.dump("20T02:00", ["Graph one", "Robot one"])
    lab.publish("20T08:00")

    with db.read_session(lab.engine) as session:
        topics = subscriber_topics.topics_of(session, subscriber_rows.get(session, ALICE))
        decided = json.loads(lab.deliveries(ALICE)[0].decision)["sections"]
    assert [(topic.name, topic.resolved_filter_id) for topic in topics] == [
        (name, number) for name, number, *_ in decided
    ]


# ── files of people ─────────────────────────────────────────────────────────────────────────────


def load(lab: Lab, rows: str):
    with db.write_session(lab.engine) as session:
        file = io.StringIO("email,state,topics,packs\n" + rows)
        done = import_list.import_in_batches(
            session, lab.site, CsvRows(file), consent="the group's list", now=at("20T03:00")
        )
        session.commit()
    return (done.added, done.updated, done.unchanged), [problem.reason for problem in done.problems]


def test_a_row_may_list_packs(lab: Lab):
    lab.put(nlp="LLM", robots="robot*")

    assert load(lab, f'{ALICE},active,"{{""Own"": ""image*""}}",lab/nlp; USE:Lab/Robots@1;\n') == (
        (1, 0, 0),
        [],
    )

    assert lab.topics(ALICE) == {"Own": "image*", "lab/nlp": "LLM", "lab/robots": "robot*"}


def test_imported_packs_replace_packs_and_keep_the_readers_own_topics(lab: Lab):
    lab.put(nlp="LLM", robots="robot*")
    load(lab, f'{ALICE},active,"{{""Own"": ""image*""}}",lab/nlp\n')

    assert load(lab, f"{ALICE},active,,lab/robots\n") == ((0, 1, 0), [])
    assert list(lab.topics(ALICE)) == ["Own", "lab/robots"]
    assert load(lab, f"{ALICE},active,,\n{ALICE},active,,lab/robots\n") == ((0, 0, 2), [])
    assert load(lab, f'{ALICE},active,"{{""Mine"": ""video*""}}",\n') == ((0, 1, 0), [])
    assert list(lab.topics(ALICE)) == ["Mine", "lab/robots"]


def test_a_row_with_an_unknown_pack_is_reported(lab: Lab):
    lab.put(nlp="LLM")

    counts, reasons = load(
        lab,
        f'{ALICE},active,,lab/nlq\n{BOB},active,"{{""lab/nlp"": ""x""}}",lab/nlp\n{DORA},active,,lab/nlp\n',
    )

    assert counts == (1, 0, 0)
    assert reasons[0] == (
        "packs: in 'use:lab/nlq': Column 5: The pack lab has no filter nlq; it has nlp. Did you mean use:lab/nlp?"
    )
    assert reasons[1] == "topics: two topics are called 'lab/nlp'."


def test_a_row_may_have_a_like_clause(lab: Lab):
    (paper,) = lab.dump(
        "20T02:00", [Record(title="Grasp planning for soft grippers", abstract="Soft grippers.")]
    )

    assert load(
        lab, f'{ALICE},active,"{{""Like"": ""like:{paper}""}}",\n{BOB},active,"{{""T"": ""like:999""}}",\n'
    )[0] == (1, 0, 0)
    words = "{Grasp planning for soft grippers|grippers^6 soft^6 grasp^5 planning^5}"
    assert lab.topics(ALICE)["Like"] == f"like:{paper}{words}"


# ── two at once ─────────────────────────────────────────────────────────────────────────────────


def test_a_topic_added_while_a_version_is_published_follows_it(
    postgres_engine: Engine, site: Site, templates: Templates
):
    lab = Lab(engine=postgres_engine, site=site, templates=templates)
    lab.put(nlp="LLM")

    with db.write_session(lab.engine) as subscribing:
        filter_registry.filter_ids(subscribing, ["use:lab/nlp"])
        publisher = threading.Thread(target=lab.put, kwargs={"nlp": "LLM OR ICL"})
        publisher.start()
        publisher.join(0.5)
        waits = publisher.is_alive()
        subscribing.commit()
        publisher.join(10)

    assert waits
    with db.read_session(lab.engine) as session:
        assert session.scalar(select(func.count()).select_from(ResolvedFilter)) == 1
        assert (
            pack_resolution.resolve_filter(
                filter_parser.parse("use:lab/nlp"), stored_packs.load_packs(session)
            ).canonical
            == "LLM OR ICL"
        )
        (number,) = session.scalars(select(ResolvedFilter.resolved_filter_id))
        assert number == filter_registry.filter_ids(session, ["LLM OR ICL"])["LLM OR ICL"]


def test_a_preview_reads_the_newest_version(lab: Lab):
    lab.put(nlp="ti:graph*")
    lab.subscribe(ALICE, {"NLP": "use:lab/nlp"})
    lab.put(nlp="ti:robot*")
    lab.dump("20T02:00", ["Graph one", "Robot one"])

    (section,) = lab.preview(ALICE, "20T08:00").json["sections"]

    assert [paper["title"] for paper in section["papers"]] == ["Robot one"]
    assert section["filter"] == "ti:robot*"
