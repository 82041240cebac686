"""The latest change of a subscriber's settings: recorded, described, and undone."""

from __future__ import annotations

from datetime import datetime, time, timedelta

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from digest.db.tables.deliveries import Delivery, DeliveryState
from digest.db.tables.subscribers import SettingsChange, Subscriber, SubscriberState
from digest.publishing import publication
from digest.site.site_profile import Site
from digest.subscribers import (
    account,
    operator_acts,
    pauses,
    subscriber_rows,
    subscriber_topics,
    undo_changes,
)
from digest.subscribers.reader_settings import ReaderSettings

TOPICS = {"Vision": "title:image*", "Robots": "robot*"}


@pytest.fixture
def alice(session: Session, now: datetime) -> Subscriber:
    return subscriber_rows.add(
        session, "alice@uni.edu", topics=TOPICS, state=SubscriberState.ACTIVE, consent="asked", now=now
    )


def topics_of(session: Session, reader: Subscriber) -> dict[str, str]:
    return {topic.name: topic.text for topic in subscriber_topics.topics_of(session, reader)}


def letters(session: Session) -> list[tuple[str, DeliveryState]]:
    rows = select(Delivery.letter, Delivery.state).order_by(Delivery.id)
    return [(row.letter, row.state) for row in session.execute(rows)]


def test_the_latest_change_can_be_undone_once(
    session: Session, site: Site, alice: Subscriber, now: datetime
) -> None:
    undo_changes.save_settings(
        session, site, alice, ReaderSettings(topics={"Vision": "title:image* OR video"}), now=now
    )

    undone = undo_changes.undo_with_letter(session, site, alice, now=now)

    assert undone == (
        "“Vision” is now title:image*. Before: title:image* OR video.",
        "Added the topic “Robots” (robot*).",
    )
    assert topics_of(session, alice) == TOPICS
    assert undo_changes.undo_with_letter(session, site, alice, now=now) == ()


def test_an_undo_restores_every_setting(
    session: Session, site: Site, alice: Subscriber, now: datetime
) -> None:
    before = undo_changes.settings_of(session, alice)
    undo_changes.save_settings(
        session,
        site,
        alice,
        ReaderSettings(
            topics={"Robots": "robot*", "Sight": "title:image*"},
            muted=("Robots",),
            texts={
                "cadence": "weekly-fri",
                "at": "18:30",
                "timezone": "Europe/Oslo",
                "max_papers": "5",
                "abstracts": "full",
                "nothing_today": "yes",
            },
        ),
        now=now,
    )
    assert undo_changes.settings_of(session, alice) != before

    undo_changes.undo_with_letter(session, site, alice, now=now)

    assert undo_changes.settings_of(session, alice) == before


def test_a_change_is_described_with_its_values_before_and_after(
    session: Session, site: Site, alice: Subscriber, now: datetime
) -> None:
    undo_changes.save_settings(
        session,
        site,
        alice,
        ReaderSettings(
            topics={"Robots": "robot*", "Sight": "title:image*", "Sound": "audio"},
            muted=("Robots",),
            texts={"at": "18:30", "max_papers": "5", "abstracts": "titles"},
        ),
        now=now,
    )

    change = undo_changes.find_change(session, alice, now=now)

    assert change is not None
    assert set(change.sentences) == {
        "Muted “Robots”.",
        "Renamed “Vision” to “Sight”.",
        "Added the topic “Sound” (audio).",
        "Your topics now have this order: Robots, Sight, Sound.",
        "Time of day: 18:30. Before: 08:00.",
        "Maximum papers per digest: at most 5 papers. Before: at most 10 papers.",
        "Abstracts: titles only. Before: short abstracts.",
    }


def test_a_change_of_a_filter_is_not_described_as_another_order(
    session: Session, site: Site, alice: Subscriber, now: datetime
) -> None:
    undo_changes.save_settings(
        session, site, alice, ReaderSettings(topics=TOPICS | {"Robots": "robot* AND arm"}), now=now
    )

    change = undo_changes.find_change(session, alice, now=now)

    assert change
    assert change.sentences == ("“Robots” is now robot* AND arm. Before: robot*.",)


def test_a_change_cannot_be_undone_after_a_pause_or_a_resumption(
    session: Session, site: Site, alice: Subscriber, now: datetime
) -> None:
    undo_changes.save_settings(session, site, alice, ReaderSettings(texts={"max_papers": "5"}), now=now)
    pauses.pause_with_letter(session, site, alice, None, now=now)
    assert undo_changes.undo_with_letter(session, site, alice, now=now) == ()

    undo_changes.save_settings(session, site, alice, ReaderSettings(texts={"max_papers": "7"}), now=now)
    assert undo_changes.find_change(session, alice, now=now)
    pauses.resume(session, alice, now)

    assert undo_changes.find_change(session, alice, now=now) is None
    assert alice.max_papers == 7


def test_a_change_cannot_be_undone_after_another_change_or_thirty_days(
    session: Session, site: Site, alice: Subscriber, now: datetime
) -> None:
    undo_changes.save_settings(session, site, alice, ReaderSettings(texts={"max_papers": "5"}), now=now)
    assert undo_changes.find_change(session, alice, now=now + timedelta(days=30))
    assert undo_changes.find_change(session, alice, now=now + timedelta(days=31)) is None

    undo_changes.edit(session, alice, ReaderSettings(texts={"max_papers": "7"}), now=now)  # as an import does

    assert undo_changes.find_change(session, alice, now=now) is None
    assert undo_changes.undo_with_letter(session, site, alice, now=now) == ()
    assert alice.max_papers == 7


def test_an_undo_keeps_what_changed_again_since_and_says_so(
    session: Session, site: Site, alice: Subscriber, now: datetime
) -> None:
    given = ReaderSettings(topics={"Sound": "audio"}, texts={"at": "18:30", "max_papers": "5"})
    undo_changes.save_settings(session, site, alice, given, now=now)
    first = undo_changes.find_change(session, alice, now=now)
    later = ReaderSettings(topics={"Sound": "audio*"}, texts={"max_papers": "7", "abstracts": "full"})
    undo_changes.save_settings(session, site, alice, later, now=now)
    assert first

    undone = undo_changes.undo_with_letter(session, site, alice, first.id, now=now)

    assert undone == (
        "Time of day: 08:00. Before: 18:30.",
        "Maximum papers per digest: changed again since, and kept.",
        "Topics: changed again since, and kept.",
    )
    assert topics_of(session, alice) == {"Sound": "audio*"}
    assert (alice.at, alice.max_papers, alice.abstracts) == (time(8), 7, "full")
    assert undo_changes.undo_with_letter(session, site, alice, first.id, now=now) == ()
    assert undo_changes.undo_with_letter(session, site, alice, now=now)  # of the later change
    assert (alice.max_papers, alice.abstracts) == (5, "short")


def test_the_changes_of_one_reader_that_are_kept_are_limited(
    session: Session, site: Site, alice: Subscriber, now: datetime
) -> None:
    for number in range(1, 26):
        given = ReaderSettings(texts={"max_papers": str(number)})
        undo_changes.save_settings(session, site, alice, given, now=now)

    assert len(session.scalars(select(SettingsChange)).all()) == undo_changes.MAX_CHANGES
    assert "at most 24 papers" in undo_changes.undo_change(session, alice, now=now)[0]


def test_an_undo_leaves_no_earlier_change_unreported(
    session: Session, site: Site, alice: Subscriber, now: datetime
) -> None:
    for number in ("5", "7"):
        given = ReaderSettings(texts={"max_papers": number})
        undo_changes.save_settings(session, site, alice, given, now=now)

    undo_changes.undo_with_letter(session, site, alice, now=now)

    assert alice.max_papers == 5
    assert [state for _, state in letters(session)] == [
        DeliveryState.SUPPRESSED, DeliveryState.SUPPRESSED, DeliveryState.QUEUED,
    ]  # fmt: skip


def test_saving_the_same_settings_is_no_change(
    session: Session, site: Site, alice: Subscriber, now: datetime
) -> None:
    assert not undo_changes.save_settings(session, site, alice, ReaderSettings(topics=TOPICS), now=now)

    assert session.scalars(select(SettingsChange)).all() == []


def test_an_undo_within_five_minutes_withdraws_the_letter_about_the_change(
    session: Session, site: Site, alice: Subscriber, now: datetime
) -> None:
    undo_changes.save_settings(session, site, alice, ReaderSettings(topics={}), now=now)

    undo_changes.undo_with_letter(session, site, alice, now=now)

    assert letters(session) == [("changed", DeliveryState.SUPPRESSED)]


def test_an_undo_after_the_letter_was_sent_is_reported_by_another_letter(
    session: Session, site: Site, alice: Subscriber, now: datetime
) -> None:
    undo_changes.save_settings(session, site, alice, ReaderSettings(topics={}), now=now)
    sent = session.scalars(select(Delivery)).one()
    sent.state, sent.settled_at = DeliveryState.SENT, now
    session.commit()

    undo_changes.undo_with_letter(session, site, alice, now=now + timedelta(hours=1))

    assert letters(session) == [("changed", DeliveryState.SENT), ("changed", DeliveryState.QUEUED)]


def test_a_change_by_the_operator_can_be_undone_without_a_letter(
    session: Session, alice: Subscriber, now: datetime
) -> None:
    operator_acts.change_by_operator(session, alice, ReaderSettings(topics={"Robots": "robot*"}), now=now)

    assert operator_acts.undo_by_operator(session, alice, now=now)

    assert topics_of(session, alice) == TOPICS
    assert letters(session) == []


def test_an_erased_subscriber_leaves_no_recorded_change(
    session: Session, site: Site, alice: Subscriber, now: datetime
) -> None:
    undo_changes.save_settings(session, site, alice, ReaderSettings(topics={}), now=now)

    account.erase(session, site, "alice@uni.edu", now=now)

    assert session.scalars(select(SettingsChange)).all() == []


def test_a_muted_topic_is_left_out_of_digests_and_stays_muted_when_others_change(
    session: Session, site: Site, alice: Subscriber, now: datetime
) -> None:
    undo_changes.save_settings(
        session, site, alice, ReaderSettings(topics=TOPICS, muted=("Vision",)), now=now
    )
    undo_changes.save_settings(
        session, site, alice, ReaderSettings(topics=TOPICS | {"Sound": "audio"}), now=now
    )

    assert [topic.name for topic in subscriber_topics.topics_of(session, alice) if topic.is_muted] == [
        "Vision"
    ]
    assert [name for name, _ in publication.topics_of(session, [alice.id])[alice.id]] == ["Robots", "Sound"]
