"""Composing: which papers, under which topic, in which order, how many."""

from __future__ import annotations

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from digest.composition import (
    RELEVANCE_BITS,
    SPREAD_BITS,
    UNFIT,
    Caps,
    Choice,
    Digest,
    FollowUp,
    Offer,
    Section,
    Wish,
    bits,
    choice,
    compose,
    numbers,
    trending,
)

FLAT = [0.0] * 20
IDS = range(100, 120)  # paper n has the id 100 + n
EVERYTHING = (1 << 20) - 1


def wish(topic: str, matches: dict[int, float], *, scores: list[float] = FLAT) -> Wish:
    """A topic whose filter matches these numbers, this well."""
    return Wish(topic, 7, choice(bits(matches), scores, matches))


def sections(*wishes: Wish, eligible: int = EVERYTHING, shown: set[int] | None = None, **caps: int):
    """What is composed, as {topic: numbers}."""
    made = compose(wishes, eligible=eligible, ids=IDS, shown=shown or set(), caps=Caps(**caps))
    return {section.topic: [paper - 100 for paper in section.papers] for section in made}


def test_a_paper_that_is_all_about_the_topic_goes_before_one_that_touches_it():
    assert sections(wish("graphs", {1: 0.2, 2: 1.0})) == {"graphs": [2, 1]}


def test_eight_times_the_votes_outweigh_perfect_relevance():
    level = wish("graphs", {1: 1.0, 2: 0.0}, scores=[0.0, 0.0, RELEVANCE_BITS - 0.1, *FLAT])
    ahead = wish("graphs", {1: 1.0, 2: 0.0}, scores=[0.0, 0.0, RELEVANCE_BITS + 0.1, *FLAT])

    assert sections(level) == {"graphs": [1, 2]}
    assert sections(ahead) == {"graphs": [2, 1]}


def test_papers_of_equal_worth_stand_by_trending_rank():
    assert sections(wish("graphs", {5: 0.5, 3: 0.5, 4: 0.5})) == {"graphs": [3, 4, 5]}


def test_a_paper_stands_once_under_the_topic_it_fits_best():
    made = sections(wish("graphs", {1: 0.3, 2: 0.9}), wish("proofs", {1: 0.8, 3: 0.5}))

    assert made == {"graphs": [2], "proofs": [1, 3]}


def test_a_paper_that_fits_two_topics_equally_stands_under_the_first():
    made = sections(wish("graphs", {1: 0.5}), wish("proofs", {1: 0.5, 2: 0.1}))

    assert made == {"graphs": [1], "proofs": [2]}


def test_a_noisy_topic_cannot_starve_a_rare_one():
    noisy = wish("noisy", dict.fromkeys(range(15), 1.0), scores=[9.0] * 20)
    rare = wish("rare", {17: 0.1, 18: 0.1}, scores=[0.0] * 20)

    assert {topic: len(papers) for topic, papers in sections(noisy, rare, papers=10).items()} == {
        "noisy": 8,  # takes what the rare one leaves
        "rare": 2,
    }


def test_two_noisy_topics_share_the_budget():
    one = wish("one", dict.fromkeys(range(10), 1.0))
    two = wish("two", dict.fromkeys(range(10, 20), 1.0))

    assert {topic: len(papers) for topic, papers in sections(one, two, papers=10).items()} == {
        "one": 5,
        "two": 5,
    }


def test_where_the_budget_ends_within_a_round_the_worthiest_papers_get_the_rest():
    topics = [wish(f"t{n}", {n: n / 10}) for n in range(5)]

    assert sections(*topics, papers=2) == {"t3": [3], "t4": [4]}


def test_a_paper_taken_by_one_topic_costs_the_other_nothing():
    made = sections(wish("graphs", {1: 1.0, 2: 0.1}), wish("proofs", {1: 0.9, 3: 0.1}), papers=3)

    assert made == {"graphs": [1, 2], "proofs": [3]}


def test_no_topic_shows_more_than_its_cap():
    made = sections(wish("graphs", dict.fromkeys(range(9), 1.0)), wish("proofs", {9: 1.0}), per_topic=3)

    assert made == {"graphs": [0, 1, 2], "proofs": [9]}


def test_the_best_topic_takes_a_paper_in_only_while_it_has_room():
    full = wish("full", {1: 0.9, 2: 0.8})
    other = wish("other", {2: 0.3})

    assert sections(full, other, per_topic=1) == {"full": [1], "other": [2]}


def test_what_was_shown_or_is_not_eligible_is_left_out():
    made = sections(wish("graphs", {1: 1.0, 2: 1.0, 3: 1.0}), eligible=bits([1, 2]), shown={1})

    assert made == {"graphs": [2]}


def test_fewer_papers_than_wanted_make_no_digest():
    graphs = wish("graphs", {1: 1.0, 2: 1.0})

    assert sections(graphs, at_least=3) == {}
    assert sections(graphs, at_least=2) == {"graphs": [1, 2]}


def test_the_rest_is_counted_without_what_was_shown():
    made = compose(
        [wish("graphs", dict.fromkeys(range(10), 1.0))],
        eligible=bits(range(8)),
        ids=IDS,
        shown={0, 1},
        caps=Caps(papers=2),
    )

    assert made == (Section(topic="graphs", filter_id=7, papers=(102, 103), more=4),)


def test_trending_stands_last_and_shows_only_what_no_topic_chose():
    graphs = wish("graphs", {3: 0.0, 4: 1.0})
    trends = Wish("Trending", None, trending([5.0, 4.0, 3.0, 2.0, 1.0]))

    assert sections(graphs, trends, eligible=bits(range(5)), papers=4) == {
        "graphs": [4, 3],
        "Trending": [0, 1],
    }


def test_of_near_duplicates_the_second_stands_further_down():
    scores = [1.0, 0.9, 0.5]
    twins = {0: bits([1]), 1: bits([0])}

    made = sections(Wish("graphs", 7, choice(0b111, scores, {}, twins)))

    assert made == {"graphs": [0, 2, 1]}


def test_a_near_duplicate_alone_loses_nothing():
    one = choice(0b010, [1.0, 0.9, 0.5], {}, {0: bits([1]), 1: bits([0])})

    assert one.worth(1) == 0.9


@given(
    st.dictionaries(st.integers(0, 11), st.sampled_from([0.0, 0.25, 0.5, 1.0])),
    st.lists(st.sampled_from([0.5, 1.0, 2.5, 3.0]), min_size=12, max_size=12),
    st.lists(st.sets(st.integers(0, 11), min_size=2, max_size=4), max_size=3),
)
def test_the_order_is_by_worth_then_rank_and_of_near_duplicates_all_but_the_worthiest_lose(
    fit: dict[int, float], scores: list[float], alike: list[set[int]]
):
    twins = {n: bits(m for group in alike if n in group for m in group - {n}) for n in range(12)}
    worth = {n: scores[n] + RELEVANCE_BITS * fit[n] for n in fit}
    before = {n: {m for m in worth if (-worth[m], m) < (-worth[n], n)} for n in worth}
    plain = {n: worth[n] - SPREAD_BITS * bool(twins[n] & bits(before[n])) for n in worth}

    made = choice(bits(fit), scores, fit, twins)

    assert made.order == tuple(sorted(plain, key=lambda n: (-plain[n], n)))
    assert {n: made.worth(n) for n in made.order} == plain
    assert {n: made.fit(n) for n in range(12)} == {n: fit.get(n, UNFIT) for n in range(12)}


@given(st.sets(st.integers(0, 300)))
def test_a_set_of_numbers_survives_being_an_integer(members: set[int]):
    assert numbers(bits(members)) == sorted(members)


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[Wish], int, set[int], Caps]:
    """Any topics, any eligible papers, any caps."""
    scores = draw(st.lists(st.floats(-5, 9), min_size=12, max_size=12))
    matched = st.dictionaries(st.integers(0, 11), st.floats(0, 1), max_size=12)
    wishes = [
        wish(f"t{n}", found, scores=scores) for n, found in enumerate(draw(st.lists(matched, max_size=5)))
    ]
    caps = Caps(
        papers=draw(st.integers(1, 12)), per_topic=draw(st.integers(1, 12)), at_least=draw(st.integers(0, 4))
    )
    return wishes, draw(st.integers(0, (1 << 12) - 1)), draw(st.sets(st.integers(0, 11))), caps


@given(tables())
def test_whatever_is_asked_no_promise_is_broken(table: tuple[list[Wish], int, set[int], Caps]):
    wishes, eligible, shown, caps = table

    made = compose(wishes, eligible=eligible, ids=range(12), shown=shown, caps=caps)

    papers = list(chain.from_iterable(section.papers for section in made))
    by_topic = {one.topic: one.choice for one in wishes}
    allowed = set(numbers(eligible)) - shown
    assert len(papers) == len(set(papers))  # never twice
    assert set(papers) <= allowed  # never what may not be shown
    assert len(papers) <= caps.papers  # never more than the cap
    assert not papers or len(papers) >= caps.at_least
    for section in made:
        assert 0 < len(section.papers) <= caps.per_topic
        assert set(section.papers) <= set(numbers(by_topic[section.topic].matches))
        places = [by_topic[section.topic].order.index(paper) for paper in section.papers]
        assert places == sorted(places)  # best first
    assert [section.topic for section in made] == [
        one.topic for one in wishes if one.topic in {s.topic for s in made}
    ]


@given(tables())
def test_no_place_stays_free_while_a_paper_is_left(table: tuple[list[Wish], int, set[int], Caps]):
    wishes, eligible, shown, _ = table
    matched = {n for one in wishes for n in numbers(one.choice.matches & eligible)} - shown

    made = compose(wishes, eligible=eligible, ids=range(12), shown=shown, caps=Caps(papers=6, per_topic=12))

    assert sum(len(section.papers) for section in made) == min(6, len(matched))


def test_a_digest_survives_being_stored():
    digest = Digest(
        sections=(
            Section(topic="Größe & <b>", filter_id=7, papers=(3, 1), more=2),
            Section(topic="Trending", filter_id=None, papers=(5,)),
        ),
        checked=412,
    )

    assert Digest.from_json(digest.to_json()) == digest
    assert digest.papers == (3, 1, 5)


def test_a_decision_from_an_earlier_version_is_read_as_it_was_meant() -> None:
    written = (
        '{"sections":[["Gezeiten und \\u00c4sche",null,[3,1],2]],"checked":5,"catch_up":true,"matched":0,'
        '"news":[[7,"published","Tides","in Gravel"]],"offer":["Tides",4,"ti:tide",14.0,3.0]}'
    )

    assert Digest.from_json(written) == Digest(
        sections=(Section("Gezeiten und Äsche", None, (3, 1), 2),),
        checked=5,
        is_catch_up=True,
        news=(FollowUp(7, "published", "Tides", "in Gravel"),),
        offer=Offer("Tides", 4, "ti:tide", 14.0, 3.0),
    )


@pytest.mark.parametrize(
    "stored", ["", "{", "{}", '{"sections":[["A",1]],"checked":1}', '{"sections":5,"checked":1}']
)
def test_what_is_no_decision_is_told_as_such(stored: str) -> None:
    with pytest.raises(ValueError, match="this is no decision: "):
        Digest.from_json(stored)


def test_the_sets_kept_for_a_choice_stay_few():
    one = choice(0b1111, FLAT, {})

    for eligible in range(1000):
        one.among(eligible)

    assert len(one.kept) <= 64


@pytest.mark.parametrize("empty", [choice(0, FLAT, {}), trending([])])
def test_a_topic_that_matches_nothing_makes_no_section(empty: Choice):
    assert sections(Wish("nothing", 1, empty)) == {}
