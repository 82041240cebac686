"""A leaked signing key can be retired on every machine, however it is configured."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Digest


@pytest.fixture
def ada(digest: Digest) -> str:
    """A reader, so that the database knows which key signs."""
    digest("subscribers", "add", "ada@example.org", "--confirmed", "--consent", "x")
    return "ada@example.org"


def keys(digest: Digest) -> dict[str, str]:
    return {row["id"]: row["state"] for row in digest("keys", "retire", "--json").lines}


def test_a_key_of_the_data_directory_is_replaced_when_it_is_retired(
    digest: Digest, ada: str, tmp_path: Path
) -> None:
    leaked = next(iter(keys(digest)))
    old = (tmp_path / "data" / "secret_key").read_text()

    done = digest("keys", "retire", leaked)
    again = digest("keys", "retire", leaked, "--json")

    path = tmp_path / "data" / "secret_key"
    assert (done.code, again.code) == (0, 0)
    assert old not in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600
    assert sorted(keys(digest).values()) == ["retired", "signs"]
    assert digest("subscribers", "edit", ada, "--name", "Ada").code == 0


def test_a_retired_key_is_refused_on_every_machine_and_a_new_one_accepted(
    digest: Digest, ada: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaked = (tmp_path / "data" / "secret_key").read_text()
    monkeypatch.setenv("DIGEST_SECRET_KEY", f"newer,{leaked}")
    digest("subscribers", "edit", ada, "--name", "A")
    known = {state: name for name, state in keys(digest).items()}

    retired = digest("keys", "retire", known["verifies"], "--json").document
    refused = digest("subscribers", "edit", ada, "--name", "Ada")
    monkeypatch.setenv("DIGEST_SECRET_KEY", "newer")
    taken = digest("subscribers", "edit", ada, "--name", "Ada")

    assert retired == {"id": known["verifies"], "retired": True, "in_settings": True}
    assert (refused.code, f"Key {known['verifies']} was retired" in refused.err) == (1, True)
    assert (taken.code, keys(digest)) == (0, {known["signs"]: "signs", known["verifies"]: "retired"})
    assert leaked not in refused.err


def test_a_key_that_was_replaced_before_it_was_retired_is_retired_by_its_name(
    digest: Digest, ada: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIGEST_SECRET_KEY", "quite new")
    refused = digest("subscribers", "edit", ada, "--name", "Ada")
    missing = next(name for name, state in keys(digest).items() if state == "missing")

    done = digest("keys", "retire", missing)

    assert (refused.code, f"digest keys retire {missing}" in refused.err) == (1, True)
    assert done.code == 0
    assert digest("subscribers", "edit", ada, "--name", "Ada").code == 0


def test_an_unknown_key_is_an_error_that_lists_the_known_ones(digest: Digest, ada: str) -> None:
    ran = digest("keys", "retire", "nosuch")

    assert ran.code == 1
    assert next(iter(keys(digest))) in ran.err
