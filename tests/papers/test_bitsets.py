"""Sets of small numbers, represented as integers."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from digest.papers.bitsets import bitset_of, bitset_of_many, lowest_members, members


@example({*range(0, 300, 2)})
@given(st.sets(st.integers(0, 300)))
def test_a_bitset_has_the_members_it_was_made_from(numbers: set[int]):
    assert members(bitset_of(numbers)) == members(bitset_of_many(numbers, 301)) == sorted(numbers)


@given(st.sets(st.integers(0, 300)), st.integers(0, 40))
def test_the_lowest_members_are_the_first_in_increasing_order(numbers: set[int], most: int):
    assert lowest_members(bitset_of(numbers), most) == sorted(numbers)[:most]
