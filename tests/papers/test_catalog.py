"""The catalog has one row for a paper from any sources, and later records only add data."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import count
from typing import Any

import pytest
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from digest.db.tables.deliveries import Shown
from digest.db.tables.dumps import DumpRow, DumpState
from digest.db.tables.papers import Alias, AppearanceRow, PaperRow, SignalRow
from digest.db.tables.subscribers import Subscriber
from digest.errors import NotFound
from digest.papers.catalog import hidden_papers, match_or_add_records, queries
from digest.papers.catalog.match_or_add_records import CatalogCounts
from digest.papers.paper_record import Announcement, Organization, Record
from digest.papers.trending import Appearance as Place

pytestmark = pytest.mark.postgresql

MONDAY = datetime(2026, 11, 16, tzinfo=UTC)
TUESDAY = MONDAY + timedelta(days=1)
numbers = count(1)


def dump(session: Session, at: datetime = MONDAY, **fields: Any) -> DumpRow:
    row = DumpRow(
        sha256=f"{next(numbers):064}",
        path="dump.txt",
        state=DumpState.LOADED,
        observed_at=at,
        read_at=at,
        **{"source": "folder", "order": "none", "papers": 0, **fields},
    )
    session.add(row)
    session.flush()
    return row


def add(session: Session, *records: Record, at: datetime = MONDAY, **fields: Any) -> CatalogCounts:
    return match_or_add_records.add(session, records, dump=dump(session, at, **fields))


def everything(session: Session) -> list[Any]:
    """Return every row that the catalog wrote, except the dumps."""
    tables = (PaperRow, Alias, SignalRow)
    return [sorted(map(str, session.execute(select(table.__table__)).all())) for table in tables]


TIDES = Record(title="Tidal Sorting", abstract="Gravel moves.", line=3)


def test_a_record_becomes_a_paper_with_all_its_fields(session: Session) -> None:
    told = Record(
        title="Tidal Sorting",
        abstract="Gravel moves.",
        ids={"arxiv": "2611.00001", "doi": "10.1234/x"},
        authors=("Kenji Ito",),
        n_authors=1,
        organization=Organization(handle="gw", name="Gravel Works"),
        published=date(2026, 11, 15),
        categories=("cs.LG",),
        urls=("https://github.com/tides/gravel",),
        signals={"upvotes": 12.0},
        comment="12 pages",
    )

    assert add(session, told) == CatalogCounts(new=1)
    (paper,) = queries.papers(session)
    for name in ("title", "abstract", "ids", "authors", "organization", "published", "categories", "urls"):
        assert getattr(paper, name) == getattr(told, name)
    assert (paper.signals, paper.n_authors, paper.first_seen_at) == ({"upvotes": 12.0}, 1, MONDAY)
    assert (paper.comment, paper.sources) == ("12 pages", ("folder",))


def test_adding_a_batch_twice_changes_nothing(session: Session) -> None:
    records = [TIDES, Record(title="Kites", ids={"doi": "10.1234/k"}, signals={"upvotes": 3.0})]
    row = dump(session)
    match_or_add_records.add(session, records, dump=row)
    before = everything(session)

    assert match_or_add_records.add(session, records, dump=row) == CatalogCounts()
    assert add(session, *records) == CatalogCounts(unchanged=2)
    assert everything(session) == before


def test_a_paper_seen_again_is_enriched_and_never_overwritten_with_nothing(session: Session) -> None:
    full = Record(title="Tidal sorting", n_authors=5, published=date(2026, 11, 1), signals={"comments": 2.0})

    add(session, TIDES)
    assert add(session, full, at=TUESDAY) == CatalogCounts(updated=1)
    assert add(session, TIDES, at=TUESDAY) == CatalogCounts(unchanged=1)

    (paper,) = queries.papers(session)
    assert (paper.title, paper.abstract, paper.n_authors) == ("Tidal Sorting", "Gravel moves.", 5)
    assert (paper.published, paper.signals, paper.first_seen_at) == (
        date(2026, 11, 1),
        {"comments": 2.0},
        MONDAY,
    )


def test_a_machine_s_summary_never_replaces_an_abstract_and_gives_way_to_one(session: Session) -> None:
    summary = Record(title="Tidal Sorting", abstract="Gravel! " * 40, summary_by="Hugging Face")
    found = []

    for record in (summary, TIDES, summary, replace(summary, announcement=Announcement.REPLACED)):
        add(session, record)
        (paper,) = queries.papers(session)
        found.append((paper.abstract[:7], paper.summary_by))

    assert found == [("Gravel!", "Hugging Face"), *[("Gravel ", "")] * 3]


def test_a_printed_date_replaces_an_inferred_one_and_not_the_other_way_round(session: Session) -> None:
    for day, inferred in ((date(2025, 3, 1), True), (date(2026, 3, 1), False), (date(2024, 3, 1), True)):
        add(session, Record(title="Tidal Sorting", published=day, published_inferred=inferred))

    assert [(p.published, p.published_inferred) for p in queries.papers(session)] == [
        (date(2026, 3, 1), False)
    ]


def test_any_shared_id_makes_one_paper_whatever_the_titles(session: Session) -> None:
    add(session, Record(title="Old Title", ids={"arxiv": "2611.00001"}))
    add(session, Record(title="New Title", ids={"arxiv": "2611.00001", "doi": "10.1234/x"}))
    add(session, Record(title="Printed Title", ids={"doi": "10.1234/x"}))

    assert [paper.ids for paper in queries.papers(session)] == [{"arxiv": "2611.00001", "doi": "10.1234/x"}]


def test_equal_titles_with_different_ids_of_one_kind_are_two_papers(session: Session) -> None:
    one = Record(title="Deep Kites", ids={"arxiv": "2611.00001"})
    other = Record(title="Deep Kites", ids={"arxiv": "2611.00002"})

    assert add(session, one, other) == CatalogCounts(new=2)
    assert add(session, one, other) == CatalogCounts(unchanged=2)


def test_generic_titles_never_merge_papers(session: Session) -> None:
    one = Record(title="Editorial", abstract="On gravel.")
    other = Record(title="Editorial", abstract="On kites.")

    assert add(session, one, other) == CatalogCounts(new=2)
    assert add(session, one, other) == CatalogCounts(unchanged=2)


def test_a_paper_twice_in_one_dump_keeps_its_first_position(session: Session) -> None:
    again = Record(title="TIDAL SORTING", n_authors=3)

    assert add(session, TIDES, again) == CatalogCounts(new=1)
    assert [paper.n_authors for paper in queries.papers(session)] == [3]
    assert session.scalars(select(AppearanceRow.position)).all() == [1]


def test_a_later_batch_of_a_dump_continues_the_positions(session: Session) -> None:
    row = dump(session)
    match_or_add_records.add(session, [TIDES], dump=row)
    match_or_add_records.add(session, [Record(title="Kites"), Record(title="Owls")], dump=row, first=501)

    assert session.scalars(select(AppearanceRow.position)).all() == [1, 501, 502]


def test_two_papers_tied_by_a_record_merge_and_are_not_shown_twice(session: Session) -> None:
    add(session, Record(title="Tides", ids={"arxiv": "2611.00001"}, signals={"upvotes": 1.0}))
    add(session, Record(title="Waves", ids={"doi": "10.1234/x"}, abstract="Water."), at=TUESDAY)
    elder, younger = (paper.id for paper in queries.papers(session))
    for reader in ("alice", "bob"):
        session.add(Subscriber(email=reader, email_key=reader, state="active", created_at=MONDAY))
    for subscriber, number in ((1, elder), (1, younger), (2, younger)):
        session.add(Shown(subscriber_id=subscriber, paper_id=number, delivery_id=9, shown_on=MONDAY.date()))
    session.flush()

    add(session, Record(title="Tides", ids={"arxiv": "2611.00001", "doi": "10.1234/x"}), at=TUESDAY)

    (paper,) = queries.papers(session)
    assert (paper.id, paper.abstract, paper.first_seen_at) == (elder, "Water.", MONDAY)
    assert paper.ids == {"arxiv": "2611.00001", "doi": "10.1234/x"}
    shown = session.execute(select(Shown.subscriber_id, Shown.paper_id)).all()
    assert sorted(shown) == [(1, elder), (2, elder)]
    assert queries.resolve(session, [elder, younger]) == {younger: elder}
    assert queries.find(session, "Waves").id == queries.find(session, str(younger)).id == elder


def test_a_record_that_matches_the_newer_paper_first_merges_it_into_the_older(session: Session) -> None:
    add(session, Record(title="Tides", ids={"arxiv": "2611.00001"}), at=TUESDAY)
    add(session, Record(title="Waves", ids={"doi": "10.1234/x"}))

    add(session, Record(title="Tides", ids={"arxiv": "2611.00001", "doi": "10.1234/x"}), at=TUESDAY)

    (paper,) = queries.papers(session)
    assert paper.ids == {"arxiv": "2611.00001", "doi": "10.1234/x"}


def test_a_record_with_ids_of_contradicting_papers_merges_nothing(session: Session) -> None:
    add(session, Record(title="Tides", ids={"arxiv": "2611.00001", "pmid": "1"}))
    add(session, Record(title="Waves", ids={"doi": "10.1234/x", "pmid": "2"}))

    add(session, Record(title="Tides", ids={"arxiv": "2611.00001", "doi": "10.1234/x"}))

    assert len(queries.papers(session)) == 2


def test_papers_created_in_the_same_batch_merge_too(session: Session) -> None:
    tally = add(
        session,
        Record(title="Tides", ids={"arxiv": "2611.00001"}),
        Record(title="Waves", ids={"doi": "10.1234/x"}),
        Record(title="Tides and Waves", ids={"arxiv": "2611.00001", "doi": "10.1234/x"}),
        Record(title="Kites"),
    )

    assert tally == CatalogCounts(new=2)
    assert [paper.ids.keys() for paper in queries.papers(session)] == [{"arxiv", "doi"}, set()]


def test_figures_are_kept_as_observations(session: Session) -> None:
    add(session, Record(title="Tides", signals={"upvotes": 3.0}), papers=4, order="ranked")
    add(session, Record(title="Tides", signals={"upvotes": 9.0}), at=TUESDAY, papers=5)
    (paper,) = queries.papers(session)

    monday = queries.evidence(session, [paper], as_of=MONDAY)[paper.id]
    tuesday = queries.evidence(session, [paper], as_of=TUESDAY)[paper.id]

    assert paper.signals == {"upvotes": 9.0}
    assert monday.observations == {"upvotes": ((MONDAY, 3.0),)}
    assert tuesday.observations == {"upvotes": ((MONDAY, 3.0), (TUESDAY, 9.0))}
    assert tuesday.appearances == (
        Place(observed_at=MONDAY, position=1, size=4, order="ranked"),
        Place(observed_at=TUESDAY, position=1, size=5, order="none"),
    )
    assert (monday.n_dumps, tuesday.n_dumps) == (1, 2)
    assert queries.observed_at(session, until=TUESDAY - timedelta(seconds=1)) == MONDAY


def test_back_filled_replaced_and_withdrawn_papers_are_not_new(session: Session) -> None:
    add(session, Record(title="Of Old"), is_history=True)
    add(
        session,
        Record(title="Second Version", announcement=Announcement.REPLACED),
        Record(title="Taken Back", announcement=Announcement.WITHDRAWN),
        Record(title="Fresh"),
    )

    assert [paper.title for paper in queries.papers(session, news_only=True)] == ["Fresh"]
    assert len(queries.papers(session)) == 4


def test_the_window_of_first_seen_at_is_half_open(session: Session) -> None:
    add(session, Record(title="Monday's"))
    add(session, Record(title="Tuesday's"), at=TUESDAY)

    assert [p.title for p in queries.papers(session, since=MONDAY, until=TUESDAY)] == ["Tuesday's"]
    assert [p.title for p in queries.papers(session, until=MONDAY)] == ["Monday's"]


@pytest.mark.parametrize(
    "reference",
    [
        "arXiv:2611.00001v2",
        "2611.00001",
        "https://arxiv.org/pdf/2611.00001",
        "tidal SORTING!",
        "arxiv:2611.00001",
    ],
)
def test_a_paper_is_found_by_any_of_its_references(session: Session, reference: str) -> None:
    add(session, Record(title="Tidal Sorting", ids={"arxiv": "2611.00001"}))

    assert queries.find(session, reference).title == "Tidal Sorting"


def test_an_unknown_reference_suggests_the_nearest_title(session: Session) -> None:
    add(session, TIDES)

    with pytest.raises(NotFound, match="Did you mean “Tidal Sorting”"):
        queries.find(session, "Tidal Sortin")


def test_a_part_of_a_title_suggests_the_latest_paper_that_contains_it(session: Session) -> None:
    whole = "A Billion Small Rains: Learning Convection From Gauges Instead of Grids"
    add(session, Record(title=whole), TIDES)

    assert queries.nearest_title(session, "small rains: LEARNING") == whole
    assert queries.nearest_title(session, "Unheard Of") is None


def test_a_hidden_paper_is_not_suggested(session: Session) -> None:
    add(session, TIDES)
    hidden_papers.hide(session, "Tidal Sorting", now=MONDAY)

    assert queries.nearest_title(session, "Tidal Sortin") is None


def test_a_title_of_a_thousand_characters_has_a_key_within_the_limit(session: Session) -> None:
    long = Record(title="Gravel " * 140)

    assert (add(session, long), add(session, long)) == (CatalogCounts(new=1), CatalogCounts(unchanged=1))
    assert session.scalar(select(func.max(func.length(Alias.value)))) <= 500


def test_new_wins_over_cross_and_replaced_in_whatever_order_the_lists_come(session: Session) -> None:
    kinds = (Announcement.CROSS, Announcement.REPLACED)
    for number, kind in enumerate(kinds):
        new, other = (
            Record(
                title=f"On Kites {number}",
                ids={"arxiv": f"2611.0000{number}"},
                announcement=announcement,
                published=date(2026, 11, 16) if announcement is not Announcement.REPLACED else None,
            )
            for announcement in (Announcement.NEW, kind)
        )
        old = Record(title=f"On Owls {number}", ids={"arxiv": f"2401.0000{number}"}, announcement=kind)
        add(session, other, old)
        add(session, new, replace(old, announcement=Announcement.NEW, published=date(2024, 1, 5)))
        add(session, other)

    found = {paper.title: paper.announcement for paper in queries.papers(session)}
    assert found == {
        "On Kites 0": Announcement.NEW,
        "On Kites 1": Announcement.NEW,
        "On Owls 0": Announcement.CROSS,
        "On Owls 1": Announcement.REPLACED,
    }
    news = session.scalars(select(PaperRow.title).where(PaperRow.is_history.is_(False)))
    assert sorted(news) == ["On Kites 0", "On Kites 1", "On Owls 0"]


def test_a_paper_whose_authors_are_not_all_named_has_no_number_of_authors(session: Session) -> None:
    some = Record(title="On Kites", authors=("Jo Lind",))
    add(session, some)
    add(session, replace(some, authors=("Jo Lind", "Kenji Ito")))
    (open_list,) = queries.papers(session)
    add(session, replace(some, authors=(), n_authors=5))
    (counted,) = queries.papers(session)

    assert (open_list.n_authors, counted.n_authors) == (None, 5)
