"""Each text, name and figure is assigned to its paper, even in layouts that only some tools produce."""

from __future__ import annotations

from datetime import date

import pytest

from digest.dumps.formats import page_copy, page_segments
from digest.dumps.formats.reader_interface import RecordProblem
from digest.errors import UnreadableDump
from digest.papers.paper_record import Record
from tests.dumps import abstract, blocks, doubts, items, meta, reading

SUBJECTS = ("gravel", "kites", "owls", "fog", "bells")
PAPERS = [(f"A Study of {subject.capitalize()}", abstract(subject)) for subject in SUBJECTS]
SITE = "https://arxiv.org/abs/2611.0000"


def papers(content: str) -> list[Record]:
    """Return the papers of a page, read by the reader of any copy."""
    return [one for one in items(content, format="page") if isinstance(one, Record)]


def read_alike(content: str) -> list[Record]:
    """Return the papers of a page that has all papers with their abstracts."""
    found = papers(content)
    assert [(one.title, one.abstract) for one in found] == PAPERS
    return found


def test_votes_joined_to_every_title_are_cut_off() -> None:
    found = read_alike("\n\n".join(f"{n * 11}{title}\n\n{text}" for n, (title, text) in enumerate(PAPERS)))

    assert [one.signals["upvotes"] for one in found] == [0, 11, 22, 33, 44]


def test_figures_behind_a_linked_title_belong_to_its_paper() -> None:
    found = read_alike(
        "".join(
            f"* [{title}]({SITE}{n}) · 5 authors · Nov 3, 2025\n\n{text}\n\n"
            for n, (title, text) in enumerate(PAPERS)
        )
    )

    assert {(one.n_authors, one.published) for one in found} == {(5, date(2025, 11, 3))}
    assert [one.ids["arxiv"] for one in found] == [f"2611.0000{n}" for n in range(5)]


def test_addresses_of_openreview_separate_papers() -> None:
    found = read_alike(
        "".join(
            f"### [{title}](https://openreview.net/forum?id=aB{n})\n\n{text}\n\n"
            for n, (title, text) in enumerate(PAPERS)
        )
    )

    assert [one.urls[0] for one in found] == [f"https://openreview.net/forum?id=aB{n}" for n in range(5)]


@pytest.mark.parametrize(
    "url",
    [
        "https://openreview.net/group?id=",
        "https://[openreview.net/forum?id=x",
        "https://example.org/?id=x",
        "https://example.org/",
    ],
)
def test_other_addresses_are_not_those_of_papers(url: str) -> None:
    assert page_segments.paper_key(url) is None


def test_names_on_lines_of_their_own_are_authors() -> None:
    found = read_alike(
        "".join(
            f"### [{title}]({SITE}{n})\n\nAda Okafor,\n\nKenji Ito\n\n{text}\n\n"
            for n, (title, text) in enumerate(PAPERS)
        )
    )

    assert {one.authors for one in found} == {("Ada Okafor", "Kenji Ito")}


def test_a_link_that_began_above_the_page_still_separates_papers() -> None:
    content = "".join(f"{title}]({SITE}{n})\n\n{text}\n\n" for n, (title, text) in enumerate(PAPERS))

    assert [one.ids.get("arxiv") for one in papers(content)] == [f"2611.0000{n}" for n in range(5)]


@pytest.mark.parametrize("sign", ["=", "-"])
def test_underlined_lines_are_titles(sign: str) -> None:
    read_alike("".join(f"{title}\n{sign * 20}\n\n{text}\n\n" for title, text in PAPERS))


def test_a_bullet_before_the_number_of_authors_is_no_figure() -> None:
    found = read_alike(
        "".join(
            f"### [{title}]({SITE}{n})\n\n{text}\n\n-\n\n5 authors\n\nNov 3, 2025\n\n"
            for n, (title, text) in enumerate(PAPERS)
        )
    )

    assert {(one.n_authors, tuple(one.signals)) for one in found} == {(5, ())}


def wrapped(text: str, width: int = 78) -> str:
    """Return a text wrapped as text browsers wrap it."""
    lines, line = [], ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > width:
            lines.append(line)
            line = ""
        line = f"{line} {word}".strip()
    return "\n".join([*lines, line])


def test_a_title_directly_below_a_wrapped_abstract_begins_the_next_paper() -> None:
    content = "".join(f"{title}\nNov 3, 2025\n{wrapped(text)}\n" for title, text in PAPERS)
    found = papers(content)

    assert [one.title for one in found] == [title for title, _ in PAPERS]


def test_a_page_of_more_than_8_mib_is_refused_with_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_copy, "MAX_PAGE_BYTES", 1000)

    with pytest.raises(
        UnreadableDump, match="Split it between two papers into smaller files, or export the list"
    ):
        items(blocks(*PAPERS))


@pytest.mark.parametrize("name", ["pairs", "blocks", "markdown"])
def test_the_names_of_layouts_stand_for_the_reader_of_all_pages(name: str) -> None:
    assert reading(blocks(*PAPERS), format=name).format == "page"


def test_a_page_of_which_hardly_any_text_is_read_is_held() -> None:
    content = (
        "Get trending papers in your email inbox!\n\n"
        + "Daily\n\nWeekly\n\n" * 400
        + f"{PAPERS[0][0]}\n\nShort.\n\n{meta(5, 'Nov 3')}\n"
    )

    (reason,) = doubts(content)
    assert reason.startswith("the titles and abstracts that were read make up only 23 of the")


def test_a_row_with_a_title_alone_is_rejected_if_csv_is_forced() -> None:
    (found,) = items("colour,title\nred,Kites\n", format="csv")

    assert isinstance(found, RecordProblem)
    assert found.reason == "the object has a title but no other known field"


# ── layouts of other sites ──────────────────────────────────────────────────────────────────────


def test_an_address_below_each_abstract_belongs_to_the_paper_above_it() -> None:
    found = read_alike(
        "Search results\n\n"
        + "".join(
            f"{title}\n\nAda Okafor, Kenji Ito\n\nJournal of Tides, 2026\n\n{text}\n\nhttps://doi.org/10.1234/{n}\n\n"
            for n, (title, text) in enumerate(PAPERS)
        )
    )

    assert [one.ids["doi"] for one in found] == [f"10.1234/{n}" for n in range(5)]
    assert {one.authors for one in found} == {("Ada Okafor", "Kenji Ito")}


def test_a_heading_above_such_a_paper_is_its_title() -> None:
    content = "# Search results\n\n" + "".join(
        f"### {title}\n\n{text}\n\nhttps://doi.org/10.1234/{n}\n\n" for n, (title, text) in enumerate(PAPERS)
    )

    assert [one.ids["doi"] for one in read_alike(content)] == [f"10.1234/{n}" for n in range(5)]


def test_the_title_is_above_the_names_and_the_journal() -> None:
    found = read_alike(
        "".join(
            f"{title}\n\nAda Okafor, Kenji Ito\n\nJournal of Tides, 2026\n\n{text}\n\n"
            for title, text in PAPERS
        )
    )

    assert {one.authors for one in found} == {("Ada Okafor", "Kenji Ito")}


def test_a_line_with_an_id_separates_papers() -> None:
    found = read_alike(
        "".join(
            f"[{n + 1}] arXiv:2611.0000{n} [pdf, html, other]\n\nTitle: {title}\n\nAda Okafor, Kenji Ito\n\n{text}\n\n"
            for n, (title, text) in enumerate(PAPERS)
        )
    )

    assert [one.ids["arxiv"] for one in found] == [f"2611.0000{n}" for n in range(5)]
    assert {one.authors for one in found} == {("Ada Okafor", "Kenji Ito")}


def test_points_behind_every_title_are_upvotes() -> None:
    found = read_alike(
        "".join(f"{title} ({n} points)\n\n{text}\n\n" for n, (title, text) in enumerate(PAPERS))
    )

    assert [one.signals["upvotes"] for one in found] == [0, 1, 2, 3, 4]


def test_a_number_before_a_linked_title_and_a_count_behind_it_are_no_part_of_it() -> None:
    found = papers(
        "".join(
            f"{n + 1}. [{title} in \\$k\\$ Towers]({SITE}{n}) (7 readers)\n\n{text}\n\n"
            for n, (title, text) in enumerate(PAPERS)
        )
    )

    assert [one.title for one in found] == [f"{title} in $k$ Towers" for title, _ in PAPERS]

    assert [one.ids["arxiv"] for one in found] == [f"2611.0000{n}" for n in range(5)]


@pytest.mark.parametrize("label", ["Abstract ", "**Abstract** ", "Abstract. "])
def test_a_label_before_every_abstract_is_no_part_of_it(label: str) -> None:
    read_alike("".join(f"{title}\n\n{label}{text}\n\n" for title, text in PAPERS))


def test_names_directly_below_a_labelled_title_are_authors() -> None:
    title = "A Study of Loose Gravel on Beaches That Face the Wind and on Those That Do N"
    content = "".join(
        f"Title: {title}{n}\nAda Okafor, Kenji Ito\n\n{wrapped(text)}\n\n"
        for n, (_, text) in enumerate(PAPERS)
    )
    found = papers(content)

    assert [one.title for one in found] == [f"{title}{n}" for n in range(5)]
    assert {one.authors for one in found} == {("Ada Okafor", "Kenji Ito")}


@pytest.mark.parametrize(
    "line", ["- [1] arXiv:2611.00001 [pdf, html, other]", "Journal of Gravel, 01 January 2026"]
)
def test_a_page_whose_titles_are_ids_or_journals_is_held(line: str) -> None:
    content = "".join(f"{line.replace('1', str(n))}\n{text}\n" for n, (_, text) in enumerate(PAPERS, 1))

    assert doubts(content, format="pairs")


def test_titles_alone_are_no_papers() -> None:
    assert items("Daily Papers\n" + "".join(f"{title}\n" for title, _ in PAPERS + PAPERS[1:])) == []


def test_the_text_before_an_address_is_the_title_and_the_text_after_it_is_not() -> None:
    found = read_alike(
        "Home <https://huggingface.co/>\n\n"
        + "".join(
            f"{n * 11}\n <https://huggingface.co/login?next=%2Fpapers%2F2611.0000{n}>\n\n{n + 1}. {title} <{SITE[:14]}\n"
            f"{SITE[14:]}{n}> (7 readers)\n\n{wrapped(text)} <{SITE}{n}>\n\nNov 3, 20252 <{SITE}{n}#community>\n\n"
            for n, (title, text) in enumerate(PAPERS)
        )
    )

    assert [one.ids["arxiv"] for one in found] == [f"2611.0000{n}" for n in range(5)]
    assert [one.signals["upvotes"] for one in found] == [0, 11, 22, 33, 44]
    assert {(one.published, one.signals["comments"]) for one in found} == {(date(2025, 11, 3), 2)}


def test_bold_titles_directly_below_full_lines_begin_papers() -> None:
    line = ("gravel " * 11)[:77] + "."
    content = "".join(
        f"*{title}* <{SITE}{n}>\n{line}\n{line}\n{line}\n" for n, (title, _) in enumerate(PAPERS * 2)
    )

    assert [one.title for one in papers(content)] == [title for title, _ in PAPERS * 2]


def test_a_year_on_the_next_line_belongs_to_the_date() -> None:
    content = "".join(
        f"{title}\n\n{wrapped(text)}\n\nThe Institute of Tides, Gravel and Other Loose Things · 12 votes · Nov 3,\n2025\n\n"
        for title, text in PAPERS
    )

    assert {one.published for one in papers(content)} == {date(2025, 11, 3)}


FULL = ("gravel " * 11)[:77] + "."  #: a line as wide as the page
MANY = [f"A Study of Loose Things on Beaches That Face the Wind, Part {n}" for n in range(12)]


def test_a_wrapped_title_directly_below_a_full_line_begins_the_next_paper() -> None:
    long = "A Study of Loose Gravel on Beaches That Face the Wind and on Those That Do Not"
    content = "".join(f"{long}\nat All {n}\nNov 3, 2025\n{FULL}\n{FULL}\n{FULL}\n" for n in range(6))

    assert [one.title for one in papers(content)] == [f"{long} at All {n}" for n in range(6)]


def test_a_text_without_the_end_of_a_sentence_is_not_split() -> None:
    line = FULL[:-1] + "s"
    content = "".join(f"{title}\nNov 3, 2025\n{line}\n{line}\n{line}\n{line}\n" for title in MANY)

    assert [one.title for one in papers(content)] == MANY[:1]


def test_a_name_directly_below_a_full_line_is_the_organization() -> None:
    content = "".join(
        f"{title}\n\n{FULL}\n{FULL}\n{FULL}\nGravel Works\n·\nNov 3, 2025\n\n" for title in MANY
    )
    found = papers(content)

    assert [one.title for one in found] == MANY
    assert {one.abstract for one in found} == {" ".join([FULL] * 3)}
    assert {one.organization and one.organization.name for one in found} == {"Gravel Works"}


def test_a_number_above_its_unit_is_counted() -> None:
    found = read_alike("".join(f"{title}\n\n{text}\n\n12\n\ncomments\n\n" for title, text in PAPERS))

    assert [one.signals for one in found] == [{"comments": 12}] * 5


def test_a_title_without_votes_or_points_is_left_as_it_is() -> None:
    glued = "".join(f"{'' if n == 7 else n}{title}\n\n{PAPERS[0][1]}\n\n" for n, title in enumerate(MANY))
    behind = "".join(
        f"{title}{'' if n == 7 else f' ({n} points)'}\n\n{PAPERS[0][1]}\n\n" for n, title in enumerate(MANY)
    )

    for content in (glued, behind):
        found = papers(content)
        assert [one.title for one in found] == MANY
        assert [one.signals.get("upvotes") for one in found] == [None if n == 7 else n for n in range(12)]


def test_a_text_behind_a_linked_title_is_its_abstract() -> None:
    found = papers("".join(f"* [{title}]({SITE}{n}): {text}\n\n" for n, (title, text) in enumerate(PAPERS)))

    assert [(one.title, one.abstract) for one in found] == PAPERS


def test_an_escaped_line_break_is_a_space() -> None:
    found = papers(
        "".join(f"<h3>A Study&#10;of [Kites]({SITE}{n})</h3>\n\n{PAPERS[n][1]}\n\n" for n in range(5))
    )

    assert [one.title for one in found] == ["A Study of Kites"] * 5


def test_an_address_with_a_line_break_is_whole() -> None:
    found = papers(
        "".join(
            f'<h3><a href="{SITE[:20]}\n{SITE[20:]}{n}">{title}</a><img alt="a\npicture"></h3>\n\n{text}\n\n'
            for n, (title, text) in enumerate(PAPERS)
        )
    )

    assert [one.ids.get("arxiv") for one in found] == [f"2611.0000{n}" for n in range(5)]


# ── authors and references ──────────────────────────────────────────────────────────────────────


def test_a_single_name_below_a_title_is_the_author_if_most_papers_name_several() -> None:
    names = (
        "Ada Okafor",
        "Kenji Ito, Per Lind",
        "Ada Okafor and Kenji Ito",
        "Ada Okafor, Per Lind",
        "Kenji Ito",
    )
    page = "\n\n".join(
        f"## [{title}]({SITE}{n})\n\n{names[n]}\n\n{text}" for n, (title, text) in enumerate(PAPERS)
    )

    assert [one.authors for one in papers(page)] == [
        ("Ada Okafor",),
        ("Kenji Ito", "Per Lind"),
        ("Ada Okafor", "Kenji Ito"),
        ("Ada Okafor", "Per Lind"),
        ("Kenji Ito",),
    ]
    assert {one.authors for one in papers(page.replace(", Per Lind", "").replace(" and Kenji Ito", ""))} == {
        ()
    }


def test_names_listed_below_an_abstract_are_the_authors() -> None:
    page = "\n\n".join(
        f"### [{title}]({SITE}{n})\n\n{text}\n\n- Ada Okafor\n{'- Kenji Ito' * (n % 2)}\n\n{1 + n % 2} authors\n\n·\n\nNov 3"
        for n, (title, text) in enumerate(PAPERS)
    )

    assert [one.authors for one in papers(page)] == [("Ada Okafor",), ("Ada Okafor", "Kenji Ito")] * 2 + [
        ("Ada Okafor",)
    ]


def test_a_reference_with_several_addresses_has_none() -> None:
    cards = [f"[pdf][]\n\n### {title}\n\n{text}" for title, text in PAPERS]
    listed = "\n".join(f"[pdf]: https://arxiv.org/pdf/2611.0000{n}" for n in range(len(PAPERS)))

    assert {tuple(one.ids) for one in papers("\n\n".join(cards) + f"\n\n{listed}\n")} == {()}


def test_a_single_name_above_a_date_is_the_author_if_most_papers_name_several() -> None:
    names = (
        "Ada Okafor",
        "Kenji Ito, Per Lind",
        "Ada Okafor and Kenji Ito",
        "Ada Okafor, Per Lind",
        "Per Lind",
    )
    page = "\n\n".join(
        f"[{title}]({SITE}{n})\n\n*{names[n]}*\n\nPublished: 2026-11-0{n + 1} | {n} upvotes\n\n> {text}"
        for n, (title, text) in enumerate(PAPERS)
    )
    found = papers(page)

    assert [len(one.authors) for one in found] == [1, 2, 2, 2, 1]
    assert {one.organization for one in found} == {None}
