"""Back-tests report what a filter would have matched, and the effect of each clause."""

from __future__ import annotations

from datetime import date, timedelta
from random import Random

from digest.topics import filter_backtest, filter_parser
from digest.topics.filter_backtest import PerDay
from digest.topics.paper_index import PaperIndex
from tests.support.growth import assert_proportional
from tests.topics.invented_papers import paper

DAYS = [date(2026, 11, 1) + timedelta(days=n) for n in range(10)]


def tried(written, *batches):
    """Back-test a filter on days with these titles each."""
    batch = [(paper(title), day) for titles, day in zip(batches, DAYS, strict=False) for title in titles]
    index = PaperIndex([one for one, _ in batch])
    return filter_backtest.backtest(filter_parser.parse(written), index, [day for _, day in batch])


def test_papers_a_day_count_the_days_without_any():
    found = tried("robot", ["robot arms", "robot legs", "cups"], ["cups"], ["robots"], ["cups"])

    assert found.per_day == PerDay(median=1, p90=2.0, max=2, days=4)


def test_each_clause_has_the_number_of_papers_it_adds_or_removes():
    found = tried(
        "(robot OR cup) ANDNOT survey",
        ["robots", "cups", "survey of robots", "graphs"],
        ["robots and cups", "survey of cups"],
    )

    assert dict(found.clauses) == {
        "AND (robot OR cup)": -0.5,
        "OR robot": 0.5,
        "OR cup": 0.5,
        "ANDNOT survey": -1.0,
    }


def test_the_effect_of_a_clause_is_described_in_words():
    found = tried("(robot OR cup OR tea) ANDNOT survey", ["robots", "cups", "survey of robots"], ["robots"])

    assert found.clause_effects == (
        "AND (robot OR cup OR tea) changes nothing",
        "OR robot adds 1 paper a day",
        "OR cup adds 1 paper a day",
        "OR tea changes nothing",
        "ANDNOT survey removes 1 paper a day",
    )


def test_the_last_ten_matches_are_listed_latest_day_first():
    found = tried("robot", ["robots", "cups", "robot arms"], ["tea", "robot legs"])

    assert found.last == (4, 0, 2)


def test_dead_clauses_are_named():
    assert "graphene matches no paper" in tried("robot OR graphene", ["robots"], ["cups"] * 5).warnings


def test_clauses_that_change_nothing_are_named_once_among_the_effects():
    found = tried("robot OR robot* ANDNOT tea", ["robots", "tea", "cups", "mugs"], ["cups"] * 5)

    assert found.clause_effects.count("OR robot changes nothing") == 1
    assert not any("changes nothing" in warning for warning in found.warnings)


def test_contradictions_are_named():
    warnings = tried("robot AND cup", ["robots", "cups"], ["tea"] * 5).warnings

    assert "No paper matches all of this at once: robot AND cup" in warnings


def test_a_filter_that_matches_nearly_everything_is_named():
    assert any(
        "80% of all papers" in warning for warning in tried("robot", ["robots"] * 8 + ["cups"] * 2).warnings
    )


def test_a_backtest_of_few_days_warns_of_it():
    assert tried("robot", ["robots", *["cups"] * 9]).warnings == (
        "Based on 1 day so far; the figures will become more reliable",
    )
    assert tried("robot", *[["robots", *["cups"] * 9]] * 7).warnings == ()


def test_an_empty_catalog_gives_no_warnings():
    assert tried("robot OR cup").warnings == ()
    assert tried("robot OR cup").per_day == PerDay(median=0, p90=0, max=0, days=0)


def test_the_time_of_a_backtest_grows_with_the_number_of_papers_and_no_faster():
    chance = Random(7)
    words = [f"word{chance.choice('abcdefgh')}{n}" for n in range(400)]
    batch = [
        paper(" ".join(chance.choices(words, k=8)), " ".join(chance.choices(words, k=40)))
        for _ in range(6_000)
    ]
    indexes = {size: PaperIndex(batch[:size]) for size in (1_500, 6_000)}
    days = [date(2026, 1, 1) + timedelta(days=n // 100) for n in range(6_000)]
    written = (
        f'({words[0]} OR "{words[1]} {words[2]}" OR worda* OR {words[3]}) ANDNOT {words[4]} ANDNOT wordb1*'
    )

    def backtest(size):
        return filter_backtest.backtest(filter_parser.parse(written), indexes[size], days[:size])

    assert backtest(6_000).per_day.days == 60
    assert_proportional(backtest, 1_500)


def test_clauses_inside_a_negation_say_what_they_remove():
    found = tried(
        "robot ANDNOT (survey OR review)", ["robots", "robot survey", "robot review", "review of robots"]
    )

    assert dict(found.clauses) == {
        "AND robot": 0.0,
        "ANDNOT (survey OR review)": -3.0,
        "OR survey": -1.0,
        "OR review": -2.0,
    }


def test_clauses_that_contradict_one_another_are_named_wherever_they_are():
    batch = ["robots", "cups"]

    assert tried("(robot cup) OR (cup robot)", batch).warnings[-2:] == (
        "No paper matches all of this at once: robot AND cup",
        "No paper matches all of this at once: cup AND robot",
    )
    assert "No paper matches all" not in " ".join(tried("robot tea", batch).warnings)


def test_a_comparison_names_the_papers_gained_and_lost_latest_day_first():
    titles = ["robots", "cups", "robots and cups"], ["robot arms", "cups", "tea"]
    batch = [(paper(title), day) for row, day in zip(titles, DAYS, strict=False) for title in row]
    index, days = PaperIndex([one for one, _ in batch]), [day for _, day in batch]

    found = filter_backtest.compare_filters(
        filter_parser.parse("robot"), filter_parser.parse("cup"), index, days
    )

    assert (found.gained, found.lost) == ((4, 1), (3, 0))
    assert (found.before, found.after) == (
        PerDay(median=2, p90=2.0, max=2, days=2),
        PerDay(median=2, p90=2.0, max=2, days=2),
    )
    assert filter_backtest.compare_filters(None, filter_parser.parse("tea"), index, days).gained == (5,)
    assert filter_backtest.compare_filters(filter_parser.parse("tea"), None, index, days).lost == (5,)
