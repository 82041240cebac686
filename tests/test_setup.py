"""Two commands are enough to run and test: check the lock files, the installer, the Makefile and the sample."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from datetime import date
from pathlib import Path

import pytest

from digest.dumps.formats import recognition
from digest.papers.paper_record import Record
from requirements import install, licences

ROOT = Path(__file__).parent.parent
LOCKS = sorted((ROOT / "requirements").glob("*.txt"))


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_a_lock_file_contains_no_url(lock: Path) -> None:
    """It holds pins, hashes and who asks for them, line by line, and nothing else."""
    known = re.compile(
        r"[a-z0-9-]+(\[[a-z,]+\])?==[\w.]+( ; [^:/]+)? \\|    --hash=sha256:[0-9a-f]{64}( \\)?|    # +[^:/]+"
    )

    assert [line for line in lock.read_text().splitlines() if not known.fullmatch(line)] == []


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_every_locked_package_carries_hashes(lock: Path) -> None:
    entries = re.split(r"(?m)^(?=[a-z0-9])", lock.read_text())[1:]
    without = [entry.split()[0] for entry in entries if "--hash=sha256:" not in entry]

    assert entries
    assert without == []


def test_the_locks_hold_every_dependency_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [*project["optional-dependencies"]["test"], *project["optional-dependencies"]["lint"]]

    assert missing(project["dependencies"], "base") == []
    assert missing([*project["dependencies"], *extras], "dev") == []


def missing(requirements: list[str], lock: str) -> list[str]:
    """Return the packages of `requirements` that the lock does not pin."""
    text = (ROOT / "requirements" / f"{lock}.txt").read_text()
    pinned = {canonical(name) for name in re.findall(r"(?m)^([A-Za-z0-9._-]+)==", text)}
    names = [re.split(r"[^A-Za-z0-9._-]", requirement)[0] for requirement in requirements]
    return [name for name in names if canonical(name) not in pinned]


def canonical(name: str) -> str:
    """Return a package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def test_the_page_of_licences_is_current() -> None:
    rows = re.compile(r"(?m)^\| ([a-z0-9.-]+) \| (\d\S*) \| (.+) \|$")
    written = {
        name: (version, licence)
        for name, version, licence in rows.findall((ROOT / "docs" / "licences.md").read_text())
    }
    made = {name: (version, licence) for name, version, licence in licences.rows()}

    assert written.keys() == made.keys(), "run: make licences"
    for name, (version, licence) in made.items():
        assert written[name][0] == version, "run: make licences"
        assert licence in {written[name][1], licences.ELSEWHERE}, "run: make licences"
    assert [name for name, (_, licence) in written.items() if licence == "see the package"] == []


def test_production_and_tests_pin_the_same_versions() -> None:
    pins = [dict(re.findall(r"(?m)^([a-z0-9._-]+)==(\S+)", lock.read_text())) for lock in LOCKS]
    base, dev = pins

    assert base.items() <= dev.items()


def test_the_installer_needs_nothing_but_the_standard_library() -> None:
    """`-I -S` hides everything that was ever installed; a wrong word still gets a clear answer."""
    command = [sys.executable, "-I", "-S", str(ROOT / "requirements" / "install.py"), "everything"]

    answer = subprocess.run(command, capture_output=True, text=True, check=False)

    assert answer.returncode == 1
    assert answer.stderr == "usage: install.py base|dev\n"


@pytest.mark.whole
@pytest.mark.slow
def test_make_run_installs_every_package_on_a_fresh_machine(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "requirements", tmp_path / "requirements")

    command = [sys.executable, str(tmp_path / "requirements" / "install.py"), "base"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    python = tmp_path / ".venv" / "bin" / "python"
    subprocess.run([python, "-c", "import celery, dkim, sqlalchemy"], check=True)


@pytest.mark.parametrize("arguments", [["status"], ["scheduler"]], ids=["the command", "a role"])
def test_files_in_the_current_folder_do_not_replace_modules(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("random", "email", "celery", "workers"):
        (tmp_path / f"{name}.py").write_text(f"raise SystemExit('the file {name}.py ran')")
    command = tmp_path / "digest"
    monkeypatch.setattr(install, "COMMAND", command)
    monkeypatch.setattr(install, "PYTHON", Path(sys.executable))
    install.write_command()
    monkeypatch.setenv("DIGEST_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("DIGEST_DATABASE_URL", "postgresql://127.0.0.1:1/digest")

    ran = subprocess.run([command, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert (ran.returncode, "The database" in ran.stdout + ran.stderr) == (1, True), ran.stderr


def test_make_help_names_every_target_a_person_may_call() -> None:
    declared = re.search(r"(?m)^\.PHONY: (.*)$", (ROOT / "Makefile").read_text())
    assert declared

    answer = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)

    listed = [line.split()[1] for line in answer.stdout.splitlines() if line.strip().startswith("make ")]
    assert sorted(listed) == sorted({*declared[1].split()} - {"base", "dev"})


@pytest.mark.whole
def test_every_process_finds_the_same_tests(request: pytest.FixtureRequest) -> None:
    """Test processes distribute tests by name.

    A name with a time, a hash or a path would stop all of them.
    """
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider"]

    anew = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)

    assert {item.nodeid for item in request.session.items} <= set(anew.stdout.splitlines())


def test_ci_runs_lint_and_tests_and_judges() -> None:
    script = (ROOT / ".ci" / "run").read_text()

    assert re.findall(r"(?m)^make (\w+)", script) == ["lint", "test", "judge"]
    assert "set -euo pipefail" in script


def test_the_sample_is_a_whole_dump_of_papers_in_many_fields() -> None:
    path = ROOT / "digest" / "dumps" / "sample" / "invented-papers.txt"

    with path.open("rb") as stream:
        reading = recognition.read(stream, name=path.name, observed_on=date(2026, 11, 20))
        records = list(reading.records)

    assert reading.format == "page"
    assert reading.header.date is None, "a sample with a date of its own would be old news one day"
    papers = [record for record in records if isinstance(record, Record)]
    assert papers == records
    assert len({paper.title for paper in papers}) == len(papers) == 30
    assert min(len(paper.abstract) for paper in papers) > 500


def test_the_sample_papers_are_invented(shared: Path) -> None:
    sample = (ROOT / "digest" / "dumps" / "sample" / "invented-papers.txt").read_text()
    truths = [
        line for path in (shared / "seeds").glob("*.truth.jsonl") for line in path.read_text().splitlines()
    ]
    real = {json.loads(line)["title"] for line in truths}

    assert real
    assert [title for title in real if title in sample] == []
