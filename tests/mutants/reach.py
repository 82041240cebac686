"""Run the tests of a checkout once under coverage, and answer which tests reach a line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from coverage import CoverageData

from tests.lint.branch_coverage import branch_percent
from tests.mutants.context_plugin import CONTEXT
from tests.mutants.faults import Place, spans_of_file

PLUGIN = Path(__file__).with_name("context_plugin.py")
CONFIGURATION = """[run]
branch = True
parallel = True
data_file = {data}/.coverage
context = ${{{context}-}}
source =
    {checkout}/digest
    {checkout}/workers
patch = _exit
disable_warnings = no-data-collected, module-not-measured, module-not-imported, already-imported
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reach:
    """The tests that passed without a fault, and the lines that each of them runs."""

    seconds: Mapping[str, float]  #: of each test, in the order in which they ran
    users: Mapping[str, list[str]]  #: the tests that use a shared fixture
    data: CoverageData

    def tests_of(self, place: Place, checkout: Path) -> list[str]:
        """Return the tests that reach a line; for a line outside functions, any line of its functions."""
        end = f"/{place.path.relative_to(checkout)}"
        measured = [file for file in self.data.measured_files() if file.endswith(end)]
        functions, _ = spans_of_file(place.path)
        lines = set(place.statement) if place.line in functions else set(functions)
        found = {
            test
            for file in measured
            for line, contexts in self.data.contexts_by_lineno(file).items()
            if line in lines
            for context in contexts
            for test in self.users.get(context.removeprefix("fixture "), [context])
        }
        return self.in_order(found & self.seconds.keys(), f"tests/{end.split('/')[2]}/")

    def in_order(self, tests: set[str], nearest: str) -> list[str]:
        """Return tests by file, as they ran: first those of the same package, then those of the quickest files."""
        files: dict[str, list[str]] = defaultdict(list)
        for test in self.seconds:
            if test in tests:
                files[test.partition("::")[0]].append(test)

        def cost(file: str) -> tuple[bool, float]:
            return not file.startswith(nearest), sum(map(self.seconds.__getitem__, files[file])) / len(
                files[file]
            )

        return [test for file in sorted(files, key=cost) for test in files[file]]


def measure(checkout: Path, folder: Path) -> Reach:
    """Return what the tests of a checkout reach; `folder` keeps it, and a second call reads it."""
    data, records = folder / "coverage", folder / "records"
    if not list(records.glob("*.json")):
        for each in (data, records):
            each.mkdir(parents=True, exist_ok=True)
        configuration = folder / "coverage.ini"
        configuration.write_text(CONFIGURATION.format(data=data, checkout=checkout, context=CONTEXT))
        done = run_tests(checkout, f"--test-records={records}", COVERAGE_PROCESS_START=str(configuration))
        (folder / "run.log").write_text(done.stdout)
    return read(data, records)


def read(data: Path, records: Path) -> Reach:
    """Read what a run recorded."""
    seconds: dict[str, float] = {}
    users: dict[str, list[str]] = defaultdict(list)
    for file in sorted(records.glob("*.json")):
        for test, record in json.loads(file.read_text()).items():
            if record["passed"]:
                seconds[test] = record["seconds"]
                for fixture in record["fixtures"]:
                    users[fixture].append(test)
    combined = CoverageData(str(data / "combined"))
    if not (data / "combined").exists():
        for part in data.glob(".coverage.*"):
            one = CoverageData(str(part))
            one.read()
            combined.update(one)
    combined.read()
    return Reach(seconds=seconds, users=users, data=combined)


def branch_coverage(checkout: Path, folder: Path) -> float:
    """Return the share of branches that the measured run took, in percent."""
    command = [sys.executable, "-m", "coverage", "json", "--quiet", "-o", "-"]
    files = [f"--rcfile={folder / 'coverage.ini'}", f"--data-file={folder / 'coverage' / 'combined'}"]
    done = subprocess.run([*command, *files], cwd=checkout, stdout=subprocess.PIPE, text=True, check=True)
    return branch_percent(json.loads(done.stdout))


def run_tests(checkout: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `make test` of a checkout with the plugin and more options."""
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "DIGEST_"))
    }
    arguments = " ".join(["-p", "context_plugin", "-p", "no:cacheprovider", *options])
    return subprocess.run(
        ["make", "test", f"ARGS={arguments}"],
        cwd=checkout, env={**inherited, **environment, "PYTHONPATH": str(PLUGIN.parent), "CI": "true"},  # the same examples
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip


def first_failure(output: str) -> Iterator[str]:
    """Yield the tests that pytest names as failed."""
    for line in output.splitlines():
        word, _, rest = line.partition(" ")
        if word in {"FAILED", "ERROR"}:
            yield rest.partition(" - ")[0]
