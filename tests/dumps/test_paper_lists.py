"""Papers are found in the bullets, headings and tables of Markdown lists, and other entries are ignored."""

from __future__ import annotations

from datetime import date

import pytest

from digest.dumps.formats.reader_interface import RecordProblem
from digest.papers.paper_record import Record
from tests.dumps import abstract, items, reading

GRAVEL = abstract("gravel")
CODE = "https://github.com/tides/gravel"
#: Enough papers for a list to be recognised.
OTHERS = "".join(f"- [A Study of Kites, Part {n}](https://arxiv.org/abs/2611.1000{n})\n" for n in range(3))


def papers(content: str) -> list[Record]:
    """Return the papers of a list in which nothing is wrong."""
    found = items(content)
    assert not [one for one in found if isinstance(one, RecordProblem)], found
    return [one for one in found if isinstance(one, Record)]


def first(entry: str) -> Record:
    """Return the paper of an entry that precedes others."""
    assert reading(f"{entry}\n\n{OTHERS}").format == "list"
    found = papers(f"{entry}\n\n{OTHERS}")
    assert len(found) == 4
    return found[0]


LINKED: list[tuple[str, tuple[str, ...], str, date | None, tuple[str, ...]]] = [
        (
            f"- [Tidal Sorting of Gravel](https://arxiv.org/abs/2611.00001) - Ada Okafor, Kenji Ito, *ICLR 2026* [[code]({CODE})]",
            ("Ada Okafor", "Kenji Ito"), "ICLR 2026", None, (CODE,),
        ),
        (
            "- **Tidal Sorting of Gravel.** *Ada Okafor, Kenji Ito.* NeurIPS 2025 Oral. [[pdf](https://arxiv.org/pdf/2611.00001)]",
            ("Ada Okafor", "Kenji Ito"), "NeurIPS 2025 Oral", None, (),
        ),
        (
            f"* (2026-05) [Tidal Sorting of Gravel](https://arxiv.org/abs/2611.00001), by Ada Okafor et al. [[Code]]({CODE})",
            ("Ada Okafor",), "", date(2026, 5, 1), (CODE,),
        ),
        (
            "1. Tidal Sorting of Gravel, Ada Okafor, Kenji Ito, 2026 [[paper]](https://arxiv.org/abs/2611.00001)",
            ("Ada Okafor", "Kenji Ito"), "", None, (),
        ),
        (
            '+ [ ] "Tidal Sorting of Gravel" (16 May 2026) <a href="https://arxiv.org/abs/2611.00001">arXiv</a>',
            (), "", date(2026, 5, 16), (),
        ),
        (
            "- Tidal Sorting of Gravel. May 16, 2026 https://arxiv.org/abs/2611.00001",
            (), "", date(2026, 5, 16), (),
        ),
        (
            "- 📄 [Tidal Sorting of Gravel](https://arxiv.org/abs/2611.00001) `[May 2026]` `[Venue: Gravel'26]`",
            (), "", date(2026, 5, 1), (),
        ),
        (
            f"### [Tidal Sorting of Gravel](https://arxiv.org/abs/2611.00001)\nAuthors: Ada Okafor, Kenji Ito\n\n- [Code]({CODE})\n- **TL;DR:** {GRAVEL}",
            ("Ada Okafor", "Kenji Ito"), "", None, (CODE,),
        ),
        (
            f"- Tidal Sorting of Gravel\n  - Authors: Ada Okafor, Kenji Ito\n  - Links: [paper](https://arxiv.org/abs/2611.00001), [code]({CODE})",
            ("Ada Okafor", "Kenji Ito"), "", None, (CODE,),
        ),
    ]  # fmt: skip


def test_an_entry_with_a_link_is_a_paper() -> None:
    wrong = {}
    for entry, *expected in LINKED:
        found = first(entry)
        read = [found.authors, found.journal, found.published, found.urls]
        count = None if "et al" in entry else len(found.authors) or None
        if (
            (found.title, found.ids) != ("Tidal Sorting of Gravel", {"arxiv": "2611.00001"})
            or read != expected
            or found.n_authors != count
        ):
            wrong[entry] = found

    assert wrong == {}


@pytest.mark.parametrize(
    "below",
    [
        f"  {GRAVEL}",
        f"  > {GRAVEL}",
        f"  - Abstract: {GRAVEL}",
        f"  <details><summary>Abstract</summary>{GRAVEL}</details>",
    ],
)
def test_a_text_below_an_item_is_its_abstract(below: str) -> None:
    assert first(f"- [Tidal Sorting of Gravel](https://arxiv.org/abs/2611.00001)\n{below}").abstract == GRAVEL


def test_sections_menus_and_other_links_are_not_papers() -> None:
    content = f"""# Awesome Gravel [![Awesome](https://awesome.re/badge.svg)](https://awesome.re)

A list kept by [Ada](https://github.com/ada).

## Contents
- [Sorting of all kinds](#sorting-of-all-kinds)
- Kites

## Sorting
* [sorter of loose gravel](https://github.com/x/sorter) - a tool
* [A video on gravel and tides](https://youtu.be/1)
* Vision
  * [OPT](https://arxiv.org/abs/2611.00003)
  * [A Post on Gravel and Tides](https://tides.example/post)
* [kites](https://tides.example/kites)
* [A Study of Moss and Tides](http://[half/x)
* nothing here

loose text
{OTHERS}"""

    assert [one.title for one in papers(content)] == [
        "OPT", "A Post on Gravel and Tides", "A Study of Moss and Tides", *(f"A Study of Kites, Part {n}" for n in range(3)),
    ]  # fmt: skip


def test_a_paragraph_that_begins_with_a_title_in_bold_is_an_entry() -> None:
    content = "".join(
        f"**Gravel{n}: A Study of Tides** \\\n*Ada Okafor, Kenji Ito* \\\nGravel 2026. [[Paper](https://arxiv.org/abs/2611.0000{n})] \\\n5 May 2026\n\n"
        f"**Kites{n}: A Study of Wind**\n\n- Homepage: https://kites.example/{n}\n- Paper: https://arxiv.org/abs/2610.0000{n}\n- Code: {CODE}\n\n"
        for n in range(3)
    )
    found = papers(content)

    assert [(one.title, one.ids["arxiv"]) for one in found[:2]] == [
        ("Gravel0: A Study of Tides", "2611.00000"), ("Kites0: A Study of Wind", "2610.00000"),
    ]  # fmt: skip
    assert len(found) == 6
    assert (found[0].authors, found[0].journal, found[0].published) == (
        ("Ada Okafor", "Kenji Ito"),
        "Gravel 2026",
        date(2026, 5, 5),
    )
    assert found[1].urls == ("https://kites.example/0", CODE)


def test_a_summary_that_unfolds_to_an_abstract_is_an_entry() -> None:
    content = "<details open>\n<summary><h2>Gravel (3 papers)</h2></summary>\n\n" + "".join(
        f"<details>\n<summary><strong>Gravel{n}: A Study of Tides</strong> - Ada Okafor, Kenji Ito - [[pdf]](https://arxiv.org/pdf/2611.0000{n})"
        f"</summary>\n\n**Abstract:** {GRAVEL}\n\n**arXiv ID:** 2611.0000{n}\n</details>\n\n"
        for n in range(3)
    )
    found = papers(content)

    assert reading(content).format == "list"
    assert [(one.title, one.ids["arxiv"]) for one in found] == [
        (f"Gravel{n}: A Study of Tides", f"2611.0000{n}") for n in range(3)
    ]
    assert {(one.abstract, one.authors) for one in found} == {(GRAVEL, ("Ada Okafor", "Kenji Ito"))}


def test_a_list_that_shows_how_to_cite_it_is_no_bibtex() -> None:
    cite = "```bibtex\n@article{okafor, title = {A List of Gravel}, author = {Okafor, Ada}}\n```\n"

    assert reading(f"# Gravel\n\n{cite}\n{OTHERS}").format == "list"
    assert len(papers(f"# Gravel\n\n{cite}\n{OTHERS}")) == 3


@pytest.mark.parametrize(
    ("cell", "title", "described"),
    [
        (f"1) **Tidal Sorting** - {GRAVEL}", "Tidal Sorting", GRAVEL),
        (f"2) Tidal Sorting  {GRAVEL}", "Tidal Sorting", GRAVEL),
        (f"Tidal Sorting - {GRAVEL}", "Tidal Sorting", GRAVEL),
        ("A Study of Gravel " * 10, " ".join(["A Study of Gravel"] * 10), ""),
    ],
)
def test_a_cell_may_hold_a_title_and_its_description(cell: str, title: str, described: str) -> None:
    rows = "".join(f"| {cell} | [Paper](https://arxiv.org/abs/2611.0000{n}) |\n" for n in range(3))
    found = papers(f"| **Paper** | **Links** |\n|---|---|\n{rows}")

    assert (found[0].title, found[0].abstract, found[0].ids) == (title, described, {"arxiv": "2611.00000"})


def test_a_paper_in_several_sections_is_listed_once() -> None:
    assert papers(f"## Kites\n{OTHERS}\n## All\n{OTHERS}") == papers(f"## Kites\n{OTHERS}")


# ── tables ──────────────────────────────────────────────────────────────────────────────────────

TABLE = """## Updated on 2026.11.20

|Publish Date|Title|Authors|PDF|Code|
|---|:-:|---|---|---|
|**2026-11-16**|**Tidal Sorting: \\| of Gravel**|Ada Okafor et.al.|[2611.00001v2](http://arxiv.org/abs/2611.00001v2)|**[link](https://github.com/tides/gravel)**|
|**2026-11-15**|**Kites**|Kenji Ito, Per Lind|[2611.00002](http://arxiv.org/abs/2611.00002)|null|
|**2026-11-15**||Kenji Ito, Per Lind|[2611.00003](http://arxiv.org/abs/2611.00003)|null|
|**2026-11-14**|**Owls in the Rain**|Per Lind|[2611.00004](http://arxiv.org/abs/2611.00004)|null|

Some text after it.
"""


def test_the_header_of_a_table_names_its_columns() -> None:
    found = papers(TABLE)

    assert reading(TABLE).format == "list"
    assert [(one.title, one.ids, one.published) for one in found] == [
        ("Tidal Sorting: | of Gravel", {"arxiv": "2611.00001"}, date(2026, 11, 16)),
        ("Kites", {"arxiv": "2611.00002"}, date(2026, 11, 15)),
        ("Owls in the Rain", {"arxiv": "2611.00004"}, date(2026, 11, 14)),
    ]
    assert [(one.authors, one.n_authors) for one in found] == [
        (("Ada Okafor",), None), (("Kenji Ito", "Per Lind"), 2), (("Per Lind",), 1),
    ]  # fmt: skip
    assert [one.urls for one in found] == [(CODE,), (), ()]


def test_a_table_may_name_its_columns_in_other_words() -> None:
    content = (
        "| Date | Keywords | Institute | Paper | Venue | Stars |\n|:--|--|--|--|--|--|\n"
        "| 2026-11 | sorting | Gravel Works | [Tidal Sorting](https://arxiv.org/pdf/2611.00001.pdf) | ICLR 2026 | 1.2k |\n"
        "| 2026-10 | flying | – | [Kites](https://kites.example/) | | |\n"
        "| 2026-09 | seeing | x | [paper](https://owls.example/) | | |\n"
        "2026-08 | hearing | x | Owls | |\n"
    )
    first_one, second, third = papers(content)

    assert (first_one.title, first_one.published, first_one.journal) == (
        "Tidal Sorting",
        date(2026, 11, 1),
        "ICLR 2026",
    )
    assert first_one.organization is not None
    assert (first_one.organization.name, first_one.categories) == ("Gravel Works", ("sorting",))
    assert (first_one.ids, first_one.signals) == ({"arxiv": "2611.00001"}, {"stars": 1200})
    assert (second.title, second.organization, second.urls) == ("Kites", None, ("https://kites.example/",))
    assert (third.title, third.urls) == ("Owls", ())


def test_a_row_of_another_table_is_a_paper_if_it_links_to_one() -> None:
    content = (
        "| Model | Size |\n|--|--|\n| [Gravel-7B](https://arxiv.org/abs/2611.00001) | 7 |\n| Kite-3B | 3 |\n\n"
        + OTHERS
    )

    assert [one.title for one in papers(content)] == [
        "Gravel-7B",
        *(f"A Study of Kites, Part {n}" for n in range(3)),
    ]


def test_a_list_with_thousands_of_entries_is_read_completely() -> None:
    rows = "".join(
        f"|**2026-11-16**|**A Study of Kites, Part {n}**|Ada Okafor et.al.|[2611.{n:05}](http://arxiv.org/abs/2611.{n:05})|null|\n"
        for n in range(6000)
    )
    bullets = "".join(
        f"- [A Study of Owls, Part {n}](https://arxiv.org/abs/2610.{n:05}) - Ada Okafor, Kenji Ito\n"
        for n in range(6000)
    )
    found = papers(
        f"|Publish Date|Title|Authors|PDF|Code|\n|---|---|---|---|---|\n{rows}\n## Owls\n\n{bullets}"
    )

    assert len(found) == 12_000
    assert found[-1].authors == ("Ada Okafor", "Kenji Ito")


def test_an_unreadable_line_of_a_list_is_reported() -> None:
    problems = [
        one
        for one in items(f"{OTHERS}- {'x' * 30_000}\n{OTHERS}".encode() + b"- caf\xe9\n")
        if isinstance(one, RecordProblem)
    ]

    assert [(one.line, one.reason.partition(" (")[0]) for one in problems] == [
        (4, "the line has 30,002 characters"),
        (8, "not UTF-8"),
    ]


@pytest.mark.parametrize(
    "content",
    ["- Kites\n- Owls\n", "# Gravel\n\nSee [a page](https://tides.example/).\n", "|a|b|\n|-|-|\n|1|2|\n"],
)
def test_other_markdown_is_not_read_as_a_list(content: str) -> None:
    from digest.dumps.formats import paper_list

    assert not paper_list.recognises(content)


def test_a_wrapped_abstract_below_an_item_is_whole_with_its_addresses() -> None:
    words = f"{GRAVEL} The code is at https://example.org/lab/gravel for everybody.".split()
    lines, line = [], ""
    for word in words:
        if len(line) + 1 + len(word) > 72:
            lines.append(line)
            line = ""
        line = f"{line} {word}".strip()
    below = "".join(f"   {one}\n" for one in [*lines, line])

    found = first(f"1. [Tidal Sorting of Gravel](https://arxiv.org/abs/2611.00001)\n\n{below}")

    assert found.abstract == " ".join(words)


def test_a_row_that_ends_before_the_title_is_no_paper_and_a_long_cell_keeps_its_addresses() -> None:
    abstract_cell = f"{GRAVEL} See https://example.org/lab/gravel for more."
    rows = "".join(
        f"| {n} | Kites {n} | {abstract_cell} | https://arxiv.org/abs/2611.0000{n} |\n" for n in range(4)
    )

    found = papers(f"| Nr | Title | Abstract | URL |\n|---|---|---|---|\n| 9 |\n{rows}")

    assert [one.title for one in found] == [f"Kites {n}" for n in range(4)]
    assert {one.abstract for one in found} == {abstract_cell}


# ── bylines ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("byline", "authors"),
    [
        ("Ada P. Okafor, Kenji Ito, W. B. Ólafur Lind", ("Ada P. Okafor", "Kenji Ito", "W. B. Ólafur Lind")),
        ("Ada Okafor, kenji ito, Mara V N S L Vishnu Lind, Per Lind, Eva Novak", ("Ada Okafor", "kenji ito", "Mara V N S L Vishnu Lind", "Per Lind", "Eva Novak")),
        ('Ada Okafor, Kenji "Ken" Ito, Mara Vogel, Per Lind.', ("Ada Okafor", 'Kenji "Ken" Ito', "Mara Vogel", "Per Lind")),
        ("Okafor, Ada, Ito, Kenji, Vogel, Mara, Lind, Per, Novak, Eva, Sato, Yuki, Diaz, Luz, Moreau, Zoe, Haddad, Sami", ()),
        ("Gravel, tides, kites", ()),
    ],
)  # fmt: skip
def test_a_byline_is_no_abstract_and_is_never_cut_at_an_initial(
    byline: str, authors: tuple[str, ...]
) -> None:
    found = first(
        f"**Tidal Sorting of Gravel** \\\n*{byline}* \\\narXiv 2026. [[Paper](https://arxiv.org/abs/2611.00001)]"
    )

    assert (found.authors, found.abstract) == (authors, "")


def test_a_title_that_begins_with_the_word_of_a_label_is_a_title() -> None:
    entries = (
        "**Tidal Sorting of Gravel** \\\n*Ada Okafor* \\\n[[Paper](https://arxiv.org/abs/2611.00001)]\n\n"
        "**Video Sorting: A Study of Gravel That Moves** \\\n*Kenji Ito* \\\n[[Paper](https://arxiv.org/abs/2611.00002)]\n\n"
        "- [Kites and Owls at Night](https://arxiv.org/abs/2611.00003)\n"
        "  - [Dataset Sorting: Gravel Without Labels](https://arxiv.org/abs/2611.00004)\n"
        "  - Project page: [here](https://kites.example/)\n"
    )

    found = papers(entries)

    assert [one.title for one in found] == [
        "Tidal Sorting of Gravel",
        "Video Sorting: A Study of Gravel That Moves",
        "Kites and Owls at Night",
        "Dataset Sorting: Gravel Without Labels",
    ]


# ── shapes that were read wrongly ───────────────────────────────────────────────────────────────

KITES = "Kites That Steer Themselves in Gusty Winds"
#: Entry -> authors, venue and address of code of the paper `KITES`, whose id is 2611.00001.
ENTRIES = {
    f"| Title | Venue | Code |\n|:--|:--:|:--| \n| [**{KITES}**](https://arxiv.org/pdf/2611.00001) <br> | arXiv | - |": ((), "arXiv", ()),
    f"**{KITES}** \\\n[[ICLR 2024 Spotlight](https://arxiv.org/abs/2611.00001)]\n[[Code]({CODE})]": ((), "ICLR 2024 Spotlight", (CODE,)),
    f" **{KITES}** \\\n[[ACM MM 2025](https://arxiv.org/abs/2611.00001)]": ((), "ACM MM 2025", ()),
    f'- Ada Okafor,Kenji Ito. **"{KITES}"** | [[Code]]({CODE}) | [[PDF]](https://arxiv.org/pdf/2611.00001.pdf)': (("Ada Okafor", "Kenji Ito"), "", (CODE,)),
    f"- {KITES} (2017), A. Okafor et al. [[pdf]](https://arxiv.org/pdf/2611.00001v1.pdf)": (("A. Okafor",), "", ()),
    f"- {KITES} (42 upvotes) [[pdf]](https://arxiv.org/pdf/2611.00001v1.pdf)": ((), "", ()),
    f"|论文|作者|会议|代码|\n|---|---|---|---|\n|[{KITES}](https://arxiv.org/abs/2611.00001)|Ada Okafor, Kenji Ito|Gravel 2026|[code]({CODE})|": (("Ada Okafor", "Kenji Ito"), "Gravel 2026", (CODE,)),
}  # fmt: skip


def test_venues_names_years_and_counts_around_a_title_are_no_part_of_it() -> None:
    wrong = {}
    for entry, expected in ENTRIES.items():
        (found, *_) = papers(f"{entry}\n\n{OTHERS}")
        read = (found.title, found.ids.get("arxiv"), found.authors, found.journal, found.urls)
        if read != (KITES, "2611.00001", *expected):
            wrong[entry] = read

    assert wrong == {}


def test_numbers_inside_a_title_stay_in_it() -> None:
    titles = [
        "What We Knew of Kites in 2020. A Retrospective",
        "Rotations on the SO(3) Manifold",
        "KiteNet 2. Larger Kites",
        "Paper Boats",
    ]
    rows = "".join(
        f"| {n}) {title} | [paper](https://arxiv.org/abs/2611.0000{n}) |\n"
        for n, title in enumerate(titles, 1)
    )
    bullets = "".join(
        f"- **{title}** (2015) [[pdf]](https://arxiv.org/pdf/2611.0000{n}.pdf)\n"
        for n, title in enumerate(titles, 1)
    )

    assert [one.title for one in papers(f"| Title | Link |\n|--|--|\n{rows}")] == titles
    assert [one.title for one in papers(bullets)] == titles


def test_a_row_that_a_tool_wrapped_is_one_row() -> None:
    rows = "".join(
        f"| A Study of Kites, Part {n} | Ada Okafor,\n  Kenji Ito | [paper](https://arxiv.org/abs/2611.0000{n}) |\n"
        for n in range(4)
    )

    found = papers(f"| Title | Authors | Link |\n|--|--|--|\n{rows}")

    assert [(one.title, one.authors, one.ids["arxiv"]) for one in found] == [
        (f"A Study of Kites, Part {n}", ("Ada Okafor", "Kenji Ito"), f"2611.0000{n}") for n in range(4)
    ]


def test_items_without_a_link_are_counted_in_a_remark() -> None:
    linked = "".join(
        f"- [Kites and Owls, Part {n}](https://arxiv.org/abs/2611.0000{n})\n" for n in range(1, 6)
    )
    bare = "- A Study of Looms in the Wind, Ada Okafor, 2026\n- Tides and the Weather of Reefs, Kenji Ito, 2026\n"
    found = items(f"# Papers\n\n{linked}{bare}- See also\n")

    assert sum(isinstance(one, Record) for one in found) == 5
    (remark,) = (one for one in found if isinstance(one, RecordProblem))
    assert (remark.reason, remark.is_remark) == (
        "2 items without a link were not read; the first is on line 8",
        True,
    )


def test_a_venue_in_brackets_beside_a_title_is_not_part_of_it() -> None:
    lines = (
        "- (*ICLR'24*) Tides: A Survey of Gravel [[paper](https://arxiv.org/abs/2611.00001)]",
        "- **Tides: A Survey of Gravel (Tidal Methods and Systems 2024)**\n  - [[Paper]](https://arxiv.org/abs/2611.00002)",
        "- :star: **Tides: A Survey of Gravel** [paper](https://arxiv.org/abs/2611.00003)",
        "- [Gravel in the Great Tide (of 1914)](https://arxiv.org/abs/2611.00004)",
    )
    found = papers("\n".join(lines))

    assert [(one.title, one.journal) for one in found] == [
        ("Tides: A Survey of Gravel", "ICLR'24"),
        ("Tides: A Survey of Gravel", "Tidal Methods and Systems 2024"),
        ("Tides: A Survey of Gravel", ""),
        ("Gravel in the Great Tide (of 1914)", ""),
    ]
