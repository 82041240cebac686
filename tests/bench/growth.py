"""Simulate three years of a small service day by day, and check that its database stops growing.

Papers are loaded, published and delivered by the functions that the entry points call, and old rows are
deleted each night. The catalog grows with every new paper. Everything else must stop growing after the
longest retention period.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import perf_counter

from sqlalchemy import Engine, func, select, text

from digest import db, settings
from digest.db.tables.deliveries import Attempt, Delivery, PressRow, Shown
from digest.delivery import delivery_run
from digest.delivery.limits.limit_rules import SendLimits
from digest.delivery.transports.memory import MemoryTransport
from digest.letters.templates import Templates
from digest.publishing import cleanup
from digest.publishing.retention_rules import Retention
from digest.site.site_profile import Site
from tests.support import real_servers
from tests.support.fixed_clock import fixed_clock
from tests.support.publishing_world import PublishingWorld
from tests.support.shared_caches import CACHES

BEGAN = datetime(2026, 1, 1, 8, tzinfo=UTC)
FLAT_AFTER = 420  #: days: the longest retention period and a margin
MAY_GROW = 1.05  #: maximum growth factor of everything but the catalog
LIBRARY = frozenset({"paper", "alias", "appearance", "signal", "dump", "change", "problem"})
LIVING = ("autovacuum_naptime=1s", "autovacuum_vacuum_cost_delay=0", "fsync=off", "synchronous_commit=off")
TABLES = {"deliveries": Delivery, "attempts": Attempt, "showings": Shown, "presses": PressRow}


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """The size of a database."""

    mail: int  #: number of bytes used by everything but the catalog
    library: int
    rows: dict[str, int]


def sqlite_size(engine: Engine) -> dict[str, int]:
    """Return the bytes of each table with its indexes; free pages count as mail."""
    with engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        pages = connection.exec_driver_sql(
            "SELECT m.tbl_name, sum(d.pgsize) FROM dbstat d JOIN sqlite_schema m ON m.name = d.name GROUP BY 1"
        ).all()
        free = connection.exec_driver_sql(
            "SELECT freelist_count * page_size FROM pragma_freelist_count, pragma_page_size"
        )
        return dict(map(tuple, pages)) | {"free": free.scalar_one()}


def postgres_size(engine: Engine) -> dict[str, int]:
    """Return the bytes of each table with its indexes and TOAST."""
    sizes = "SELECT relname, pg_total_relation_size(oid) FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
    with engine.connect() as connection:
        return {row[0]: row[1] for row in connection.execute(text(sizes))}


def measured(engine: Engine, sizes: Callable[[Engine], dict[str, int]]) -> Size:
    """Return the current size."""
    found = sizes(engine)
    with db.read_session(engine) as session:
        rows = {
            name: session.scalar(select(func.count()).select_from(table)) or 0
            for name, table in TABLES.items()
        }
    library = sum(size for name, size in found.items() if name in LIBRARY)
    return Size(mail=sum(found.values()) - library, library=library, rows=rows)


def simulate_days(
    world: PublishingWorld,
    *,
    days: int,
    readers: int,
    kept: Retention,
    sizes: Callable[[Engine], dict[str, int]],
) -> dict[int, Size]:
    """Simulate the days; return the size on every tenth."""
    for number in range(readers):
        world.subscribe(f"reader{number}@example.org", {"Graphs": "graph*"}, now="2026-01-01T00:00")
    found = {}
    for day in range(days):
        now = BEGAN + timedelta(days=day)
        world.dump(
            f"{now:%Y-%m-%dT00:00}", [f"Graph {word} of day {day}" for word in ("one", "two", "three")]
        )
        world.publish(f"{now:%Y-%m-%dT%H:%M}")
        with db.write_session(world.engine) as session, closing(MemoryTransport()) as transport:
            delivery_run.deliver(
                session, site=world.site, templates=world.templates, caches=CACHES, transport=transport,
                clock=fixed_clock(now), limits=SendLimits(),
            )  # fmt: skip
            cleanup.delete_old_rows(session, kept=kept, now=now + timedelta(hours=18), between=0)
            cleanup.delete_old_shown(session, now=now + timedelta(hours=18), between=0)
        if day % 10 == 0 or day == days - 1:
            found[day] = measured(world.engine, sizes)
    return found


def is_flat(found: dict[int, Size]) -> bool:
    """Return whether only the catalog has grown since the end of the longest retention period."""
    early = max(size.mail for day, size in found.items() if FLAT_AFTER <= day < FLAT_AFTER + 60)
    return all(size.mail <= early * MAY_GROW for day, size in found.items() if day >= FLAT_AFTER + 60)


def main(full: bool) -> int:
    """Print the size by day on both databases; return 0 if it stops growing."""
    days, readers = 3 * 365, 40 if full else 10
    site = Site(keys=(b"bench",), pepper=b"bench")
    templates = Templates(settings.templates_dir())
    is_fine = True
    with tempfile.TemporaryDirectory() as folder, real_servers.postgres(*LIVING) as url:
        places = {
            "SQLite": (f"sqlite:///{Path(folder) / 'growth.sqlite3'}", sqlite_size),
            "PostgreSQL": (url, postgres_size),
        }
        for name, (where, sizes) in places.items():
            engine, began = db.make_engine(where), perf_counter()
            db.upgrade(engine)
            world = PublishingWorld(engine=engine, site=site, templates=templates)
            found = simulate_days(world, days=days, readers=readers, kept=Retention(), sizes=sizes)
            engine.dispose()
            print(f"{name}, {readers} readers ({perf_counter() - began:.0f} s)")
            for day in [*range(0, days, 100), 420, days - 1]:
                size = found[day]
                rows = ", ".join(f"{count:,} {what}" for what, count in size.rows.items())
                print(
                    f"  day {day:>4}: mail {size.mail / 1e6:6.2f} MB, catalog {size.library / 1e6:5.2f} MB; {rows}",
                    flush=True,
                )
            is_fine &= is_flat(found)
    return 0 if is_fine else 1
