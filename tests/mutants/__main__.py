"""Put faults, one at a time, into code that promises rest on, and report which ones `make test` catches.

    python -m tests.mutants [--checkout OTHER] [--seed 37] [--count 40] [--folder KEPT] [--jobs 2]

The tests that reach the changed line run until one fails. With a second checkout, both get the same faults: those
of lines that both have. Only copies of the checkouts are changed. `--folder` keeps the copies and what one run of
all tests with coverage found out about them, so that a second call starts at once.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from tests.lint.sentences import ROOT
from tests.mutants import faults, reach
from tests.mutants.faults import CodeFault, Place

TEST_SECONDS = 120  #: after which a test hangs because of its fault
CACHES = ("__pycache__", ".venv", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", "digest-data")


@dataclass(frozen=True, kw_only=True, slots=True)
class TriedFault:
    """What became of a fault."""

    fault: CodeFault
    tests: int  #: number of tests that reach the line
    caught_by: str  #: the first test that failed, or ""

    def __str__(self) -> str:
        ending = f"caught by {self.caught_by}" if self.caught_by else "ESCAPED"
        return f"{self.fault}\n    {self.tests} tests, {ending}"


def main() -> None:
    """Print the verdict on every fault, and how many were caught in each checkout."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument(
        "--checkout", type=Path, action="append", default=[], help="another checkout to compare with"
    )
    parser.add_argument("--seed", type=int, default=37)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--jobs", type=int, default=2, help="faults that are tried at once")
    parser.add_argument("--folder", type=Path, help="where the copies and the coverage are kept")
    given = parser.parse_args()
    checkouts = [ROOT, *(checkout.resolve() for checkout in given.checkout)]
    drawn = faults.draw(checkouts, seed=given.seed, count=given.count)
    with kept(given.folder) as folder:
        tried = [
            (
                checkout,
                list(try_faults(checkout, folder / f"{number}-{checkout.name}", drawn, jobs=given.jobs)),
            )
            for number, checkout in enumerate(checkouts)
        ]
    for checkout, verdicts in tried:
        escaped = [verdict for verdict in verdicts if not verdict.caught_by]
        print(f"\n{checkout}: {len(verdicts) - len(escaped)} of {len(verdicts)} caught", *escaped, sep="\n")


@contextmanager
def kept(folder: Path | None) -> Iterator[Path]:
    """Yield the folder, or one that is removed afterwards."""
    if folder is not None:
        yield folder.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="digest-mutants-", ignore_cleanup_errors=True) as made:
        yield Path(made)


def try_faults(
    checkout: Path, folder: Path, drawn: Sequence[CodeFault], *, jobs: int
) -> Iterator[TriedFault]:
    """Yield the verdict on each fault, as the tests of a checkout give it."""
    print(f"{checkout}: {len(drawn)} faults", flush=True)
    measured_copy = copied(checkout, folder / "measured")
    measured = reach.measure(measured_copy, folder)
    print(f"make test takes {reach.branch_coverage(measured_copy, folder):.2f} % of the branches", flush=True)
    free: SimpleQueue[Path] = SimpleQueue()
    for number in range(jobs):
        free.put(copied(checkout, folder / str(number)))

    def try_in_free_copy(fault: CodeFault) -> TriedFault:
        copy = free.get()
        try:
            return try_fault(fault, copy, measured)
        finally:
            free.put(copy)

    with ThreadPoolExecutor(jobs) as pool:
        for verdict in pool.map(try_in_free_copy, drawn):
            print(verdict, flush=True)
            yield verdict


def copied(checkout: Path, copy: Path) -> Path:
    """Copy a checkout with an environment of its own, and with the folder beside it."""
    if copy.exists():
        return copy
    shutil.copytree(checkout, copy, ignore=shutil.ignore_patterns(*CACHES), symlinks=True)
    environment = copy / ".venv"
    environment.mkdir()
    for part in (checkout / ".venv").iterdir():
        if part.name != "bin":
            (environment / part.name).symlink_to(part)
    shutil.copytree(checkout / ".venv" / "bin", environment / "bin", symlinks=True)
    command = environment / "bin" / "digest"
    command.write_text(command.read_text().replace(str(checkout), str(copy)))
    beside = checkout.parent / "shared"
    if beside.exists() and not (copy.parent / "shared").exists():
        (copy.parent / "shared").symlink_to(beside.resolve())
    return copy


def try_fault(fault: CodeFault, copy: Path, measured: reach.Reach) -> TriedFault:
    """Run the tests that reach a fault until one fails."""
    place = faults.lines_of(copy)[fault.function, fault.before]
    tests = measured.tests_of(place, copy)
    if not tests:
        return TriedFault(fault=fault, tests=0, caught_by="")
    chosen = copy.parent / f"{copy.name}-tests.txt"
    chosen.write_text("\n".join(tests))
    with changed(place, fault):
        files = dict.fromkeys(test.partition("::")[0] for test in tests)
        options = ("-n", "0", "-x", "-q", f"--timeout={TEST_SECONDS}", f"--reached-tests={chosen}")
        done = reach.run_tests(copy, *options, *files)
    caught_by = next(reach.first_failure(done.stdout), "" if done.returncode == 0 else done.stdout[-500:])
    return TriedFault(fault=fault, tests=len(tests), caught_by=caught_by)


@contextmanager
def changed(place: Place, fault: CodeFault) -> Iterator[None]:
    """Put a fault into a file while the block runs."""
    source = place.path.read_text()
    lines = source.splitlines(keepends=True)
    lines[place.line - 1] = lines[place.line - 1].replace(fault.before, fault.after)
    place.path.write_text("".join(lines))
    try:
        yield
    finally:
        place.path.write_text(source)


if __name__ == "__main__":
    main()
