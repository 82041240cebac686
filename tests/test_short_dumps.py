"""A list that comes short of its own count: loaded if the operator says so, and the day's digests say so."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import Engine, select

from digest import db, intake, press, watching
from digest.links import Site
from digest.model import DumpState, PressRow
from digest.rendering import Templates
from tests.dumps.test_formats import LISTING
from tests.newsroom import Newsroom, at

SHORT = "Today's list came 55 papers short of its own count."


@pytest.fixture
def newsroom(engine: Engine, site: Site, templates: Templates) -> Newsroom:
    return Newsroom(engine=engine, site=site, templates=templates)


def arrive(
    newsroom: Newsroom, path: Path, content: str, *, moment: str, incomplete_ok: bool = True
) -> intake.Loaded:
    path.write_text(content)
    with db.writing(newsroom.engine) as session:
        return intake.load(session, path, now=at(moment), incomplete_ok=incomplete_ok)


def test_the_digests_of_the_day_say_how_much_is_missing(newsroom: Newsroom, tmp_path: Path) -> None:
    newsroom.subscribe("alice@example.org")
    arrive(newsroom, tmp_path / "mail.txt", LISTING.replace("1 new + 1", "53 new + 4"), moment="20T06:00")

    letter = newsroom.preview("alice@example.org", "20T08:00").letter

    assert SHORT in letter.text
    assert SHORT.replace("'", "&#39;") in letter.html.replace("&#x27;", "&#39;").replace("'", "&#39;")


def test_those_of_the_next_day_do_not(newsroom: Newsroom, tmp_path: Path) -> None:
    newsroom.subscribe("alice@example.org")
    arrive(newsroom, tmp_path / "mail.txt", LISTING.replace("1 new + 1", "53 new + 4"), moment="20T06:00")
    newsroom.publish("20T08:00")
    newsroom.dump("21T06:00", ["Owls"])

    assert "short of" not in newsroom.preview("alice@example.org", "21T08:00").letter.text


def test_a_list_without_its_end_is_told_without_a_figure(newsroom: Newsroom, tmp_path: Path) -> None:
    newsroom.subscribe("alice@example.org")
    cut = LISTING[: LISTING.index("%%%---")]
    arrive(newsroom, tmp_path / "mail.txt", cut, moment="20T06:00")

    letter = newsroom.preview("alice@example.org", "20T08:00").letter

    assert "Today's list broke off before its end." in letter.text


def test_a_whole_list_says_nothing_and_a_held_one_shows_nothing(newsroom: Newsroom, tmp_path: Path) -> None:
    newsroom.subscribe("alice@example.org")
    held = arrive(
        newsroom, tmp_path / "short.txt", LISTING.replace("1 new + 1", "53 new + 4"), moment="20T06:00", incomplete_ok=False
    )  # fmt: skip
    nothing = newsroom.preview("alice@example.org", "20T08:00")
    arrive(newsroom, tmp_path / "whole.txt", LISTING, moment="20T06:30")

    letter = newsroom.preview("alice@example.org", "20T08:00").letter

    assert (held.state, nothing.digest.sections) == (DumpState.HELD, ())
    assert "Tidal Sorting" in letter.text
    assert "Today's list" not in letter.text


def test_a_held_list_is_told_to_the_operator(newsroom: Newsroom, tmp_path: Path) -> None:
    held = arrive(
        newsroom, tmp_path / "short.txt", LISTING.replace("1 new + 1", "53 new + 4"), moment="20T06:00", incomplete_ok=False
    )  # fmt: skip

    with db.reading(newsroom.engine) as session:
        (trouble,) = watching.troubles(session, now=at("20T06:05"))
        later = watching.troubles(session, now=at("21T06:05"))

    assert (trouble.cause, later) == ("held-dumps", [])
    assert trouble.facts[0].startswith(
        f"dump {held.id}, short.txt: It is incomplete: its subject announces 57"
    )


def test_the_press_that_is_kept_says_it_on_every_machine(newsroom: Newsroom, tmp_path: Path) -> None:
    newsroom.subscribe("alice@example.org")
    arrive(newsroom, tmp_path / "mail.txt", LISTING.replace("1 new + 1", "53 new + 4"), moment="20T06:00")

    newsroom.publish("20T08:00")

    with db.reading(newsroom.engine) as session:
        content = session.scalars(select(PressRow.content)).one()
    assert press.from_bytes(content).note == SHORT


def test_templates_of_one_s_own_need_no_place_for_it(
    newsroom: Newsroom, tmp_path: Path, templates: Templates
) -> None:
    own = tmp_path / "letters" / "digest"
    own.mkdir(parents=True)
    whole = (Path(__file__).parent.parent / "templates" / "letters" / "digest" / "body.html").read_text()
    start = whole.index("{% if note %}")
    end = whole.index("{% endif %}", start) + len("{% endif %}\n")
    (own / "body.html").write_text(whole[:start] + whole[end:])
    newsroom.templates = Templates(Path(__file__).parent.parent / "templates", tmp_path)
    newsroom.subscribe("alice@example.org")
    arrive(newsroom, tmp_path / "mail.txt", LISTING.replace("1 new + 1", "53 new + 4"), moment="20T06:00")

    letter = newsroom.preview("alice@example.org", "20T08:00").letter

    assert SHORT in letter.text
    assert "short of its own count" not in letter.html
