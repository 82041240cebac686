"""A command changes the service that it names, or refuses; it never makes another service unnoticed."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from digest.cli import command_context
from tests.cli.conftest import Digest


@pytest.fixture
def unnamed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty working directory, in a shell that names no data directory."""
    monkeypatch.delenv("DIGEST_DATA_DIR")
    return tmp_path


def test_a_command_refuses_where_no_service_is_found(digest: Digest, unnamed: Path) -> None:
    lines = [
        "deliveries stop", "status", "doctor", "papers", "run", "db upgrade", "backup x", "restore x", "keys retire",
        "subscribers list", "sources list", "dkim keygen", "worker", "web", "inbound",
    ]  # fmt: skip
    for line in lines:
        ran = digest(*shlex.split(line))
        assert (ran.code, f"There is no service in {unnamed}" in ran.err) == (2, True), line
    assert list(unnamed.iterdir()) == []

    (unnamed / "digest-data").mkdir()  # an empty folder is no service
    assert digest("run").code == 2


def test_a_tilde_in_a_setting_is_the_home_directory(
    digest: Digest, unnamed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(unnamed / "home"))
    monkeypatch.setenv("DIGEST_DATA_DIR", "~/papers")

    assert digest("status").code == 0
    assert (unnamed / "home" / "papers" / "digest.sqlite3").exists()

    monkeypatch.setenv("DIGEST_DATA_DIR", "~nobody-here/papers")
    assert digest("status").err.startswith("digest: DIGEST_DATA_DIR: ~nobody-here/papers: ")


@pytest.mark.parametrize("line", ["intake LIST", "subscribers add a@b.example", "init --site-name X"])
def test_the_first_command_of_a_new_service_says_where_it_is(
    digest: Digest, unnamed: Path, dump: Path, line: str
) -> None:
    ran = digest(*shlex.split(line.replace("LIST", str(dump))))

    assert (ran.code, f"Created the data directory {unnamed / 'digest-data'}." in ran.err) == (0, True)
    assert digest("deliveries", "stop").out == "Stopped. To resume: digest deliveries resume\n"


def test_a_refusal_gives_the_line_for_the_deployed_service(
    digest: Digest, unnamed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deploy(unnamed, monkeypatch, "DIGEST_DATA_DIR=/srv/papers")
    monkeypatch.setattr("sys.argv", ["digest", "deliveries", "stop", "--reason", "a test"])

    ran = digest("deliveries", "stop", "--reason", "a test")

    assert ran.code == 2
    assert "sudo -u digest digest --data-dir /srv/papers deliveries stop --reason 'a test'" in ran.err


def test_naming_the_deployed_data_directory_uses_all_settings_of_that_service(
    digest: Digest, unnamed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database, folder = f"sqlite:///{unnamed}/elsewhere.sqlite3", unnamed / "data"
    deploy(unnamed, monkeypatch, f"DIGEST_DATA_DIR={folder}", f'DIGEST_DATABASE_URL="{database}"  # comment')
    monkeypatch.setenv("DIGEST_DATABASE_URL", "")
    monkeypatch.delenv("DIGEST_DATABASE_URL")

    assert digest("--data-dir", folder, "deliveries", "stop").code == 0
    monkeypatch.delenv("DIGEST_DATABASE_URL")
    monkeypatch.setattr(command_context, "DEPLOYED", unnamed / "none")
    ran = digest("--data-dir", folder, "deliveries", "stop")

    assert (ran.code, "has the keys of a service" in ran.err) == (2, True)
    assert [path.name for path in unnamed.glob("**/*.sqlite3")] == ["elsewhere.sqlite3"]


def deploy(folder: Path, monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    settings = folder / "environment"
    settings.write_text("\n".join(lines))
    monkeypatch.setattr(command_context, "DEPLOYED", settings)
