"""Details of copied pages: authors, links, organisations, figures and dates in every place where pages put them."""

from __future__ import annotations

from datetime import date

import pytest

from digest.dumps.formats.page_metadata import parse_figure
from digest.dumps.formats.reader_interface import RecordProblem
from digest.papers.paper_record import Organization, Record
from tests.dumps import items, pairs, reading
from tests.dumps.test_page_shapes import ABSTRACTS, IDS, INBOX, TITLES, YEARLESS, meta, wrapped

TITLE, NEXT_TITLE, _ = TITLES
ABSTRACT, NEXT_ABSTRACT, _ = ABSTRACTS
PAPER_URL = f"https://huggingface.co/papers/{IDS[0]}"
CODE = "https://github.com/tides/gravel"
PROFILE = "https://huggingface.co/gravelworks"
HEADING = f"# Daily Papers\n\n{INBOX}### [{TITLE}]({PAPER_URL})\n\n"
NEXT_BLOCK = f"{NEXT_TITLE}\n\n{NEXT_ABSTRACT}\n\n{meta(1)}\n"


def only(content: str | bytes) -> Record:
    """Return the one paper of a page."""
    (found,) = items(content)
    assert isinstance(found, Record), found
    return found


def titles_and_faults(content: str | bytes) -> list[str]:
    """Return the title of every paper, and the reason of every problem."""
    return [item.title if isinstance(item, Record) else item.reason for item in items(content)]  # type: ignore[attr-defined]


# ── under headings ──────────────────────────────────────────────────────────────────────────────


ORGANIZATIONS = [
    (f"![gravelworks](x.png) [Gravel Works]({PROFILE})", ("gravelworks", "Gravel Works")),
    (f"[![](x.png) Gravel Works]({PROFILE})", ("gravelworks", "Gravel Works")),
    (f"[![alt text](x.png)Gravel Works]({PROFILE})", ("gravelworks", "Gravel Works")),
    ("[![gw](x.png) Gravel Works](https://example.org/gw)", ("gw", "Gravel Works")),
    (f"[[gw] Gravel Works]({PROFILE})", ("gravelworks", "Gravel Works")),
    (f"[Gravel Works]({PROFILE})", ("gravelworks", "Gravel Works")),
    (f"· [Gravel Works]({PROFILE}) · Nov 3, 2026", ("gravelworks", "Gravel Works")),
    (f"[ada]({PROFILE})", None),
    ("[Log in](https://huggingface.co/login)", None),
    ("[Gravel Works](https://example.org/gravelworks)", None),
    (f"[![gravelworks](x.png)]({PROFILE})", None),
]


def test_an_organization_is_a_name_with_an_image_or_a_link_to_its_profile() -> None:
    wrong = {}
    for line, organization in ORGANIZATIONS:
        found = only(f"{HEADING}{ABSTRACT}\n\n{line}\n\nNov 3, 2026\n")
        named = found.organization and (found.organization.handle, found.organization.name)
        if (found.abstract, found.published, named) != (ABSTRACT, date(2026, 11, 3), organization):
            wrong[line] = found

    assert wrong == {}


def test_only_the_first_organization_counts_and_none_comes_after_the_authors() -> None:
    first, second = f"[Gravel Works]({PROFILE})", "[Kite Works](https://huggingface.co/kites)"

    assert only(f"{HEADING}{ABSTRACT}\n\n{first}\n\n{second}\n").organization == Organization(
        handle="gravelworks", name="Gravel Works"
    )
    assert only(f"{HEADING}{ABSTRACT}\n\n- 5 authors\n\n{first}\n").organization is None
    assert only(f"{HEADING}{first}\n\n{ABSTRACT}\n").organization is None


@pytest.mark.parametrize(
    "line", [f"[GitHub 1.5k]({CODE})", f"[GitHub]({CODE}) [Kites 2](https://example.org/2)"]
)
def test_a_line_of_links_above_an_abstract_is_not_the_abstract(line: str) -> None:
    assert only(f"{HEADING}{line}\n\n{ABSTRACT}\n").abstract == ABSTRACT


def test_an_abstract_that_is_a_link_to_its_paper_is_the_abstract() -> None:
    assert only(f"{HEADING}[{ABSTRACT}]({PAPER_URL})\n").abstract == ABSTRACT


FIGURES: list[tuple[str, dict[str, float], tuple[str, ...]]] = [
        (f"[GitHub 1.5k]({CODE}) · [arXiv Page](https://arxiv.org/abs/{IDS[0]})", {"stars": 1500}, (CODE,)),
        (f"[GitHub 1.2.3k]({CODE})", {}, ()),
        (f"3\n[]({PAPER_URL}#community)", {"comments": 3}, ()),
        (f"[3]({PAPER_URL}#community)", {"comments": 3}, ()),
        (f"[-]({PAPER_URL}#community)", {"comments": 0}, ()),
        (f"Nov 3, 2026 [3]({PAPER_URL}#community)", {"comments": 3}, ()),
        (f"Nov 3, 2026 · [3]({PAPER_URL}#community)", {"comments": 3}, ()),
        ("Upvote\n\n12", {"upvotes": 12}, ()),
        (f"Upvote\n\n12\n\n[3]({PAPER_URL}#community)", {"upvotes": 12, "comments": 3}, ()),
        (f"[Project]({CODE}) | Nov 3, 2026", {}, ()),
        (f"- **Project:** https://example.org/gravel\n- **Code:** {CODE}", {}, ("https://example.org/gravel", CODE)),
    ]  # fmt: skip


def test_links_and_figures_under_an_abstract_belong_to_its_paper() -> None:
    wrong = {}
    for lines, signals, urls in FIGURES:
        found = only(f"{HEADING}{ABSTRACT}\n\n{lines}\n")
        if (found.abstract, found.signals, found.urls) != (ABSTRACT, signals, urls):
            wrong[lines] = found

    assert wrong == {}


def test_an_abstract_of_several_paragraphs_is_whole() -> None:
    assert only(f"{HEADING}{ABSTRACT}\n\n{NEXT_ABSTRACT}\n").abstract == f"{ABSTRACT}\n{NEXT_ABSTRACT}"
    assert only(f"{INBOX}{TITLE}\n\n{ABSTRACT}\n\n{NEXT_ABSTRACT}\n\n{meta(0)}\n").abstract == (
        f"{ABSTRACT}\n{NEXT_ABSTRACT}"
    )


def test_a_lone_dot_with_an_empty_link_ends_the_abstract() -> None:
    assert only(f"{HEADING}{ABSTRACT}\n· []({PAPER_URL})\nRead more\n").abstract == ABSTRACT


def test_a_heading_in_which_the_file_ends_is_a_paper() -> None:
    found = items(f"{HEADING}{ABSTRACT}\n\n### [Kites That\n")

    assert [(item.title, item.abstract) for item in found if isinstance(item, Record)] == [
        (TITLE, ABSTRACT),
        ("Kites That", ""),
    ]


def test_lines_above_the_first_heading_belong_to_no_paper() -> None:
    above = (
        "by Ada Okafor, Kenji Ito\n\n- **arXiv:** [2611.09999](https://arxiv.org/abs/2611.09999)\n\n"
        f"[Gravel Works]({PROFILE})\n\n• 7 authors\n\nwords of the site\n\n"
    )

    found = only((INBOX + above).encode() + b"caf\xe9\n\n" + HEADING.encode() + ABSTRACT.encode())

    assert (found.title, found.abstract, found.ids) == (TITLE, ABSTRACT, {"arxiv": IDS[0]})
    assert (found.authors, found.n_authors, found.organization, found.urls) == ((), None, None, ())


def test_a_bad_line_under_a_heading_affects_only_its_paper() -> None:
    content = HEADING.encode() + b"caf\xe9\n\n" + f"### {NEXT_TITLE}\n\n{NEXT_ABSTRACT}\n".encode()

    assert titles_and_faults(content) == ["line 7: not UTF-8 (byte 0xE9 at column 4)", NEXT_TITLE]


# ── between blank lines ─────────────────────────────────────────────────────────────────────────


def test_lines_above_the_first_title_belong_to_no_paper() -> None:
    above = "by Ada Okafor, Kenji Ito\n\nhttps://arxiv.org/abs/2611.09999\n\n• 7 authors\n\n"

    found = only(f"{INBOX}{above}{TITLE}\n\n{ABSTRACT}\n\n{meta(0)}\n")

    assert (found.title, found.authors, found.n_authors, found.ids, found.urls) == (TITLE, (), 5, {}, ())


def test_only_the_first_line_of_authors_is_used() -> None:
    named = "Authors: Ada Okafor, Kenji Ito"

    found = only(f"{INBOX}{TITLE}\n\n{named}\n\n{ABSTRACT}\n\nAuthors: P. Lind, X. Yu\n")

    assert found.authors == ("Ada Okafor", "Kenji Ito")


def test_a_figure_above_a_link_to_the_comments_counts_them() -> None:
    found = only(f"{INBOX}{TITLE}\n\n{ABSTRACT}\n\n3\n{PAPER_URL}#community\n")

    assert found.signals == {"comments": 3}


def test_labelled_links_give_the_id_and_the_other_urls() -> None:
    found = only(
        f"{INBOX}{TITLE}\n\nCode: {CODE}\n\n{ABSTRACT}\n\nURL: https://arxiv.org/abs/{IDS[0]}\n\n{CODE}/wiki\n"
    )

    assert (found.abstract, found.ids, found.urls) == (ABSTRACT, {"arxiv": IDS[0]}, (CODE,))


def test_a_label_ends_the_title_above_it() -> None:
    found = only(f"{INBOX}{TITLE}\nAbstract: {ABSTRACT}\n\n{meta(0)}\n")

    assert (found.title, found.abstract) == (TITLE, ABSTRACT)


@pytest.mark.parametrize(
    ("first_line", "is_title"),
    [
        ("Tidal Sorting of Loose Gravel on Beaches That Face the Wind: A Study in Two PARTS", True),
        ("tidal sorting of loose gravel on beaches that face the wind is what we study for", False),
    ],
)
def test_a_first_line_longer_than_the_others_is_a_title_unless_its_sentence_continues(
    first_line: str, is_title: bool
) -> None:
    (found,) = items(f"{INBOX}{first_line}\n{wrapped(ABSTRACT, 60)}\n\n{meta(0)}\n")

    if is_title:
        assert isinstance(found, Record)
        assert (found.title, found.abstract) == (first_line, ABSTRACT)
    else:
        assert isinstance(found, RecordProblem)
        assert found.reason == "an abstract with no title above it"


@pytest.mark.parametrize(
    ("bad", "fault"),
    [(b"caf\xe9", "not UTF-8 (byte 0xE9 at column 4)"), (b"x" * 60_001, "the line has 60,001 characters")],
    ids=["encoding", "length"],
)
def test_a_bad_line_between_two_papers_is_a_problem_of_its_own(bad: bytes, fault: str) -> None:
    page = f"{INBOX}{TITLE}\n\n{ABSTRACT}\n\n{meta(0)}\n\n".encode()

    assert titles_and_faults(page + bad + b"\n\n" + NEXT_BLOCK.encode()) == [
        TITLE,
        f"line 11: {fault}",
        NEXT_TITLE,
    ]
    assert titles_and_faults(INBOX.encode() + bad + b"\n\n" + NEXT_BLOCK.encode()) == [
        f"line 3: {fault}",
        NEXT_TITLE,
    ]


def test_a_page_without_papers_has_a_date_and_no_papers() -> None:
    found = reading(f"{INBOX}Nov 19, 2026\n")

    assert (found.header.date, list(found.records)) == (date(2026, 11, 19), [])


# ── without blank lines ─────────────────────────────────────────────────────────────────────────


def test_bad_lines_links_and_blanks_between_lines_affect_no_other_paper() -> None:
    content = pairs((TITLE, ABSTRACT)).encode() + b"\ncaf\xe9\n"
    content += f"{NEXT_TITLE}\nhttps://arxiv.org/abs/{IDS[1]}\n\t\n{NEXT_ABSTRACT}\n".encode()

    assert titles_and_faults(content) == [TITLE, "line 5: not UTF-8 (byte 0xE9 at column 4)", NEXT_TITLE]
    *_, last = items(content)
    assert isinstance(last, Record)
    assert (last.abstract, last.ids) == (NEXT_ABSTRACT, {"arxiv": IDS[1]})


# ── the header of a page ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("word", ["retrieved", "Captured", "fetched on"])
def test_the_day_on_which_a_page_was_saved_is_its_date(word: str) -> None:
    page = f"{word} 2026-11-19\n\n{INBOX}{TITLE}\n\n{ABSTRACT}\n\n{meta(0, YEARLESS)}\n"

    assert reading(page).header.date == date(2026, 11, 19)
    assert only(page).published == date(2026, 11, 3)


ORDERS = [
    ("https://huggingface.co/papers?q=gravel\n\n", "relevance"),
    ("URL: https://huggingface.co/papers/trending\n\n", "ranked"),
    ("# Trending Papers\n\n", "ranked"),
    ("Trending Papers\n\n", "ranked"),
    ("Daily Papers\n\nTrending Papers\n\n", "none"),
    ("", "none"),
]


def test_the_top_of_a_page_says_how_it_is_ordered() -> None:
    for top, order in ORDERS:
        assert reading(f"{top}{INBOX}{TITLE}\n\n{ABSTRACT}\n").header.order == order, top


def test_a_figure_that_is_no_number_is_left_out() -> None:
    found = only(f"{INBOX}{TITLE}\n\n{ABSTRACT}\n\n• 5 authors\n·\nNov 3 1.2.3\n")

    assert (found.published, found.signals) == (date(2026, 11, 3), {})


@pytest.mark.parametrize("digits", ["9" * 400, "9" * 20, "9" * 300 + "k"])
def test_a_number_with_too_many_digits_is_no_figure(digits: str) -> None:
    assert parse_figure(digits) is None
    assert titles_and_faults(f"{HEADING}{ABSTRACT}\n\n{digits}\n\n{NEXT_BLOCK}")[0] == TITLE
