"""Packs are named filters in a plain file; `use:` resolves to one."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from digest import errors
from digest.topics import filter_parser, pack_files, pack_resolution
from digest.topics.pack_files import Pack
from tests.topics import strategies

LAB = """\
# What our reading group looks for.

pack: lab
description: Papers for the reading group
  on Tuesdays.

nlp = ("language model*" OR ICL)
      # surveys are read elsewhere
      ANDNOT ti:survey

robots = robot* AND (grasping OR use:lab/nlp)
"""


def published(name, version=1, /, dependency_versions=None, **filters):
    return Pack(name=name, version=version, filters=filters, dependency_versions=dependency_versions or {})


def shelf(*published):
    found: dict[str, dict[int, Pack]] = {}
    for pack in published:
        found.setdefault(pack.name, {})[pack.version] = pack
    return found


def stands_for(written, *on_it):
    return pack_resolution.resolve_filter(filter_parser.parse(written), shelf(*on_it)).canonical


def refused(written, *on_it):
    with pytest.raises(errors.BadFilter) as caught:
        stands_for(written, *on_it)
    return caught.value


# ── the file ────────────────────────────────────────────────────────────────────────────────────


def test_a_file_holds_a_name_a_description_and_a_filter_in_each_paragraph():
    pack = pack_files.read(LAB)

    assert (pack.name, pack.description) == ("lab", "Papers for the reading group on Tuesdays.")
    assert dict(pack.filters) == {
        "nlp": '("language model*" OR ICL) ANDNOT ti:survey',
        "robots": "robot* AND (grasping OR use:lab/nlp)",
    }


def test_line_breaks_of_any_system_and_a_mark_at_the_beginning_make_no_difference():
    windows = "\ufeff" + LAB.replace("\n", "\r\n")

    assert pack_files.read(windows).filters == pack_files.read(LAB).filters


@pytest.mark.parametrize(
    ("text", "line", "column", "message", "suggestion"),
    [
        ("", 1, 1, "This pack is empty", "pack: lab"),
        ("# only a remark\n", 1, 1, "This pack is empty", "pack: lab"),
        ("nlp = LLM", 1, 1, "begins with its name", "pack: lab"),
        ("description: for us\n\nnlp = LLM", 1, 1, "begins with its name", "pack: lab"),
        ("pack: Our Lab\n\nnlp = LLM", 1, 7, "lower-case letters", "our-lab"),
        ("pack: lab\nnlp = LLM", 2, 1, "may contain only", "pack: lab"),
        ("pack: lab", 1, 1, "Add a filter below", "nlp = LLM OR ICL"),
        ("pack: lab\n\nupvotes:>=20", 3, 1, "an equals sign", "nlp = upvotes:>=20"),
        ("pack: lab\n\nN L P = LLM", 3, 1, "lower-case letters", "n-l-p"),
        ("pack: lab\n\nnlp = a\n\nnlp = b", 5, 1, "Two filters are called nlp", None),
        ("pack: lab\n\nnlp = a OR\n# here\n  (b c\n  OR\n", 6, 3, "after OR", None),
        ("pack: lab\n\nnlp =\n\tcat:cs.NLP", 4, 6, "no category", "cat:cs.CL"),
        ("pack: lab\n\nnlp = NOT survey", 3, 7, "only excludes papers", "cat:cs.LG ANDNOT survey"),
        ("pack: lab\n\nnlp = like:3", 3, 12, "needs the catalog", None),
        ("pack: lab\n\nnlp = cat:cs.NLP\n  OR x", 3, 11, "no category", "cat:cs.CL"),
        ("#" * 50_001, 1, 1, "at most 50,000 characters; this file has 50,001", None),
        ("pack: lab" + "".join(f"\n\nf{n} = a" for n in range(101)), 203, 1, "at most 100 filters", None),
        ("pack: lab\n\nnlp = use:lab/", 3, 11, "is written PACK/FILTER", "use:lab/nlp"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_file_is_pointed_at_with_its_line(text, line, column, message, suggestion):
    with pytest.raises(errors.BadPack) as caught:
        pack_files.read(text)

    error = caught.value
    assert message in str(error)
    assert (error.line, error.column) == (line, column)
    assert str(error).startswith(f"Line {line}, column {column}: ")
    if suggestion is not None:
        assert error.suggestion == suggestion


@given(
    st.lists(
        st.sampled_from(["pack: lab", "description: x", "nlp = ", "a", "(", '"', "=", ":", "#", "\n", "\n\n", "\r", "\u2028", "use:a/b", "\ufeff"])
    ).map("".join)
    | st.text(max_size=200)
)  # fmt: skip
def test_any_text_is_a_pack_or_one_clear_error(text):
    try:
        pack = pack_files.read(text)
    except errors.BadPack as mistake:
        shown = (mistake.line >= 1, mistake.column >= 1, mistake.with_carets().count("\n"))
    else:
        shown = (True, True, 2)
        assert all(
            filter_parser.parse(canonical).canonical == canonical for canonical in pack.filters.values()
        )

    assert shown == (True, True, 2)


# ── what use: stands for ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("use:lab/nlp", "use:lab/nlp"), ("USE:Lab/NLP@3 x", "use:lab/nlp@3 AND x"), ('use:"lab"', "use:lab"),
        ("x -use:lab", "x ANDNOT use:lab"), ("use:lab/nlp@03", "use:lab/nlp@3"), ("ti:(a OR use:lab/b.c)", "ti:a OR use:lab/b.c"),
    ],
)  # fmt: skip
def test_a_use_clause_is_printed_as_it_was_written(written, printed):
    assert filter_parser.parse(written).canonical == printed
    assert filter_parser.parse(printed) == filter_parser.parse(written)


def test_a_pack_reference_is_replaced_by_its_filter():
    lab = replace(pack_files.read(LAB), version=1)

    assert stands_for("use:lab/nlp AND upvotes:>=5", lab) == (
        '("language model*" OR ICL) AND upvotes:>=5 ANDNOT ti:survey'
    )
    assert stands_for("ti:x ANDNOT use:lab/robots", lab) == (
        'ti:x ANDNOT (robot* AND (grasping OR (("language model*" OR ICL) ANDNOT ti:survey)))'
    )


def test_a_pack_without_a_filter_named_is_any_of_its_filters():
    assert stands_for("use:lab ANDNOT z", published("lab", a="x", b="y")) == "(x OR y) ANDNOT z"


def test_a_reference_without_a_version_follows_and_a_pinned_one_stays():
    old, new = published("lab", 1, nlp="LLM"), published("lab", 2, nlp="LLM OR ICL")

    assert stands_for("use:lab/nlp", old, new) == "LLM OR ICL"
    assert stands_for("use:lab/nlp@1", old, new) == "LLM"


def test_a_pinned_version_keeps_the_versions_of_its_dependencies():
    base = [published("base", 1, x="old"), published("base", 2, x="new")]
    lab = published("lab", 1, dependency_versions={"base": 1}, nlp="use:base/x OR LLM")

    assert stands_for("use:lab/nlp@1", *base, lab) == "old OR LLM"
    assert stands_for("use:lab/nlp", *base, lab) == "new OR LLM"


def test_a_new_pack_lists_its_indirect_dependencies():
    ground = published("ground", 4, y="z")
    base = [published("base", 1, x="old"), published("base", 2, x="new AND use:ground/y")]
    lab = published("lab", 1, nlp="use:base/x OR use:lab/b", b="use:base/x@1")

    assert pack_resolution.pack_dependencies(lab, shelf(ground, *base)) == {"base": 2, "ground": 4}


def test_a_new_pack_that_cannot_be_resolved_names_its_filter():
    lab = published("lab", nlp="LLM", robots="arm OR use:gone/x")

    with pytest.raises(errors.BadFilter, match="lab/robots: There is no pack gone") as caught:
        pack_resolution.pack_dependencies(lab, {})

    assert (caught.value.column, caught.value.length) == (1, len("arm OR use:gone/x"))


def test_a_resolved_reference_names_the_version():
    lab = published("lab", 7, nlp="LLM OR ICL")

    assert pack_resolution.resolved_uses(filter_parser.parse("use:lab/nlp x"), shelf(lab)) == {
        "use:lab/nlp@7": "LLM OR ICL"
    }


@pytest.mark.parametrize(
    ("written", "column", "length", "message", "suggestion"),
    [
        ("x OR use:lub/nlp", 10, 7, "no pack lub", "use:lab/nlp"),
        ("use:nlp", 5, 3, "no pack nlp", "use:lab/nlp"),
        ("use:lab/nlq", 5, 7, "has no filter nlq; it has nlp, other", "use:lab/nlp"),
        ("use:lab/nlp@3", 5, 9, "no version 3; its newest is 2", "use:lab/nlp@2"),
        ("use:round/a", 5, 7, "round/a uses round/b uses round/a", None),
        ("use:wide/all", 5, 8, "wide/all has 65 clauses; a filter has at most 64", None),
        ("use:wide/half (use:wide/half OR use:lab/nlp)", 37, 7, "this has 66 clauses", None),
        ("use:chain/a0", 5, 8, "8 deep", None),
        ("use:zzzz", 5, 4, "no pack zzzz", None),
        ("z OR use:deep/all", 10, 8, "this has 9 levels; a filter has at most 8", None),
        ("use:long/one use:long/two", 18, 8, "1,205 characters; a filter has at most 1,000", None),
    ],
)  # fmt: skip
def test_a_reference_that_cannot_be_resolved_is_reported_with_its_position(
    written, column, length, message, suggestion
):
    half = " OR ".join(f"a{n}" for n in range(32))
    wide = published("wide", half=half, all="use:wide/half OR use:wide/half OR LLM")
    chain = published("chain", **{f"a{n}": f"use:chain/a{n + 1}" for n in range(20)}, a20="x")
    lab = [published("lab", version, nlp="LLM OR ICL", other="x") for version in (1, 2)]
    levels = "a OR b"
    for level in range(7):
        levels = f"({levels}) {'OR' if level % 2 else 'AND'} c{level}"
    deep = published("deep", all=levels)
    long = published("long", one="a" * 600, two="b" * 600)
    circle = published("round", a="use:round/b OR x", b="use:round/a")

    mistake = refused(written, wide, chain, circle, deep, long, *lab)

    assert message in mistake.message
    assert (mistake.column, mistake.length) == (column, length)
    assert mistake.suggestion == suggestion


def test_packs_that_grow_exponentially_are_refused_quickly():
    doubling = published("p", a0="x", **{f"a{n}": f"use:p/a{n - 1} OR use:p/a{n - 1}" for n in range(1, 8)})

    assert "clauses" in refused("use:p/a7", doubling).message


@given(
    strategies.filters,
    strategies.filters,
    st.sampled_from(["{} ANDNOT {}", "{} OR {}", "({}) AND {}", "x AND -({} {})"]),
)
def test_a_resolved_filter_equals_the_filter_written_out(one, other, shape):
    try:
        whole = filter_parser.parse(shape.format(f"({one})", f"({other})"))
        parts = {"a": filter_parser.parse(one).canonical, "b": filter_parser.parse(other).canonical}
    except errors.BadFilter:
        return
    try:
        filter_ = pack_resolution.resolve_filter(
            filter_parser.parse(shape.format("use:p/a", "use:p/b")), shelf(published("p", **parts))
        )
    except errors.BadFilter:
        return

    assert filter_ == whole
    assert filter_parser.parse(filter_.canonical) == filter_


def test_the_pack_in_the_docs_parses():
    page = (Path(__file__).parents[2] / "docs" / "filters.md").read_text()
    (block,) = re.findall(r"```pack\n(.*?)```", page, re.DOTALL)

    assert list(pack_files.read(block).filters) == ["nlp", "robots"]
