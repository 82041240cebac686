"""Provide fixtures for every test: real servers, fresh databases, a site, templates and a few readers.

`DIGEST_TEST_POSTGRES_URL` and `DIGEST_TEST_REDIS_URL` name servers to use instead of our own; the
databases made there are dropped again.
"""

from __future__ import annotations

import gc
import itertools
import os
import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest
from hypothesis import HealthCheck
from sqlalchemy import Engine, create_engine, make_url
from sqlalchemy.orm import Session
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from digest import db
from digest.db.engine import with_driver
from digest.db.tables.deliveries import Delivery
from digest.site.site_profile import Site
from tests.support import compiled_statements, compiled_templates, real_servers
from tests.support.run_figures import pytest_terminal_summary
from tests.support.shared_caches import CACHES

if TYPE_CHECKING:
    from digest.letters.templates import Templates

ROOT = Path(__file__).parent.parent
NOW = datetime(2026, 11, 20, 8, 0, tzinfo=UTC)

__all__ = ["pytest_terminal_summary"]  # the other hooks and fixtures are defined here

# ── examples of Hypothesis ──────────────────────────────────────────────────────────────────────

for profile, examples in {"default": 25, "ci": 25, "many": 500}.items():
    hypothesis.settings.register_profile(
        profile,
        max_examples=examples,
        deadline=None,  # no test looks at the clock
        derandomize=profile == "ci",
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )
hypothesis.settings.load_profile("ci" if "CI" in os.environ else "default")

SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  (Linux keeps its files in memory)
if (
    "TMPDIR" not in os.environ
    and SHARED_MEMORY.is_dir()
    and shutil.disk_usage(SHARED_MEMORY).free > 4 * 2**30
):
    os.environ["TMPDIR"] = str(SHARED_MEMORY)  # half of the time of many tests was waiting for the disk

compiled_templates.compile_each_once()
compiled_statements.compile_each_once()


# ── in parallel ─────────────────────────────────────────────────────────────────────────────────


#: Three groups of folders whose tests of real processes take about equally long.
CHAINS = {
    "whole services": ("tests/acceptance/",),
    "kills and commands": ("tests/chaos/", "tests/cli/", "tests/monitoring/"),
    "single processes": ("tests/",),
}


class OneFileAtATime(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Run the tests of one file in one process, and all files that start real processes in three chains.

    These wait for heartbeats, which come late if many services start at once. The chains take longest, so they
    begin first.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        if "pytest.mark.slow" not in (ROOT / file).read_text():
            return file
        return next(chain for chain, folders in CHAINS.items() if file.startswith(folders))

    def _assign_work_unit(self, node: WorkerController) -> None:
        for chain in CHAINS:
            if chain in self.workqueue:
                self.workqueue.move_to_end(chain, last=False)
        super()._assign_work_unit(node)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> OneFileAtATime:
    return OneFileAtATime(config, log)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return one process more than there are cores: the chains wait most of the time, but each process imports all."""
    return (os.cpu_count() or 2) + 1


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if seed := config.getoption("--shuffle"):
        random.Random(seed).shuffle(items)


def pytest_collection_finish() -> None:
    """Leave the modules out of each garbage collection."""
    gc.freeze()


# ── servers, once per run (and per process of it) ───────────────────────────────────────────────


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of a PostgreSQL on which databases may be made."""
    named = os.environ.get("DIGEST_TEST_POSTGRES_URL")
    if named:
        yield with_driver(named)
        return
    with real_servers.postgres() as url:
        yield url


@pytest.fixture(scope="session")
def redis_server() -> Iterator[str]:
    named = os.environ.get("DIGEST_TEST_REDIS_URL")
    if named:
        worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
        own = make_url(named).set(database=worker)  # each empties its own
        yield own.render_as_string(hide_password=False)
        return
    with real_servers.redis() as url:
        yield url


@pytest.fixture(scope="session")
def valkey_server() -> Iterator[str]:
    with real_servers.valkey() as url:
        yield url


@pytest.fixture
def redis_url(redis_server: str) -> str:
    """A genuine Redis, emptied."""
    return emptied(redis_server)


@pytest.fixture
def valkey_url(valkey_server: str) -> str:
    """A Valkey, emptied: the server that `digest up` embeds."""
    return emptied(valkey_server)


def emptied(url: str) -> str:
    """Empty the Redis database of that URL, and return the URL."""
    import redis

    with redis.Redis.from_url(url) as client:
        client.flushdb()
    return url


# ── databases, a fresh one per test ─────────────────────────────────────────────────────────────


@pytest.fixture(scope="session")
def migrated_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file with the whole schema, to copy from."""
    path = tmp_path_factory.mktemp("sqlite") / "migrated.sqlite3"
    engine = db.make_engine(f"sqlite:///{path}")
    db.upgrade(engine)
    engine.dispose()  # folds the write-ahead log into the file
    return path


@pytest.fixture(scope="session")
def migrated_postgres(postgres_server: str) -> Iterator[str]:
    """A PostgreSQL database with the whole schema, which is emptied after each test."""
    with fresh_database(postgres_server) as url:
        with connected(url) as engine:
            db.upgrade(engine)
        yield url


def empty_tables(url: str) -> None:
    """Close the connections that a test left open, remove its rows, and restart its sequences.

    Only tables with rows are emptied: a fifth of the time of a new database.
    """
    with connected(url) as engine, engine.begin() as connection:
        connection.exec_driver_sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        tables = [f'"{name}"' for name in Delivery.metadata.tables]
        with_rows = " UNION ALL ".join(
            f"SELECT '{table}' WHERE EXISTS (SELECT FROM {table})"  # noqa: S608  (names of our tables)
            for table in tables
        )
        used = connection.exec_driver_sql(with_rows).scalars().all()
        if used:
            connection.exec_driver_sql(f"TRUNCATE {', '.join(used)} CASCADE")
        connection.exec_driver_sql(
            "SELECT setval(quote_ident(sequencename)::regclass, 1, false) FROM pg_sequences"
            " WHERE last_value IS NOT NULL"
        )


@pytest.fixture
def sqlite_url(migrated_sqlite: Path, tmp_path: Path) -> str:
    """A new SQLite file with the schema and no rows."""
    path = tmp_path / "digest.sqlite3"
    shutil.copyfile(migrated_sqlite, path)
    return f"sqlite:///{path}"


@pytest.fixture
def postgres_url(migrated_postgres: str) -> Iterator[str]:
    """A PostgreSQL database with the schema and no rows; a test that changes its schema takes an empty one."""
    CACHES.clear("match index")  # each test has other filters under the same ids
    yield migrated_postgres
    empty_tables(migrated_postgres)


@pytest.fixture
def empty_postgres_url(postgres_server: str) -> Iterator[str]:
    """A fresh PostgreSQL database with nothing in it."""
    with fresh_database(postgres_server) as url:
        yield url


@pytest.fixture
def sqlite_engine(sqlite_url: str) -> Iterator[Engine]:
    with connected(sqlite_url) as engine:
        yield engine


@pytest.fixture
def postgres_engine(postgres_url: str) -> Iterator[Engine]:
    with connected(postgres_url) as engine:
        yield engine


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--every-database", action="store_true", help="run tests with a database on both kinds")
    parser.addoption("--shuffle", metavar="SEED", help="run the tests in a random order")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test on SQLite, and on PostgreSQL as well if it is marked or if all tests run on both."""
    if "database_kind" in metafunc.fixturenames:
        marked = metafunc.definition.get_closest_marker("postgresql")
        both = marked or metafunc.config.getoption("--every-database")
        metafunc.parametrize("database_kind", ["sqlite", "postgresql"] if both else ["sqlite"])


@pytest.fixture
def database_url(request: pytest.FixtureRequest, database_kind: str) -> str:
    """A database with the schema and no rows."""
    fixture = "sqlite_url" if database_kind == "sqlite" else "postgres_url"
    return str(request.getfixturevalue(fixture))


@pytest.fixture
def engine(request: pytest.FixtureRequest, database_kind: str) -> Engine:
    """An engine on a database with the schema and no rows."""
    engine = request.getfixturevalue(f"{'postgres' if database_kind == 'postgresql' else 'sqlite'}_engine")
    assert isinstance(engine, Engine)
    return engine


@pytest.fixture
def session(engine: Engine) -> Iterator[Session]:
    """A writing session on `engine`."""
    with db.write_session(engine) as session:
        yield session


@contextmanager
def connected(url: str) -> Iterator[Engine]:
    """Yield an engine and close its connections afterwards."""
    engine = db.make_engine(url)
    try:
        yield engine
    finally:
        engine.dispose()


numbers = itertools.count(1)


@contextmanager
def fresh_database(server: str, *, template: str = "template0") -> Iterator[str]:
    """Create a PostgreSQL database from `template`, yield its URL, and drop it with all connections."""
    name = f"digest_test_{os.getpid()}_{next(numbers)}"
    maker = create_engine(server, isolation_level="AUTOCOMMIT")
    try:
        with maker.connect() as connection:
            connection.exec_driver_sql(f'CREATE DATABASE "{name}" TEMPLATE "{template}" STRATEGY file_copy')
        yield make_url(server).set(database=name).render_as_string(hide_password=False)
        with maker.connect() as connection:
            connection.exec_driver_sql(f'DROP DATABASE "{name}" WITH (FORCE)')
    finally:
        maker.dispose()


# ── the site ────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def now() -> datetime:
    """A Friday morning."""
    return NOW


@pytest.fixture
def site() -> Site:
    """The site of the tests, with fixed keys, so that the same letters have the same bytes."""
    return Site(
        name="Example Digest",
        url="https://digest.example.org",
        sender_name="Example Digest",
        sender_address="digest@example.org",
        postal_address="Example Lab, 1 Example Street, 0150 Oslo, Norway",
        keys=(b"the newest key of the tests", b"an older key of the tests"),
        pepper=b"the pepper of the tests",
    )


@pytest.fixture(scope="session")
def templates() -> Templates:
    """The templates of this checkout."""
    from tests.support.shared_caches import shared_templates

    return shared_templates()


# ── material beside the checkout ────────────────────────────────────────────────────────────────


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real dumps and samples beside the checkout."""
    folder = ROOT.parent / "shared"
    if not folder.is_dir():
        pytest.skip("needs the real dumps in ../shared, which is absent")
    return folder
