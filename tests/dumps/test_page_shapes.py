"""Pages of papers in other shapes than the known ones: menus, figures, dates, bullets and line ends.

Every shape holds the same three invented papers, and must give these three and nothing else.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from datetime import date

import pytest

from digest.dumps.formats.reader_interface import RecordProblem
from digest.papers.paper_record import Record, title_key
from tests.dumps import abstract, items, reading

TITLES = (
    "Tidal Sorting of Loose Gravel",
    "Kites That Steer Themselves: A Field Study",
    "What Owls Hear in the Rain?",
)
ABSTRACTS = tuple(abstract(subject) for subject in ("gravel", "kites", "owls"))
IDS = ("2611.01234", "2611.01235", "2506.01236")
AUTHORS = (5, 1, 12)
UPVOTES = ("42", "3.29k", "-")
COMMENTS = (3, 0, 1)
DAYS = (date(2026, 11, 3), date(2025, 6, 3), date(2026, 11, 12))
PRINTED = ("Nov 3, 2026", "Jun 3, 2025", "Nov 12, 2026")
YEARLESS = ("Nov 3", "Jun 3, 2025", "Nov 12")

INBOX = "Get trending papers in your email inbox!\n\n"
TOP = f"new\n\n{INBOX}Subscribe\n\nDaily Papers\n\nbyAK and the research community\n\nNov 19\n\n"

Shape = Callable[[int], str]


def wrapped(text: str, width: int = 76) -> str:
    return "\n".join(textwrap.wrap(text, width))


def quoted(text: str) -> str:
    return "".join(f"> {line}" for line in text.splitlines(keepends=True))


def page(top: str, paper: Shape, *, between: str = "\n\n", bottom: str = "\n") -> str:
    return top + between.join(paper(number) for number in range(3)) + bottom


MENU = "Hugging Face's logo Hugging Face\n\nModels\n\nBuckets new\n\nDocs\n\nWhat is this?\n\nPricing\n\nLog In\n\n"
FOOTER = "\n\nPrevious\n\n1\n\n2\n\n...\n\n100\n\nNext\n\nSystem theme\n\nCompany\n\n© Hugging Face\n\nTOS\n\nCareers\n"
BOUND = str.maketrans({" ": "\N{NO-BREAK SPACE}"})


def meta(number: int, printed: tuple[str, ...] = PRINTED) -> str:
    return f"  • {AUTHORS[number]} authors\n·\n{printed[number]}"


def twice(number: int) -> str:
    who = ("ada", "Kenji Ito", "lind99")[number]
    return (
        f"Submitted by\n\n{who}\n\n{TITLES[number]}\n\n{ABSTRACTS[number]}\n\n{AUTHORS[number]} authors\n\n·\n\n"
        f"Published on {PRINTED[number]}\n\nUpvote\n\n{UPVOTES[number]}"
    )


#: Name -> (the page, the figures it contains).
SHAPES: dict[str, tuple[str, str]] = {
    "menus around, upvotes before the title": (
        page(
            MENU + TOP,
            lambda n: f"Upvote\n\n{UPVOTES[n]}\n\n{TITLES[n]}\n\n{ABSTRACTS[n]}\n\n{meta(n, YEARLESS)}",
            bottom=FOOTER,
        ),
        "upvotes",
    ),
    "upvotes and stars after the date": (
        page(
            "Trending Papers\n\n" + INBOX,
            lambda n: (
                f"{TITLES[n]}\n\n{ABSTRACTS[n]}\n\n• {AUTHORS[n]} authors\n\n· Published on {PRINTED[n]}\n\n"
                f"Upvote\n\n{UPVOTES[n]}\n\nGitHub 1.5k arXiv Page"
            ),
        ),
        "upvotes stars",
    ),
    "a numbered list": (
        page(
            "Trending Papers\n\n" + INBOX,
            lambda n: f"{n + 1}. {TITLES[n]}\n\n{ABSTRACTS[n]}\n\n{AUTHORS[n]} authors · {PRINTED[n]}",
        ),
        "",
    ),
    "a numbered list in Markdown": (
        page(
            "# Daily Papers\n\n" + INBOX,
            lambda n: (
                f"{n + 1}. **[{TITLES[n]}](https://huggingface.co/papers/{IDS[n]})** ({UPVOTES[n]} upvotes)\n\n"
                f"   {ABSTRACTS[n]}\n\n   {AUTHORS[n]} authors · {DAYS[n]:%d %B %Y}"
            ).replace("(- upvotes)", "(0 upvotes)"),
        ),
        "upvotes ids",
    ),
    "Windows line ends, no-break spaces, wrapped abstracts": (
        page(
            TOP.replace("Nov 19", "Nov\N{NO-BREAK SPACE}19"),
            lambda n: f"{TITLES[n]}\n\n{wrapped(ABSTRACTS[n])}\n\n{meta(n, YEARLESS).translate(BOUND)}",
        ).replace("\n", "\r\n"),
        "",
    ),
    "emoji bullets": (
        page(
            "Trending Papers\n\n" + INBOX,
            lambda n: (
                f"📄 {TITLES[n]}\n\n{ABSTRACTS[n]}\n\n👥 {AUTHORS[n]} authors\n📅 {PRINTED[n]}\n"
                f"👍 {UPVOTES[n].replace('-', '0')}\n💬 {COMMENTS[n]}\n⭐ 1.5k"
            ),
        ),
        "upvotes comments stars",
    ),
    "dates in other spellings": (
        page(
            TOP.replace("Nov 19", "2026-11-19"),
            lambda n: (
                f"{TITLES[n]}\n\n{ABSTRACTS[n]}\n\n• {AUTHORS[n]} authors\n\n·\n\n"
                + ("2026-11-03", "3rd June 2025", "Published on November 12th, 2026")[n]
            ),
        ),
        "",
    ),
    "all figures on one line": (
        page(
            TOP,
            lambda n: (
                f"{TITLES[n]}\n\n{ABSTRACTS[n]}\n\n{AUTHORS[n]} authors · {YEARLESS[n]}"
                f" · {UPVOTES[n].replace('-', '0')} upvotes · {COMMENTS[n]} comments"
            ),
        ),
        "upvotes comments",
    ),
    "titles in bold, no headings": (
        page(
            "# Daily Papers\n\n" + INBOX,
            lambda n: (
                f"**[{TITLES[n]}](https://huggingface.co/papers/{IDS[n]})**\n\n{wrapped(ABSTRACTS[n])}\n\n"
                f"*{AUTHORS[n]} authors* · *{PRINTED[n]}*"
            ),
        ),
        "ids",
    ),
    "numbered headings, figures between bars": (
        page(
            "# Trending Papers\n\n" + INBOX,
            lambda n: (
                f"#### {n + 1}. {TITLES[n]}\n\n{wrapped(ABSTRACTS[n], 60)}\n\n"
                f"{AUTHORS[n]} authors | {PRINTED[n]} | ▲ {UPVOTES[n].replace('-', '0')} | ⭐ 1.5k"
            ),
        ),
        "upvotes stars",
    ),
    "abstracts as quotations, figures as a list": (
        page(
            "## Daily Papers\n\n" + INBOX,
            lambda n: (
                f"### [{TITLES[n]}](https://huggingface.co/papers/{IDS[n]})\n\n> {ABSTRACTS[n]}\n\n"
                f"- **Authors:** {AUTHORS[n]} authors\n- **Published:** {PRINTED[n]}\n"
                f"- **Upvotes:** {UPVOTES[n].replace('-', '0')}\n- **Comments:** {COMMENTS[n]}"
            ),
        ),
        "upvotes comments ids",
    ),
    "lines by turns, CRLF, one line of figures": (
        page(
            f"{INBOX.strip()}\nSubscribe",
            lambda n: (
                f"{TITLES[n]}\n{ABSTRACTS[n]}\n{AUTHORS[n]} authors · {YEARLESS[n]} · {COMMENTS[n]} comments"
            ),
            between="\n",
        ).replace("\n", "\r\n"),
        "comments",
    ),
    "every paper twice, with who submitted it": (
        page("Trending Papers\n\n" + INBOX, twice) + "\n" + page("", twice),
        "upvotes",
    ),
    "titles right above their abstracts, wrapped or not": (
        page(
            INBOX.strip() + "\nSubscribe\n",
            lambda n: f"{TITLES[n]}\n{(wrapped, str)[n % 2](ABSTRACTS[n])}\n{meta(n)}",
        ),
        "",
    ),
    "underlined titles and rules between papers": (
        page(
            "Daily Papers\n============\n\n" + INBOX,
            lambda n: f"{TITLES[n]}\n{'-' * 30}\n\n{ABSTRACTS[n]}\n\n{AUTHORS[n]} authors\n\n{PRINTED[n]}",
            between="\n\n* * *\n\n",
        ),
        "",
    ),
    "quoted in an answer to a mail": (
        quoted(page(TOP, lambda n: f"{TITLES[n]}\n\n{ABSTRACTS[n]}\n\n{meta(n)}")),
        "",
    ),
    "line ends of an old Macintosh": (
        page(TOP, lambda n: f"{TITLES[n]}\n\n{wrapped(ABSTRACTS[n])}\n\n{meta(n)}").replace("\n", "\r"),
        "",
    ),
    "in a fence, as notes keep a copy": (
        "```text\n" + page(TOP, lambda n: f"{TITLES[n]}\n\n{ABSTRACTS[n]}\n\n{meta(n)}") + "```\n",
        "",
    ),
    "a text browser's numbers in front of links": (
        page(
            "[1]Models [2]Datasets [3]Spaces\n\n" + TOP,
            lambda n: (
                f"   [{4 * n + 4}]Upvote\n   {UPVOTES[n]}\n\n   [{4 * n + 5}]{TITLES[n]}\n\n   [{4 * n + 6}]{wrapped(ABSTRACTS[n])}"
                f"\n\n   [{4 * n + 7}]{AUTHORS[n]} authors\n   ·\n   {YEARLESS[n]}"
            ),
            bottom="\n\nReferences\n\n   Visible links\n   1. https://huggingface.co/models\n",
        ),
        "upvotes",
    ),
    "comments alone under the date": (
        page(TOP, lambda n: f"{TITLES[n]}\n\n{ABSTRACTS[n]}\n\n{meta(n)}\n\n{COMMENTS[n]}"),
        "comments",
    ),
    "upvotes in front, comments alone under the date": (
        page(TOP, lambda n: f"{UPVOTES[n]}\n\n{TITLES[n]}\n\n{ABSTRACTS[n]}\n\n{meta(n)}\n\n{COMMENTS[n]}"),
        "upvotes comments",
    ),
    "references with names and what shows under a pointer": (
        page(
            "# Daily Papers\n\n" + INBOX,
            lambda n: (
                f"### [{TITLES[n]}][{('p1', '', 'P 3')[n]}]\n\n{ABSTRACTS[n]} See [a][b] of it.\n\n{meta(n)}".replace(
                    " See [a][b] of it.", ""
                )
            ),
            bottom=(
                f'\n\n[p1]: https://huggingface.co/papers/{IDS[0]} "{TITLES[0]}"\n'
                f"[{TITLES[1].lower()}]: <https://huggingface.co/papers/{IDS[1]}>\n[p 3]: /papers/{IDS[2]}\n"
            ),
        ),
        "ids",
    ),
    "headings of every dress": (
        page(
            "# Papers of November 19, 2026\n\n",
            lambda n: (
                (
                    f'### [{TITLES[0]}](https://arxiv.org/abs/{IDS[0]} "open it") ###',
                    f"## **[{TITLES[1]}](/papers/{IDS[1]})**",
                    f"### [{TITLES[2][:14]}\\\n{TITLES[2][14:]}](http://www.huggingface.co/papers/{IDS[2]})",
                )[n]
                + f"\n\n*{ABSTRACTS[n]}*\n\n{meta(n, YEARLESS)}"
            ),
        ),
        "ids",
    ),
    "fields with their names": (
        page(
            "# Daily Papers\n\n",
            lambda n: (
                (
                    f"## {n + 1}. {TITLES[n]}\n\n- **arXiv:** [{IDS[n]}](https://arxiv.org/abs/{IDS[n]})\n"
                    f"- **Upvotes:** {UPVOTES[n]}\n- **Authors:** {AUTHORS[n]} authors\n- **Published**: {PRINTED[n]}\n"
                    f"- **Abstract:** {ABSTRACTS[n]}"
                ).replace(f"- **Authors:** {AUTHORS[n]} authors\n- **Published**: {PRINTED[n]}\n", "")
                + f"\n\n{AUTHORS[n]} authors · {PRINTED[n]}"
            ),
        ),
        "upvotes ids",
    ),
    "a list with figures behind the title": (
        page(
            "# Daily Papers\n\n" + INBOX,
            lambda n: (
                f"{n + 1}. [{TITLES[n]}](https://huggingface.co/papers/{IDS[n]}) ⭐ 1.5k 👍 {UPVOTES[n]}\n   {ABSTRACTS[n]}\n"
                f"   {AUTHORS[n]} authors · {PRINTED[n]}"
            ),
            between="\n",
        ),
        "upvotes stars ids",
    ),
    "wrapped headings, every paper twice": (
        page(
            "# Daily Papers\n\n" + INBOX,
            lambda n: (
                2
                * f"### {wrapped(TITLES[n], 20)}\n\n{ABSTRACTS[n]}\n\n- {AUTHORS[n]} authors\n\n{PRINTED[n]}\n\n"
            ),
        ),
        "",
    ),
    "HTML left in Markdown": (
        page(
            "# Daily Papers\n\n" + INBOX,
            lambda n: (
                f'<h3><a href="/papers/{IDS[n]}">{TITLES[n]}</a></h3>\n\n<details><summary>Abstract</summary>\n\n'
                f"<p>{ABSTRACTS[n]}</p>\n\n</details>\n\n{meta(n)}"
            ),
        ),
        "",
    ),
    "tabs and blanks at both ends": (
        page(
            TOP,
            lambda n: (
                f"\t{TITLES[n]}  \n \n\t{ABSTRACTS[n]}\t\n\t\n  • {AUTHORS[n]} authors \n · \n{YEARLESS[n]} "
            ),
        ),
        "",
    ),
}


FIGURES = {"upvotes": [42.0, 3290.0, 0.0], "comments": [3.0, 0.0, 1.0], "stars": [1500.0] * 3}


def fields_of(paper: object) -> tuple[object, ...]:
    """Return what every shape prints of a paper."""
    assert isinstance(paper, Record), paper
    return paper.title, paper.abstract, paper.n_authors, paper.published


def test_the_same_three_papers_come_out_of_every_shape() -> None:
    expected = list(zip(TITLES, ABSTRACTS, AUTHORS, DAYS, strict=True))
    wrong: dict[str, object] = {}
    for shape, (content, contained) in SHAPES.items():
        found = items(content)
        papers = [one for one in found if isinstance(one, Record)]
        figures = {name: [one.signals.get(name) for one in papers] for name in FIGURES}
        printed = {name: FIGURES[name] if name in contained else [None] * 3 for name in FIGURES}
        ids = [one.ids.get("arxiv") for one in papers]
        if len(papers) != len(found) or list(map(fields_of, papers)) != expected:
            wrong[shape] = found
        elif figures != printed or ("ids" in contained and ids != list(IDS)):
            wrong[shape] = (figures, ids)

    assert wrong == {}


def test_authors_are_taken_where_a_page_names_them() -> None:
    named = "Ada Okafor, Kenji Ito, and Per van der Lind"
    above = page(
        "# Daily Papers\n\n", lambda n: f"### [{TITLES[n]}](/papers/{IDS[n]})\n\nby {named}\n\n{ABSTRACTS[n]}"
    )
    below = page(TOP, lambda n: f"{TITLES[n]}\n\n{ABSTRACTS[n]}\n\n{named}\n·\n{YEARLESS[n]}")
    fields = "Daily Papers\n\n" + "\n\n".join(
        f"Title: {title}\nAuthors: {named}\nURL: https://arxiv.org/abs/{number}\nAbstract: {text}"
        for title, number, text in zip(TITLES, IDS, ABSTRACTS, strict=True)
    )

    for content in (above, below, fields):
        found = [item for item in items(content) if isinstance(item, Record)]
        assert [(item.title, item.abstract) for item in found] == list(zip(TITLES, ABSTRACTS, strict=True))
        assert {item.authors for item in found} == {("Ada Okafor", "Kenji Ito", "Per van der Lind")}
        assert {item.organization for item in found} == {None}


def test_papers_in_a_table_are_read() -> None:
    rows = [
        f"| {n + 1} | [{TITLES[n]}](https://huggingface.co/papers/{IDS[n]}) | {ABSTRACTS[n]} | 7 |"
        for n in range(3)
    ]

    found = items("# Daily Papers\n\n| # | Title | Abstract | Votes |\n|---|:--|---|--:|\n" + "\n".join(rows))

    assert [(item.title, item.abstract) for item in found if isinstance(item, Record)] == list(
        zip(TITLES, ABSTRACTS, strict=True)
    )
    assert [item.signals for item in found if isinstance(item, Record)] == [{"upvotes": 7}] * 3


@pytest.mark.parametrize(
    "ending", ["by Gradient Descent.", "Code: https://example.org/gravel", "ends with </s> there."]
)
@pytest.mark.parametrize("top", [INBOX, "# Daily Papers\n\n### "])
def test_the_end_of_a_wrapped_abstract_stays_in_it(top: str, ending: str) -> None:
    found, *_ = items(f"{top}{TITLES[0]}\n\n{wrapped(ABSTRACTS[0])}\n{ending}\n\n{meta(0)}\n")

    assert isinstance(found, Record)
    assert found.abstract == f"{ABSTRACTS[0]} {ending}"


def test_brackets_without_a_link_stay_in_the_text() -> None:
    text = f"{ABSTRACTS[0]} As in [a][b], for x \\[v2\\] and a\\_b."

    (found,) = items(f"# Daily Papers\n\n### {TITLES[0]}\n\n{text}\n")

    assert isinstance(found, Record)
    assert found.abstract == f"{ABSTRACTS[0]} As in [a][b], for x [v2] and a_b."


def test_the_day_of_a_paper_is_not_taken_for_that_of_its_page() -> None:
    content = page(
        "# Daily Papers\n\n",
        lambda n: f"### [{TITLES[n]}](/papers/{IDS[n]})\n\n{ABSTRACTS[n]}\n\n{PRINTED[n]}",
    )

    assert reading(content).header.date is None
    assert reading(content.replace("# Daily Papers", "# Daily Papers - 2026-11-19")).header.date == date(
        2026, 11, 19
    )


def test_a_summary_on_a_trending_page_is_marked() -> None:
    found = items(
        page("Trending Papers\n\n" + INBOX, lambda n: f"{TITLES[n]}\n\nA method for it.\n\n{meta(n)}")
    )

    assert [item.summary_by for item in found if isinstance(item, Record)] == ["Hugging Face"] * 3


def test_an_abstract_without_a_title_is_reported() -> None:
    found = items(
        TOP + f"1984\n\n{ABSTRACTS[0]}\n\n{meta(0)}\n\n{TITLES[1]}\n\n{ABSTRACTS[1]}\n\n{meta(1)}\n"
    )

    assert isinstance(found[0], RecordProblem)
    assert "no title" in found[0].reason
    assert [item.title for item in found if isinstance(item, Record)] == [TITLES[1]]


def test_a_name_before_the_date_is_an_organisation_on_one_line_too() -> None:
    found = items(
        page(TOP, lambda n: f"{TITLES[n]}\n\n{ABSTRACTS[n]}\n\ngravelworks Gravel Works · {YEARLESS[n]}")
    )

    assert [
        (item.organization.handle, item.organization.name, item.published)
        for item in found
        if isinstance(item, Record) and item.organization
    ] == [("gravelworks", "Gravel Works", day) for day in DAYS]


def test_a_title_that_looks_like_a_figure_is_a_title() -> None:
    for title in [
        "3 Questions about Kites",
        "2. Order Logic of Owls",
        "Upvote or Not",
        "A | B Testing of Gravel",
        "May 2026 Floods",
    ]:
        titles = (TITLES[0], title, TITLES[2])
        found = items(page(TOP, lambda n: f"{titles[n]}\n\n{ABSTRACTS[n]}\n\n{meta(n)}"))  # noqa: B023

        assert tuple(item.title for item in found if isinstance(item, Record)) == titles


def test_soft_and_non_breaking_hyphens_do_not_change_the_title_key() -> None:
    soft, joined = "\N{SOFT HYPHEN}", "\N{NON-BREAKING HYPHEN}"

    assert title_key(f"Self{joined}Steer{soft}ing Ki{soft}tes") == title_key("Self-Steering Kites")


def test_an_incomplete_url_does_not_affect_its_paper() -> None:
    shape = "### {0}\n\n{1}\n\n[Gravel Works](https://[huggingface.co/gravelworks)\n\n· {2}"

    found = items(
        page("# Daily Papers\n\n" + INBOX, lambda n: shape.format(TITLES[n], ABSTRACTS[n], PRINTED[n]))
    )

    assert [item.title for item in found if isinstance(item, Record)] == list(TITLES)


NAMES = ("Ada Okafor", "Kenji Ito", "Lena Brandt", "Tomasz Moreau", "Ingrid Sofia Haddad")


def test_a_wrapped_list_of_names_is_read_whole_and_ends_where_the_abstract_begins() -> None:
    shapes = {
        "commas at the ends of lines": f"{', '.join(NAMES[:3])},\n{', '.join(NAMES[3:])}\n\nAbstract\n\n",
        "dots between names": f"{' · '.join(NAMES[:3])} ·\n{' · '.join(NAMES[3:])}\n\nAbstract\n\n",
        "a name on two lines": f"{', '.join(NAMES[:4])}, Ingrid Sofia\nHaddad\nAbstract\n",
        "italics of a wiki": f"//{' · '.join(NAMES)}//\n\n",
    }
    for name, names in shapes.items():
        page = "# Accepted papers\n\n" + "".join(
            f"## [{subject.capitalize()} and the Wind](https://openreview.net/forum?id=abcdefg{n:04d})\n\n{names}{wrapped(abstract(subject), 66)}\n\n"
            for n, subject in enumerate(("kites", "owls", "looms", "reefs"))
        )
        found = [one for one in items(page) if isinstance(one, Record)]
        assert [one.authors for one in found] == [NAMES] * 4, name
        assert [one.abstract for one in found] == [
            abstract(one) for one in ("kites", "owls", "looms", "reefs")
        ], name


def test_numbers_of_references_stay_in_the_text_of_a_text_browsers_copy() -> None:
    text = "We follow the plan of earlier work [3] and reach 93% of it [12]. " + abstract("kites")
    lines, links = [], []
    for n in range(1, 15, 2):
        lines.append(
            f"   [{n}]Kites and Owls, Part {n} of a Series\n\n   [{n + 1}]Ada Okafor\n\n{wrapped(text, 66)}\n"
        )
        links += [f"   {n}. https://arxiv.org/abs/2611.{n:05d}", f"   {n + 1}. https://example.org/people"]
    page = "\n".join(lines) + "\nReferences\n\n" + "\n".join(links) + "\n"

    found = [one for one in items(page) if isinstance(one, Record)]
    assert {one.abstract for one in found} == {text}
    assert [one.ids["arxiv"] for one in found] == [f"2611.{n:05d}" for n in range(1, 15, 2)]


def test_the_heading_of_a_page_is_no_paper_if_the_papers_have_links() -> None:
    for mark in ("#", "=", "h1."):
        papers = "".join(
            f"{mark if mark != 'h1.' else 'h2.'} [Kites and Owls, Part {n}](https://arxiv.org/abs/2611.{n:05d})\n\n{abstract('kites')} {n}\n\n"
            for n in range(1, 6)
        )
        found = items(f"{mark} Reading list\n\nPapers that we read this week and liked.\n\n{papers}")
        assert [one.title for one in found if isinstance(one, Record)] == [
            f"Kites and Owls, Part {n}" for n in range(1, 6)
        ], mark


def test_a_wrapped_line_with_an_id_belongs_to_the_title_below_it() -> None:
    page = "### New submissions (showing 5 of 5 entries)\n\n" + "".join(
        f"[{n}] arXiv:2611.{n:05d} [pdf, html,\nother]\n\nTitle: Kites and Owls, Part {n}\n\nAda Okafor, Kenji Ito\n\n"
        f"Subjects: Machine Learning (cs.LG)\n\n{wrapped(abstract('kites'), 66)}\n\n"
        for n in range(1, 6)
    )
    found = [one for one in items(page) if isinstance(one, Record)]
    assert [(one.title[-1], one.ids["arxiv"]) for one in found] == [
        (str(n), f"2611.{n:05d}") for n in range(1, 6)
    ]


def test_a_title_that_links_to_two_papers_is_one_paper() -> None:
    papers = "\n\n".join(
        f"[Kites](https://arxiv.org/abs/2611.0{n}001) [and Owls](https://arxiv.org/abs/2611.0{n}002)\n\n{abstract('kites')} {n}"
        for n in range(4)
    )
    found = [one for one in items(f"# Daily Papers\n\n{papers}") if isinstance(one, Record)]
    assert [one.ids["arxiv"] for one in found] == [f"2611.0{n}001" for n in range(4)]
