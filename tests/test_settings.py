"""What a house keeps to itself is the same for all of its roles."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest
from pydantic import ValidationError

from digest.settings import Settings


def test_roles_that_start_together_share_the_secret_that_the_first_one_makes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = Settings(data_dir=tmp_path), Settings(data_dir=tmp_path)
    made: list[str] = []

    def meanwhile(size: int) -> str:
        """Let the other role ask for it while ours is about to make it."""
        monkeypatch.undo()
        made.append(theirs.stored_secret("pepper"))
        return secrets.token_urlsafe(size)

    monkeypatch.setattr(secrets, "token_urlsafe", meanwhile)
    made.append(ours.stored_secret("pepper"))

    assert len(made[0]) > 40
    assert made == [made[0]] * 2
    assert [path.name for path in tmp_path.iterdir()] == ["pepper"]


def test_a_sender_in_another_script_is_spelled_as_every_mail_server_reads_it() -> None:
    settings = Settings(sender="Grüße <digest@straße.example>", inbound_domain="bücher.example")

    assert settings.sender == "Grüße <digest@xn--strae-oqa.example>"
    assert settings.site().domain == "xn--strae-oqa.example"
    assert settings.inbound_domain == "xn--bcher-kva.example"


def test_a_sender_that_many_servers_refuse_is_told_of() -> None:
    with pytest.raises(ValidationError, match="grüße is outside ASCII"):
        Settings(sender="Digest <grüße@example.org>")


def test_links_lead_to_the_port_that_is_set_unless_an_address_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert Settings().base_url == "http://127.0.0.1:8000"

    monkeypatch.setenv("DIGEST_PORT", "8101")
    assert Settings().base_url == "http://127.0.0.1:8101"
    assert Settings(port=8102).base_url == "http://127.0.0.1:8102"

    (tmp_path / "digest.toml").write_text('base_url = "https://digest.example.org"\n')
    assert Settings().base_url == "https://digest.example.org"
