"""Text copies of Hugging Face pages: titles, abstracts, meta lines and dates without a year."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from digest.dumps.formats.reader_interface import RecordProblem
from digest.errors import UnreadableDump
from digest.papers.paper_record import Organization, Record
from tests.dumps import abstract, blocks, items, meta, pairs, reading

TIDES = ("Tidal Sorting of Loose Gravel", abstract("gravel"))
KITES = ("Kites That Steer Themselves", abstract("kites"))
OWLS = ("What Owls Hear in the Rain?", abstract("owls"))


def set_fields(item: object) -> dict[str, Any]:
    """Return what differs from an empty record."""
    assert isinstance(item, Record), item
    empty = Record(title="")
    fields = ((name, getattr(item, name)) for name in Record.__slots__)
    return {name: value for name, value in fields if value != getattr(empty, name)}


def test_pairs_alternate_and_the_button_caption_is_removed_from_the_first_title() -> None:
    found = items(pairs(TIDES, KITES))

    assert [set_fields(item) for item in found] == [
        {"title": TIDES[0], "abstract": TIDES[1], "line": 3},
        {"title": KITES[0], "abstract": KITES[1], "line": 5},
    ]


def test_blocks_carry_authors_dates_and_comments_where_they_are_printed() -> None:
    found = items(blocks((*TIDES, meta(5, "Mar 11, 2023")), (*KITES, meta(1, "Jun 3 4")), OWLS))

    assert [set_fields(item) for item in found] == [
        {"title": TIDES[0], "abstract": TIDES[1], "n_authors": 5, "published": date(2023, 3, 11)}
        | {"line": 13},
        {"title": KITES[0], "abstract": KITES[1], "n_authors": 1, "published": date(2026, 6, 3)}
        | {"published_inferred": True, "signals": {"comments": 4.0}, "line": 21},
        {"title": OWLS[0], "abstract": OWLS[1], "line": 29},
    ]


def test_an_organization_may_replace_the_authors() -> None:
    found = items(blocks((*TIDES, "gravelworks Gravel Works Ltd\n·\nSep 25, 2025 2"), KITES))

    assert set_fields(found[0])["organization"] == Organization(handle="gravelworks", name="Gravel Works Ltd")
    assert set_fields(found[0])["signals"] == {"comments": 2.0}
    assert set_fields(found[1])["title"] == KITES[0]


def test_a_paper_without_an_abstract_does_not_swallow_the_next() -> None:
    found = items(blocks((TIDES[0], meta(2, "Nov 1, 2024")), (*KITES, meta(3, "Nov 2, 2024"))))

    assert [(item.title, item.abstract) for item in found if isinstance(item, Record)] == [
        (TIDES[0], ""),
        KITES,
    ]


def test_two_titles_in_a_row_are_two_papers() -> None:
    found = items(pairs(OWLS, (TIDES[0], KITES[0])) + "\n" + KITES[1])

    assert [(item.title, item.abstract) for item in found if isinstance(item, Record)] == [
        OWLS,
        (TIDES[0], ""),
        KITES,
    ]


def test_wrapped_abstracts_are_put_together_again() -> None:
    words = TIDES[1].split()
    wrapped = "\n".join(" ".join(words[start : start + 12]) for start in range(0, len(words), 12))

    found = items(blocks((TIDES[0], wrapped, meta(5, "Mar 11, 2023")), KITES))

    assert [(item.title, item.abstract) for item in found if isinstance(item, Record)] == [TIDES, KITES]


def test_an_abstract_that_never_comes_is_reported_with_its_line() -> None:
    found = items(pairs(TIDES, KITES).removesuffix("\n" + KITES[1]))

    assert isinstance(found[0], Record)
    assert found[1] == RecordProblem(
        line=5, reason="the file ends before this paper's abstract", excerpt=KITES[0]
    )


@pytest.mark.parametrize(
    ("header", "printed", "observed_on", "expected"),
    [
        pytest.param("Jun 25", "Jun 3", date(2026, 11, 20), date(2026, 6, 3), id="of the page's year"),
        pytest.param("Jan 5", "Dec 28", date(2026, 11, 20), date(2025, 12, 28), id="of the year before"),
        pytest.param("Dec 30", "Dec 3", date(2027, 1, 2), date(2026, 12, 3), id="page of last year"),
        pytest.param("Mar 1", "Feb 29", date(2024, 3, 2), date(2024, 2, 29), id="leap day"),
        pytest.param("Mar 1", "Feb 29", date(2026, 3, 2), date(2026, 2, 28), id="no leap year"),
    ],
)
def test_a_date_without_a_year_is_of_the_page_s_own_year(
    header: str, printed: str, observed_on: date, expected: date
) -> None:
    text = blocks((*TIDES, meta(5, printed)), day=header)

    found = items(text, observed_on=observed_on)

    assert (set_fields(found[0])["published"], set_fields(found[0])["published_inferred"]) == (expected, True)


def test_a_printed_year_means_that_the_page_is_from_a_later_year() -> None:
    text = blocks((*TIDES, meta(5, "Jun 3")), (*KITES, meta(5, "Dec 27, 2025")), day="Jun 25")

    header = reading(text, observed_on=date(2026, 3, 1)).header

    assert (header.date, header.date_inferred) == (date(2026, 6, 25), True)


@pytest.mark.parametrize("ending", ["\r\n", "\r"], ids=["CRLF", "CR"])
def test_line_ends_of_other_systems_make_no_difference(ending: str) -> None:
    text = blocks((*TIDES, meta(5, "Mar 11, 2023")), KITES)

    assert items(text.replace("\n", ending)) == items(text)


def test_a_byte_order_mark_is_ignored() -> None:
    assert items(b"\xef\xbb\xbf" + pairs(TIDES, KITES).encode()) == items(pairs(TIDES, KITES))


def test_a_line_that_is_not_utf8_affects_only_its_paper() -> None:
    raw = blocks((*TIDES, meta(5, "Mar 11, 2023")), (*KITES, meta(2, "Mar 12, 2023")), OWLS).encode()

    found = items(raw.replace(b"kites in a setting", b"kit\xe9s in a setting"))

    assert [getattr(item, "title", None) for item in found] == [TIDES[0], None, OWLS[0]]
    assert found[1] == RecordProblem(
        line=21, reason="line 23: not UTF-8 (byte 0xE9 at column 13)", excerpt=KITES[0]
    )


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "The file is empty."),
        (b" \n\n", "The file is empty."),
        (b"\x7fELF\x02\x01\x01\x00\x00", "The file is binary, not text."),
        (bytes(range(128, 256)) * 20, "The file is not UTF-8 text."),
        (
            b"Dear all,\n\nlunch is at noon.\n",
            "The format is not recognised; export the list as RIS, BibTeX or CSL-JSON, or as CSV with the columns in docs/dumps.md. The file begins with: Dear all,",
        ),
    ],
    ids=["empty", "blank", "binary", "noise", "a letter"],
)
def test_a_file_that_is_not_a_dump_is_refused_with_a_reason(content: bytes, reason: str) -> None:
    with pytest.raises(UnreadableDump, match="^" + reason.replace(".", r"\.")):
        reading(content)
