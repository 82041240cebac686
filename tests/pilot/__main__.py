"""Run a service for sixty simulated days on both databases, and compare what arrived with what is promised.

make pilot [ARGS="--days 12 --readers 40 --database sqlite --seed 7"]
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import create_engine
from sqlalchemy.engine import make_url

from tests.pilot.diary import Diary
from tests.pilot.life import Life, sqlite_databases
from tests.pilot.oracle import Findings, judge
from tests.pilot.service import Service
from tests.support import real_servers

BEGIN = datetime(2026, 10, 1, tzinfo=UTC)  #: Europe and America set their clocks back in the sixty days


def main(arguments: list[str]) -> int:
    """Run the pilot and print its table."""
    options = argparse.ArgumentParser()
    options.add_argument("--days", type=int, default=60)
    options.add_argument("--readers", type=int, default=200)
    options.add_argument("--seed", type=int, default=40)
    options.add_argument("--database", choices=("sqlite", "postgresql"))
    chosen = options.parse_args(arguments)
    faults = 0
    for kind in [chosen.database] if chosen.database else ["sqlite", "postgresql"]:
        with tempfile.TemporaryDirectory(prefix="digest-pilot-") as name, databases(kind, Path(name)) as urls:
            diary = pilot(Path(name), urls, days=chosen.days, readers=chosen.readers, seed=chosen.seed)
            findings = judge(diary)
        report(kind, diary, findings)
        faults += len(findings.faults)
    return 1 if faults else 0


def pilot(
    folder: Path, urls: Iterator[str], *, days: int, readers: int, seed: int, begin: datetime = BEGIN
) -> Diary:
    """Live for some days, and return what happened."""
    diary = Diary(begin=begin, end=begin + timedelta(days=days))
    service = Service(folder=folder, diary=diary, databases=urls, now=begin)
    Life(service=service, chance=random.Random(seed), readers_at_end=readers).live()
    return diary


@contextmanager
def databases(kind: str, folder: Path) -> Iterator[Iterator[str]]:
    """Yield the URLs of empty databases."""
    if kind == "sqlite":
        yield sqlite_databases(folder)
        return
    with real_servers.postgres() as server:
        yield postgresql_databases(server)


def postgresql_databases(server: str) -> Iterator[str]:
    """Create a database for each URL."""
    for number in range(9):
        maker = create_engine(server, isolation_level="AUTOCOMMIT")
        with maker.connect() as connection:
            connection.exec_driver_sql(f"CREATE DATABASE pilot_{number}")
        maker.dispose()
        url = make_url(server).set(drivername="postgresql", database=f"pilot_{number}")
        yield url.render_as_string(hide_password=False)


def report(kind: str, diary: Diary, findings: Findings) -> None:
    """Print the figures and the faults."""
    print(f"\n| {kind}, {(diary.end - diary.begin).days} days | |\n|---|--:|")
    letters = Counter(letter.kind for letter in diary.letters)
    acts = Counter(act.what for act in diary.acts)
    figures = {
        "papers loaded": len(diary.papers), "readers": len({act.email for act in diary.acts}),
        **{f"letters: {name}": count for name, count in letters.most_common()},
        **{f"acts: {name}": count for name, count in acts.most_common()},
        **{f"checked: {name}": count for name, count in findings.counted.items()},
        "broken promises": len(findings.faults),
    }  # fmt: skip
    for name, figure in figures.items():
        print(f"| {name} | {figure:,} |")
    for fault in findings.faults[:200]:
        print(f"  {fault}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
