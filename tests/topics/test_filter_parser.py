"""Filters are parsed, printed in canonical form, or refused with a position."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from digest import errors
from digest.topics import filter_parser
from digest.topics.clauses import author_names, parse_clause
from digest.topics.clauses.field_names import FIELDS, SIGNALS
from digest.topics.filter_tree import leaves
from tests.support.growth import assert_proportional
from tests.topics import strategies

PAGE = (Path(__file__).parents[2] / "docs" / "filters.md").read_text()


def canonical(written):
    return filter_parser.parse(written).canonical


def refused(written):
    with pytest.raises(errors.BadFilter) as caught:
        filter_parser.parse(written)
    return caught.value


# ── one canonical form ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("Diffusion   models", "diffusion AND models"),
        ("a b OR c", "(a AND b) OR c"),
        ("a NOT b", "a ANDNOT b"),
        ("-b a", "a ANDNOT b"),
        ("a !b", "a ANDNOT b"),
        ("a && b || c", "(a AND b) OR c"),
        ("NOT NOT a", "a"),
        ("((a))", "a"),
        ("a (b (c d))", "a AND b AND c AND d"),
        ("ti:(a OR au:lind)", "ti:a OR au:lind"),
        ("title: graphs", "ti:graphs"),
        ("“large batch”", '"large batch"'),
        ("Self-Attention", "self-attention"),
        ('"Self-Attention"', '"self-attention"'),
        ("SAM sam LLMs", "SAM AND sam AND LLMs"),
        ('"SHARPNESS AWARE SAM"', '"sharpness aware sam"'),
        ('"SAM optimizer"', '"SAM optimizer"'),
        (r"Schr\"odinger Erd\H{o}s $\alpha$", "schrodinger AND erdos AND alpha"),
        ("cat:CS.cl pcat:cs.* cat:astro-ph", "cat:cs.CL AND pcat:cs AND cat:astro-ph"),
        ("lang:EN language:german lang:zh-CN", "lang:en AND lang:de AND lang:zh"),
        ("L^2 loss", "l-2 AND loss"),
        ("au:wang_y", 'au:"wang, y"'),
        ("au:del_maestro", 'au:"del maestro"'),
        ('au:"^Huchra, John"', '1au:"huchra, john"'),
        ("doi:10.48550/arXiv.2401.01234", "id:2401.01234"),
        ("arxiv:2401.01234v2", "id:2401.01234"),
        ("stars:>1.5k", "stars:>=1501"),
        ("upvotes:10..20", "upvotes:10..20"),
        ("date:2024-01..2024-12", "date:2024"),
        ("submittedDate:[202401010000 TO 202402292359]", "date:2024-01-01..2024-02-29"),
        ("year:1980-1990", "date:1980-01-01..1990-12-31"),
        ("flat*", "flat*"),
        ('"flat* minima"', '"flat* minima"'),
        ('"robot arm" ~ 5', None),
        ('"robot arm"~5', '"robot arm"~5'),
        ('"robot"', '"robot"'),
        ('"robot*"', "robot*"),
        ("all:graphene", "all:graphene"),
        ("date:0001..9999", "date:0001-01-01..9999-12-31"),
        ("robot NOT (NOT cup)", "robot AND cup"),
    ],
)
def test_every_spelling_has_one_canonical_form(written, printed):
    if printed is None:
        assert refused(written)
    else:
        assert canonical(written) == printed
        assert canonical(printed) == printed


@given(strategies.filters)
def test_the_printed_form_of_a_filter_parses_to_the_same_filter(written):
    try:
        filter_ = filter_parser.parse(written)
    except errors.BadFilter:
        return

    assert filter_parser.parse(filter_.canonical) == filter_
    assert filter_parser.parse(filter_.canonical).canonical == filter_.canonical


SIGNS = 'abAB élŁß½㈱扩ｶﾞα\u0301"~*()-:!.,\\{}$_^&|<>=[]0159\n\u00a0\u200b“”'
WORDS = [
    *[
        "AND",
        "OR",
        "NOT",
        "ANDNOT",
        "ti:",
        "au:",
        "cat:cs",
        "date:",
        "upvotes:",
        "all:",
        "is:",
        "id:",
        "NEAR",
        "cs.",
        "use:",
        "lab/nlp",
        "@3",
        "lang:en",
        "*",
        '"',
        "~5",
    ],
    *SIGNS,
]


@given(st.lists(st.sampled_from(WORDS), max_size=40).map("".join) | st.text(max_size=200))
def test_any_text_is_a_filter_or_one_clear_error(written):
    try:
        filter_ = filter_parser.parse(written)
    except errors.BadFilter as mistake:
        where = (mistake.column, mistake.length, mistake.with_carets().count("\n"))
        filter_ = None
    else:
        where = (1, 1, 2)

    assert 1 <= where[0] <= len(written) + 1
    assert where[1] >= 1
    assert where[2] == 2
    assert filter_ is None or filter_parser.parse(filter_.canonical) == filter_


UNITS = [
    "(", "a", "--", "a-", "a*", "a_", "a~", "a?", "a.", "\\", "*", "~", "é", "[", "{", "|", "%", "&", "!", '"', "$a$", "{\\em ",
    "\\'e", "^{2}", "au:a_", "1au:a-", "use:a ", "cat:a ", "about:a ", "like:", "id:", "date:[", "a ", "a OR ", "NOT ", '"a" ',
    '"a b"~5 ', "all:a-b ", "ANDN ", "cs.CL ", "titel:", "a\n", "\u0301", "\u2028", "\ufdfa", "\u3300", "\u1100", "\U0001d400",
    "ß", "İ", "กำ", "🏳️\u200d🌈",
]  # fmt: skip
FRAMES = (
    "{}",
    'ti:"{}"',
    'all:"{}"',
    'about:"{}"',
    'au:"{}"',
    "cat:{}",
    "co:({})",
    "source:{}",
    "use:{}",
    "titel{}",
)


def parse_afresh(written):
    """Parse or refuse a filter with empty caches."""
    for kept in (
        filter_parser._parse_short,
        parse_clause.parse_clause,
        author_names.parts_of,
    ):
        kept.cache_clear()
    with contextlib.suppress(errors.BadFilter):
        filter_parser.parse(written)


@pytest.mark.parametrize("unit", UNITS)
def test_a_filter_is_parsed_or_refused_in_time_proportional_to_its_length(unit):
    for frame in FRAMES:

        def parse(size, frame=frame):
            parse_afresh(frame.format((unit * size)[:size]))

        assert_proportional(parse, 2_500)


def test_a_character_that_folds_to_several_letters_counts_as_several():
    assert "17,820 characters" in refused("\ufdfa" * 990).message
    assert canonical("\u3392") == "mhz"  # one sign, for which MHz may be written


def test_a_phrase_has_at_most_64_words():
    assert filter_parser.parse(f'"{"a " * 64}"').canonical
    assert "at most 64 words; this one has 65" in refused(f'"{"a " * 65}"').message


# ── the same, written otherwise ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("title:a", "ti:a"), ("intitle:a", "ti:a"), ("ab:a", "abs:a"), ("abstract:a", "abs:a"), ("tiab:a", "a"),
        ("author:lind", "au:lind"), ("firstauthor:lind", "1au:lind"), ("comment:a", "co:a"), ("journal:a", "jr:a"),
        ("category:cs.CL", "cat:cs.CL"), ("primary:cs.CL", "pcat:cs.CL"), ("src:arxiv", "source:arxiv"),
        ("year:2024", "date:2024"), ("TITLE:a", "ti:a"), ("a AND b", "a b"), ("a ANDNOT b", "a -b"),
        ("a|b", "a | b"), ("a OR b", "a || b"), ("cat:eess.SY", "cat:eess.sy"),
    ],
)  # fmt: skip
def test_aliases_mean_the_same(one, other):
    assert canonical(one) == canonical(other) or one == "a|b"


# ── notes and mistakes ──────────────────────────────────────────────────────────────────────────


def test_a_mix_of_and_and_or_is_read_with_a_note():
    (note,) = filter_parser.parse("a b OR c").warnings

    assert "(a AND b) OR c" in note
    assert filter_parser.parse("(a b) OR c").warnings == ()
    assert filter_parser.parse("a (b OR c)").warnings == ()


def test_lower_case_operators_are_words_with_a_note():
    filter_ = filter_parser.parse("cats and dogs")

    assert [leaf.canonical for leaf in leaves(filter_.tree)] == ["cats", "and", "dogs"]
    assert "the operator is AND" in filter_.warnings[0]


@pytest.mark.parametrize(
    ("written", "column", "length", "message", "suggestion"),
    [
        ("", 1, 1, "at least one word", None),
        ("   ", 1, 1, "at least one word", None),
        ("-survey", 1, 1, "only excludes papers", "cat:cs.LG ANDNOT survey"),
        ("a OR -b", 1, 1, "One side of this OR only excludes papers", None),
        ("(a OR b", 1, 1, "never closed", "(a OR b)"),
        ("a) b", 2, 1, "never opened", None),
        ('ti:"abc', 4, 1, "never closed", '"abc"'),
        ("a OR", 3, 2, "after OR", None),
        ("AND a", 1, 3, "before it", None),
        ("a AND OR b", 7, 2, "cannot follow AND", None),
        ("()", 1, 1, "after (", None),
        ("x ti:", 3, 3, "after ti:", None),
        ("autor:lind", 1, 5, "no field autor", "au:"),
        ("ab*", 1, 3, "3 letters", "ab"),
        ("mod*el", 4, 1, "at the end of a word", None),
        ("te?t", 3, 1, "not a wildcard", None),
        ("model~2", 6, 1, "after words in quotes", '"two words"~5'),
        ("survey[ti]", 1, 10, "before its word", "ti:survey"),
        ("/gr[ae]y/", 1, 9, "not supported", None),
        ("robot^2 arm", 6, 2, "not supported", "robot"),
        ("robot NEAR5 arm", 7, 5, "not an operator", '"two words"~5'),
        ("kat:cs.CL", 1, 3, "no field kat", "cat:"),
        ("x trend:>=2", 3, 5, "orders every digest", "upvotes:>=20"),
        ("lang:deutsh", 6, 6, "A language is one of en de", "lang:de"),
        ('"a b"~100', 7, 3, "At most 99", None),
        ("???", 1, 3, "a letter or a digit", None),
        ("cat:cs.NLP", 5, 6, "no category", "cat:cs.CL"),
        ("cat:nlp", 5, 3, "no category", "cat:cs.CL"),
        ("cat:stat.LG", 5, 7, "no category", None),
        ("cat:cs/LG", 5, 5, "no category", "cat:cs.LG"),
        ("is:old", 4, 3, "new, cross, replaced or withdrawn", None),
        ("is:withdrawed", 4, 10, "new, cross, replaced or withdrawn", "is:withdrawn"),
        ("date:2024-13", 6, 7, "There is no day", "date:2024-01..2024-06"),
        ("date:2025..2024", 6, 10, "ends before", None),
        ("date:yesterday", 6, 9, "is written", "date:2024-01..2024-06"),
        ("upvotes:many", 9, 4, "number or a bound", "upvotes:>=20"),
        ("upvotes:9..3", 9, 4, "No number", "upvotes:>=20"),
        ("id:hello", 4, 5, "not an arXiv id", "id:2401.01234"),
        ('au:","', 5, 1, "family name", None),
        ("au:wa*", 4, 3, "At least 3 letters are needed before a *", "au:wang*"),
        ('au:"Wang, Y*"', 5, 8, "only after a family name", 'au:"wang*"'),
        ("1au:wang_y*", 5, 7, "only after a family name", '1au:"wang*"'),
        ("cat:cx.LG", 5, 5, "no category", "cat:cs.LG"),
        ("date:<0001", 6, 5, "Dates are between", "date:2024-01..2024-06"),
        ("date:>9999", 6, 5, "Dates are between", "date:2024-01..2024-06"),
        ("use:lab/nlp@0", 13, 1, "Versions are numbered from 1", "use:lab/nlp@1"),
        (" ".join("a" * 65), 129, 1, "64 clauses", None),
        ("(" * 9 + "a" + ")" * 9, 9, 1, "8 deep", None),
        ("a" * 1001, 1001, 1, "1,000 characters", None),
    ],
)  # fmt: skip
def test_a_mistake_is_pointed_at(written, column, length, message, suggestion):
    mistake = refused(written)

    assert message in mistake.message
    assert (mistake.column, mistake.length) == (column, length)
    if suggestion is not None:
        assert mistake.suggestion == suggestion
    if suggestion and suggestion.count(":") <= 1 and not suggestion.endswith(":"):
        filter_parser.parse(suggestion)


def test_a_filter_at_a_limit_is_accepted_and_one_above_it_refused():
    assert len(list(leaves(filter_parser.parse(" ".join("a" * 64)).tree))) == 64
    assert canonical("(" * 8 + "a" + ")" * 8) == "a"
    assert len(canonical("a" * 1000)) == 1000


def test_nesting_is_counted_in_the_printed_form():
    written = "a"
    for level in range(8):
        written = f"(b{' ' if level % 2 else ' OR '}{written})"
    filter_ = filter_parser.parse(written)

    assert filter_parser.parse(filter_.canonical) == filter_
    assert (
        "deep"
        in refused(f"c ({written})" if filter_.canonical.startswith("b OR") else f"c OR ({written})").message
    )


def test_nine_levels_are_too_deep_whether_the_first_of_them_is_in_brackets_or_not():
    written = "a OR b"
    for level in range(8):
        written = f"({written}) {'OR' if level % 2 else 'AND'} c{level}"

    mistake = refused(written)

    assert "8 deep" in mistake.message
    assert mistake.column == 1


# ── the page ────────────────────────────────────────────────────────────────────────────────────


def blocks(kind):
    return re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("line", [line for block in blocks("filter") for line in block.splitlines()])
def test_filters_in_the_docs_parse(line):
    assert filter_parser.parse(line).canonical


@pytest.mark.parametrize("shown", blocks("mistake"))
def test_mistakes_in_the_docs_give_the_message_shown_there(shown):
    assert refused(shown.splitlines()[0]).with_carets() == shown.rstrip("\n")


def test_every_field_and_signal_is_in_the_docs():
    named = set(re.findall(r"([A-Za-z0-9_]+):", PAGE))

    assert {*FIELDS, *SIGNALS} <= named


@pytest.mark.parametrize("value", re.findall(r"`((?:cat|id|doi|au|ti|all|is|date):[^`]*[^`:])`", PAGE))
def test_examples_in_the_tables_of_the_docs_parse(value):
    assert filter_parser.parse(value).canonical


@pytest.mark.parametrize(
    ("written", "meant"),
    [("robot ANDN survey", "ANDNOT"), ("robot ANDD arm", "AND"), ("ti:(robot NOTT survey)", "NOT")],
)
def test_a_word_that_is_nearly_an_operator_is_pointed_at(written, meant):
    with pytest.raises(errors.BadFilter) as caught:
        filter_parser.parse(written)

    typed = written[caught.value.column - 1 :][: caught.value.length]
    assert f"'{typed}' is not an operator. Did you mean {meant}?" in str(caught.value)


@pytest.mark.parametrize(
    "written", ["NOR gates", "XOR", "ORB slam", "ANN", "ANT", "LAND", '"ANDN"', "tiab:ANDN", "ANDN."]
)
def test_an_acronym_that_looks_like_an_operator_is_a_word(written):
    parsed = filter_parser.parse(written)

    assert filter_parser.parse(parsed.canonical) == parsed


def test_a_bare_category_gets_a_note():
    assert filter_parser.parse("cs.cl").warnings == (
        "cs.cl is searched for as words; did you mean cat:cs.CL?",
    )
    assert not filter_parser.parse("cat:cs.CL OR math").warnings
