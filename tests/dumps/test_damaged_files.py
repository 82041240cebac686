"""The intact records of a damaged file are read, and each loss is reported with its line, in every format."""

from __future__ import annotations

import gzip
import html
import io
import json
import re
from typing import Any

import pytest
from backports import zstd

from digest.dumps.formats import decompression, json_stream, utf16
from digest.dumps.formats.reader_interface import DumpInput, RecordProblem
from digest.errors import UnreadableDump
from digest.papers.paper_record import Record
from tests.dumps import DAY, items, reading
from tests.dumps.test_formats import HF

OWN = [{"title": title, "doi": f"10.1234/{title.casefold()}"} for title in ("Gravel", "Kites", "Owls")]
LINES = [json.dumps(one) for one in OWN]


def titles_and_faults(content: str | bytes) -> list[str]:
    """Return the title of every paper, and the line and reason of every problem."""
    return [
        item.title if isinstance(item, Record) else f"{item.line}: {item.reason}"  # type: ignore[attr-defined]
        for item in items(content)
    ]


# ── JSON ────────────────────────────────────────────────────────────────────────────────────────


def test_blank_lines_between_json_lines_are_skipped() -> None:
    assert titles_and_faults("\n\n \n".join(LINES)) == ["Gravel", "Kites", "Owls"]


def test_a_bad_line_that_ends_in_a_comma_is_reported_as_it_is() -> None:
    bad = '{"title": oops},'

    assert titles_and_faults("\n".join([LINES[0], bad, LINES[2]])) == [
        "Gravel",
        "2: not JSON: Expecting value at column 11",
        "Owls",
    ]


def test_a_nul_in_a_later_line_affects_only_that_line() -> None:
    many = [LINES[0]] * 2000

    found = titles_and_faults("\n".join([*many, LINES[1].replace("Kites", "Ki\0tes"), LINES[2]]))

    assert found == ["Gravel"] * 2000 + ["2001: a NUL character", "Owls"]


@pytest.mark.parametrize("end", ["", ",", ",\n"])
def test_a_list_that_ends_between_two_papers_is_truncated(end: str) -> None:
    *whole, last = items("[" + ",\n".join(LINES) + end)

    assert [item.title for item in whole if isinstance(item, Record)] == ["Gravel", "Kites", "Owls"]
    assert isinstance(last, RecordProblem)
    assert (last.reason, last.is_truncation) == ("the file ends in the middle of its list", True)


def test_a_damaged_paper_or_words_between_papers_spoil_one_record_of_a_list() -> None:
    words = f"[{LINES[0]},\nand then there is {LINES[1]}, {LINES[2]}]"

    assert titles_and_faults(words) == ["Gravel", "2: not JSON: Expecting value at line 2", "Kites", "Owls"]
    for bad in range(3):
        for damage in ('"x": a "b"', '"x": tru', '"y": {,}'):
            lines = [
                line[:-1] + f", {damage}}}" if place == bad else line for place, line in enumerate(LINES)
            ]
            found = titles_and_faults("[" + ",\n".join(lines) + "]")
            assert [one for one in found if ":" not in one] == [
                one["title"] for place, one in enumerate(OWN) if place != bad
            ]
            assert len(found) == 3


@pytest.mark.parametrize("shift", [-1, 0, 1])
def test_a_paper_that_ends_at_the_end_of_a_chunk_is_whole(shift: int) -> None:
    padding = "x" * (json_stream.CHUNK + shift - len('[{"title": "Gravel", "doi": "10.1234/x", "x": ""}'))
    content = f"[{json.dumps({'title': 'Gravel', 'doi': '10.1234/x', 'x': padding})}\n,{LINES[1]}]"

    assert content[json_stream.CHUNK + shift - 1] == "}"
    assert titles_and_faults(content) == ["Gravel", "Kites"]


def test_an_answer_far_after_another_one_is_read() -> None:
    notes = "x" * (2 * json_stream.CHUNK)
    first, second = (json.dumps({"papers": [one], "notes": notes}, indent=1) for one in OWN[:2])

    assert titles_and_faults(f"{first}\n{second}") == ["Gravel", "Kites"]


def test_lists_of_other_things_beside_the_papers_are_passed_over() -> None:
    answer = {"pages": [1, 2], "links": [{"rel": "next"}], "found": OWN, "about": ["papers"]}

    assert titles_and_faults(json.dumps({"version": 2, "answer": answer})) == ["Gravel", "Kites", "Owls"]


# ── tables ──────────────────────────────────────────────────────────────────────────────────────


def test_blank_and_empty_rows_of_a_table_are_skipped() -> None:
    assert titles_and_faults("title,doi\nGravel,10.1234/a\n\n,\nOwls,10.1234/b\n") == ["Gravel", "Owls"]


def test_a_table_with_an_overlong_header_has_no_columns() -> None:
    found = list(reading("x" * 200_000 + "\nGravel,10.1234/a\n", format="csv").records)

    assert [item.reason for item in found if isinstance(item, RecordProblem)] == ["1 column instead of 0"]
    assert len(found) == 1


# ── web pages ───────────────────────────────────────────────────────────────────────────────────


def saved_page(*props: str) -> str:
    """Return a Hugging Face page saved by a browser, with these properties of its parts."""
    parts = "".join(f'<div data-props="{html.escape(one)}"></div>' for one in props)
    return (
        f'<!DOCTYPE html><html><head><link href="https://huggingface.co"></head><body>{parts}</body></html>'
    )


def test_a_saved_page_of_one_paper_is_read() -> None:
    assert titles_and_faults(saved_page(json.dumps({"paper": HF["paper"]}))) == ["Tidal Sorting"]


@pytest.mark.parametrize(
    "other",
    ['{"summary": oops', '["summary", "summary"]', '{"summary": "x"}', '{"papers": 7, "summary": "x"}',
     '{"summary": ' + "[" * 100_000],
)  # fmt: skip
def test_other_data_in_a_saved_page_is_passed_over(other: str) -> None:
    other = other.replace('"summary", "summary"', '{"summary": 1}')

    assert titles_and_faults(saved_page(other, json.dumps({"dailyPapers": [HF]}))) == ["Tidal Sorting"]


def test_a_file_beyond_the_limit_of_its_format_is_refused() -> None:
    source = DumpInput(io.BytesIO(b"x" * (2**20 + 1)), name="dump", observed_on=DAY)

    assert len(source.read_all(2**20 + 1)) == 2**20 + 1
    with pytest.raises(
        UnreadableDump, match="The content is larger than 1 MiB, which is too large for this format"
    ):
        source.read_all(2**20)


# ── streams ─────────────────────────────────────────────────────────────────────────────────────


def test_a_line_that_is_too_long_is_one_problem_with_every_line_end() -> None:
    endless = json.dumps(OWN[1] | {"x": "y" * 17_000_000})

    for end in ("\n", "\r\n", "\r"):
        assert titles_and_faults(end.join([LINES[0], endless, LINES[2]])) == [
            "Gravel",
            "2: the line is longer than 8 MiB",
            "Owls",
        ]


def test_lines_are_counted_in_a_file_that_ends_them_with_cr_alone() -> None:
    listed = "[\r" + ",\r".join(LINES) + "\r]"
    feed = (
        "<rss><channel>\r"
        + "".join(f"<item><title>{one}</title></item>\r" for one in ("A", "B"))
        + "</channel></rss>"
    )

    assert [getattr(item, "line", 0) for item in items(listed)] == [2, 3, 4]
    assert [getattr(item, "line", 0) for item in items(feed)] == [2, 3]


@pytest.mark.parametrize(
    "derived",
    [
        decompression.decompress(io.BytesIO(gzip.compress(b"gravel " * 100_000))),
        utf16.utf16_as_utf8(io.BytesIO(("gravel " * 100_000).encode("utf-16"))),
        DumpInput(io.BytesIO(b"gravel\r" * 100_000), name="dump", observed_on=DAY).stream,
    ],
    ids=["gz", "UTF-16", "CR"],
)
def test_a_derived_stream_can_be_read_again_from_its_beginning_and_from_nowhere_else(derived: Any) -> None:
    derived.seek(0)
    first = derived.read(700)

    derived.seek(0)
    assert derived.read(700) == first
    with pytest.raises(io.UnsupportedOperation, match="can only seek to its beginning"):
        derived.seek(600_000)


# ── compressed files ────────────────────────────────────────────────────────────────────────────

MANY = [
    json.dumps({"title": f"Kites {n}", "abstract": f"They fly {n * n % 9973} {n * 7919 % 9967}."})
    for n in range(20_000)
]
CONTENT = ("\n".join(MANY) + "\n").encode()


@pytest.mark.parametrize("pack", [gzip.compress, zstd.compress], ids=["gz", "zst"])
@pytest.mark.parametrize("share", [0.5, 0.999])
def test_the_complete_records_of_a_truncated_compressed_file_are_read(pack: Any, share: float) -> None:
    packed = pack(CONTENT)

    *whole, last = items(packed[: int(len(packed) * share)])

    assert isinstance(last, RecordProblem)
    assert 100 < len(whole) < len(MANY)
    assert [one.title for one in whole if isinstance(one, Record)] == [
        f"Kites {n}" for n in range(len(whole))
    ]
    assert (last.line, last.is_truncation) == (len(whole) + 1, True)
    assert re.match(
        r"the compressed file is damaged or truncated after [\d,]+ bytes of its content \(", last.reason
    )


def test_a_wrong_checksum_holds_a_file_whose_content_is_whole() -> None:
    packed = bytearray(gzip.compress(CONTENT))
    packed[-6] ^= 0xFF

    *whole, last = items(bytes(packed))

    assert len(whole) == len(MANY)
    assert isinstance(last, RecordProblem)
    assert (last.line, last.is_truncation) == (len(MANY) + 1, True)


def test_a_list_without_line_breaks_in_a_truncated_file_is_read_up_to_the_damage() -> None:
    whole = json.dumps([json.loads(one) for one in MANY * 3], ensure_ascii=False).encode()
    packed = gzip.compress(whole)

    found = items(packed[: len(packed) * 2 // 3])

    assert len(found) > 10_000
    assert [one.reason.partition(" after")[0] for one in found if isinstance(one, RecordProblem)] == [
        "the file ends in the middle of its list",
        "the compressed file is damaged or truncated",
    ]


def test_a_truncated_compressed_file_in_utf16_is_read_up_to_the_damage() -> None:
    packed = gzip.compress("\ufeff".encode("utf-16-le") + CONTENT.decode().encode("utf-16-le"))

    *whole, last = items(packed[: len(packed) // 2])

    assert len(whole) > 100
    assert isinstance(last, RecordProblem)
    assert last.is_truncation


def test_a_compressed_file_of_which_nothing_can_be_read_is_refused() -> None:
    with pytest.raises(UnreadableDump, match="damaged or truncated"):
        items(gzip.compress(CONTENT)[:12])


def test_a_list_cut_within_a_character_is_truncated() -> None:
    cut = '[{"title": "Kites", "abstract": "They fly."}, {"title": "Owls \u2013'.encode()[:-1]

    whole, last = items(cut)

    assert isinstance(whole, Record)
    assert isinstance(last, RecordProblem)
    assert last.is_truncation
