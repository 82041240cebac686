"""The long chaos run: `python -m tests.chaos [--seconds 30] [--rounds 2] [--seed 1] [--only WORD] [--write PATH]`.

It plays every misfortune on every database, prints a line for each, and ends with 1 if a promise was broken.
With --write the table in that page is made anew, between its two marks; of a part that --only chose, only its rows.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests import servers
from tests.chaos.cases import CASES, MUTANTS, Case, Result, Unavailable, caught, ground

NAMES = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}
BEGIN, END = "<!-- made by make chaos -->\n", "<!-- end of the table -->\n"
HEAD = "| what happens | on | what was done | letters | copies | doubts | broken |\n|---|---|---|--:|--:|--:|--:|\n"


def main() -> int:
    """Play everything, and return the exit code."""
    told = arguments()
    rows, failures = [], 0
    with servers.postgres() as server:
        for case in CASES:
            for kind in case.on if told.only in case.says else ():
                for seed in range(told.seed, told.seed + told.rounds):
                    row, broken = played(case, kind, server, seed, told.seconds)
                    rows.append(row)
                    failures += broken
                    print(row, end="", flush=True)
        for row, missed in mutants(server) if not told.only else ():
            rows.append(row)
            failures += missed
            print(row, end="", flush=True)
    if told.write:
        write(told.write, rows, keeps=bool(told.only))
    return 1 if failures else 0


def played(case: Case, kind: str, server: str, seed: int, seconds: float) -> tuple[str, int]:
    """Play one misfortune; return its row of the table, and how many promises it broke."""
    began = time.monotonic()
    try:
        with ground(kind, needs=case.needs, server=server) as found:
            result = case.run(found, seed, seconds)
    except Unavailable as reason:
        return f"| {case.says} | {NAMES[kind]} | not tried: {reason} | | | | |\n", 0
    for fault in result.broken:
        print("   ", fault)
    print(f"    seed {seed}, {time.monotonic() - began:.0f} s")
    return line(case.says, kind, result), len(result.broken) + is_incomplete(result)


def line(says: str, kind: str, result: Result) -> str:
    """Return a row of the table."""
    figures = " | ".join(str(one) for one in (result.letters, result.copies, result.doubts))
    return f"| {says} | {NAMES[kind]} | {result.told} | {figures} | {len(result.broken) or 'none'} |\n"


def is_incomplete(result: Result) -> bool:
    """Return whether less was hit than there is: `6 of 7 instants hit`."""
    words = result.told.split()
    return words[1:2] == ["of"] and words[0] != words[2]


def mutants(server: str) -> Iterator[tuple[str, int]]:
    """Yield a row for each broken design, and whether it passed unnoticed."""
    for name, mutant in MUTANTS.items():
        for kind in mutant.on:
            with ground(kind, server=server) as found:
                broken = caught(found, name)
            is_missed = not broken >= mutant.breaks
            said = "passed unnoticed" if is_missed else f"caught: {', '.join(sorted(broken))}"
            yield f"| {mutant.says} | {NAMES[kind]} | {said} | | | | |\n", is_missed


def write(path: Path, rows: list[str], *, keeps: bool) -> None:
    """Put the table between the marks of a page; one that `keeps` leaves the rows that were not played."""
    before, _, rest = path.read_text().partition(BEGIN)
    table, _, after = rest.partition(END)
    old = table.splitlines(keepends=True)[2:] if keeps else []
    known = {tuple(row.split("|")[1:3]): row for row in [*old, *rows]}
    path.write_text(before + BEGIN + HEAD + "".join(known.values()) + END + after)


def arguments() -> argparse.Namespace:
    """Return what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", default="", help="a word of what happens")
    parser.add_argument("--write", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
