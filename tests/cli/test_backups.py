"""Backups and what a restore refuses; tests/acceptance/test_operator_journeys.py has who is mailed after a restore."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from digest.cli import command_context
from digest.process import heartbeats
from tests.cli.conftest import FRIDAY, Digest

Lose = Callable[[], None]


@pytest.fixture(params=["sqlite", "postgresql"])
def lose_database(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Lose:
    """Use one kind of database; return a function that replaces it with an empty database."""
    urls = iter([f"sqlite:///{tmp_path / 'first.sqlite3'}", f"sqlite:///{tmp_path / 'second.sqlite3'}"])
    if request.param == "postgresql":
        urls = iter([request.getfixturevalue("postgres_url"), request.getfixturevalue("empty_postgres_url")])
    monkeypatch.setenv("DIGEST_DATABASE_URL", next(urls))
    return lambda: monkeypatch.setenv("DIGEST_DATABASE_URL", next(urls))


def test_an_old_link_does_not_open_a_subscriber_added_after_a_restore(
    digest: Digest, tmp_path: Path, lose_database: Lose
) -> None:
    for number in range(3):
        digest("subscribers", "add", f"reader{number}@example.org", "--confirmed", "--consent", "x")
    digest("backup", tmp_path / "digest.backup")
    digest("subscribers", "add", "late@example.org", "--confirmed", "--consent", "x")
    lose_database()

    digest("restore", tmp_path / "digest.backup")
    digest("subscribers", "add", "new@example.org", "--confirmed", "--consent", "x")

    with command_context.open_context() as context, context.read_session() as session:
        from digest.subscribers import subscriber_rows

        assert subscriber_rows.get(session, "new@example.org").id > 2_000_000


@pytest.mark.usefixtures("catalog", "ada")
def test_a_backup_is_one_private_file_with_keys_only_on_request(digest: Digest, tmp_path: Path) -> None:
    digest("backup", tmp_path / "plain")
    digest("backup", tmp_path / "whole", "--with-keys")

    pepper = (tmp_path / "data" / "pepper").read_text()
    assert (tmp_path / "plain").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.glob("*plain*")] == ["plain"]
    assert pepper.encode() not in (tmp_path / "plain").read_bytes()
    assert pepper.encode() in (tmp_path / "whole").read_bytes()
    with sqlite3.connect(tmp_path / "plain") as file:
        assert file.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert file.execute("SELECT count(*) FROM paper").fetchone() == (3,)


@pytest.mark.usefixtures("ada")
def test_a_backup_with_keys_restores_a_service_on_a_new_machine(
    digest: Digest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest("backup", tmp_path / "plain")
    digest("backup", tmp_path / "whole", "--with-keys")
    monkeypatch.setenv("DIGEST_DATA_DIR", str(tmp_path / "other"))

    without = digest("restore", tmp_path / "plain")
    for name in ("pepper", "secret_key"):
        (tmp_path / "other" / name).unlink()
    restored = digest("restore", tmp_path / "whole")

    assert (without.code, "DIGEST_PEPPER" in without.err or "DIGEST_SECRET_KEY" in without.err) == (1, True)
    assert (restored.code, restored.err.count("opt-outs.jsonl is missing")) == (0, 1)
    assert (tmp_path / "other" / "pepper").read_text() == (tmp_path / "data" / "pepper").read_text()
    assert digest("subscribers", "show", "ada@example.org").code == 0
    assert "digest deliveries resume" in digest("status").out


@pytest.mark.usefixtures("ada")
def test_restore_and_backup_never_replace_what_exists(digest: Digest, tmp_path: Path) -> None:
    file = tmp_path / "digest.backup"
    assert digest("backup", file).code == 0

    again = digest("backup", file)
    onto_itself = digest("backup", tmp_path / "data" / "digest.sqlite3", "--overwrite")
    full = digest("restore", file)
    other = digest("restore", tmp_path / "data" / "pepper")

    assert [ran.code for ran in (again, onto_itself, full, other)] == [2, 2, 2, 2]
    assert "--overwrite" in again.err
    assert "is the database" in onto_itself.err
    assert "is not empty" in full.err
    assert "is not a backup" in other.err
    assert digest("backup", file, "--overwrite").code == 0


@pytest.mark.usefixtures("ada")
def test_backup_never_replaces_a_device_or_pipe(digest: Digest, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    refused = digest("backup", pipe, "--overwrite")

    assert (refused.code, "is not a file" in refused.err, pipe.is_fifo()) == (2, True, True)


@pytest.mark.usefixtures("ada")
def test_db_copy_refuses_while_a_process_is_alive(digest: Digest, tmp_path: Path) -> None:
    target = f"sqlite:///{tmp_path / 'copy.sqlite3'}"
    with command_context.open_context() as context, context.write_session() as session:
        heartbeats.record_heartbeat(session, "worker", context.clock())
        session.commit()
        refused = digest("db", "copy", target)
        heartbeats.remove_heartbeat(session, "worker", started_at=context.clock())
    copied = digest("db", "copy", target)

    assert (refused.code, "worker" in refused.err, "Stop them first" in refused.err) == (2, True, True)
    assert copied.code == 0


def test_a_command_saves_its_opt_outs_unless_the_service_has_a_scheduler(
    digest: Digest, tmp_path: Path
) -> None:
    file = tmp_path / "data" / "opt-outs.jsonl"
    with command_context.open_context() as context, context.write_session() as session:
        heartbeats.record_heartbeat(session, "scheduler", context.clock())
        session.commit()
        digest("suppressions", "add", "ada@example.org")
        assert not file.exists()
        heartbeats.remove_heartbeat(session, "scheduler", started_at=context.clock())

    digest("suppressions", "add", "bob@example.org")

    assert [json.loads(line)["kind"] for line in file.read_text().splitlines()] == ["suppressed"] * 2


@pytest.mark.usefixtures("ada")
def test_a_line_that_a_crash_cut_off_is_written_again(digest: Digest, tmp_path: Path) -> None:
    file = tmp_path / "data" / "opt-outs.jsonl"
    file.write_text('{"id": 1, "at": "2026-')
    digest("subscribers", "remove", "ada@example.org", "--yes", "--now", FRIDAY)

    digest("run", "--now", FRIDAY)

    cut, whole = file.read_text().splitlines()
    assert cut == '{"id": 1, "at": "2026-'
    assert (json.loads(whole)["kind"], json.loads(whole)["at"]) == (
        "unsubscribed",
        "2026-11-20T08:30:00Z",
    )
    assert "ada@" not in whole  # "ada" alone may be part of the hash
