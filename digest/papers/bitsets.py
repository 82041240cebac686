"""Represent sets of small numbers as integers, with bit n set if number n is in the set."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TypeAlias

#: For larger sets than this, it is faster to set the bits in a byte array.
MANY_NUMBERS = 64
#: If the mean distance between the numbers of a set is larger than this, they are found one by one.
SPARSE_DISTANCE = 40

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

    The numbers of a dense set are the places of the ones in its binary digits, which are found by splitting.
    """
    most = min(most, bits.bit_count())
    if bits.bit_length() < SPARSE_DISTANCE * most:
        zeros, number = bin(bits)[:1:-1].split("1", most), -1  # the digits lowest first, without the 0b
        return [number := number + len(between) + 1 for between in zeros[:most]]
    numbers: list[int] = []
    while len(numbers) < most:
        rest = bits & bits - 1
        numbers.append((bits ^ rest).bit_length() - 1)
        bits = rest
    return numbers
