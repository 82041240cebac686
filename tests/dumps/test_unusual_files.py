"""Dumps of known formats in unusual shapes: each is read correctly, or refused with a helpful reason."""

from __future__ import annotations

import codecs
import gzip
import html
import io
import json
from dataclasses import replace
from datetime import date
from email.message import EmailMessage
from typing import Any

import pytest
from backports import zstd

from digest.dumps.formats import decompression, utf16
from digest.dumps.formats.reader_interface import RecordProblem
from digest.errors import UnreadableDump
from digest.papers.paper_record import Announcement, Record
from tests.dumps import abstract, items, reading
from tests.dumps.test_formats import ITEM, LISTING, RIS, RSS

TITLES = ["Tidal Sorting of Loose Gravel", "Kites That Steer Themselves: A Field Study", "What Owls Hear"]
INBOX = "Get trending papers in your email inbox!\n\n"
OWN = [
    {"title": title, "abstract": abstract(title), "arxiv_id": f"2611.0123{n}", "upvotes": n}
    for n, title in enumerate(TITLES)
]


def papers(content: str | bytes) -> list[Record]:
    found = items(content)
    assert [item for item in found if isinstance(item, RecordProblem) and not item.is_remark] == []
    return [item for item in found if isinstance(item, Record)]


def refusal(content: str | bytes) -> str:
    with pytest.raises(UnreadableDump) as refused:
        items(content)
    return str(refused.value)


# ── JSON ────────────────────────────────────────────────────────────────────────────────────────

LINES = "\n".join(map(json.dumps, OWN))


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(json.dumps(OWN), id="on one line"),
        pytest.param(json.dumps(OWN, indent=2), id="pretty"),
        pytest.param(LINES.replace("\n", "\r\n"), id="lines, CRLF"),
        pytest.param("\ufeff" + LINES, id="lines, byte order mark"),
        pytest.param(",\n".join(map(json.dumps, OWN)), id="lines with commas"),
        pytest.param("".join(f"\x1e{json.dumps(one)}\n" for one in OWN), id="a text sequence"),
        pytest.param("\n".join(json.dumps(one, indent=2) for one in OWN), id="pretty objects in a row"),
        pytest.param(json.dumps({"date": "2026-11-20", "papers": OWN}, indent=1), id="wrapped"),
        pytest.param(json.dumps({"count": 3, "recommended": OWN, "page": 1}), id="wrapped under any name"),
        pytest.param(json.dumps({"ok": True, "response": {"numFound": 3, "docs": OWN}}), id="wrapped twice"),
        pytest.param(json.dumps({one["arxiv_id"]: one for one in OWN}), id="by id"),
        pytest.param("\n".join(json.dumps({"rank": 1, "paper": one}) for one in OWN), id="the paper within"),
        pytest.param(gzip.compress(LINES.encode()), id="gz"),
        pytest.param(zstd.compress(LINES.encode()), id="zst"),
        pytest.param(codecs.BOM_UTF16_LE + LINES.encode("utf-16-le"), id="UTF-16, as PowerShell saves it"),
        pytest.param(codecs.BOM_UTF16_BE + LINES.encode("utf-16-be"), id="UTF-16, big-endian"),
        pytest.param(gzip.compress(LINES.encode("utf-16")), id="UTF-16, gz"),
        pytest.param(b"".join(gzip.compress(json.dumps(o).encode() + b"\n") for o in OWN), id="gz in pieces"),
    ],
)
def test_the_same_papers_come_out_of_json_however_it_is_laid_out(content: str | bytes) -> None:
    assert [(paper.title, paper.ids["arxiv"], paper.signals["upvotes"]) for paper in papers(content)] == [
        (one["title"], one["arxiv_id"], one["upvotes"]) for one in OWN
    ]


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("wrap", [list, lambda part: {"meta": {"page": 1}, "papers": part, "next": "x"}])
def test_each_of_several_answers_in_one_file_is_read(indent: int | None, wrap: Any) -> None:
    found = papers("\n".join(json.dumps(wrap([one]), indent=indent) for one in OWN) + "\n")

    assert [paper.title for paper in found] == TITLES


def test_the_references_of_a_paper_are_not_read_as_papers() -> None:
    (paper,) = papers(json.dumps(OWN[0] | {"references": OWN[1:], "authors": [{"name": "Ada Okafor"}]}))

    assert paper.title == TITLES[0]


@pytest.mark.parametrize(
    "content", ["[]", '{"papers": []}', '{"total": 0, "data": []}', '{"messages": [], "collection": []}']
)
def test_an_empty_list_announces_no_papers(content: str) -> None:
    found = reading(content)

    assert (found.header.announced, list(found.records)) == (0, [])


def test_an_error_with_an_empty_list_is_refused() -> None:
    assert "format is not recognised" in refusal('{"error": "too many requests", "data": []}')


@pytest.mark.parametrize(
    ("written", "day"),
    [
        ("2026-11-20T08:00:00Z", date(2026, 11, 20)),
        ("2026/11/20", date(2026, 11, 20)),
        ("November 20, 2026", date(2026, 11, 20)),
        ("Nov. 20 2026", date(2026, 11, 20)),
        ("20 November 2026", date(2026, 11, 20)),
        (1795132800, date(2026, 11, 20)),
        (1795132800000, date(2026, 11, 20)),
        (2026, date(2026, 1, 1)),
        ("soon", None),
        (-5, None),
        (10**30, None),
    ],
)
def test_a_day_is_read_in_any_spelling(written: Any, day: date | None) -> None:
    assert papers(json.dumps(OWN[0] | {"published": written}))[0].published == day


@pytest.mark.parametrize(
    ("written", "names"),
    [
        ("Ada Okafor, Kenji Ito and Per van der Lind", ("Ada Okafor", "Kenji Ito", "Per van der Lind")),
        ("Okafor, Ada; Ito, Kenji", ("Okafor, Ada", "Ito, Kenji")),
        ("Okafor, Ada and Ito, Kenji", ("Okafor, Ada", "Ito, Kenji")),
        ("Okafor, A., Ito, K. J.", ("Okafor, A.", "Ito, K. J.")),
        ("The Gravel Collaboration, 2026", ("The Gravel Collaboration, 2026",)),
        ([{"name": "Ada Okafor"}, "Kenji Ito"], ("Ada Okafor", "Kenji Ito")),
    ],
)
def test_names_on_one_line_are_separated(written: Any, names: tuple[str, ...]) -> None:
    assert papers(json.dumps(OWN[0] | {"authors": written}))[0].authors == names


# ── tables ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("sign", [",", ";", "\t", "|"])
@pytest.mark.parametrize("above", ["", "\ufeff", "\n\n", "# written by hand\n", "sep={sign}\n"])
def test_a_table_is_read_with_any_delimiter_and_preamble(sign: str, above: str) -> None:
    rows = [["Title", "Abstract", "DOI"], [TITLES[0], '"He said ""wet"";\nand, | went."', "10.1234/x"]]
    table = "\r\n".join(sign.join(row) for row in rows) + "\r\n"

    (paper,) = papers(above.format(sign=sign) + table)

    assert (paper.title, paper.abstract) == (TITLES[0], 'He said "wet"; and, | went.')
    assert paper.ids == {"doi": "10.1234/x"}


def test_a_table_without_rows_announces_no_papers() -> None:
    assert reading("title,abstract\n").header.announced == 0


# ── XML ─────────────────────────────────────────────────────────────────────────────────────────

OAI = (
    '<?xml version="1.0"?>\n<OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/"><responseDate>2026-11-20T01:00:00Z'
    "</responseDate><ListRecords>%s</ListRecords></OAI-PMH>\n"
)


def record(number: int) -> str:
    return (
        f"<record><header/><metadata><arXivRaw><id>2611.0123{number}</id><title>{TITLES[number]}</title><authors>A B"
        f"</authors><abstract>{abstract('gravel')}</abstract></arXivRaw></metadata></record>\n"
    )


def test_each_of_several_pages_in_one_file_is_read() -> None:
    token = '<resumptionToken cursor="%d">next</resumptionToken>'
    pages = [
        OAI % (record(0) + token % 0),
        OAI % (record(1) + token % 1),
        OAI % (record(2) + "<resumptionToken/>"),
    ]

    found = papers("\n\n".join(pages))

    assert [paper.title for paper in found] == TITLES
    assert [paper.line for paper in found] == [2, 7, 12]


def test_a_page_with_further_pages_is_read_with_a_remark() -> None:
    found = items(OAI % (record(0) + '<resumptionToken completeListSize="2500">next</resumptionToken>'))

    assert isinstance(found[0], Record)
    assert isinstance(found[1], RecordProblem)
    assert found[1].is_remark
    assert "a further page exists" in found[1].reason
    assert "2500" in found[1].reason


def test_records_are_found_in_any_root_element() -> None:
    assert [paper.title for paper in papers(f"<harvest>{record(0)}{record(1)}</harvest>")] == TITLES[:2]


def test_an_error_answer_is_refused_with_its_message() -> None:
    error = '<error code="badResumptionToken">The token expired.</error>'
    entry = (
        '<feed xmlns="http://www.w3.org/2005/Atom"><entry><id>http://arxiv.org/api/errors#x</id><title>Error</title>'
        '<summary>incorrect id format</summary><link href="http://arxiv.org/api/errors#x"/></entry></feed>'
    )

    assert "badResumptionToken: The token expired." in refusal(f"<OAI-PMH>{error}</OAI-PMH>")
    assert "arXiv returned an error instead of papers (incorrect id format)" in refusal(entry)


def test_a_feed_may_stand_below_blank_lines_in_another_encoding_and_hold_cross_lists_only() -> None:
    feed = (
        '<?xml version="1.0" encoding="ISO-8859-1"?>' + (RSS % (ITEM % ("cross", "cross"))).partition("?>")[2]
    )
    feed = feed.replace("We sort", "We sört")

    (paper,) = papers(b"\n\n" + feed.encode("latin-1"))

    assert paper.announcement is Announcement.CROSS
    assert paper.abstract.startswith("We sört")


def test_markup_in_the_titles_of_a_journal_s_feed_is_taken_off() -> None:
    (paper,) = papers(
        '<rdf:RDF xmlns:rdf="r" xmlns="p" xmlns:dc="d"><item><title><![CDATA[Owls of <i>E. coli</i>, x < y]]></title>'
        "<link>https://example.org/1</link><description>We study owls.</description><dc:creator>Okafor, A., Ito, K."
        "</dc:creator><dc:identifier>doi:10.1101/2026.11.20.1</dc:identifier></item></rdf:RDF>"
    )

    assert paper.title == "Owls of E. coli, x < y"
    assert paper.authors == ("Okafor, A.", "Ito, K.")
    assert paper.ids == {"doi": "10.1101/2026.11.20.1"}


def test_a_page_saved_by_a_browser_is_read_from_its_json() -> None:
    data = {"dailyPapers": [{"paper": {"id": "2611.01234", "title": TITLES[0], "summary": "We \"sort\" & sieve.",
            "upvotes": "1.2k", "publishedAt": "2026-11-03T00:00:00Z"}, "numComments": 2}]}  # fmt: skip
    saved = (
        '<!DOCTYPE html>\n<html><head><link href="https://huggingface.co/papers"></head><body><div data-props="{}">'
        f'<div data-target="DailyPapers" data-props="{html.escape(json.dumps(data))}"><h3>x</h3></div></body></html>'
    )

    (paper,) = papers(saved)

    assert (paper.title, paper.abstract) == (TITLES[0], 'We "sort" & sieve.')
    assert paper.signals == {"upvotes": 1200, "comments": 2}
    assert "without a list of papers" in refusal(saved.replace("data-props", "data-none"))
    assert "a web page" in refusal("<html><body>Get trending papers in your email inbox!</body></html>")


# ── files of reference managers ─────────────────────────────────────────────────────────────────


def test_bibtex_may_have_abbreviations_comments_and_repeated_keys() -> None:
    found = papers(
        'Exported by hand.\n\n@comment{x}\n@preamble{"y"}\n@string{jgr = "Journal of Gravel"}\n'
        '@software{a, title = {{Tidal Sorting}}, journal = jgr # ", Part B", author = {Ito, K. and others}}\n'
        'words between\n@Article(b, TITLE = "Kites", year = 2026, month = nov)\n@misc{b, title = {Owls}}\n'
    )

    assert [paper.title for paper in found] == ["Tidal Sorting", "Kites", "Owls"]
    assert (found[0].journal, found[0].authors, found[0].n_authors) == (
        "Journal of Gravel, Part B",
        ("Ito, K.",),
        None,
    )
    assert found[1].published == date(2026, 11, 1)


@pytest.mark.parametrize("dash", ["  - ", " - ", "- ", "   -  ", "\u00a0\u00a0- "])
@pytest.mark.parametrize("before", ["", "   "])
def test_ris_with_any_spacing_is_the_same(dash: str, before: str) -> None:
    lines = [before + line.replace("  - ", dash) for line in RIS.splitlines()]

    assert papers("1.\n" + "\r\n".join(lines).rstrip() + "\r\n") == [
        replace(paper, line=paper.line + 1) for paper in papers(RIS)
    ]


def test_a_hyphenated_word_at_the_start_of_a_line_does_not_end_an_abstract() -> None:
    (paper,) = papers(
        "TY  - JOUR\nTI  - Owls\nAB  - We study\nAI-based owls and\nRNA-seq.\nPY  - 2026 Nov\nER  - \n"
    )

    assert paper.abstract == "We study AI-based owls and RNA-seq."


# ── arXiv's mail ────────────────────────────────────────────────────────────────────────────────


def test_a_mail_without_papers_announces_zero() -> None:
    quiet = (
        "Date: Fri, 20 Nov 2026 00:30:00 GMT\nSubject: cs daily Subj-class mailing  0 new +  crosses\n\n"
        + "%%%---" * 8
    )

    found = reading(quiet)

    assert (found.format, found.header.announced, list(found.records)) == ("arxiv-listing", 0, [])


@pytest.mark.parametrize("encoding", ["quoted-printable", "base64"])
def test_a_mail_is_read_as_it_was_saved(encoding: str) -> None:
    head, _, body = LISTING.partition("\n\n")
    mail = EmailMessage()
    for name, _, value in (line.partition(": ") for line in head.splitlines() if ": " in line):
        mail[name] = value
    mail.set_content(body, cte=encoding)

    expected = papers(LISTING)
    found = papers(mail.as_bytes())

    assert [(paper.ids, paper.title, paper.abstract) for paper in found] == [
        (paper.ids, paper.title, paper.abstract) for paper in expected
    ]


def test_two_mails_in_one_file_are_both_read() -> None:
    both = LISTING + "\n\n" + LISTING.replace("2611.0", "2611.7")

    assert len(papers(both)) == 2 * len(papers(LISTING))


def test_a_dump_beyond_the_decompressed_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decompression, "MAX_BYTES", 100_000)
    lines = "".join(f"{json.dumps(OWN[0] | {'title': str(number)})}\n" for number in range(1000))

    assert "decompresses to more than" in refusal(gzip.compress(lines.encode()))


# ── files of other kinds ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"PK\x03\x04\x14\x00", "zip archive"),
        (b"x" * 257 + b"ustar\0", "tar archive"),
        (gzip.compress(b"x" * 257 + b"ustar\0", mtime=0), "tar archive"),
        (b"%PDF-1.7\n", "PDF"),
        (b"BZh91AY", "bzip2"),
        (b"PAR1\x15", "Parquet"),
        (b"SQLite format 3\0", "SQLite"),
        ((INBOX + "\u2022 5 authors\n\u00b7\n" * 2).encode().decode("cp1252"), "another encoding"),
    ],
)  # fmt: skip
def test_a_known_file_type_is_named_in_the_refusal(content: str | bytes, reason: str) -> None:
    assert reason in refusal(content)


# ── UTF-16 ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("declared", ["utf-16", "UTF-16LE", "utf-8"])
def test_a_feed_in_utf_16_is_read_whatever_encoding_it_declares(declared: str) -> None:
    """PowerShell saves fetched documents in UTF-16 and leaves their encoding declaration as it is."""
    feed = RSS % (ITEM % ("new", "new"))
    body = feed.partition("?>")[2] if feed.startswith("<?xml") else feed
    wide = f'<?xml version="1.0" encoding="{declared}"?>{body}'.replace(
        "</title>", " \u03b2\U0001d6fd</title>"
    )

    assert papers(wide.encode("utf-16")) == papers(wide.replace(declared, "utf-8"))
    assert any("\U0001d6fd" in paper.title for paper in papers(wide.encode("utf-16")))


def test_a_lone_surrogate_in_utf_16_affects_only_its_record() -> None:
    half = LINES.replace("Kites", "\ud835Kites").encode("utf-16", "surrogatepass")

    found = items(half)

    assert [getattr(item, "title", None) for item in found] == [TITLES[0], None, TITLES[2]]
    assert isinstance(found[1], RecordProblem)
    assert "not UTF-8 (byte 0xED" in found[1].reason


def test_utf_16_cut_in_the_middle_of_a_character_is_read_up_to_there() -> None:
    assert [paper.title for paper in papers((LINES + "\n").encode("utf-16") + b"{")] == TITLES


def test_utf_16_is_converted_in_pieces() -> None:
    """For any read size, also where a surrogate pair is split."""
    text = "gravel \u2013 \U0001d6fd\u4e2d\n" * 40_000
    stream = utf16.utf16_as_utf8(io.BytesIO(text.encode("utf-16")))

    assert stream.read() == text.encode()
    stream.seek(0)
    assert b"".join(iter(lambda: stream.read(7919), b"")) == text.encode()


# ── truncated files ─────────────────────────────────────────────────────────────────────────────

BIB = "@article{a, title = {A}}\n@article{b, title = {B}}\n"


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(LINES[:-100], id="JSON Lines"),
        pytest.param(json.dumps(OWN, indent=1)[:-100], id="a list"),
        pytest.param(json.dumps({"papers": OWN})[:-100], id="a wrapped list"),
        pytest.param(json.dumps({"anything": OWN})[:-100], id="one object"),
        pytest.param('title,abstract\nA,B\nC,"D and', id="a table within a quote"),
        pytest.param(BIB[:-6], id="BibTeX"),
        pytest.param(RIS.replace("ER  -\n", ""), id="RIS"),
        pytest.param((OAI % (record(0) + record(1)))[:-60], id="XML"),
        pytest.param(LISTING[:-90], id="a listing"),
    ],
)
def test_a_dump_that_breaks_off_is_truncated(content: str) -> None:
    *_, last = items(content)

    assert isinstance(last, RecordProblem)
    assert last.is_truncation


@pytest.mark.parametrize(
    "content",
    [
        LINES.replace(LINES.splitlines()[1], LINES.splitlines()[1][:-30]),
        BIB.replace("{A}}", "{A}", 1) + BIB,
        LINES,
    ],
    ids=["a line in the midst", "an entry in the midst", "nothing"],
)
def test_a_record_that_breaks_off_in_the_middle_is_not_a_truncation(content: str) -> None:
    found = items(content)

    assert [item for item in found if isinstance(item, RecordProblem) and item.is_truncation] == []
    assert isinstance(found[-1], Record)


def test_an_object_with_several_titles_is_refused() -> None:
    (found,) = items('{"title": ["A", "B"], "abstract": ["x", "y"]}')

    assert isinstance(found, RecordProblem)
    assert "write one object per paper" in found.reason


def test_biorxiv_rows_of_published_preprints_are_read() -> None:
    (paper,) = papers(
        '{"messages": [], "collection": [{"biorxiv_doi": "10.1101/1", "preprint_title": "Owls", "preprint_authors":'
        ' "Lind, P.; Ito, K.", "preprint_abstract": "We study.", "preprint_date": "2026-11-03"}]}'
    )

    assert (paper.title, paper.abstract, paper.authors) == ("Owls", "We study.", ("Lind, P.", "Ito, K."))
    assert (paper.ids, paper.published) == ({"doi": "10.1101/1"}, date(2026, 11, 3))
