"""Days of a whole service in short form, and whether the oracle would notice a broken promise."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.pilot import diary as diaries
from tests.pilot import oracle
from tests.pilot.__main__ import pilot
from tests.pilot.diary import Act, Diary
from tests.pilot.life import sqlite_databases

BEGIN = datetime(2026, 10, 20, tzinfo=UTC)  #: five days before Europe sets its clocks back


def test_the_oracle_knows_nothing_of_the_product():
    for module in (oracle, diaries):
        tree = ast.parse(Path(str(module.__file__)).read_text())
        imported = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        imported += [
            one.name for node in ast.walk(tree) if isinstance(node, ast.Import) for one in node.names
        ]
        assert {name for name in imported if name.partition(".")[0] in {"digest", "workers", "tests"}} <= {
            "tests.pilot.diary"
        }


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Diary:
    folder = tmp_path_factory.mktemp("pilot")
    return pilot(folder, sqlite_databases(folder), days=8, readers=40, seed=40, begin=BEGIN)


@pytest.mark.whole
def test_every_promise_of_readme_and_docs_is_kept_for_days(lived: Diary):
    found = oracle.judge(lived)

    assert found.faults == []
    assert found.counted["editions with papers"] > 50
    assert found.counted["late after an outage"] > 5
    assert found.counted["answers"] > 20
    assert {"restored", "confirmed", "changed", "paused", "left"} <= {act.what for act in lived.acts}


def first_digest(diary: Diary) -> int:
    """Return the place of a digest of a reader who did nothing afterwards."""
    busy = {act.email for act in diary.acts if act.what not in {"added", "restored"}}
    end = diary.end - timedelta(days=5)
    return next(
        place
        for place, one in enumerate(diary.letters)
        if one.kind == "digest" and one.to not in busy and one.at < end
    )


def twice(diary: Diary) -> None:
    letter = diary.letters[first_digest(diary)]
    diary.letters.append(replace(letter, at=letter.at + timedelta(days=1), edition="daily-2026-10-28"))


def lost(diary: Diary) -> None:
    del diary.letters[first_digest(diary)]


def unwanted(diary: Diary) -> None:
    letter = diary.letters[first_digest(diary)]
    diary.acts.insert(0, Act(at=letter.at - timedelta(minutes=30), email=letter.to, what="left"))


def early(diary: Diary) -> None:
    place = first_digest(diary)
    letter = diary.letters[place]
    diary.letters[place] = replace(letter, at=letter.at - timedelta(days=1))


def untrue(diary: Diary) -> None:
    answer = next(one for one in diary.answers if one.title and not one.text.startswith("Shown"))
    diary.answers.append(
        replace(answer, text="Shown on 2026-10-21 in daily-2026-10-21.\n  the digest is sent")
    )


def unkept(diary: Diary) -> None:
    letter = diary.letters[first_digest(diary)]
    diary.promises.append(diaries.Stated(at=letter.at, email=letter.to, text="Sunday 03:00, Oslo"))


def lost_after_a_change(diary: Diary) -> None:
    """Lose the first digest of a reader who moved its hour, zone or cadence."""
    for act in diary.acts:
        wishes = [
            one.wishes for one in diary.acts if one.email == act.email and one.wishes and one.at < act.at
        ]
        if (
            act.what == "changed"
            and act.wishes
            and act.wishes.changed(words=()) != wishes[-1].changed(words=())
        ):
            later = [one for one in diary.letters if one.to == act.email and one.at > act.at]
            digest = next((one for one in later if one.kind == "digest"), None)
            if digest:
                diary.letters.remove(digest)
                return
    raise AssertionError("nobody changed the schedule and got a digest")


def promised_another_day(diary: Diary) -> None:
    """Let a command name another day than the page after a change."""
    said = next(one for one in diary.promises if one.text and one.text[0] != "t")
    diary.promises.append(replace(said, text="", due=said.at + timedelta(days=9)))


@pytest.mark.whole
@pytest.mark.parametrize(
    "breaking", [twice, lost, unwanted, early, untrue, unkept, lost_after_a_change, promised_another_day]
)
def test_the_oracle_finds_a_broken_promise(lived: Diary, breaking: Callable[[Diary], None]):
    broken = copy.deepcopy(lived)
    breaking(broken)

    assert oracle.judge(broken).faults
