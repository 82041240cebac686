"""The database returns stored values unchanged, and reports errors in one sentence."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from sqlalchemy import Engine, delete, select, text
from sqlalchemy.exc import IntegrityError, OperationalError, StatementError

from digest import db
from digest.db import database_copy
from digest.db.engine import with_driver
from digest.db.tables.deliveries import Delivery, DeliveryState
from digest.db.tables.papers import Alias
from digest.db.tables.service_state import EmergencyStop, Heartbeat
from digest.db.tables.subscribers import FilterRow, Subscriber, SubscriberState
from digest.errors import BadField, SetupMismatch, Unreachable
from tests.conftest import connected
from tests.support.real_servers import free_port
from tests.support.waiting import HANG_SECONDS

pytestmark = pytest.mark.postgresql

OSLO = timezone(timedelta(hours=1))


def test_a_moment_comes_back_aware_and_in_utc(engine: Engine) -> None:
    with db.write_session(engine) as session:
        session.add(Heartbeat(role="scheduler", at=datetime(2026, 11, 20, 9, 0, 0, 123456, tzinfo=OSLO)))
        session.commit()

    with db.read_session(engine) as session:
        found = session.scalar(select(Heartbeat.at))

    assert found == datetime(2026, 11, 20, 8, 0, 0, 123456, tzinfo=UTC)
    assert found.utcoffset() == timedelta(0)


def test_a_unit_of_work_is_committed_when_its_block_ends_and_rolled_back_if_it_raises(engine: Engine) -> None:
    for role, error in (("web", None), ("worker", ValueError("stopped"))):
        with suppress(ValueError), db.write_session(engine) as session:
            session.add(Heartbeat(role=role, at=datetime(2026, 11, 20, tzinfo=UTC)))
            session.flush()
            if error:
                raise error

    with db.read_session(engine) as session:
        assert session.scalars(select(Heartbeat.role)).all() == ["web"]


def test_postgresql_tells_moments_in_utc_wherever_its_server_stands(empty_postgres_url: str) -> None:
    with connected(empty_postgres_url) as engine, engine.begin() as connection:
        connection.execute(text(f"ALTER DATABASE {engine.url.database} SET timezone = 'Asia/Tokyo'"))

    with connected(empty_postgres_url) as anew, anew.connect() as connection:
        told = connection.exec_driver_sql("SELECT now()").scalar_one()

    assert told.tzinfo is UTC


@pytest.mark.skipif(sys.platform != "linux", reason="other systems name these settings otherwise")
def test_a_server_that_is_gone_without_a_word_is_given_up_within_a_minute(postgres_engine: Engine) -> None:
    with postgres_engine.connect() as connection:
        raw = connection.connection.driver_connection
        assert raw is not None
        with socket.socket(fileno=os.dup(raw.fileno())) as line:
            idle, between, count, unheard = (
                line.getsockopt(socket.IPPROTO_TCP, option)
                for option in (
                    socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT, socket.TCP_USER_TIMEOUT,
                )
            )  # fmt: skip

    assert idle + between * count <= 60
    assert 0 < unheard <= 60_000


def test_a_moment_without_an_offset_is_refused(engine: Engine) -> None:
    naive = Heartbeat(role="scheduler", at=datetime(2026, 11, 20, 9, 0))  # noqa: DTZ001

    with pytest.raises(StatementError, match="needs an offset"), db.write_session(engine) as session:
        session.add(naive)


def test_many_rows_are_changed_each_to_values_of_its_own(engine: Engine, now: datetime) -> None:
    with db.write_session(engine) as session:
        session.add_all([FilterRow(id=n, canonical=f"robot{n}") for n in (1, 2, 3, 4)])
        session.flush()
        db.update_many(session, FilterRow, [{"id": 1, "canonical": "one"}, {"id": 3, "canonical": "three"}])
        db.update_many(session, FilterRow, [{"canonical": "two", "id": 2}])
        db.update_many(session, FilterRow, [])
        session.commit()

    with db.read_session(engine) as session:
        found = session.execute(select(FilterRow.id, FilterRow.canonical).order_by(FilterRow.id)).all()

    assert found == [(1, "one"), (2, "two"), (3, "three"), (4, "robot4")]


def test_many_rows_keep_their_texts_and_gaps_as_they_are(engine: Engine, now: datetime) -> None:
    texts = ['{"a":[1,2]},NULL\\', "", "two\nlines and a 'quote'", "größer ≥ 0"]
    elsewhere = now.astimezone(OSLO)
    with db.write_session(engine) as session:
        session.add_all([EmergencyStop(id=n, scope=f"c{n}", since=now, reason="") for n in range(4)])
        session.flush()
        rows = [
            {"id": n, "reason": said, "lifted_at": elsewhere if n % 2 else None}
            for n, said in enumerate(texts)
        ]
        db.update_many(session, EmergencyStop, rows)
        session.commit()

    with db.read_session(engine) as session:
        found = session.execute(
            select(EmergencyStop.reason, EmergencyStop.lifted_at).order_by(EmergencyStop.id)
        ).all()
    assert found == [(texts[0], None), (texts[1], now), (texts[2], None), (texts[3], now)]


def test_a_moment_without_an_offset_is_refused_among_many(engine: Engine, now: datetime) -> None:
    rows = [{"id": 1, "since": now}, {"id": 2, "since": datetime(2026, 11, 20, 9, 0)}]  # noqa: DTZ001

    with pytest.raises(ValueError, match="needs an offset"), db.write_session(engine) as session:
        db.update_many(session, EmergencyStop, rows)


def test_many_values_are_looked_up_through_the_index(sqlite_engine: Engine) -> None:
    alias = Alias.__table__.c
    wanted = select(alias.paper_id).where(alias.scheme == "arxiv", db.one_of(alias.value, ["2611.00001"]))
    with sqlite_engine.connect() as connection:
        plan = connection.exec_driver_sql(
            f"EXPLAIN QUERY PLAN {wanted.compile(sqlite_engine)}", ("arxiv", "[]")
        ).all()

    assert any("scheme=? AND value=?" in step[-1] for step in plan), plan


TEXTS = ["a,b", "{}", "", "NULL", 'say "no"', "back\\slash", "größer ≥ 0", "two\nlines", "\x1f"]


def test_texts_are_looked_up_as_they_are(engine: Engine) -> None:
    column = FilterRow.__table__.c.canonical
    with db.write_session(engine) as session:
        session.add_all([FilterRow(canonical=text) for text in [*TEXTS, "a", "b", '"']])
        session.flush()

        found = session.scalars(select(column).where(db.one_of(column, TEXTS))).all()
        none = session.scalars(select(column).where(db.one_of(column, list[str]()))).all()

    assert (sorted(found), none) == (sorted(TEXTS), [])


@pytest.mark.parametrize("is_small", [False, True])
def test_postgresql_compares_no_table_with_every_value_however_often_it_was_asked(
    postgres_engine: Engine, is_small: bool
) -> None:
    column = FilterRow.__table__.c.id if is_small else FilterRow.__table__.c.fingerprint
    given = db.values_param("given", column)
    wanted = select(column).where(db.one_of(column, given, is_small_table=is_small))
    with postgres_engine.connect() as connection:
        connection.exec_driver_sql(
            "INSERT INTO filter (canonical, fingerprint) SELECT 'word' || n, n FROM generate_series(1, 3000) AS n"
        )
        connection.exec_driver_sql("SET plan_cache_mode = force_generic_plan")
        connection.exec_driver_sql(f"PREPARE asked AS {wanted.compile(postgres_engine)}" % {"given": "$1"})
        plan = connection.exec_driver_sql("EXPLAIN EXECUTE asked ('{1,2}')").scalars()

    assert "ANY" not in "\n".join(plan)


def test_postgresql_plans_with_the_numbers_it_is_asked_about(postgres_engine: Engine) -> None:
    identity = FilterRow.__table__.c.id
    wanted = select(FilterRow.canonical).where(db.one_of(identity, db.values_param("ids", identity)))
    with postgres_engine.connect() as connection:
        plan = connection.exec_driver_sql(f"EXPLAIN {wanted.compile(postgres_engine)}", {"ids": "{3,5,8}"})
        told = "\n".join(plan.scalars())

    assert "= ANY ('{3,5,8}'::bigint[])" in told  # and not what becomes of a text for every row


def test_a_connection_that_died_while_it_lay_idle_is_replaced(postgres_url: str) -> None:
    with connected(postgres_url) as ours, connected(postgres_url) as theirs:
        with ours.connect() as connection:
            before = connection.scalar(text("SELECT pg_backend_pid()"))
        with theirs.connect() as connection:
            connection.execute(text("SELECT pg_terminate_backend(:pid, 5000)"), {"pid": before})
        with ours.connect() as connection:
            after = connection.scalar(text("SELECT pg_backend_pid()"))

    assert after != before


def test_sqlite_keeps_what_it_has_committed_through_a_power_cut(sqlite_engine: Engine) -> None:
    with sqlite_engine.connect() as connection:
        pragmas = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous")
        }

    assert pragmas == {"journal_mode": "wal", "synchronous": 2}


def test_on_sqlite_a_writer_holds_the_lock_from_the_start(sqlite_engine: Engine, now: datetime) -> None:
    """Two transactions that read first and write later would otherwise deadlock, however long they waited."""
    with db.write_session(sqlite_engine) as first, sqlite_engine.connect() as second:
        first.execute(select(Heartbeat))
        second.exec_driver_sql("PRAGMA busy_timeout=50")

        with pytest.raises(OperationalError, match="locked"):
            second.exec_driver_sql(
                "INSERT INTO heartbeat (role, at) VALUES ('worker', '2026-11-20 08:00:00')"
            )


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_a_url_as_hosts_hand_it_out_is_understood(scheme: str) -> None:
    assert (
        with_driver(f"{scheme}://me@db.example.org/digest") == "postgresql+psycopg://me@db.example.org/digest"
    )


@pytest.mark.parametrize(
    ("written", "host", "port", "wanted"),
    [
        ("postgresql://me:a%2Cb@one:5433,two:5434/digest", "one,two", "5433,5434", "read-write"),
        ("postgres://me@one,two/digest?target_session_attrs=any", "one,two", ",", "any"),
        ("postgresql:///digest?host=one:5433&host=two:5434", "one,two", "5433,5434", "read-write"),
        ("postgresql://me:a,b/c@one:5433/digest", "one", 5433, None),
    ],
)
def test_of_several_hosts_the_primary_is_used(
    written: str, host: str, port: str | int, wanted: str | None
) -> None:
    engine = db.make_engine(written)

    _, given = engine.dialect.create_connect_args(engine.url)

    assert (given["host"], given["port"], given.get("target_session_attrs")) == (host, port, wanted)
    assert given["dbname"] == "digest"


def test_list_of_hosts_with_a_mistake_is_refused() -> None:
    with pytest.raises(BadField, match="postgresql://user:password@host/name"):
        db.make_engine("postgresql://me@one:5433,two:port/digest")


def test_a_database_that_does_not_answer_is_named_without_its_password() -> None:
    engine = db.make_engine(f"postgresql://me:hidden@127.0.0.1:{free_port()}/digest")

    with pytest.raises(Unreachable) as caught, db.read_session(engine) as session:
        session.execute(text("SELECT 1"))

    assert "DIGEST_DATABASE_URL" in str(caught.value)
    assert "hidden" not in str(caught.value)


def test_an_empty_database_is_made_ready_and_a_strange_one_refused(tmp_path: Path) -> None:
    with connected(f"sqlite:///{tmp_path}/new.sqlite3") as engine:
        db.ensure_schema(engine)
        assert db.revision(engine) == db.newest_revision()

        with engine.begin() as connection:
            connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
        with pytest.raises(SetupMismatch, match="9999"):
            db.ensure_schema(engine)


def test_many_rows_are_loaded_together_or_not_at_all(
    engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    def load(numbers: list[int]) -> None:
        rows = [{"id": n, "canonical": f"tab\t{n}\\N\n", "fingerprint": f"{n}"} for n in numbers]
        db.load_rows(session, FilterRow, rows)

    with db.write_session(engine) as session:
        with pytest.raises(IntegrityError):
            load([1, 3, 1])
        session.rollback()
        load([1, 2])
        load([])
        session.commit()

    with db.read_session(engine) as session:
        found = session.execute(select(FilterRow.id, FilterRow.canonical).order_by(FilterRow.id)).all()
    assert found == [(1, "tab\t1\\N\n"), (2, "tab\t2\\N\n")]
    assert caplog.messages == []


def test_only_new_rows_are_inserted_and_returned(engine: Engine) -> None:
    given = {"key": ("fingerprint",), "returning": ("id", "fingerprint")}
    with db.write_session(engine) as session:
        first = db.insert_many(session, FilterRow, [{"fingerprint": "1"}], shared={"canonical": "a"}, **given)
        rows = [{"fingerprint": f"{n}"} for n in range(1, 3000)]
        second = db.insert_many(session, FilterRow, rows, shared={"canonical": "b"}, **given)

    with db.read_session(engine) as session:
        stored = dict(session.execute(select(FilterRow.fingerprint, FilterRow.canonical)).all())
    assert [row.fingerprint for row in first] == ["1"]
    assert sorted(int(row.fingerprint) for row in second) == list(range(2, 3000))
    assert (stored["1"], stored["2"], len(stored)) == ("a", "b", 2999)


def test_a_server_that_goes_away_meanwhile_is_said_to_be_gone(
    postgres_engine: Engine, postgres_url: str
) -> None:
    def be_left_alone() -> None:
        with connected(postgres_url) as elsewhere, db.write_session(postgres_engine) as session:
            ours = session.connection().exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
            with elsewhere.connect() as other:
                other.exec_driver_sql(f"SELECT pg_terminate_backend({ours}, 5000)")
            db.load_rows(session, FilterRow, [{"id": 1, "canonical": "a", "fingerprint": "1"}])

    with pytest.raises(Unreachable):
        be_left_alone()


def test_reserved_ids_are_never_reused_even_after_a_deletion(engine: Engine, now: datetime) -> None:
    with db.write_session(engine) as session:
        first = db.reserve_keys(session, Subscriber, 3)
        same = {"state": SubscriberState.ACTIVE, "created_at": now}
        session.add_all([Subscriber(id=n, email=f"{n}", email_key=f"{n}", **same) for n in first])
        session.flush()
        session.execute(delete(Subscriber))
        second = db.reserve_keys(session, Subscriber, 2)

    assert len({*first, *second}) == 5
    assert max(first) < min(second)


#: Opens and closes a database, as another process does; whoever is the last to close it deletes its log.
OPEN_AND_CLOSE = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
print(connection.execute("SELECT count(*) FROM heartbeat").fetchone()[0])
connection.close()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX locks")
def test_a_second_engine_drops_no_lock_of_the_first(tmp_path: Path) -> None:
    """Closing any descriptor of a file drops all POSIX locks of its process, and a log in use would be deleted."""
    path, url = tmp_path / "d.sqlite3", f"sqlite:///{tmp_path}/d.sqlite3"
    with connected(url) as first, first.connect() as connection:
        db.ensure_schema(first)
        connection.exec_driver_sql("SELECT count(*) FROM heartbeat")  # a read transaction, held to the end
        with connected(url) as second, db.write_session(second) as session:
            session.add(Heartbeat(role="web", at=datetime(2026, 11, 20, tzinfo=UTC)))
            session.commit()
            another = [sys.executable, "-c", OPEN_AND_CLOSE, str(path)]
            found = subprocess.run(another, capture_output=True, check=True, text=True, timeout=HANG_SECONDS)

            assert found.stdout == "1\n"
            assert path.with_name("d.sqlite3-wal").exists()


def test_a_copy_to_sqlite_forgets_the_reader_of_a_letter_who_was_erased(
    postgres_engine: Engine, tmp_path: Path, now: datetime
) -> None:
    with db.write_session(postgres_engine) as session:  # PostgreSQL has no foreign key that clears the id
        session.add(
            Delivery(
                subscriber_id=7,
                letter="digest",
                lane="bulk",
                edition="daily-2026-11-19",
                dated_at=now,
                due_at=now,
                expires_at=now,
                settled_at=now,
                state=DeliveryState.SENT,
            )
        )
        session.commit()

    with connected(f"sqlite:///{tmp_path / 'copy.sqlite3'}") as copy:
        database_copy.copy(postgres_engine, copy, lambda _: None)

        with copy.connect() as connection:
            assert connection.execute(select(Delivery.subscriber_id, Delivery.edition)).all() == [
                (None, "daily-2026-11-19")
            ]
