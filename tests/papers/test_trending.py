"""Observed figures decide the score, missing ones do not lower it, and reasons are observed figures."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from math import log2
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from digest.papers.paper_record import Paper
from digest.papers.trending import NEWCOMER_SCORE, Appearance, Evidence, rank, score

NOW = datetime(2026, 11, 20, tzinfo=UTC)  # a Friday
YESTERDAY = NOW - timedelta(days=1)


def ago(days: float) -> datetime:
    return NOW - timedelta(days=days)


def voted(*figures: tuple[float, float], posted: date | None = None, **others: Any) -> Evidence:
    """Return evidence with upvotes, given as (days ago, figure)."""
    votes = tuple((ago(days), figure) for days, figure in figures)
    return Evidence(first_seen_at=NOW, posted=posted or NOW.date(), observations={"upvotes": votes}, **others)


def paper(number: int, *, first_seen_at: datetime = NOW) -> Paper:
    return Paper(id=number, title=f"Paper {number}", first_seen_at=first_seen_at)


def order(evidence: dict[int, Evidence]) -> list[int]:
    """Return the paper ids, the most trending first."""
    papers = [paper(number, first_seen_at=one.first_seen_at) for number, one in evidence.items()]
    return [one.paper.id for one in rank(papers, evidence, NOW)]


# ── the score ───────────────────────────────────────────────────────────────────────────────────


def test_a_new_paper_without_figures_has_the_prior_score():
    assert score(Evidence(first_seen_at=NOW), NOW).value == NEWCOMER_SCORE == 2.0  # log2 of 4 votes a day


def test_two_days_halve_the_expected_votes():
    assert score(Evidence(first_seen_at=ago(2)), NOW).value == NEWCOMER_SCORE - 1


def test_votes_before_the_window_count_by_the_share_of_life_they_cover():
    one_snapshot = voted((0, 20), posted=ago(1).date())

    # A = (.5*4 + 20) / (.5 + tau*(1 - e^(-1/tau))), tau = 2/ln 2; rho = A * 2^(-1/2)
    assert score(one_snapshot, NOW).value == pytest.approx(log2(22 / (0.5 + 0.84513) * 2**-0.5), abs=1e-4)


def test_votes_of_the_last_day_update_the_prior():
    # A = 2/(.5 + 0) = 4 at birth; rho = 4 * 2^(-1/2); r = (.5*rho + 10) / 1.5
    assert score(voted((1, 0), (0, 10), posted=ago(1).date()), NOW).value == pytest.approx(
        log2((0.5 * 4 * 2**-0.5 + 10) / 1.5), abs=1e-4
    )


def test_a_second_wave_of_votes_overrides_age():
    old_but_rising = voted((1, 300), (0, 380), posted=ago(90).date())
    fresh = voted((0, 12))

    assert score(old_but_rising, NOW).value > score(fresh, NOW).value


def test_a_paper_of_another_century_has_a_score():
    assert score(voted((0, 3), posted=date(1998, 1, 1)), NOW).value < score(voted((0, 3)), NOW).value


def test_a_figure_that_went_down_is_neither_gain_nor_error():
    assert score(voted((1, 50), (0, 48), posted=ago(3).date()), NOW).reasons == ()


def test_a_missing_figure_does_not_lower_the_score():
    known = voted((0, 9), posted=ago(1).date())
    usual = Evidence(first_seen_at=NOW, posted=ago(1).date())

    assert abs(score(known, NOW).value - score(usual, NOW).value) < 2  # near its prior, not at zero


def test_later_observations_are_ignored():
    seen = voted((1, 3), (0, 900), posted=ago(1).date())

    assert score(seen, YESTERDAY) == score(voted((1, 3), posted=ago(1).date()), YESTERDAY)


def test_a_paper_missing_from_the_latest_dump_ages_from_its_last_figure():
    missing = voted((3, 5), (2, 45), posted=ago(3).date())

    assert score(missing, NOW).value == pytest.approx(score(missing, ago(2)).value - 1)


def test_a_first_figure_of_stars_is_ignored():
    starred = Evidence(first_seen_at=NOW, observations={"stars": ((NOW, 4000.0),)})

    assert score(starred, NOW).value == NEWCOMER_SCORE


def test_stars_and_comments_change_the_score_a_little():
    praised = voted((0, 10), posted=ago(1).date())
    figures = {
        **praised.observations,
        "stars": ((YESTERDAY, 0.0), (NOW, 90000.0)),
        "comments": ((NOW, 9000.0),),
    }
    loud = Evidence(first_seen_at=NOW, posted=ago(1).date(), observations=figures)

    assert 0 < score(loud, NOW).value - score(praised, NOW).value <= 0.15 * 5 + 0.10 * 5


# ── dumps without counters ──────────────────────────────────────────────────────────────────────


def ranked_at(position: int, *, size: int = 49, order: str = "ranked") -> Evidence:
    place = Appearance(observed_at=NOW, position=position, size=size, order=order)
    return Evidence(first_seen_at=NOW, appearances=(place,))


def test_a_single_ranked_dump_keeps_its_own_order():
    assert order({n: ranked_at(50 - n) for n in range(1, 50)}) == list(range(49, 0, -1))


def test_positions_in_a_dump_add_nothing_on_average():
    values = [score(ranked_at(n, size=500), NOW).value - NEWCOMER_SCORE for n in range(1, 501)]

    assert sum(values) / len(values) == pytest.approx(0, abs=0.01)


@pytest.mark.parametrize("unranked", ["none", "relevance"])
def test_the_order_of_a_search_page_is_ignored(unranked: str):
    first = ranked_at(1, order=unranked)

    assert score(first, NOW).value == NEWCOMER_SCORE
    assert score(first, NOW).reasons == ()


def test_votes_make_the_position_in_the_dump_irrelevant():
    place = Appearance(observed_at=NOW, position=1, size=49, order="ranked")

    assert score(voted((0, 8), appearances=(place,)), NOW) == score(voted((0, 8)), NOW)


def returning(seen: int, dumps: int) -> Evidence:
    places = tuple(Appearance(observed_at=ago(dumps - 1 - n), position=9, size=49) for n in range(seen))
    return Evidence(first_seen_at=ago(dumps - 1), appearances=places, n_dumps=dumps)


def test_papers_listed_again_rank_above_those_that_are_not():
    assert score(returning(4, 4), NOW).value > score(returning(1, 4), NOW).value


# ── reasons ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("evidence", "reasons"),
    [
        pytest.param(voted((1, 3), (0, 45)), ("45 upvotes, 42 of them since yesterday",), id="gain"),
        pytest.param(voted((4, 3), (0, 500)), ("500 upvotes, 497 of them since Monday",), id="days"),
        pytest.param(
            voted((12, 3), (0, 5000)),
            ("5,000 upvotes, 4,997 of them since 8 November",),
            id="weeks",
        ),
        pytest.param(voted((1, 0), (0, 45)), ("45 upvotes since yesterday",), id="all gained"),
        pytest.param(voted((0, 40), posted=ago(1).date()), ("40 upvotes",), id="one snapshot"),
        pytest.param(ranked_at(2), ("#2 of 49 on today's list",), id="place"),
        pytest.param(returning(3, 4), ("listed three days running",), id="returns"),
        pytest.param(Evidence(first_seen_at=NOW), (), id="new"),
        pytest.param(Evidence(first_seen_at=ago(2)), (), id="nothing to say"),
        pytest.param(
            Evidence(first_seen_at=NOW, observations={"stars": ((ago(4), 300.0), (NOW, 610.0))}),
            ("610 stars, 310 of them since Monday",),
            id="stars",
        ),
    ],
)
def test_a_reason_is_an_observed_figure(evidence: Evidence, reasons: tuple[str, ...]):
    assert score(evidence, NOW).reasons == reasons


def test_the_strongest_reason_comes_first():
    figures = {"upvotes": ((YESTERDAY, 3.0), (NOW, 45.0)), "stars": ((YESTERDAY, 0.0), (NOW, 900.0))}
    one = Evidence(first_seen_at=YESTERDAY, posted=YESTERDAY.date(), observations=figures)

    assert [reason.split()[1] for reason in score(one, NOW).reasons] == ["upvotes,", "stars"]


def test_a_usual_figure_is_not_a_reason():
    assert score(voted((0, 4), posted=ago(1).date()), NOW).reasons == ()


# ── the order ───────────────────────────────────────────────────────────────────────────────────


def test_of_equal_papers_the_newer_comes_first_then_the_lower_id():
    papers = [paper(3), paper(1, first_seen_at=YESTERDAY), paper(2)]
    evidence = {n: Evidence(first_seen_at=NOW) for n in (1, 2, 3)}

    assert [one.paper.id for one in rank(papers, evidence, NOW)] == [2, 3, 1]


@given(st.permutations(range(8)))
def test_the_order_does_not_depend_on_the_input_order(numbers: list[int]):
    evidence = {n: voted((0, n % 3)) for n in range(8)}

    assert [one.paper.id for one in rank([paper(n) for n in numbers], evidence, NOW)] == [
        2,
        5,
        1,
        4,
        7,
        0,
        3,
        6,
    ]


figures = st.lists(st.tuples(st.floats(0, 60), st.floats(0, 1e6)), max_size=6)


@given(figures, figures, st.floats(0, 4000))
def test_any_figures_make_a_finite_score(
    votes: list[tuple[float, float]], stars: list[tuple[float, float]], age: float
):
    def observed(some: list[tuple[float, float]]) -> tuple[tuple[datetime, float], ...]:
        return tuple(sorted((ago(days), figure) for days, figure in some))

    evidence = Evidence(
        first_seen_at=ago(age),
        posted=ago(age).date(),
        observations={"upvotes": observed(votes), "stars": observed(stars), "comments": observed(stars)},
    )

    assert -100 < score(evidence, NOW).value < 40
