"""Short, late and released lists: what the operator and the readers are shown."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Engine, select

from digest import db
from digest.db.tables.deliveries import PressRow
from digest.db.tables.dumps import DumpState
from digest.dumps.intake import load_dump as loading
from digest.dumps.intake import retry_dump
from digest.dumps.intake.load_report import LoadResult
from digest.letters.press import press_value
from digest.letters.templates import Templates
from digest.monitoring import problems
from digest.publishing.publication import Publication
from digest.publishing.why import explain_paper
from digest.publishing.why.question import WhyAnswer, WhyCause
from digest.site.site_profile import Site
from tests.dumps.test_formats import LISTING
from tests.support.publishing_world import PublishingWorld, at
from tests.support.shared_caches import CACHES

SHORT = "Today’s list of papers is incomplete: 55 are missing."


@pytest.fixture
def world(engine: Engine, site: Site, templates: Templates) -> PublishingWorld:
    return PublishingWorld(engine=engine, site=site, templates=templates)


def load_dump(
    world: PublishingWorld, path: Path, content: str, *, moment: str, incomplete_ok: bool = True
) -> LoadResult:
    path.write_text(content)
    with db.write_session(world.engine) as session:
        return loading.load(session, path, now=at(moment), incomplete_ok=incomplete_ok)


def test_the_digests_of_the_day_say_how_much_is_missing(world: PublishingWorld, tmp_path: Path) -> None:
    world.subscribe("alice@example.org")
    load_dump(world, tmp_path / "mail.txt", LISTING.replace("1 new + 1", "53 new + 4"), moment="20T06:00")

    letter = world.preview("alice@example.org", "20T08:00").letter

    assert SHORT in letter.text
    assert SHORT in letter.html.replace("\xa0", " ")


def test_the_digests_of_the_next_day_do_not_mention_a_short_list(
    world: PublishingWorld, tmp_path: Path
) -> None:
    world.subscribe("alice@example.org")
    load_dump(world, tmp_path / "mail.txt", LISTING.replace("1 new + 1", "53 new + 4"), moment="20T06:00")
    world.publish("20T08:00")
    world.dump("21T06:00", ["Owls"])

    assert "short of" not in world.preview("alice@example.org", "21T08:00").letter.text


def test_a_list_without_its_end_is_reported_without_a_number(world: PublishingWorld, tmp_path: Path) -> None:
    world.subscribe("alice@example.org")
    cut = LISTING[: LISTING.index("%%%---")]
    load_dump(world, tmp_path / "mail.txt", cut, moment="20T06:00")

    letter = world.preview("alice@example.org", "20T08:00").letter

    assert "Today’s list of papers is incomplete." in letter.text


def test_a_complete_list_adds_no_note_and_a_held_list_no_papers(
    world: PublishingWorld, tmp_path: Path
) -> None:
    world.subscribe("alice@example.org")
    held = load_dump(
        world, tmp_path / "short.txt", LISTING.replace("1 new + 1", "53 new + 4"), moment="20T06:00", incomplete_ok=False
    )  # fmt: skip
    nothing = world.preview("alice@example.org", "20T08:00")
    load_dump(world, tmp_path / "whole.txt", LISTING, moment="20T06:30")

    letter = world.preview("alice@example.org", "20T08:00").letter

    assert (held.state, nothing.digest.sections) == (DumpState.HELD, ())
    assert "Tidal Sorting" in letter.text
    assert "Today’s list" not in letter.text


def test_a_held_list_is_reported_to_the_operator(world: PublishingWorld, tmp_path: Path) -> None:
    held = load_dump(
        world, tmp_path / "short.txt", LISTING.replace("1 new + 1", "53 new + 4"), moment="20T06:00", incomplete_ok=False
    )  # fmt: skip

    with db.read_session(world.engine) as session:
        (problem,) = problems.find_problems(session, now=at("20T06:05"))
        later = problems.find_problems(session, now=at("21T06:05"))

    assert (problem.cause, later) == ("held-dumps", [])
    assert problem.facts[0].startswith(
        f"dump {held.id}, short.txt: The dump is incomplete: its subject announces 57"
    )


def test_the_stored_press_contains_the_note_on_a_short_list(world: PublishingWorld, tmp_path: Path) -> None:
    world.subscribe("alice@example.org")
    load_dump(world, tmp_path / "mail.txt", LISTING.replace("1 new + 1", "53 new + 4"), moment="20T06:00")

    world.publish("20T08:00")

    with db.read_session(world.engine) as session:
        content = session.scalars(select(PressRow.content)).one()
    assert press_value.from_bytes(content).note == SHORT


def test_custom_templates_may_omit_the_note(
    world: PublishingWorld, tmp_path: Path, templates: Templates
) -> None:
    own = tmp_path / "letters" / "digest"
    own.mkdir(parents=True)
    whole = (Path(__file__).parents[2] / "templates" / "letters" / "digest" / "body.html").read_text()
    start = whole.index("{% if note %}")
    end = whole.index("{% endif %}", start) + len("{% endif %}")
    (own / "body.html").write_text(whole[:start] + whole[end:])
    world.templates = Templates(Path(__file__).parents[2] / "templates", tmp_path)
    world.subscribe("alice@example.org")
    load_dump(world, tmp_path / "mail.txt", LISTING.replace("1 new + 1", "53 new + 4"), moment="20T06:00")

    letter = world.preview("alice@example.org", "20T08:00").letter

    assert SHORT in letter.text
    assert "are missing" not in letter.html


# ── far below what is usual ─────────────────────────────────────────────────────────────────────


def page(tmp_path: Path, name: str, papers: int) -> Path:
    """A day's list with so many papers that no other day had."""
    rows = [
        {"id": f"2611.{number:05}", "title": f"Kites of {name}, Part {number}", "upvotes": 1}
        | {"summary": "We steer.", "publishedAt": "2026-11-01", "numComments": 0}
        for number in range(papers)
    ]
    for number, row in enumerate(rows):
        row["id"] = f"26{int(name):02}.{number:05}"
    path = tmp_path / f"{name}.json"
    path.write_text(json.dumps(rows))
    return path


def load(
    world: PublishingWorld, path: Path, moment: str, *, day: str = "", incomplete_ok: bool = False
) -> LoadResult:
    dated = at(day or moment).date() if day or moment < "20" else None
    with db.write_session(world.engine) as session:
        return loading.load(
            session, path, now=at(moment), date=dated, incomplete_ok=incomplete_ok, source="folder"
        )


def three_thursdays(world: PublishingWorld, tmp_path: Path, papers: int = 20) -> None:
    for number, day in enumerate(["10-29", "11-05", "11-12"], start=1):
        load(world, page(tmp_path, str(number), papers), f"{day}T06:00", day=day)


def test_the_digests_mention_a_list_far_shorter_than_usual(world: PublishingWorld, tmp_path: Path) -> None:
    world.subscribe("alice@example.org", now="10-01T00:00")
    three_thursdays(world, tmp_path)
    load(world, page(tmp_path, "4", 5), "20T06:00", day="11-19", incomplete_ok=True)

    letter = world.preview("alice@example.org", "20T08:00").letter

    announced = "Today’s list has only 5 papers; 20 are usual on this weekday."
    assert announced in " ".join(letter.text.split())


# ── late ────────────────────────────────────────────────────────────────────────────────────────

LATE = "Today’s list had not arrived when we wrote this."


def test_a_late_list_is_reported_to_the_operator(world: PublishingWorld, tmp_path: Path) -> None:
    three_thursdays(world, tmp_path)

    with db.read_session(world.engine) as session:
        early = problems.find_problems(session, now=at("19T07:55"))
        (problem,) = problems.find_problems(session, now=at("19T08:05"))
        saturday = problems.find_problems(session, now=at("21T12:00"))

    assert (early, saturday) == ([], [])
    assert (problem.cause, problem.since) == ("late-lists", at("19T08:00"))
    assert problem.facts == (
        "folder: Thursday's list has not arrived; it usually arrives at 06:00 UTC"
        " (the last arrived 2026-11-12 06:00 UTC)",
    )


def test_a_list_that_brings_no_new_paper_has_not_arrived(world: PublishingWorld, tmp_path: Path) -> None:
    three_thursdays(world, tmp_path)
    again = page(tmp_path, "3", 20)
    again.write_text(again.read_text() + "\n")
    assert load(world, again, "19T06:00", day="11-19").new == 0

    with db.read_session(world.engine) as session:
        assert "late-lists" in [one.cause for one in problems.find_problems(session, now=at("19T08:05"))]


def test_a_list_that_is_held_is_not_late(world: PublishingWorld, tmp_path: Path) -> None:
    three_thursdays(world, tmp_path)
    load(world, page(tmp_path, "4", 5), "19T06:00", day="11-18")
    cut = tmp_path / "cut.json"
    cut.write_text(page(tmp_path, "5", 9).read_text()[:-40])
    held = load(world, cut, "19T06:30")

    with db.read_session(world.engine) as session:
        assert held.state is DumpState.HELD
        assert [one.cause for one in problems.find_problems(session, now=at("19T12:00"))] == ["held-dumps"]


def test_the_digests_mention_a_late_list_if_configured(world: PublishingWorld, tmp_path: Path) -> None:
    world.subscribe("alice@example.org", now="10-01T00:00")
    three_thursdays(world, tmp_path)
    world.dump("18T12:00", ["Owls"])

    silent = world.preview("alice@example.org", "19T09:00").letter
    world.site = replace(world.site, announces_late_lists=True)
    announcing = world.preview("alice@example.org", "19T09:00").letter
    load(world, page(tmp_path, "4", 20), "19T09:30")
    come = world.preview("alice@example.org", "19T10:00").letter

    assert LATE in announcing.text
    assert LATE not in silent.text + come.text


# ── released after its day ──────────────────────────────────────────────────────────────────────


def release(world: PublishingWorld, dump: LoadResult, moment: str, *, as_history: bool = False) -> None:
    assert dump.id is not None
    with db.write_session(world.engine) as session:
        retry_dump.retry(session, dump.id, now=at(moment), incomplete_ok=True, as_history=as_history)


def answer(world: PublishingWorld, title: str, moment: str) -> WhyAnswer:
    with db.read_session(world.engine) as session:
        return explain_paper.why(Publication(session, site=world.site, templates=world.templates, caches=CACHES, now=at(moment)), email="alice@example.org", reference=title)  # fmt: skip


def held_on_the_17th(world: PublishingWorld, tmp_path: Path) -> LoadResult:
    world.subscribe("alice@example.org", now="15T00:00")
    world.dump("17T05:00", ["Owls"])
    path = tmp_path / "mail.txt"
    path.write_text(LISTING.replace("1 new + 1", "53 new + 4").replace("Fri, 20 Nov 26", "Tue, 17 Nov 26"))
    with db.write_session(world.engine) as session:
        held = loading.load(session, path, now=at("17T06:00"), date=at("17").date())
    assert held.state is DumpState.HELD
    for day in (17, 18, 19):
        world.publish(f"{day}T08:00")
    return held


def test_papers_of_a_released_list_are_in_the_next_digest_once_and_why_explains_it(
    world: PublishingWorld, tmp_path: Path
) -> None:
    held = held_on_the_17th(world, tmp_path)
    release(world, held, "19T10:00")

    before = answer(world, "Tidal Sorting of Gravel", "19T11:00")
    world.publish("20T08:00")
    world.publish("21T08:00")
    after = answer(world, "Tidal Sorting of Gravel", "21T09:00")

    shown = [
        title for papers in world.digest("alice@example.org", "daily-2026-11-20").values() for title in papers
    ]
    assert shown.count("Tidal Sorting of Gravel") == 1
    assert before.json["cause"] == WhyCause.NOT_DUE
    assert before.lines[1].startswith(
        f"its list of 2026-11-17 was loaded on 2026-11-19 10:00 UTC (dump {held.id})"
    )
    assert after.verdict == "Shown on 2026-11-20 in daily-2026-11-20, under Trending."
    assert [one.edition for one in world.deliveries("alice@example.org") if one.state == "queued"] == [
        "daily-2026-11-17", "daily-2026-11-20",
    ]  # fmt: skip


def test_papers_of_a_list_released_as_history_are_not_news(world: PublishingWorld, tmp_path: Path) -> None:
    held = held_on_the_17th(world, tmp_path)
    release(world, held, "19T10:00", as_history=True)

    world.publish("20T08:00")

    assert world.deliveries("alice@example.org")[-1].state == "empty"
