"""Settings are parsed once, displayed as written, and never reveal a secret."""

from __future__ import annotations

import re
import secrets
from datetime import timedelta
from pathlib import Path

import pytest

from digest.errors import BadField, UsageError
from digest.settings import load_settings


def test_roles_that_start_together_share_the_secret_that_the_first_one_makes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = load_settings({"data_dir": tmp_path}), load_settings({"data_dir": tmp_path})
    made: list[str] = []

    def meanwhile(size: int) -> str:
        """Let the other role ask for it while ours is about to make it."""
        monkeypatch.undo()
        made.append(theirs.secret("pepper"))
        return secrets.token_urlsafe(size)

    monkeypatch.setattr(secrets, "token_urlsafe", meanwhile)
    made.append(ours.secret("pepper"))

    assert len(made[0]) > 40
    assert made == [made[0]] * 2
    assert [path.name for path in tmp_path.iterdir()] == ["pepper"]


def test_a_sender_in_another_script_is_spelled_as_every_mail_server_reads_it() -> None:
    settings = load_settings({"sender": "Grüße <digest@straße.example>", "inbound_domain": "bücher.example"})

    assert str(settings.sender) == "Grüße <digest@xn--strae-oqa.example>"
    assert settings.site().domain == "xn--strae-oqa.example"
    assert settings.inbound_domain == "xn--bcher-kva.example"


def test_a_sender_that_many_servers_refuse_is_an_error() -> None:
    with pytest.raises(BadField, match="grüße is outside ASCII"):
        load_settings({"sender": "Digest <grüße@example.org>"})


def test_links_lead_to_the_port_that_is_set_unless_an_address_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_settings().base_url == "http://127.0.0.1:8000"

    monkeypatch.setenv("DIGEST_LISTEN", "0.0.0.0:8101")
    assert load_settings().base_url == "http://127.0.0.1:8101"
    assert load_settings({"listen": "[::1]:8102"}).base_url == "http://127.0.0.1:8102"

    (tmp_path / "digest.toml").write_text('base_url = "https://digest.example.org"\n')
    assert load_settings().base_url == "https://digest.example.org"


def test_a_settings_file_that_is_not_toml_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "digest.toml").write_text("site_name = Papers\n")

    with pytest.raises(UsageError, match=r"digest\.toml cannot be read: Invalid value .* line 1"):
        load_settings()


@pytest.mark.parametrize("name", ["DIGEST_SITE_NAME", "digest_site_name"])
def test_the_environment_overrides_a_named_file_which_overrides_the_settings_file(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "digest.toml").write_text('site_name = "of the settings file"\n')
    names = [load_settings().site_name]
    (tmp_path / "secret").write_text("of a named file\n")
    monkeypatch.setenv(f"{name}_FILE", str(tmp_path / "secret"))
    names.append(load_settings().site_name)
    monkeypatch.setenv(name, "of the environment")
    names += [load_settings().site_name, load_settings({"site_name": "given"}).site_name]

    assert names == ["of the settings file", "of a named file", "of the environment", "given"]


WRITTEN = {
    "mail_url": "smtp://127.0.0.1:25",
    "rates": "50/s, example.org 20/min, 9 at once, example.org 2 at once",
    "send_hours": "06:00-22:00",
    "warm_up": "2026-11-20: 200, 500",
    "canary": "2.5% for 90 min",
    "stop_at": "bounces 10%, complaints 0.3%",
    "keep": "attempts 30 days, deliveries 300 days, dumps 2 days, inactive readers 12 months",
    "listen": "[::1]:8000",
    "public": "folder title, internal no, archive off",
    "footer_links": "Imprint https://lab.example/imprint, Our privacy notice https://lab.example/privacy",
    "sender": "Example Lab <digest@example.org>",
    "signup": "lab.example, uni.example",
    "inbound": "lmtp://0.0.0.0:8024, smtp://127.0.0.1:25",
    "sns_topics": "arn:aws:sns:eu-west-1:123456789012:bounces",
}


def test_a_parsed_setting_is_shown_as_it_was_written() -> None:
    shown = load_settings(WRITTEN).shown()

    assert {name: shown[name] for name in WRITTEN} == WRITTEN


def test_an_invalid_setting_of_several_parts_is_refused_with_an_example() -> None:
    for name, text, message in (
        ("listen", "8000", "such as 127.0.0.1:8000"),
        ("listen", "127.0.0.1:99999", "such as 127.0.0.1:8000"),
        ("footer_links", "https://lab.example/imprint", "write a name before each address"),
        ("footer_links", "Imprint lab.example", "https://digest.example.org"),
        ("public", "folder all", "followed by abstract, title or no"),
        ("keep", "dumps", "attempts 90 days"),
        ("dkim_keys", "dkim.pem", "write selector:path"),
        ("dkim_keys", "mail:/absent.pem", "/absent.pem: No such file"),
    ):
        with pytest.raises(BadField, match=f"DIGEST_{name.upper()}: .*{re.escape(message)}"):
            load_settings({name: text})


def test_inactive_readers_are_kept_for_months_or_forever() -> None:
    assert load_settings().keep.inactive == timedelta(days=731)
    assert load_settings({"keep": "inactive readers 1 month"}).keep.inactive == timedelta(days=30)
    assert load_settings({"keep": "inactive readers never"}).keep.inactive is None
    for text in ("inactive readers", "inactive readers 0 months", "inactive readers two years"):
        with pytest.raises(BadField, match="24 months"):
            load_settings({"keep": text})


def test_smtp_is_received_from_this_machine_only_and_a_refusal_says_what_to_write() -> None:
    for url in (
        "smtp://localhost:25",
        "smtp://127.0.0.1:8025",
        "smtp://[::1]:25",
        "lmtp://0.0.0.0:24",
        "lmtp:///x",
    ):
        assert load_settings({"inbound": url}).inbound == (url,)
    for url in ("smtp://0.0.0.0:25", "smtp://192.0.2.1:25", "smtp://mail.example.org:25", "smtp://[::]:25"):
        with pytest.raises(
            BadField, match=r"DIGEST_INBOUND: SMTP is received from this machine only.*lmtp://"
        ):
            load_settings({"inbound": url})


def test_send_hours_and_warm_up_are_in_the_time_zone_that_is_set() -> None:
    limits = load_settings({**WRITTEN, "timezone": "Europe/Oslo"}).limits

    assert limits.hours is not None
    assert limits.warm_up is not None
    assert (limits.hours.zone, limits.warm_up.zone) == ("Europe/Oslo", "Europe/Oslo")


@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("mail_url", "smtp://user:hidden@mail.example.org:587"),
        ("database_url", "postgresql://user:hidden@db.example.org/digest"),
        ("broker_url", "redis://user:hidden@redis.example.org"),
    ],
)
def test_a_password_in_a_url_is_neither_shown_nor_quoted_in_an_error(name: str, url: str) -> None:
    settings = load_settings({name: url})

    assert "hidden" not in f"{settings!r} {settings.shown()}"
    with pytest.raises(BadField) as refused:
        load_settings({name: f"gopher{url}"})
    assert "hidden" not in str(refused.value)


def test_a_data_directory_whose_name_has_a_meaning_in_urls_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("100%", "a%20b", "why?", "c#"):
        for folder in (tmp_path / name, tmp_path / name / "below"):
            with pytest.raises(BadField, match=r"DIGEST_DATA_DIR.* choose a folder without %, [?] and #"):
                load_settings({"data_dir": folder})
    (tmp_path / "50%").mkdir()
    monkeypatch.chdir(tmp_path / "50%")
    with pytest.raises(BadField, match="DIGEST_DATA_DIR"):
        load_settings()


def test_the_embedded_broker_is_found_where_the_data_directory_has_a_long_name(tmp_path: Path) -> None:
    short, long = (load_settings({"data_dir": tmp_path / name}).broker_socket for name in ("d", "d" * 120))

    assert short == tmp_path / "d" / "broker" / "broker.sock"
    assert len(str(long)) < 100
    assert long == load_settings({"data_dir": tmp_path / ("d" * 120)}).broker_socket
