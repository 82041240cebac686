"""What an operator did is in the history of a subscriber, and an erasure leaves only that it happened."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Engine, func, select

from digest import db
from digest.db.tables.inbound_mail import OptOut
from digest.db.tables.subscribers import OperatorAct
from digest.publishing.reader_history import reader_history
from digest.site.site_profile import Site
from digest.subscribers import account, operator_acts, subscriber_rows
from digest.subscribers.csv_import import import_list
from digest.subscribers.reader_settings import ReaderSettings

ALICE, NOW = "alice@example.org", datetime(2026, 11, 20, 8, tzinfo=UTC)


@pytest.fixture
def acted(sqlite_engine: Engine, site: Site) -> Engine:
    """A database in which an operator did everything to one subscriber, a minute apart."""
    by: dict[str, Any] = {"operator": "mara"}
    minutes = (NOW + timedelta(minutes=one) for one in range(10))
    with db.write_session(sqlite_engine) as session:
        alice = operator_acts.add_by_operator(
            session, site, ALICE, ReaderSettings(topics={"Robots": "robot*"}), consent="asked", **by,
            now=next(minutes),
        )  # fmt: skip
        five = ReaderSettings(texts={"max_papers": "5"})
        operator_acts.change_by_operator(session, alice, five, **by, now=next(minutes))
        operator_acts.change_by_operator(session, alice, five, **by, now=next(minutes))  # nothing to change
        operator_acts.undo_by_operator(session, alice, **by, now=next(minutes))
        operator_acts.pause_by_operator(session, alice, date(2026, 12, 24), **by, now=next(minutes))
        operator_acts.resume_by_operator(session, alice, **by, now=next(minutes))
        rows = [{"email": ALICE, "name": "Alice"}]
        import_list.import_in_batches(session, site, rows, **by, now=next(minutes))
        operator_acts.remove_by_operator(session, ALICE, **by, now=next(minutes))
    return sqlite_engine


def test_the_history_says_who_did_what_and_when(acted: Engine, site: Site):
    with db.read_session(acted) as session:
        events = [one for one in reversed(reader_history(session, site, ALICE)) if "operator" in one.event]
        exported = account.export_data(session, subscriber_rows.get(session, ALICE))

    assert {one.event for one in events} == {"operator mara"}
    assert [(f"{one.at:%H:%M}", one.detail) for one in events] == [
        ("08:00", "added as confirmed"),
        ("08:01", "Maximum papers per digest: at most 5 papers. Before: at most 10 papers."),
        ("08:03", "undone: Maximum papers per digest: at most 10 papers. Before: at most 5 papers."),
        ("08:04", "paused until 2026-12-24"),
        ("08:05", "resumed"),
        ("08:06", "changed by an import"),
        ("08:07", "unsubscribed"),
    ]
    assert len(exported["operator_acts"]) == len(events)
    assert "mara" not in str(exported)


def test_an_erasure_leaves_only_that_it_happened(acted: Engine, site: Site):
    with db.write_session(acted) as session:
        account.erase(session, site, ALICE, now=NOW)

    with db.read_session(acted) as session:
        assert session.scalar(select(func.count(OperatorAct.id))) == 0
        assert "erased" in session.scalars(select(OptOut.kind)).all()
