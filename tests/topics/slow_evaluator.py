"""Evaluate filters by a second implementation: slow, simple, and without an index.

It uses only the syntax tree of `digest.topics`: it splits and folds texts itself, generates every spelling of
a phrase, and checks every position of every text.
"""

from __future__ import annotations

import unicodedata
from itertools import pairwise

from digest.papers import display_text, paper_record
from digest.topics import filter_parser
from digest.topics.filter_tree import (
    And,
    AnywhereClause,
    AuthorClause,
    DateClause,
    LabelClause,
    Not,
    Or,
    PackClause,
    SignalClause,
    TextClause,
)
from tests.topics.strategies import SHELF

FUNCTION_WORDS = (
    "a an and any are as at be but by can do for from get has have he her his how if in into is it "
    "its may me my no nor not now of one or our so such than that the their them then there these "
    "they this to too us use was we were what when which who will with you"
)
FIELDS = {"ti": "t", "abs": "a", "tiab": "ta", "co": "c", "jr": "j", "org": "o"}


def holds(node, paper):
    if isinstance(node, Not):
        return not holds(node.child, paper)
    if isinstance(node, And):
        return all(holds(child, paper) for child in node.children)
    if isinstance(node, Or):
        return any(holds(child, paper) for child in node.children)
    if isinstance(node, AnywhereClause):
        return any(holds(part, paper) for part in node.parts)
    return LEAVES[type(node)](node, paper)


def text_holds(leaf, paper):
    shown = {
        "t": paper.title,
        "a": paper.abstract,
        "c": paper.comment,
        "j": paper.journal,
        "o": f"{paper.organization.name} {paper.organization.handle}" if paper.organization else "",
    }
    return any(found_in(leaf, parts(display_text.display(shown[field]))) for field in FIELDS[leaf.field])


def found_in(leaf, row):
    if leaf.near is not None:
        width = len(leaf.tokens) + leaf.near
        return any(
            all(
                any(is_word(token, part, leaf.exact) for part in row[at : at + width])
                for token in leaf.tokens
            )
            for at in range(len(row))
        )
    return any(
        stands_at(tokens, gaps, row, at, leaf.exact)
        for tokens, gaps in spellings(list(leaf.tokens), list(leaf.gaps))
        for at in range(len(row) - len(tokens) + 1)
    )


def spellings(tokens, gaps):
    yield tokens, gaps
    for k in range(len(gaps)):
        left, right = tokens[k].lower(), tokens[k + 1].lower()
        if joins(left, right) and (gaps[k] == "-" or loose(left, right.rstrip("*"))):
            yield [*tokens[:k], left + right, *tokens[k + 2 :]], gaps[:k] + gaps[k + 1 :]
    if len(gaps) > 1 and all(gap == "-" for gap in gaps) and not any("*" in token for token in tokens[:-1]):
        yield ["".join(tokens).lower()], []
    for k, token in enumerate(tokens):
        bare = token.rstrip("*")
        for i in range(1, len(bare)):
            left, right = bare[:i], bare[i:]
            if bare != bare.lower() or "." in bare or not joins(left, right):
                continue
            enough = loose(left, right) and (token == bare or len(right) >= 3)
            star = token[len(bare) :]
            yield (
                [*tokens[:k], "=" + left, right + star, *tokens[k + 1 :]],
                [*gaps[:k], "-" if enough else "=", *gaps[k:]],
            )


def joins(left, right):
    return "*" not in left and not (left[-1].isdigit() and right[0].isdigit())


def loose(left, right):
    return len(left) > 1 and len(right) > 1 and not {left, right} & {*FUNCTION_WORDS.split()}


def stands_at(tokens, gaps, row, at, exact):
    return all(is_word(token, row[at + k], exact) for k, token in enumerate(tokens)) and glue_fits(
        gaps, [glue for _, _, glue in row], at
    )


def glue_fits(gaps, glue, at):
    """Cut the phrase into compounds at its blanks; each must be hyphened, or whole words side by side."""
    edges = [-1, *(k for k, gap in enumerate(gaps) if gap == " "), len(gaps)]
    for before, after in pairwise(edges):
        inside = range(before + 1, after)
        if not inside:
            continue
        marks = [glue[at + k] for k in inside]
        if any(mark not in "- " for mark in marks):
            return False
        if any(mark == " " and gaps[k] == "=" for mark, k in zip(marks, inside, strict=True)):
            return False
        if " " in marks:
            outer_left = glue[at + before] if at + before >= 0 else " "
            outer_right = glue[at + after] if at + after < len(glue) else " "
            if "-" in (outer_left, outer_right):
                return False
    return True


def is_word(token, part, exact):
    surface, folded, _ = part
    if token.startswith("="):  # the first half of a word written in two: as it is
        return folded == token[1:]
    if token.endswith("*"):
        prefix = token[:-1]
        return (surface if prefix != prefix.lower() else folded).startswith(prefix)
    as_typed = token != token.lower()
    have = surface if as_typed else folded
    return have == token or (not exact and singular(have) == singular(token))


def singular(word):
    """Plurals by hand, enough for the words of the tests."""
    known = {
        "batches": "batch",
        "caches": "cache",
        "classes": "class",
        "biases": "bias",
        "matrices": "matrix",
    }
    if word in known:
        return known[word]
    if word.endswith(("ss", "us", "is")) or word in ("bias", "as") or len(word) < 4:
        return word
    if word.endswith("ies"):
        return word[:-3] + "y"
    return word.removesuffix("s")


def parts(text):
    """Return (as written, folded, glue behind) of every part, character by character."""
    found, i = [], 0
    while i < len(text):
        if not text[i].isalnum():
            i += 1
            continue
        end = i
        while end < len(text) and (
            text[end].isalnum() or unicodedata.combining(text[end]) or inner(text, end)
        ):
            end += 1
        behind = end
        while behind < len(text) and not text[behind].isalnum():
            behind += 1
        found.append((text[i:end], folded(text[i:end]), glue(text[end:behind], behind == len(text))))
        i = end
    return found


def inner(text, at):
    """An apostrophe between letters, a point between digits."""
    before, after = text[at - 1 : at], text[at + 1 : at + 2]
    if text[at] in "'’":
        return before.isalnum() and after.isalpha() and after.isascii()
    return text[at] == "." and before.isdigit() and after.isdigit()


def glue(gap, is_last):
    if is_last:
        return "."
    if gap in ("", "-", "–", "_", "−", "‐", "‑"):
        return "-"
    return " " if gap.isspace() else ","


def folded(surface):
    if surface[-2:] in ("'s", "’s", "'S", "’S"):
        surface = surface[:-2]
    kept = "".join(char for char in paper_record.fold(surface) if char.isalnum() or char == ".")
    return kept.replace("τ", "tau")


def person_holds(leaf, paper):
    authors = paper.authors[:1] if leaf.first else paper.authors
    return any(name_holds(leaf, author) for author in authors)


def name_holds(leaf, author):
    if "," in author:
        family, given = author.split(",")
        author = f"{given} {family}"
    have = [paper_record.fold(part).strip(".") for part in author.replace("-", " ").replace(".", " ").split()]
    family, given = list(leaf.family), list(leaf.given)
    if leaf.is_sorted:
        return have[-len(family) :] == family and given_hold(given, have[: -len(family)])
    asked = given + family
    if len(asked) == 1:
        return any(same(asked[0], part, leaf.starred) for part in have)
    last = same(asked[-1], have[-1], leaf.starred)
    whole = len(asked) <= len(have) and have[-len(asked) : -1] == asked[:-1]
    return last and (whole or given_hold(asked[:-1], have[:-1]))


def given_hold(asked, have):
    if not asked:
        return True
    if not have or not starts(asked[0], have[0]):
        return False
    place = 1
    for name in asked[1:]:
        while place < len(have) and not starts(name, have[place]):
            place += 1
        if place == len(have):
            return False
        place += 1
    return True


def starts(name, part):
    return part.startswith(name) if len(name) == 1 else part == name


def same(name, part, starred):
    return part.startswith(name) if starred else part == name


def label_holds(leaf, paper):
    if leaf.field == "lang":
        return language_holds(leaf, paper)
    listed = [code.lower() for code in (paper.categories[:1] if leaf.field == "pcat" else paper.categories)]
    labels = {
        "id": [*paper.ids.values()],
        "is": [paper.announcement.value],
        "source": [paper_record.fold(source) for source in paper.sources],
    }.get(leaf.field, [*listed, *(f"{code.split('.')[0]}.*" for code in listed)])
    return any(value in labels for value in leaf.values)


def language_holds(leaf, paper):
    """Recognise Greek by its letters and German by its stop words, enough for the tests' papers."""
    written = f"{paper.title} {paper.abstract}".lower()
    letters = [char for char in written if char.isalpha()]
    words = "".join(char if char.isalpha() else " " for char in written).split()
    german = sum(word in ["der", "die", "und", "das", "von"] for word in words)
    english = sum(word in ["the", "of", "in", "for"] for word in words)
    if sum("α" <= char <= "ω" for char in letters) > 0.4 * (len(letters) or 1):
        return leaf.values == ("el",)
    return leaf.values[0] == ("de" if german >= 3 and german > english else "en")


def use_holds(leaf, paper):
    """Look the filter up in its pack and evaluate it the same way."""
    versions = SHELF[leaf.pack]
    pack = versions[leaf.version or max(versions)]
    meant = [pack.filters[leaf.name]] if leaf.name else pack.filters.values()
    return any(holds(filter_parser.parse(written).tree, paper) for written in meant)


LEAVES = {
    PackClause: use_holds,
    TextClause: text_holds,
    AuthorClause: person_holds,
    LabelClause: label_holds,
    DateClause: lambda leaf, paper: bool(paper.published) and leaf.since <= paper.published <= leaf.until,
    SignalClause: lambda leaf, paper: (
        leaf.name in paper.signals and leaf.low <= paper.signals[leaf.name] <= leaf.high
    ),
}
