"""Run the long chaos suite: `python -m tests.chaos [--seconds 30] [--rounds 2] [--seed 1] [--only WORD]
[--write PATH]`.

It runs every case on every database, prints a line for each, and exits with 1 if a promise was broken. With
--write it replaces the table in that page, between its two marks; with --only, only the rows of the cases
that ran.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.chaos.failures import CASES, MUTANTS, FailureCase, Result, Unavailable, caught, ground
from tests.support import real_servers

NAMES = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}
BEGIN, END = "<!-- made by make chaos -->\n", "<!-- end of the table -->\n"
HEAD = "| what happens | on | what was done | letters | copies | doubts | broken |\n|---|---|---|--:|--:|--:|--:|\n"


def main() -> int:
    """Run everything, and return the exit code."""
    options = arguments()
    rows, failures = [], 0
    with real_servers.postgres() as server:
        for case in CASES:
            for kind in case.on if options.only in case.title else ():
                for seed in range(options.seed, options.seed + options.rounds):
                    row, broken = run_case(case, kind, server, seed, options.seconds)
                    rows.append(row)
                    failures += broken
                    print(row, end="", flush=True)
        for row, missed in mutants(server) if not options.only else ():
            rows.append(row)
            failures += missed
            print(row, end="", flush=True)
    if options.write:
        write(options.write, rows, keeps=bool(options.only))
    return 1 if failures else 0


def run_case(case: FailureCase, kind: str, server: str, seed: int, seconds: float) -> tuple[str, int]:
    """Run one case; return its row of the table, and the number of broken promises."""
    began = time.monotonic()
    try:
        with ground(kind, needs=case.needs, server=server) as found:
            result = case.run(found, seed, seconds)
    except Unavailable as reason:
        return f"| {case.title} | {NAMES[kind]} | not tried: {reason} | | | | |\n", 0
    for fault in result.broken:
        print("   ", fault)
    print(f"    seed {seed}, {time.monotonic() - began:.0f} s")
    return line(case.title, kind, result), len(result.broken) + is_incomplete(result)


def line(title: str, kind: str, result: Result) -> str:
    """Return a row of the table."""
    figures = " | ".join(str(one) for one in (result.letters, result.copies, result.doubts))
    return f"| {title} | {NAMES[kind]} | {result.summary} | {figures} | {len(result.broken) or 'none'} |\n"


def is_incomplete(result: Result) -> bool:
    """Return whether some instants were not hit, as in `6 of 7 instants hit`."""
    words = result.summary.split()
    return words[1:2] == ["of"] and words[0] != words[2]


def mutants(server: str) -> Iterator[tuple[str, int]]:
    """Yield a row for each broken design, and whether no check detected it."""
    for name, mutant in MUTANTS.items():
        for kind in mutant.on:
            with ground(kind, server=server) as found:
                broken = caught(found, name)
            is_missed = not broken >= mutant.breaks
            result = "passed unnoticed" if is_missed else f"caught: {'; '.join(sorted(broken))}"
            yield f"| {mutant.title} | {NAMES[kind]} | {result} | | | | |\n", is_missed


def write(path: Path, rows: list[str], *, keeps: bool) -> None:
    """Write the table between the marks of a page; with `keeps`, keep the rows of cases that did not run."""
    before, _, rest = path.read_text().partition(BEGIN)
    table, _, after = rest.partition(END)
    old = table.splitlines(keepends=True)[2:] if keeps else []
    known = {tuple(row.split("|")[1:3]): row for row in [*old, *rows]}
    path.write_text(before + BEGIN + HEAD + "".join(known.values()) + END + after)


def arguments() -> argparse.Namespace:
    """Return the parsed arguments."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", default="", help="a word of what happens")
    parser.add_argument("--write", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
