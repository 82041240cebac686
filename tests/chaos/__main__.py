"""The long chaos run: `python -m tests.chaos [--seconds 60] [--readers 400] [--seed 1] [--rounds 3]`.

It prints a line for each run, and ends with 1 if a promise was broken.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from sqlalchemy import create_engine, make_url

from digest import db
from tests import servers
from tests.chaos.test_chaos import FAILPOINTS, die_everywhere, weather
from tests.chaos.world import attempts_of, world

COLUMNS = "{:<11} {:>6} {:>6} {:>6} {:>7} {:>6} {:>6} {:>7} {:>10} {:>6}"


def main() -> int:
    """Run storms on both databases and return the exit code."""
    told = arguments()
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'chaos.sqlite3'}"
        db.upgrade(db.connect(url))
        with world(url, seed=told.seed, readers=90, window=5, rate=0) as made:
            hit = die_everywhere(made)
            broken = made.broken()
    print(f"{hit} of {len(FAILPOINTS)} failpoints hit, {len(broken)} promises broken\n")
    print(
        COLUMNS.format(
            "database",
            "window",
            "seed",
            "kills",
            "freezes",
            "faults",
            "left",
            "copies",
            "explained",
            "broken",
        )
    )
    failures = len(broken) + len(FAILPOINTS) - hit
    with servers.postgres() as server:
        for seed in range(told.seed, told.seed + told.rounds):
            for kind in ("sqlite", "postgresql"):
                for window in (1, 50):
                    failures += one(kind, server, told, seed, window)
    return 1 if failures else 0


def one(kind: str, server: str, told: argparse.Namespace, seed: int, window: int) -> int:
    """Run one storm, print its line, and return how many promises it broke."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'chaos.sqlite3'}"
        if kind == "postgresql":
            url = fresh(server, f"chaos_{seed}_{window}")
        engine = db.connect(url)
        db.upgrade(engine)
        engine.dispose()
        with world(url, seed=seed, readers=told.readers, window=window, rate=told.rate) as made:
            broken = weather(made, seed=seed, seconds=told.seconds)
            copies = len(made.server.taken)
            readers = len({taken.recipient for taken in made.server.taken})
            untold = sum(not taken.is_told for taken in made.server.taken)
            print(
                COLUMNS.format(
                    kind, window, seed, made.kills, made.freezes, sum(made.plan.met.values()), len(made.left),
                    copies, f"{copies - readers}/{untold}+{made.kills + made.freezes}", len(broken),
                )
            )  # fmt: skip
            for fault in broken:
                print("   ", fault)
            print("   ", attempts_of(made.engine), flush=True)
    return len(broken)


def fresh(server: str, name: str) -> str:
    """Make an empty PostgreSQL database and return its URL."""
    maker = create_engine(server, isolation_level="AUTOCOMMIT")
    with maker.connect() as connection:
        connection.exec_driver_sql(f'CREATE DATABASE "{name}"')
    maker.dispose()
    return make_url(server).set(database=name).render_as_string(hide_password=False)


def arguments() -> argparse.Namespace:
    """Return what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--readers", type=int, default=400)
    parser.add_argument("--rate", type=float, default=0.15)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
