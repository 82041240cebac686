"""`compose` picks the right papers, under the right topics, in the right order and number."""

from __future__ import annotations

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from digest.editions.compose import (
    DUPLICATE_PENALTY_BITS,
    NO_RELEVANCE,
    RELEVANCE_BANDS,
    Digest,
    FollowUp,
    RankedMatches,
    RequestedTopic,
    Section,
    compose,
    count_matching,
    rank_all,
    relevance_bits,
)
from digest.papers.bitsets import bitset_of, members
from tests.support.ranked_matches import order_of, rank_matches, relevance_of

FLAT = [0.0] * 20
IDS = range(100, 120)  # paper n has the id 100 + n
EVERYTHING = (1 << 20) - 1


def requested(topic: str, matches: dict[int, float], *, scores: list[float] = FLAT) -> RequestedTopic:
    """Return a topic whose filter matches these numbers with these relevances."""
    return RequestedTopic(topic, 7, rank_matches(bitset_of(matches), scores, matches))


def sections(
    *topics: RequestedTopic, eligible: int = EVERYTHING, shown: set[int] | None = None, max_papers: int = 10
):
    """Return the composed sections, as {topic: numbers}."""
    made = compose(topics, eligible=eligible, ids=IDS, shown=shown or set(), max_papers=max_papers)
    return {section.topic: [paper - 100 for paper in section.papers] for section in made}


def test_a_paper_that_is_all_about_the_topic_goes_before_one_that_touches_it():
    assert sections(requested("graphs", {1: 0.2, 2: 1.0})) == {"graphs": [2, 1]}


def test_no_number_of_votes_lifts_a_paper_into_a_higher_band_of_relevance():
    barely = 1 - 1.01 / RELEVANCE_BANDS

    assert sections(requested("graphs", {1: 1.0, 2: barely}, scores=[0.0, 0.0, 40.0, *FLAT])) == {
        "graphs": [1, 2]
    }


def test_votes_decide_between_papers_of_one_band_of_relevance():
    nearly = 1 - 0.99 / RELEVANCE_BANDS

    assert sections(requested("graphs", {1: 1.0, 2: nearly}, scores=[0.0, 0.0, 0.1, *FLAT])) == {
        "graphs": [2, 1]
    }


def test_papers_of_equal_worth_are_ordered_by_trending_rank():
    assert sections(requested("graphs", {5: 0.5, 3: 0.5, 4: 0.5})) == {"graphs": [3, 4, 5]}


def test_a_paper_is_shown_once_under_the_topic_it_fits_best():
    made = sections(requested("graphs", {1: 0.3, 2: 0.9}), requested("proofs", {1: 0.8, 3: 0.5}))

    assert made == {"graphs": [2], "proofs": [1, 3]}


def test_a_paper_that_fits_two_topics_equally_is_under_the_first():
    made = sections(requested("graphs", {1: 0.5}), requested("proofs", {1: 0.5, 2: 0.1}))

    assert made == {"graphs": [1], "proofs": [2]}


def test_a_broad_topic_leaves_papers_of_a_rare_one():
    noisy = requested("noisy", dict.fromkeys(range(15), 1.0), scores=[9.0] * 20)
    rare = requested("rare", {17: 0.1, 18: 0.1}, scores=[0.0] * 20)

    assert {topic: len(papers) for topic, papers in sections(noisy, rare, max_papers=10).items()} == {
        "noisy": 8,  # gets what the rare one leaves
        "rare": 2,
    }


def test_two_broad_topics_share_the_digest():
    one = requested("one", dict.fromkeys(range(10), 1.0))
    two = requested("two", dict.fromkeys(range(10, 20), 1.0))

    assert {topic: len(papers) for topic, papers in sections(one, two, max_papers=10).items()} == {
        "one": 5,
        "two": 5,
    }


def test_if_the_last_round_has_too_many_picks_the_worthiest_stay():
    topics = [requested(f"t{n}", {n: n / 5}) for n in range(5)]

    assert sections(*topics, max_papers=2) == {"t3": [3], "t4": [4]}


def test_a_paper_picked_by_one_topic_does_not_use_the_others_pick():
    made = sections(
        requested("graphs", {1: 1.0, 2: 0.1}), requested("proofs", {1: 0.9, 3: 0.1}), max_papers=3
    )

    assert made == {"graphs": [1, 2], "proofs": [3]}


def test_one_topic_may_fill_what_the_others_leave():
    graphs = requested("graphs", dict.fromkeys(range(18), 1.0))

    alone = sections(graphs, max_papers=20)
    beside = sections(graphs, requested("proofs", {19: 1.0}), max_papers=16)

    assert alone == {"graphs": list(range(18))}
    assert beside == {"graphs": list(range(15)), "proofs": [19]}


def test_shown_and_ineligible_papers_are_left_out():
    made = sections(requested("graphs", {1: 1.0, 2: 1.0, 3: 1.0}), eligible=bitset_of([1, 2]), shown={1})

    assert made == {"graphs": [2]}


def test_the_count_of_further_matches_excludes_shown_papers():
    made = compose(
        [requested("graphs", dict.fromkeys(range(10), 1.0))],
        eligible=bitset_of(range(8)),
        ids=IDS,
        shown={0, 1},
        max_papers=2,
    )

    assert made == (Section(topic="graphs", filter_id=7, papers=(102, 103), more=4),)


def test_trending_is_last_and_shows_only_papers_no_topic_matches():
    graphs = requested("graphs", {3: 0.0, 4: 1.0})
    trends = RequestedTopic("Trending", None, rank_all([5.0, 4.0, 3.0, 2.0, 1.0]))

    assert sections(graphs, trends, eligible=bitset_of(range(5)), max_papers=4) == {
        "graphs": [4, 3],
        "Trending": [0, 1],
    }


def test_the_second_of_two_near_duplicates_ranks_lower():
    scores = [1.0, 0.9, 0.5]
    twins = {0: bitset_of([1]), 1: bitset_of([0])}

    made = sections(RequestedTopic("graphs", 7, rank_matches(0b111, scores, {}, twins)))

    assert made == {"graphs": [0, 2, 1]}


def best_first(scores: list[float]) -> list[float]:
    """Return scores in the order of trending ranks, as a press has them."""
    return sorted(scores, reverse=True)


def test_a_near_duplicate_alone_keeps_its_worth():
    one = rank_matches(0b010, [1.0, 0.9, 0.5], {}, {0: bitset_of([1]), 1: bitset_of([0])})

    assert one.worth(1) == 0.9


@given(
    st.dictionaries(st.integers(0, 11), st.sampled_from([0.0, 0.25, 0.5, 1.0])),
    st.lists(st.sampled_from([3.0, 2.5, 1.0, 0.5]), min_size=12, max_size=12).map(best_first),
    st.lists(st.sets(st.integers(0, 11), min_size=2, max_size=4), max_size=3),
)
def test_the_order_is_by_worth_then_rank_and_of_near_duplicates_all_but_the_worthiest_lose(
    fit: dict[int, float], scores: list[float], alike: list[set[int]]
):
    twins = {n: bitset_of([m for group in alike if n in group for m in group - {n}]) for n in range(12)}
    worth = {n: relevance_bits(fit[n]) + scores[n] for n in fit}
    before = {n: {m for m in worth if (-worth[m], m) < (-worth[n], n)} for n in worth}
    plain = {n: worth[n] - DUPLICATE_PENALTY_BITS * bool(twins[n] & bitset_of(before[n])) for n in worth}

    made = rank_matches(bitset_of(fit), scores, fit, twins)

    assert order_of(made) == tuple(sorted(plain, key=lambda n: (-plain[n], n)))
    assert {n: made.worth(n) for n in order_of(made)} == plain
    assert {n: relevance_of(made, n) for n in range(12)} == {n: fit.get(n, NO_RELEVANCE) for n in range(12)}


def test_the_candidates_after_the_first_continue_their_order():
    fit = {n: (n % 7) / 6 for n in range(300)}
    many = rank_matches(bitset_of(fit), best_first([n / 9 for n in range(300)]), fit)

    taken = tuple(many.candidates(-1))

    assert taken == tuple(sorted(fit, key=lambda n: (-many.worth(n), n)))
    assert tuple(many.candidates(-1)) == taken


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[RequestedTopic], int, set[int], int]:
    """Draw any topics, eligible papers, shown papers and a maximum."""
    scores = best_first(draw(st.lists(st.floats(-5, 9), min_size=12, max_size=12)))
    matched = st.dictionaries(st.integers(0, 11), st.floats(0, 1), max_size=12)
    topics = [
        requested(f"t{n}", found, scores=scores)
        for n, found in enumerate(draw(st.lists(matched, max_size=5)))
    ]
    shown = draw(st.sets(st.integers(0, 11)))
    return topics, draw(st.integers(0, (1 << 12) - 1)), shown, draw(st.integers(1, 12))


@given(tables())
def test_the_candidates_are_the_eligible_order_however_many_are_taken(
    table: tuple[list[RequestedTopic], int, set[int], int],
):
    topics, eligible, _, _ = table

    for one in topics:
        assert tuple(one.matches.candidates(eligible)) == one.matches.eligible_order(eligible)


@given(tables())
def test_any_input_gives_a_valid_digest(
    table: tuple[list[RequestedTopic], int, set[int], int],
):
    topics, eligible, shown, most = table

    made = compose(topics, eligible=eligible, ids=range(12), shown=shown, max_papers=most)

    papers = list(chain.from_iterable(section.papers for section in made))
    by_topic = {one.topic: one.matches for one in topics}
    allowed = set(members(eligible)) - shown
    assert len(papers) == len(set(papers))  # never twice
    assert set(papers) <= allowed  # never what may not be shown
    assert len(papers) <= most  # never more than the limit
    for section in made:
        assert section.papers
        assert set(section.papers) <= set(members(by_topic[section.topic].matches))
        positions = [order_of(by_topic[section.topic]).index(paper) for paper in section.papers]
        assert positions == sorted(positions)  # best first
    assert [section.topic for section in made] == [
        one.topic for one in topics if one.topic in {s.topic for s in made}
    ]


@given(tables())
def test_a_digest_is_filled_while_papers_are_left(
    table: tuple[list[RequestedTopic], int, set[int], int],
):
    topics, eligible, shown, _ = table
    matched = {n for one in topics for n in members(one.matches.matches & eligible)} - shown

    made = compose(topics, eligible=eligible, ids=range(12), shown=shown, max_papers=6)

    assert sum(len(section.papers) for section in made) == min(6, len(matched))


def test_a_stored_digest_is_read_back_equal():
    digest = Digest(
        sections=(
            Section(topic="Größe & <b>", filter_id=7, papers=(3, 1), more=2),
            Section(topic="Trending", filter_id=None, papers=(5,)),
        ),
        checked=412,
    )

    assert Digest.from_json(digest.to_json()) == digest
    assert digest.papers == (3, 1, 5)


def test_a_decision_with_missing_fields_is_read_with_defaults() -> None:
    written = (
        '{"sections":[["Gezeiten und \\u00c4sche",null,[3,1],2]],"checked":5,"catch_up":true,"matched":0,'
        '"news":[[7,"published","Tides","in Gravel"]]}'
    )

    assert Digest.from_json(written) == Digest(
        sections=(Section("Gezeiten und Äsche", None, (3, 1), 2),),
        checked=5,
        is_catch_up=True,
        news=(FollowUp(7, "published", "Tides", "in Gravel"),),
    )


@pytest.mark.parametrize(
    "stored", ["", "{", "{}", '{"sections":[["A",1]],"checked":1}', '{"sections":5,"checked":1}']
)
def test_an_invalid_decision_raises_value_error(stored: str) -> None:
    with pytest.raises(ValueError, match="not a stored digest: "):
        Digest.from_json(stored)


def test_the_cache_of_eligible_orders_is_bounded():
    one = rank_matches(0b1111, FLAT, {})

    for eligible in range(1000):
        one.candidates(eligible)

    assert len(one.cache) <= 64


@pytest.mark.parametrize("empty", [rank_matches(0, FLAT, {}), rank_all([])])
def test_a_topic_that_matches_nothing_makes_no_section(empty: RankedMatches):
    assert sections(RequestedTopic("nothing", 1, empty)) == {}


def test_of_a_last_round_without_any_filter_the_papers_that_trend_more_stay():
    trending = RequestedTopic("Trending", None, rank_all([3.0, 2.0, 1.0]))

    assert sections(trending, requested("graphs", {2: 0.0}, scores=[3.0, 2.0, 1.0]), max_papers=1) == {
        "Trending": [0]
    }


def test_a_paper_is_ordered_the_same_however_many_readers_were_asked_before():
    ranked = rank_matches(bitset_of(range(10)), FLAT, {})

    orders = {eligible: tuple(ranked.candidates(eligible)) for eligible in range(200)}

    assert all(set(order) == set(members(eligible & 0x3FF)) for eligible, order in orders.items())
    assert {eligible: tuple(ranked.candidates(eligible)) for eligible in range(200)} == orders
    assert len(ranked.cache) <= 64


def test_matching_papers_are_counted_once_and_without_those_already_shown():
    topics = [requested("graphs", {1: 1.0, 2: 1.0, 3: 1.0}), requested("robots", {3: 1.0, 4: 1.0})]

    assert count_matching(topics, EVERYTHING, {1}) == 3
    assert count_matching(topics, bitset_of([2, 3, 9]), set()) == 2
    assert count_matching([], EVERYTHING, set()) == 0
