"""Represent sets of small numbers as integers, with bit n set if number n is in the set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

#: For larger sets than this, it is faster to set the bits in a byte array.
MANY_NUMBERS = 8


def bitset_of(numbers: Iterable[int]) -> int:
    """Return the set of `numbers`."""
    numbers = [*numbers]
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


def members(bits: int) -> Iterator[int]:
    """Yield the numbers in a set, lowest first."""
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low
