"""Withdrawn, published and rewritten papers are recorded once for each kind; small changes are not."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from digest.db.tables.deliveries import FollowupSent
from digest.db.tables.papers import ChangeKind, ChangeRow
from digest.papers.paper_record import Announcement, Record
from tests.papers.test_catalog import TUESDAY, add

ABSTRACT = " ".join(f"gravel{n} moves" for n in range(40))
TIDES = Record(title="Tidal Sorting of Gravel", abstract=ABSTRACT, ids={"arxiv": "2611.00001"})


def again(**fields: Any) -> Record:
    """Return the same paper as a later dump has it."""
    return Record(**{"title": TIDES.title, "abstract": ABSTRACT, "ids": TIDES.ids, **fields})


def version(**fields: Any) -> Record:
    return again(announcement=Announcement.REPLACED, **fields)


def changes(session: Session) -> list[tuple[str, str]]:
    found = session.execute(select(ChangeRow.kind, ChangeRow.detail).order_by(ChangeRow.kind))
    return [(kind, detail) for kind, detail in found]


@pytest.mark.parametrize(
    ("later", "noted"),
    [
        pytest.param(
            again(announcement=Announcement.WITHDRAWN, comment="An error in Lemma 2"),
            (ChangeKind.WITHDRAWN, "An error in Lemma 2"),
            id="its authors took it back",
        ),
        pytest.param(
            again(journal="J. Gravel 12 (2026)"),
            (ChangeKind.PUBLISHED, "J. Gravel 12 (2026)"),
            id="a journal took it",
        ),
        pytest.param(
            again(ids={**TIDES.ids, "doi": "10.1234/gravel"}),
            (ChangeKind.PUBLISHED, "doi:10.1234/gravel"),
            id="it has a DOI",
        ),
        pytest.param(
            version(title="Why Stones Sort Themselves"),
            (ChangeKind.REWRITTEN, "Tidal Sorting of Gravel"),
            id="it has another title",
        ),
        pytest.param(
            version(abstract=" ".join(f"stone{n} rests" for n in range(60))),
            (ChangeKind.REWRITTEN, ""),
            id="it says something else",
        ),
    ],
)
def test_a_change_of_a_paper_is_recorded(session: Session, later: Record, noted: tuple[str, str]) -> None:
    add(session, TIDES)
    add(session, later, at=TUESDAY)
    add(session, later, at=TUESDAY)

    assert changes(session) == [noted]


@pytest.mark.parametrize(
    "later",
    [
        pytest.param(version(), id="a version that changed nothing"),
        pytest.param(version(title="Tidal Sorting of the Gravel", abstract=ABSTRACT + " again"), id="a trivial one"),
        pytest.param(again(title="Why Stones Sort Themselves"), id="a page that spells the title its own way"),
        pytest.param(again(ids={**TIDES.ids, "doi": "10.5281/zenodo.1"}), id="the DOI of a server of preprints"),
        pytest.param(again(journal="arXiv (Cornell University)"), id="such a server's name"),
        pytest.param(again(comment="12 pages", signals={"upvotes": 3.0}), id="a comment and a figure"),
    ],
)  # fmt: skip
def test_a_small_change_is_not_recorded(session: Session, later: Record) -> None:
    add(session, TIDES)
    add(session, later, at=TUESDAY)

    assert changes(session) == []


def test_history_records_no_changes(session: Session) -> None:
    add(session, TIDES)
    add(session, again(announcement=Announcement.WITHDRAWN, journal="J. Gravel"), is_history=True)

    assert changes(session) == []


def test_a_paper_first_seen_as_published_has_no_change(session: Session) -> None:
    add(session, again(journal="J. Gravel"))
    add(session, again(ids={**TIDES.ids, "doi": "10.1234/gravel"}), at=TUESDAY)

    assert changes(session) == []


def test_changes_of_merged_papers_stay_with_the_remaining_one(session: Session) -> None:
    elder = Record(title="Tides", ids={"arxiv": "2611.00001"})
    younger = Record(title="Waves", ids={"pmid": "7"})
    add(session, elder)
    add(session, younger, at=TUESDAY)
    add(session, Record(title="Waves", ids={"pmid": "7"}, journal="J. Waves"), at=TUESDAY)
    session.add(
        FollowupSent(subscriber_id=1, paper_id=2, kind="published", delivery_id=1, sent_on=TUESDAY.date())
    )
    session.flush()
    session.expire_all()

    add(session, Record(title="Waves", ids={"arxiv": "2611.00001", "pmid": "7"}), at=TUESDAY)

    assert session.scalars(select(ChangeRow.paper_id)).all() == [1]
    assert session.scalars(select(FollowupSent.paper_id)).all() == [1]
