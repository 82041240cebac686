"""Provide fixtures for every test: real servers, fresh databases, a site, templates and a few readers.

`DIGEST_TEST_POSTGRES_URL` and `DIGEST_TEST_REDIS_URL` name servers to use instead of our own; the
databases made there are dropped again.
"""

from __future__ import annotations

import itertools
import os
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
from digest.site_profile import Site
from tests.support import compiled_templates, real_servers
from tests.support.run_figures import pytest_terminal_summary

if TYPE_CHECKING:
    from digest.letters import Templates

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

compiled_templates.compile_each_once()


# ── in parallel ─────────────────────────────────────────────────────────────────────────────────


#: Folders whose tests of real processes take about as long as those of all others.
WHOLE_SERVICE = ("tests/acceptance/", "tests/chaos/", "tests/cli/")
CHAINS = ("the whole service", "single processes")


class OneFileAtATime(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Run the tests of one file in one process, and all files that start real processes in two chains.

    These wait for heartbeats, which come late if many services start at once. The chains take longest, so they
    begin first.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        if "pytest.mark.slow" not in (ROOT / file).read_text():
            return file
        return CHAINS[not file.startswith(WHOLE_SERVICE)]

    def _assign_work_unit(self, node: WorkerController) -> None:
        for chain in CHAINS:
            if chain in self.workqueue:
                self.workqueue.move_to_end(chain, last=False)
        super()._assign_work_unit(node)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> OneFileAtATime:
    return OneFileAtATime(config, log)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return two processes more than there are cores: the two chains wait most of the time."""
    return (os.cpu_count() or 2) + 2


# ── servers, once per run (and per process of it) ───────────────────────────────────────────────


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of a PostgreSQL on which databases may be made."""
    named = os.environ.get("DIGEST_TEST_POSTGRES_URL")
    if named:
        yield db.with_driver(named)
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
    """The name of a PostgreSQL database with the whole schema, to copy from."""
    with fresh_database(postgres_server, template="template0") as url:
        engine = db.make_engine(url)
        db.upgrade(engine)
        engine.dispose()  # a template must have no connections
        yield str(make_url(url).database)


@pytest.fixture
def sqlite_url(migrated_sqlite: Path, tmp_path: Path) -> str:
    """A fresh SQLite database with the schema."""
    path = tmp_path / "digest.sqlite3"
    shutil.copyfile(migrated_sqlite, path)
    return f"sqlite:///{path}"


@pytest.fixture
def postgres_url(postgres_server: str, migrated_postgres: str) -> Iterator[str]:
    """A fresh PostgreSQL database with the schema."""
    with fresh_database(postgres_server, template=migrated_postgres) as url:
        yield url


@pytest.fixture
def empty_postgres_url(postgres_server: str) -> Iterator[str]:
    """A fresh PostgreSQL database with nothing in it."""
    with fresh_database(postgres_server, template="template0") as url:
        yield url


@pytest.fixture
def sqlite_engine(sqlite_url: str) -> Iterator[Engine]:
    with connected(sqlite_url) as engine:
        yield engine


@pytest.fixture
def postgres_engine(postgres_url: str) -> Iterator[Engine]:
    with connected(postgres_url) as engine:
        yield engine


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> str:
    """A fresh database with the schema; the test runs once on each kind."""
    fixture = "sqlite_url" if request.param == "sqlite" else "postgres_url"
    return str(request.getfixturevalue(fixture))


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    """An engine on a fresh database with the schema; the test runs once on each kind."""
    with connected(database_url) as engine:
        yield engine


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
def fresh_database(server: str, *, template: str) -> Iterator[str]:
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
