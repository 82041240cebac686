"""Intake: the service survives any file in the folder, and every file gets a result."""

from __future__ import annotations

import gzip
import json
import os
import quopri
import socket
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import Engine, func, select
from sqlalchemy.orm import Session

from digest import db
from digest.db.tables.dumps import DumpRow, DumpState, ProblemRow
from digest.db.tables.papers import Alias, AppearanceRow, PaperRow, SignalRow
from digest.dumps.intake import (
    accept_or_reject,
    dumps_folder,
    load_dump,
    load_report,
    open_safely,
    retry_dump,
    sample_content,
)
from digest.errors import NotFound, UnreadableDump
from digest.monitoring import problems
from digest.papers.catalog import queries
from tests.dumps import abstract, blocks, meta, pairs

NOW = datetime(2026, 11, 20, 8, 30, tzinfo=UTC)
TIDES = ("Tidal Sorting of Loose Gravel", abstract("gravel"))
KITES = ("Kites That Steer Themselves", abstract("kites"))
OWLS = ("What Owls Hear in the Rain", abstract("owls"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "dumps"
    path.mkdir()
    return path


def put(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def collect(session: Session, folder: Path) -> list[load_report.LoadResult]:
    return dumps_folder.load_folder(session, folder, now=NOW, settle_seconds=0)


def counts(session: Session) -> list[int]:
    tables = (PaperRow, Alias, AppearanceRow, SignalRow, DumpRow, ProblemRow)
    return [session.scalar(select(func.count()).select_from(table)) or 0 for table in tables]


# ── one dump ────────────────────────────────────────────────────────────────────────────────────


def test_a_dump_is_loaded_once_however_often_it_is_named(session: Session, folder: Path) -> None:
    path = put(folder, "monday.txt", pairs(TIDES, KITES))

    first = load_dump.load(session, path, now=NOW)
    before = counts(session)
    second = load_dump.load(session, path, now=NOW + timedelta(days=1))

    assert (first.papers, first.new, first.updated, first.unchanged, first.rejected) == (2, 2, 0, 0, 0)
    assert (second.papers, second.new, second.updated, second.unchanged) == (2, 0, 0, 2)
    assert (second.id, second.is_known, counts(session)) == (first.id, True, before)
    assert path.exists()


def test_a_truncated_compressed_dump_is_held_and_its_whole_part_can_be_released(
    session: Session, folder: Path
) -> None:
    lines = [
        json.dumps({"title": f"Kites {n}", "abstract": f"They fly {n * n % 9973}."}) for n in range(4000)
    ]
    packed = gzip.compress("\n".join(lines).encode())
    path = put(folder, "cut.jsonl.gz", packed[: len(packed) // 2])

    held = load_dump.load(session, path, now=NOW)
    released = load_dump.load(session, path, now=NOW, incomplete_ok=True)

    assert (held.state, held.papers) == (DumpState.HELD, 0)
    assert "the compressed file is damaged or truncated after" in held.reason
    assert held.reason.endswith(f"(line {released.papers + 1}). None of it was loaded.")
    assert (released.state, released.rejected) == (DumpState.LOADED, 1)
    assert 100 < released.papers < 4000


def test_a_paper_in_two_dumps_is_one_paper(session: Session, folder: Path) -> None:
    load_dump.load(session, put(folder, "a.txt", pairs(TIDES, KITES)), now=NOW)
    second = load_dump.load(
        session, put(folder, "b.txt", blocks((*KITES, meta(4, "Nov 3 7")), OWLS)), now=NOW
    )

    assert (second.new, second.updated) == (1, 1)
    kites = queries.find(session, KITES[0])
    assert (kites.n_authors, kites.published, kites.signals) == (4, date(2026, 11, 3), {"comments": 7.0})


def test_papers_are_first_seen_on_the_given_date(session: Session, folder: Path) -> None:
    loaded = load_dump.load(
        session, put(folder, "a.txt", pairs(TIDES, KITES)), now=NOW, date=date(2026, 11, 18)
    )

    assert (loaded.date, loaded.problems) == (date(2026, 11, 18), ())
    assert {paper.first_seen_at for paper in queries.papers(session)} == {datetime(2026, 11, 18, tzinfo=UTC)}


def test_without_a_date_papers_are_first_seen_now_and_the_dump_has_its_file_s_day(
    session: Session, folder: Path
) -> None:
    path = put(folder, "a.txt", pairs(TIDES, KITES))
    os.utime(path, (NOW.timestamp() - 86_400 * 3,) * 2)

    loaded = load_dump.load(session, path, now=NOW)

    assert loaded.date == date(2026, 11, 17)
    assert {paper.first_seen_at for paper in queries.papers(session)} == {NOW}


def test_a_dry_run_reports_the_result_and_stores_nothing(session: Session, folder: Path) -> None:
    path = put(folder, "a.txt", pairs(TIDES, KITES))

    loaded = load_dump.load(session, path, now=NOW, dry_run=True)

    assert (loaded.id, loaded.new) == (None, 2)
    assert counts(session) == [0] * 6


def test_a_bad_record_is_kept_with_its_place_and_the_rest_loads(session: Session, folder: Path) -> None:
    raw = pairs(TIDES, KITES, OWLS).encode().replace(b"We study kites", b"We study k\xeftes")

    loaded = load_dump.load(session, put(folder, "a.txt", raw), now=NOW)

    assert (loaded.state, loaded.papers, loaded.rejected) == (DumpState.LOADED, 2, 1)
    assert [(p.line, p.excerpt) for p in session.scalars(select(ProblemRow))] == [(5, KITES[0])]


def test_a_dump_of_mostly_bad_records_is_rejected_whole(session: Session, folder: Path) -> None:
    raw = pairs(TIDES, KITES, OWLS).encode().replace(b"We study ", b"We \xe9 ", 2)

    loaded = load_dump.load(session, put(folder, "a.txt", raw), now=NOW)

    assert (loaded.state, loaded.rejected) == (DumpState.REJECTED, 2)
    assert loaded.reason.startswith("2 of its 3 records are invalid; the first is on line 3:")
    assert queries.papers(session) == []
    assert len(session.scalars(select(ProblemRow)).all()) == 3


def test_a_rejected_dump_is_read_again_when_it_comes_again(session: Session, folder: Path) -> None:
    path = put(folder, "a.txt", "\n".join(pairs(TIDES, KITES).splitlines()[3:]))

    assert not load_dump.load(session, path, now=NOW).is_loaded
    assert load_dump.load(session, path, now=NOW, format="pairs").is_loaded
    assert counts(session)[4:] == [1, 1]  # the abstract whose title is cut off is reported


def test_progress_is_reported_while_a_dump_is_checked_and_for_every_batch(
    session: Session, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports: list[tuple[int, int | None]] = []
    monkeypatch.setattr(accept_or_reject, "PROGRESS_STEP", 1000)
    many = [(f"{TIDES[0]}, Part {number}", TIDES[1]) for number in range(1, 1201)]

    load_dump.load(
        session, put(folder, "a.txt", pairs(*many)), now=NOW, progress=lambda *done: reports.append(done)
    )

    assert reports == [(1000, None), (500, 1200), (1000, 1200), (1200, 1200)]


def test_an_interrupted_load_of_a_large_dump_continues(
    session: Session, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(load_dump, "RECORDS_PER_TRANSACTION", 1000)
    many = [(f"{TIDES[0]}, Part {number}", TIDES[1]) for number in range(1, 2601)]
    path = put(folder, "a.txt", pairs(*many))

    def killed(read: int, total: int | None) -> None:
        if total is not None and read == 2500:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        load_dump.load(session, path, now=NOW, progress=killed)
    session.rollback()
    assert [row.state for row in session.scalars(select(DumpRow))] == [DumpState.LOADING]
    again = load_dump.load(session, path, now=NOW)

    assert (again.state, again.papers, again.new) == (DumpState.LOADED, 2600, 600)
    assert len(queries.papers(session)) == 2600


def test_two_workers_with_the_same_file_load_it_once(engine: Engine, folder: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    many = [(f"{TIDES[0]}, Part {number}", TIDES[1]) for number in range(1, 1501)]
    put(folder, "a.txt", pairs(*many))
    put(folder, "b.txt", pairs(*many[500:], OWLS))

    def work(_: int) -> list[load_report.LoadResult]:
        with db.write_session(engine) as session:
            return dumps_folder.load_folder(session, folder, now=NOW, settle_seconds=0)

    with ThreadPoolExecutor(2) as pool:
        found = [loaded for each in pool.map(work, range(2)) for loaded in each]

    assert sum(loaded.new for loaded in found) == 1501
    with db.read_session(engine) as session:
        assert len(queries.papers(session)) == 1501
    assert sorted(path.name for path in (folder / "done").iterdir()) == ["a.txt", "b.txt"]


# ── the folder ──────────────────────────────────────────────────────────────────────────────────


def test_a_loaded_dump_moves_to_done(session: Session, folder: Path) -> None:
    put(folder, "a.txt", pairs(TIDES, KITES))

    (loaded,) = collect(session, folder)

    assert loaded.is_loaded
    assert sorted(path.name for path in folder.rglob("*")) == ["a.txt", "done"]
    assert collect(session, folder) == []


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "The file is empty."),
        (b"\x89PNG\r\n\x1a\n\0\0", "The file is binary, not text."),
        (
            b"lunch is at noon\n",
            "The format is not recognised; export the list as RIS, BibTeX or CSL-JSON, or as CSV with the columns in docs/dumps.md. The file begins with: lunch is at noon",
        ),
        (b"new\n\nGet trending papers in your email inbox!\n\nSubscribe\n\n", "The dump contains no papers."),
    ],
    ids=["empty", "binary", "unknown", "only a header"],
)
def test_an_unreadable_dump_moves_to_rejected_with_a_file_that_gives_the_reason(
    session: Session, folder: Path, content: bytes, reason: str
) -> None:
    put(folder, "bad.txt", content)

    (loaded,) = collect(session, folder)

    assert (loaded.state, loaded.reason) == (DumpState.REJECTED, reason)
    assert (folder / "rejected" / "bad.txt").read_bytes() == content
    assert (folder / "rejected" / "bad.txt.reason.txt").read_text().splitlines()[0] == reason
    assert session.scalar(select(DumpRow.reason)) == reason


def test_links_pipes_and_sockets_are_never_opened(
    session: Session, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = put(tmp_path, "secret.txt", pairs(TIDES, KITES))
    (folder / "link.txt").symlink_to(secret)
    os.mkfifo(folder / "pipe.txt")
    monkeypatch.chdir(folder)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket.txt")
    put(folder, "good.txt", pairs(OWLS, KITES))

    found = {loaded.path.name: loaded.reason for loaded in collect(session, folder)}

    assert found == {
        "link.txt": "The path is a symbolic link, not a regular file.",
        "pipe.txt": "The path is a named pipe, not a regular file.",
        "socket.txt": "The path is a socket, not a regular file.",
        "good.txt": "",
    }
    assert (folder / "rejected" / "link.txt").is_symlink()
    assert secret.exists()
    assert len(queries.papers(session)) == 2


def test_a_refused_pipe_is_closed(tmp_path: Path) -> None:
    def next_descriptor() -> int:
        descriptor = os.open(os.devnull, os.O_RDONLY)
        os.close(descriptor)
        return descriptor

    os.mkfifo(tmp_path / "pipe.txt")
    expected = next_descriptor()

    with pytest.raises(UnreadableDump, match="a named pipe"):
        open_safely.open_regular_file(tmp_path / "pipe.txt")

    assert next_descriptor() == expected


def test_a_file_still_being_written_waits(session: Session, folder: Path) -> None:
    put(folder, ".hidden.txt", pairs(TIDES, KITES))
    put(folder, "download.txt.part", pairs(TIDES, KITES))
    (folder / "subfolder").mkdir()

    assert collect(session, folder) == []


def test_files_with_equal_names_do_not_overwrite_each_other(session: Session, folder: Path) -> None:
    for content in (pairs(TIDES, KITES), pairs(KITES, OWLS)):
        put(folder, "today.txt", content)
        collect(session, folder)

    assert sorted(path.name for path in (folder / "done").iterdir()) == ["today.2.txt", "today.txt"]


def test_one_endless_line_is_refused_in_bounded_memory(session: Session, folder: Path) -> None:
    import tracemalloc

    path = folder / "endless.txt"
    with path.open("wb") as file:
        file.write(b"Get trending papers in your email inbox!\nSubscribe")
        for _ in range(64):
            file.write(b"x" * 2**20)

    tracemalloc.start()
    (loaded,) = collect(session, folder)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert "larger than 8 MiB" in loaded.reason
    assert peak < 40 * 2**20


# ── samples ─────────────────────────────────────────────────────────────────────────────────────


def test_removing_samples_leaves_only_real_papers(session: Session, folder: Path) -> None:
    load_dump.load(session, put(folder, "sample.txt", pairs(TIDES, KITES)), now=NOW, is_sample=True)
    load_dump.load(session, put(folder, "real.txt", pairs(KITES, OWLS)), now=NOW)

    sample_content.remove_samples(session)

    assert [paper.title for paper in queries.papers(session)] == [KITES[0], OWLS[0]]
    assert session.scalars(select(DumpRow.is_sample)).all() == [False]


# ── incomplete and packed ───────────────────────────────────────────────────────────────────────

CUT = '[{"title": "Tidal Sorting", "doi": "10.1234/t"}, {"title": "Kites", "doi": "10.12'


def test_an_incomplete_dump_is_held_until_it_is_released(session: Session, folder: Path) -> None:
    put(folder, "cut.json", CUT)

    (held,) = collect(session, folder)
    aside = folder / "rejected" / "cut.json"

    assert (held.state, held.papers) == (DumpState.HELD, 0)
    assert held.reason.startswith("The dump is incomplete: the file ends in the middle of its list (line 1).")
    assert "None of it was loaded" in aside.with_name("cut.json.reason.txt").read_text()
    assert queries.papers(session) == []
    assert load_dump.load(session, aside, now=NOW, incomplete_ok=True).new == 1
    assert [row.state for row in session.scalars(select(DumpRow))] == [DumpState.LOADED]


def test_a_page_that_may_have_been_misread_is_held_with_an_example(session: Session, folder: Path) -> None:
    papers = [(f"Kites of Harbour {number}", abstract(f"kites {number}")) for number in range(12)]
    short = [(f"Fog over Harbour {number}", meta(2, "Nov 1, 2024")) for number in range(4)]
    path = put(folder, "page.txt", blocks(*papers, *short))

    held = load_dump.load(session, path, now=NOW)

    assert (held.state, held.papers) == (DumpState.HELD, 0)
    assert held.reason.startswith(
        "The dump may have been misread: 4 of its 16 papers have no abstract, unlike the others"
    )
    assert "Fog over Harbour 0" in held.reason
    assert load_dump.load(session, path, now=NOW, incomplete_ok=True).new == 16


def test_a_packed_dump_is_loaded_like_any_other(session: Session, folder: Path) -> None:
    import gzip

    put(folder, "a.txt.gz", gzip.compress(pairs(TIDES, KITES).encode()))

    (loaded,) = collect(session, folder)

    assert (loaded.format, loaded.papers) == ("page", 2)


def test_a_bomb_is_rejected_and_the_next_dump_is_loaded(session: Session, folder: Path) -> None:
    import gzip

    put(folder, "a-bomb.gz", gzip.compress(pairs(OWLS).encode() + b"x" * 60_000_000))
    put(folder, "b.txt", pairs(TIDES, KITES))

    bomb, good = collect(session, folder)

    assert bomb.reason == "It decompresses to more than 100 times its size, so it cannot be a dump."
    assert good.is_loaded


def test_the_date_in_a_dump_wins_over_the_option_with_a_remark(session: Session, folder: Path) -> None:
    page = f"---\nretrieved: 2026-11-16\n---\n# Daily Papers\n\n### [{TIDES[0]}](https://huggingface.co/papers/2611.00001)\n\n{TIDES[1]}\n"

    loaded = load_dump.load(session, put(folder, "a.md", page), now=NOW, date=date(2026, 11, 18))

    assert (loaded.date, loaded.new, loaded.rejected) == (date(2026, 11, 16), 1, 0)
    assert [problem.line for problem in loaded.problems] == [0]
    assert {paper.first_seen_at.date() for paper in queries.papers(session)} == {date(2026, 11, 16)}


def test_history_is_not_news(session: Session, folder: Path) -> None:
    load_dump.load(session, put(folder, "a.txt", pairs(TIDES, KITES)), now=NOW, as_history=True)

    assert queries.papers(session, news_only=True) == []
    assert len(queries.papers(session)) == 2


def test_an_empty_list_is_loaded_without_an_error(session: Session, folder: Path) -> None:
    loaded = load_dump.load(session, put(folder, "saturday.json", "[]"), now=NOW)

    assert (loaded.state, loaded.papers, loaded.reason) == (DumpState.LOADED, 0, "")


def announced(
    session: Session,
    folder: Path,
    day: date,
    papers: int,
    *,
    now: datetime = NOW,
    incomplete_ok: bool = False,
) -> load_report.LoadResult:
    """A day's list with so many papers."""
    rows = [
        {"id": f"26{day:%d}.{number:05}", "title": f"Tides {day} {number}", "upvotes": 1}
        | {"summary": "We sort.", "publishedAt": "2026-11-01", "numComments": 0}
        for number in range(papers)
    ]
    path = put(folder, f"{day}-{papers}.json", json.dumps(rows))
    return load_dump.load(session, path, now=now, date=day, incomplete_ok=incomplete_ok)


FRIDAYS = [date(2026, 10, 16) + timedelta(weeks=week) for week in range(5)]  # the last is of six days ago
FEW = "holds 5 papers, but 20 are usual on a Friday"


def test_a_list_far_shorter_than_usual_is_held(session: Session, folder: Path) -> None:
    assert [announced(session, folder, day, 20).problems for day in FRIDAYS[:4]] == [()] * 4

    held = announced(session, folder, FRIDAYS[4], 5)

    assert (held.state, held.papers, held.reason) == (
        DumpState.HELD,
        0,
        f"It {FEW}. None of it was loaded.",
    )
    assert held.id is not None
    again = retry_dump.retry(session, held.id, now=NOW)
    released = retry_dump.retry(session, held.id, now=NOW, incomplete_ok=True)
    assert (again.state, released.state, released.new) == (DumpState.HELD, DumpState.LOADED, 5)


def test_a_short_list_is_loaded_with_a_remark_if_the_operator_allows_it(
    session: Session, folder: Path
) -> None:
    for day in FRIDAYS[:4]:
        announced(session, folder, day, 20)

    loaded = announced(session, folder, FRIDAYS[4], 5, incomplete_ok=True)

    assert (loaded.state, loaded.new) == (DumpState.LOADED, 5)
    assert [problem.reason for problem in loaded.problems] == [f"it {FEW}"]


def test_another_weekday_few_weeks_or_slightly_fewer_papers_do_not_hold_a_list(
    session: Session, folder: Path
) -> None:
    for day in FRIDAYS[:2]:
        announced(session, folder, day, 20)
    assert announced(session, folder, FRIDAYS[2], 5).is_loaded  # two weeks are no custom
    for day in FRIDAYS[3:]:
        announced(session, folder, day, 20)

    assert announced(session, folder, FRIDAYS[4] + timedelta(days=1), 1).is_loaded
    assert announced(session, folder, FRIDAYS[4] + timedelta(weeks=1), 8).is_loaded


def test_a_list_that_still_grows_is_not_held_on_its_own_day(session: Session, folder: Path) -> None:
    for day in FRIDAYS:
        announced(session, folder, day, 20)
    friday = FRIDAYS[4] + timedelta(weeks=1)
    assert friday == NOW.date()

    morning = announced(session, folder, friday, 2)

    assert (morning.state, morning.new, morning.problems) == (DumpState.LOADED, 2, ())


def test_a_short_list_beside_a_long_one_is_usual_too(session: Session, folder: Path) -> None:
    for day in FRIDAYS[:4]:
        announced(session, folder, day, 50)
        announced(session, folder, day, 12)

    assert announced(session, folder, FRIDAYS[4], 11).is_loaded
    assert announced(session, folder, FRIDAYS[4], 4).state is DumpState.HELD


# ── once more ───────────────────────────────────────────────────────────────────────────────────


def first_seen(session: Session, title: str) -> datetime:
    return queries.find(session, title).first_seen_at


def test_a_dump_released_after_its_day_is_first_seen_when_it_is_released(
    session: Session, folder: Path
) -> None:
    path = put(folder, "half.json", CUT)
    held = load_dump.load(session, path, now=NOW, date=date(2026, 11, 20))
    assert held.id is not None
    days_later = NOW + timedelta(days=3)

    loaded = retry_dump.retry(session, held.id, now=days_later, incomplete_ok=True)

    (paper,) = queries.papers(session, news_only=True)
    assert (loaded.date, paper.first_seen_at) == (date(2026, 11, 20), days_later)
    row = session.get_one(DumpRow, held.id)
    assert row.observed_at == datetime(2026, 11, 20, tzinfo=UTC)  # its figures are of its day


def test_a_dump_released_as_history_keeps_its_day(session: Session, folder: Path) -> None:
    held = load_dump.load(session, put(folder, "half.json", CUT), now=NOW, date=date(2026, 11, 20))
    assert held.id is not None

    retry_dump.retry(session, held.id, now=NOW + timedelta(days=3), incomplete_ok=True, as_history=True)

    (paper,) = queries.papers(session)
    assert paper.first_seen_at == datetime(2026, 11, 20, tzinfo=UTC)
    assert queries.papers(session, news_only=True) == []


def test_a_dump_that_is_held_again_keeps_its_day(session: Session, folder: Path) -> None:
    held = load_dump.load(session, put(folder, "half.json", CUT), now=NOW, date=date(2026, 11, 18))
    assert held.id is not None

    for days in (1, 2):
        again = retry_dump.retry(session, held.id, now=NOW + timedelta(days=days))
        assert (again.state, again.date) == (DumpState.HELD, date(2026, 11, 18))


def test_a_list_in_the_folder_is_news_a_few_days_after_its_day_and_no_longer(
    session: Session, folder: Path
) -> None:
    put(folder, "late.txt", f"Retrieved {date(2026, 11, 18)}\n" + pairs(TIDES, OWLS))
    put(folder, "old.txt", f"Retrieved {date(2026, 11, 9)}\n" + pairs(KITES))
    collect(session, folder)

    assert first_seen(session, TIDES[0]) == NOW
    assert first_seen(session, KITES[0]) == datetime(2026, 11, 9, tzinfo=UTC)


def test_a_released_dump_is_loaded_as_far_as_it_goes(session: Session, folder: Path) -> None:
    put(folder, "half.json", CUT)
    (held,) = collect(session, folder)
    assert held.id is not None

    still = retry_dump.retry(session, held.id, now=NOW)
    loaded = retry_dump.retry(session, held.id, now=NOW, incomplete_ok=True)

    assert (held.state, still.state, loaded.state) == (DumpState.HELD, DumpState.HELD, DumpState.LOADED)
    assert (loaded.papers, session.get(DumpRow, held.id).missing_papers) == (1, 0)  # type: ignore[union-attr]
    assert [path.name for path in (folder / "done").iterdir()] == ["half.json"]
    assert list((folder / "rejected").iterdir()) == []
    assert retry_dump.retry(session, held.id, now=NOW).is_known


def test_retrying_a_dump_without_its_file_raises(session: Session, folder: Path) -> None:
    put(folder, "half.json", CUT)
    (held,) = collect(session, folder)
    assert held.id is not None
    (folder / "rejected" / "half.json").unlink()

    with pytest.raises(NotFound, match=r"half\.json; load it"):
        retry_dump.retry(session, held.id, now=NOW)
    with pytest.raises(NotFound, match="There is no dump 99"):
        retry_dump.retry(session, 99, now=NOW)


def test_the_folder_loads_short_dumps_if_allowed_and_records_it(session: Session, folder: Path) -> None:
    put(folder, "half.json", CUT)

    (loaded,) = dumps_folder.load_folder(session, folder, now=NOW, settle_seconds=0, incomplete_ok=True)

    assert (loaded.state, loaded.papers, loaded.rejected) == (DumpState.LOADED, 1, 1)
    assert session.scalars(select(DumpRow.missing_papers)).all() == [0]


def test_history_counts_as_seen_on_its_day_with_figures_of_now(session: Session, folder: Path) -> None:
    past, day = put(folder, "past.txt", pairs(TIDES)), date(2026, 11, 6)

    load_dump.load(session, past, now=NOW, date=day, as_history=True, source="hf-daily", figures_at=NOW)

    dump, paper = session.scalars(select(DumpRow)).one(), session.scalars(select(PaperRow)).one()
    assert (dump.source, dump.date, dump.observed_at) == ("hf-daily", day, NOW)
    assert (paper.first_seen_at, paper.is_history) == (datetime(2026, 11, 6, tzinfo=UTC), True)


def feed_of(day: date, *titles: str) -> str:
    entries = "".join(
        f"<item><title>{title}</title><link>https://arxiv.org/abs/2611.0{n}</link><pubDate>{day:%a, %d %b %Y} 00:00:00 +0000</pubDate></item>"
        for n, title in enumerate(titles, 1000)
    )
    return f'<?xml version="1.0"?><rss version="2.0"><channel><pubDate>{day:%a, %d %b %Y} 00:00:00 +0000</pubDate>{entries}</channel></rss>'


def test_a_dated_list_without_new_papers_is_reported(session: Session, folder: Path) -> None:
    friday, monday = date(2026, 11, 13), date(2026, 11, 16)
    titles = ("On Gravel", "On Kites", "On Owls")
    moments = [datetime(day.year, day.month, day.day, 5, tzinfo=UTC) for day in (friday, monday)]
    first, loaded = (
        load_dump.load(session, put(folder, f"{day}.xml", feed_of(day, *titles)), now=now)
        for day, now in zip((friday, monday), moments, strict=True)
    )
    fresh = load_dump.load(
        session, put(folder, "more.xml", feed_of(monday, *titles, "On Fog")), now=moments[1], source="other"
    )

    (reported,) = (problem.reason for problem in loaded.problems)
    assert reported.startswith("none of its 3 papers is new; the last was first seen on Friday, 2026-11-13")
    assert (loaded.state, first.problems, fresh.problems) == (DumpState.LOADED, (), ())
    (problem,) = (
        one for one in problems.find_problems(session, now=moments[1]) if one.cause == "repeated-lists"
    )
    assert problem.facts == (f"dump {loaded.id}, {monday}.xml: {reported}",)
    later = problems.find_problems(session, now=moments[1] + timedelta(days=2))
    assert "repeated-lists" not in {one.cause for one in later}


def test_a_mail_or_a_web_archive_is_decoded_wherever_it_is_loaded(session: Session, folder: Path) -> None:
    page = "<html><body><h1>Daily Papers</h1>" + "".join(
        f"<article><h3><a href='/papers/2611.0100{n}'>On {title}</a></h3><p>{abstract(title)}</p><ul><li>5 authors</li></ul></article>"
        for n, title in enumerate(("Gravel", "Kites", "Owls", "Fog"))
    )
    body = quopri.encodestring(page.encode()).decode()
    part = f"Content-Type: text/html; charset=utf-8\nContent-Transfer-Encoding: quoted-printable\nContent-Location: https://papers.example.org/x\n\n{body}"
    mail = f"From: a@example.org\nSubject: Papers\nMIME-Version: 1.0\n{part}"
    archive = f'From: <Saved by Blink>\nMIME-Version: 1.0\nContent-Type: multipart/related; boundary="b"\n\n--b\n{part}\n--b--\n'

    for name, content in (("page.eml", mail), ("page.mhtml", archive)):
        loaded = load_dump.load(session, put(folder, name, content), now=NOW, dry_run=True, show=4)
        assert (loaded.state, loaded.format, loaded.papers) == (DumpState.LOADED, "html", 4), name
        assert [one.ids["arxiv"] for one in loaded.shown or ()] == [f"2611.0100{n}" for n in range(4)]
        assert all("=" not in one.abstract for one in loaded.shown or ())
