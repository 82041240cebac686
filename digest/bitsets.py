"""Represent sets of small numbers as integers, with bit n set if number n is in the set."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TypeAlias

#: For larger sets than this, it is faster to set the bits in a byte array.
MANY_NUMBERS = 64
WORD_BITS = 60  #: the number of bits of a set that are handled at a time
WORD = (1 << WORD_BITS) - 1

#: Pairs (score, set of the papers with this score), highest score first; no paper is in two sets.
ScoredSets: TypeAlias = Sequence[tuple[float, int]]


def bitset_of(numbers: Collection[int]) -> int:
    """Return the set of `numbers`."""
    if len(numbers) > MANY_NUMBERS:
        return bitset_of_many(numbers, max(numbers) + 1)
    bits = 0
    for number in numbers:
        bits |= 1 << number
    return bits


def bitset_of_many(numbers: Iterable[int], size: int) -> int:
    """Return the set of `numbers`, all below `size`."""
    bits = bytearray(size // 8 + 1)
    for number in numbers:
        bits[number >> 3] |= 1 << (number & 7)
    return int.from_bytes(bits, "little")


def members(bits: int) -> list[int]:
    """Return the numbers in a set, lowest first."""
    return lowest_members(bits, bits.bit_count())


def lowest_members(bits: int, most: int) -> list[int]:
    """Return the lowest `most` numbers in a set, lowest first.

    The loop handles `WORD_BITS` bits at a time, because arithmetic with the whole set is slower.
    """
    numbers: list[int] = []
    start = 0
    while bits and len(numbers) < most:
        skipped = (bits & -bits).bit_length() - 1
        bits >>= skipped
        start += skipped
        word = bits & WORD
        while word:
            lowest = word & -word
            numbers.append(start + lowest.bit_length() - 1)
            word ^= lowest
        bits >>= WORD_BITS
        start += WORD_BITS
    return numbers[:most]
