"""A reader's setting that is described once is found wherever a reader or an operator meets settings."""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from pathlib import Path

import pytest
import typer

from digest import cli
from digest.cli import subscribers as commands
from digest.site import links
from digest.subscribers import account, reader_settings, subscriber_rows
from digest.subscribers.reader_settings import Setting
from tests.web.conftest import ServedSite, path_of
from tests.web.test_settings_page import SCHEDULE, pressed, words
from tests.web.test_sign_up_form import confirm_path

LANGUAGES = {"en": "English", "de": "German"}
DORA = "dora@uni.edu"


@pytest.fixture
def invented(monkeypatch: pytest.MonkeyPatch, column: str) -> Setting:
    """A setting that nothing but its description knows, stored in a column that its test does not use otherwise."""
    setting = Setting(
        name="letter_language", columns=(column,), read=reader_settings.choice_reader("letter_language", LANGUAGES),
        default="en", label="Language", option="--letter-language NAME", help="The language of letters.", choices=LANGUAGES,
    )  # fmt: skip
    monkeypatch.setitem(reader_settings.SETTINGS, setting.name, setting)
    return setting


@pytest.mark.parametrize("column", ["name"])
def test_a_new_setting_is_offered_by_the_form_the_page_and_mail(served: ServedSite, invented: Setting):
    assert 'name="letter_language"' in served.client.get("/").text
    served.sign_up(DORA, letter_language="de")
    assert "· German." in words(served.client.get(confirm_path(served)).text)
    served.client.post(confirm_path(served))
    dora = served.subscriber(DORA)
    assert dora.name == "de"

    page = path_of(links.manage_url(served.site, dora.id, dora.link_version))
    assert "Language: English. Before: German." in pressed(
        served, page, **SCHEDULE, letter_language="en", nothing_today=""
    )
    served.clock.now += timedelta(minutes=6)
    (letter,) = [text for subject, text in served.deliver_mail() if subject == "Your settings have changed"]
    assert "short abstracts · English" in " ".join(letter.split())
    assert "Language: German." in words(served.client.get(f"{page}?letter_language=de").text)
    assert "Language: German." not in words(served.client.get(f"{page}?letter_language=none").text)

    pressed(served, page, do="undo-change")

    assert served.subscriber(DORA).name == "de"
    with served.writing() as session:
        exported = account.export_data(session, subscriber_rows.get(session, DORA))
    assert exported["settings"]["letter_language"] == "de"


@pytest.mark.parametrize("column", ["leaving_reason"])
def test_a_new_setting_is_an_option_a_column_and_a_field_of_files(
    invented: Setting, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    monkeypatch.setenv("DIGEST_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setattr(cli, "subscribers", commands)  # it has the options, and is restored after the test
    monkeypatch.delitem(sys.modules, commands.__name__)
    monkeypatch.setattr(cli, "command", lambda: typer.main.get_command(cli.app))

    def run(*arguments: str | Path) -> str:
        capsys.readouterr()
        assert cli.main(["subscribers", *map(str, arguments)]) == 0, capsys.readouterr().err
        return capsys.readouterr().out

    def language_of(email: str) -> str:
        return str(json.loads(run("show", email, "--json"))["letter_language"])

    run("add", DORA, "--confirmed", "--consent", "by phone", "--letter-language", "de")
    assert language_of(DORA) == "de"
    assert "letter language" in run("show", DORA)
    assert run("list", "--columns", "email,letter_language").split()[-2:] == [DORA, "de"]
    run("edit", DORA, "--letter-language", "en")
    assert "Language: German. Before: English." in run("edit", DORA, "--undo")
    assert language_of(DORA) == "de"

    people, members = tmp_path / "people.csv", tmp_path / "members.csv"
    run("export", people)
    people.write_text(people.read_text().replace(",de,", ",en,"))
    run("import", people)
    assert language_of(DORA) == "en"
    members.write_text("email,letter_language\nemil@uni.edu,de\n")
    run("sync", members, "--yes")
    assert language_of("emil@uni.edu") == "de"
