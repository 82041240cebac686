"""Generate the spellings of a phrase with a hyphen, a space or nothing between its parts.

`self-attention`, `self attention` and `selfattention` all match one another. A phrase is found in a text
if the text contains one of its spellings: as written, with one gap closed, with one word split in two, or
with all parts of a compound joined. Each gap requires a separator between the two parts in the text:

    " "   any separator
    "-"   a hyphen, or a space if no hyphen extends the compound on either side: "in-context" is found
          in "in context learning" but not in "in context-free grammars"
    "="   only a hyphen
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from digest.topics import tokenizer


def closed_spellings(tokens: Sequence[str], gaps: str) -> Iterator[tuple[str, tuple[str, ...], str]]:
    """Yield (joined word, tokens, gaps) for each spelling of a phrase with two or all of its parts joined."""
    for k, gap in enumerate(gaps):
        left, right = tokens[k].lower(), tokens[k + 1].lower()
        if left[-1] != "*" and not _digits_meet(left, right) and (gap == "-" or is_loose(left, right)):
            yield left + right, (*tokens[:k], left + right, *tokens[k + 2 :]), gaps[:k] + gaps[k + 1 :]
    whole = "".join(tokens).lower()
    if len(gaps) > 1 and set(gaps) == {"-"} and "*" not in whole[:-1]:
        yield whole, (whole,), ""


def split_spellings(token: str, known: Container[str]) -> Iterator[tuple[str, str, str]]:
    """Yield (left, right, gap) for each way to split `token` into a `known` left part and a right part."""
    for i in range(1, len(token) if token.islower() else 0):
        left = token[:i]
        if left in known:
            right = token[i:]
            if left.isalnum() and right.isalnum() and not _digits_meet(left, right):
                yield left, right, "-" if is_loose(left, right) else "="


def is_loose(left: str, right: str) -> bool:
    """Return whether two neighbouring words may form a compound, such as "over fitting"."""
    return (
        len(left) > 1
        and len(right) > 1
        and left not in tokenizer.FUNCTION_WORDS
        and right.rstrip("*") not in tokenizer.FUNCTION_WORDS
    )


def _digits_meet(left: str, right: str) -> bool:
    return left[-1].isdigit() and right[0].isdigit()


def glue_fits(gaps: str, glue: str, at: int) -> bool:
    """Return whether the separators after part `at` of a text and after the following parts satisfy `gaps`.

    `glue[i]` is the separator after part i of the text.
    """
    start = 0
    for k in range(len(gaps) + 1):
        if k < len(gaps) and gaps[k] != " ":
            continue
        if k > start and not _compound_fits(gaps[start:k], glue, at + start):
            return False
        start = k + 1
    return True


def _compound_fits(gaps: str, glue: str, at: int) -> bool:
    found = glue[at : at + len(gaps)]
    if any(have != "-" and (have != " " or want == "=") for have, want in zip(found, gaps, strict=True)):
        return False
    if " " not in found:
        return True
    behind = at + len(gaps)
    return not (at > 0 and glue[at - 1] == "-") and not (behind < len(glue) and glue[behind] == "-")


def near_window(places: Sequence[Sequence[int]], reach: int) -> tuple[int, int] | None:
    """Return (first, last) of the first span of at most `reach` parts that contains every word, or None.

    `places` contains the sorted positions of each word. The start of the span moves forward until the span
    is short enough, so the number of steps is linear in the number of positions.
    """
    at = [0] * len(places)
    if not all(places):
        return None
    while True:
        heads = [row[i] for row, i in zip(places, at, strict=True)]
        low, high = min(heads), max(heads)
        if high - low < reach:
            return low, high
        first = heads.index(low)
        at[first] += 1
        if at[first] == len(places[first]):
            return None
