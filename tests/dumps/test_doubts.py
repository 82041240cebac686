"""Dumps that may have been misread: the reason why each is held, and lists that are not held."""

from __future__ import annotations

import json
import re
import textwrap

import pytest

from digest.dumps.formats.page_counts import StatedCount, count_of_page, stated_count
from digest.papers.paper_record import Record
from tests.dumps import abstract, blocks, doubts, headings, items, meta, reading

SUBJECTS = ("gravel", "kites", "owls", "fog", "bells", "moss", "tides", "looms")
PAPERS = [
    (f"A Study of {subject.capitalize()}", abstract(subject), meta(5, "Nov 3 2")) for subject in SUBJECTS
]


# ── the number of papers that a page states ─────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("line", "number", "is_total"),
    [
        ("Showing 1-25 of 120 results", 25, False),
        ("26–50 of about 1,204 papers", 25, False),
        ("Results 1 to 10 of 10", 10, False),
        ("> **Displaying 1 - 8 of 9 entries.**", 8, False),
        ("49 papers", 49, True),
        ("## 1,204 results found", 1204, True),
        ("Total of 49 entries", 49, True),
        ("Total number of papers: 49", 49, True),
        ("Results: 8", 8, True),
    ],
)
def test_a_line_may_state_how_many_papers_a_page_lists(line: str, number: int, is_total: bool) -> None:
    assert stated_count(line) == StatedCount(number=number, is_total=is_total)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "49",
        "3 authors",
        "Papers of 2026",
        "Showing 9-1 of 12 papers",
        "8 papers on kites",
        "49 papers " + "-" * 80,
    ],
)
def test_other_lines_state_no_number_of_papers(line: str) -> None:
    assert stated_count(line) is None


@pytest.mark.parametrize(
    ("stated", "lines", "number"),
    [
        (["49 papers"], ["Kites"], 49),
        (["49 papers", "49 papers"], [], 49),
        (["49 papers", "12 papers"], [], None),
        (["120 papers", "Showing 1-25 of 120 results"], ["Next"], 25),
        (["120 papers"], ["1 2 3 Next"], None),
        (["120 papers"], ["Load more"], None),
        (["49 papers"], ["We ask what comes next " + "in a long text " * 9], 49),
    ],
)
def test_a_page_with_further_pages_may_list_fewer_papers_than_it_states(
    stated: list[str], lines: list[str], number: int | None
) -> None:
    found = [one for one in map(stated_count, stated) if one is not None]

    assert count_of_page(found, lines) == number


@pytest.mark.parametrize(("stated", "is_held"), [(8, False), (10, False), (11, True), (4, True)])
def test_a_page_that_states_another_number_of_papers_is_held(stated: int, is_held: bool) -> None:
    page = blocks(*PAPERS).replace("Daily Papers\n", f"Daily Papers\n\n{stated} papers\n")
    reason = f"the page says that it lists {stated} papers, but 8 were read"

    assert reading(page).header.announced == stated
    assert doubts(page) == ([reason] if is_held else [])


# ── ids and authors ─────────────────────────────────────────────────────────────────────────────


def test_a_page_that_repeats_ids_under_different_titles_is_held() -> None:
    page = headings(*PAPERS)
    shared = re.sub(r"2611\.0000(\d)", lambda found: f"2611.0000{int(found[1]) // 2}", page)

    right, wrong = doubts(page), doubts(shared)

    assert right == []
    (reason,) = wrong
    assert reason.startswith(
        '4 of its 8 papers have the id of a paper with another title, for example line 13: "A Study of Kites"; line 29: "A Study of Fog"'
    )


@pytest.mark.parametrize(("shared", "is_held"), [(1, False), (2, True)])
def test_a_list_of_one_s_own_that_repeats_ids_is_held(shared: int, is_held: bool) -> None:
    found = [
        {"title": title, "abstract": text, "doi": f"10.1234/{n // shared}"}
        for n, (title, text, _) in enumerate(PAPERS)
    ]

    assert len(doubts(json.dumps(found))) == is_held
    assert len(doubts("\n".join(map(json.dumps, found)))) == is_held
    rows = "".join(f'"{one["title"]}",{one["doi"]}\n' for one in found)
    assert len(doubts(f"title,doi\n{rows}")) == is_held


def test_the_same_paper_twice_is_no_repeated_id() -> None:
    found = [{"title": PAPERS[0][0], "abstract": "We sort.", "doi": "10.1234/x"}] * 9

    assert doubts(json.dumps(found)) == []


def test_a_page_that_names_more_authors_than_it_counts_is_held() -> None:
    named = "By Ada Okafor, Kenji Ito, Per Lind"
    right, wrong = (
        headings(*((title, f"{named}\n\n{text}", meta(count, "Nov 3")) for title, text, _ in PAPERS))
        for count in (5, 2)
    )

    assert doubts(right) == []
    (reason,) = doubts(wrong)
    assert reason.startswith(
        '8 of its 8 papers name authors who are not people, or more than they count, for example line 5: "A Study of Gravel" by Ada Okafor, Kenji Ito, Per Lind; line'
    )
    assert all(isinstance(one, Record) for one in items(right))


# ── other texts ─────────────────────────────────────────────────────────────────────────────────

SECTIONS = [(f"How to Care for {subject.capitalize()}", abstract(subject)) for subject in SUBJECTS]


def test_a_text_with_headings_and_paragraphs_is_held() -> None:
    manual = "\n\n".join(f"{title}\n\n{textwrap.fill(text, 72)}" for title, text in SECTIONS)

    assert reading(manual).format == "page"
    assert [reason for reason in doubts(manual) if "this may be another text" in reason]


def test_a_list_of_links_that_lead_to_no_papers_is_held() -> None:
    def listed(host: str) -> str:
        return "".join(f"- [{title}]({host}{number})\n" for number, (title, _) in enumerate(SECTIONS))

    assert [
        reason
        for reason in doubts(listed("https://tools.example/docs/"))
        if "this may be another text" in reason
    ]
    assert not doubts(listed("https://arxiv.org/abs/2611.0000"))


def test_a_small_page_whose_abstracts_are_no_sentences_is_held() -> None:
    entries = "".join(
        f"<li><div>{title}</div><div>ICLR 2026. <a href='https://arxiv.org/abs/2611.0000{n}'>Paper</a></div><div>2026-11-0{n}</div></li>"
        for n, (title, _) in enumerate(SECTIONS[:3], start=1)
    )

    assert doubts(f"<!DOCTYPE html><html><body><main><ol>{entries}</ol></main></body></html>")
