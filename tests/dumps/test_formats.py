"""Every format is recognised by content and read correctly, and truncation is reported."""

from __future__ import annotations

import gzip
import json
import re
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from digest.dumps.formats import field_parsing
from digest.dumps.formats.reader_interface import RecordProblem
from digest.dumps.formats.recognition import FORMATS
from digest.errors import BadField, UnreadableDump
from digest.papers.paper_record import Announcement, Organization, Record
from tests.dumps import abstract, blocks, items, meta, pairs, reading

GRAVEL = abstract("gravel")

KAGGLE = {
    "id": "2611.00001",
    "authors": "Ada Okafor and Kenji Ito",
    "title": "Tidal Sorting\n  of Gravel",
    "comments": None,
    "journal-ref": None,
    "doi": None,
    "categories": "cs.LG stat.ML",
    "abstract": "  We sort.\n  By tides, and\nby moon.\n",
    "versions": [{"version": "v1", "created": "Mon, 16 Nov 2026 20:31:27 GMT"}],
    "update_date": "2026-11-19",
    "authors_parsed": [["Okafor", "Ada", ""], ["Ito", "Kenji", "Jr"]],
}
HF = {
    "paper": {"id": "2611.00001", "title": "Tidal Sorting", "summary": "We sort.", "upvotes": 7}
    | {"authors": [{"name": "Ada Okafor"}, {"name": "X", "hidden": True}], "organization": "gravelworks"}
    | {"publishedAt": "2026-11-16T23:30:00.000Z"},
    "publishedAt": "2026-11-16T18:30:00.000Z",
    "numComments": 2,
}

RSS = """<?xml version="1.0"?><rss xmlns:arxiv="http://arxiv.org/schemas/atom"
 xmlns:dc="http://purl.org/dc/elements/1.1/" version="2.0"><channel><title>cs.LG updates on arXiv.org</title>
<pubDate>Fri, 20 Nov 2026 00:00:00 -0500</pubDate>%s</channel></rss>"""
ITEM = """<item><title>Tidal Sorting</title><link>https://arxiv.org/abs/2611.00001</link>
<description>arXiv:2611.00001v1 Announce Type: %s
Abstract: We sort $x &lt; y$.</description><guid>oai:arXiv.org:2611.00001v1</guid>
<category>cs.LG</category><pubDate>Fri, 20 Nov 2026 00:00:00 -0500</pubDate>
<arxiv:announce_type>%s</arxiv:announce_type><dc:creator>Ada Okafor, Kenji Ito</dc:creator></item>"""

LISTING = r"""Date: Fri, 20 Nov 26 00:31:14 GMT
Subject: cs daily 1 new + 1 crosses received

------------------------------------------------------------------------------
\\
arXiv:2611.00001
Date: Thu, 19 Nov 2026 18:34:08 GMT   (243kb,D)

Title: Tidal Sorting of
  Gravel
Authors: Ada Okafor (Institute of Gravel, Lagos), Kenji Ito and P. Lind
Categories: cs.LG stat.ML
Comments: 16 pages
\\
  We sort by tides,
and by moon.
\\ ( https://arxiv.org/abs/2611.00001 ,  243kb)
%-%-%-%-%-%-%-%-%-%-%-%-%-%-%-%-%-%-%-%-%-%-%-%-%-%-%-%-%-%-%-%-%-%-%-%-%-%-%-
------------------------------------------------------------------------------
\\
arXiv:2611.00002 (*cross-listing*)
Date: Thu, 19 Nov 2026 18:34:08 GMT   (1kb)

Title: Kites
Authors: P. Lind
Categories: cs.RO
\\
  They fly.
\\ ( https://arxiv.org/abs/2611.00002 ,  1kb)
%%--%%--%%--%%--%%--%%--%%--%%--%%--%%--%%--%%--%%--%%--%%--%%--%%--%%--%%--%%
------------------------------------------------------------------------------
\\
arXiv:2511.00003 (*cross-listing*)
replaced with revised version Thu, 19 Nov 2026 11:51:32 GMT   (38kb)

Title: Owls
Authors: P. Lind
Categories: cs.SD
\\ ( https://arxiv.org/abs/2511.00003 ,  38kb)
%%%---%%%---%%%---%%%---%%%---%%%---%%%---%%%---%%%---%%%---%%%---%%%---%%%---
"""

BIB = r"""% our own
@article{okafor2026, title = {{Tidal} Sorting of {NICO} Gravel in {\"O}land}, author = {Okafor, Ada and Kenji Ito},
  year = 2026, month = nov, eprint = {2611.00001}, archivePrefix = {arXiv}, doi = {10.1234/ABC}}
"""
RIS = """TY  - JOUR
TI  - Tidal Sorting
AU  - Okafor, Ada
AU  - Ito,Kenji
DO  - 10.1234/ABC
PY  - 2026/11//
AB  - We sort
by tides.
ER  -
"""
NBIB = """PMID- 12345678
DP  - 2026 Nov 16
TI  - Tidal Sorting
AB  - We sort
      by tides.
LID - 10.1234/ABC [doi]
FAU - Okafor, Ada
"""
CSV = """title,abstract,arxiv,authors,published,upvotes,urls
Tidal Sorting,"We sort, by tides
and by moon.",2611.00001v2,Ada Okafor; Kenji Ito,2026-11-16,7,https://github.com/tides/gravel
"""


def only(content: str | bytes) -> Record:
    """Return the one record of a dump."""
    (record,) = items(content)
    assert isinstance(record, Record), record
    return record


@pytest.mark.parametrize(
    ("content", "format"),
    [
        (json.dumps([HF]), "hf-json"),
        (json.dumps(HF["paper"]), "hf-json"),
        (json.dumps(KAGGLE), "kaggle"),
        (json.dumps({"total": 1, "data": [{"paperId": "a" * 40, "title": "T", "year": 2026}]}), "semantic-scholar"),
        ('{"results": [{"id": "https://openalex.org/W1", "title": "T", "publication_date": null}]}', "openalex"),
        ('{"messages": [], "collection": [{"doi": "10.1101/1", "title": "T"}]}', "biorxiv"),
        ('[{"type": "article", "title": "T", "DOI": "10.1/x", "issued": {"date-parts": [[2026]]}}]', "csl-json"),
        ('{"title": "T", "abstract": "A"}\n{"title": "U", "doi": "10.1234/x"}\n', "json"),
        ("[]", "json"),
        (RSS % (ITEM % ("new", "new")), "feed"),
        ("<OAI-PMH><ListRecords/></OAI-PMH>", "oai-pmh"),
        ("<?xml version='1.0'?><!DOCTYPE PubmedArticleSet><PubmedArticleSet/>", "pubmed"),
        (LISTING, "arxiv-listing"),
        (BIB, "bibtex"),
        (RIS, "ris"),
        ("\n" + NBIB, "nbib"),
        (CSV, "csv"),
        (CSV.replace(",", "\t"), "csv"),
        (pairs(("T", GRAVEL)), "page"),
        (pairs(*[(f"Title {number}", GRAVEL) for number in range(5)]).partition("Subscribe")[2], "page"),
        (blocks(("T", GRAVEL)), "page"),
        ("# Daily Papers\n\n### [T](https://huggingface.co/papers/2611.00001)\n\nA\n", "page"),
    ],
)  # fmt: skip
def test_a_format_is_recognised_by_what_it_contains(content: str, format: str) -> None:
    assert reading(content).format == format
    assert reading(gzip.compress(content.encode())).format == format
    assert reading(content.encode("utf-16")).format == format
    assert format in {known.NAME for known in FORMATS}


def test_an_unknown_format_is_refused_with_the_known_ones() -> None:
    with pytest.raises(BadField, match="format: there is no format 'word'; the formats are hf-json, kaggle"):
        reading("x", format="word")


# ── JSON ────────────────────────────────────────────────────────────────────────────────────────


def test_hugging_face_dates_come_from_inside_and_missing_fields_are_missing() -> None:
    record = only(json.dumps([HF]))

    assert (record.published, record.posted) == (date(2026, 11, 16), None)
    assert (record.signals, record.authors) == ({"upvotes": 7.0, "comments": 2.0}, ("Ada Okafor",))
    assert record.organization == Organization(handle="gravelworks", name="gravelworks")


def test_a_machine_s_summary_replaces_only_a_missing_abstract_and_names_its_maker() -> None:
    paper = {"paperId": "a" * 40, "title": "T", "abstract": None, "tldr": {"text": "Short."}, "year": 2026}

    theirs = {"title": "T", "summary": "", "ai_summary": "Shorter.", "upvotes": 7}
    both = {**theirs, "summary": "Ours."}

    found = [only(json.dumps(one)) for one in (paper, [{"paper": theirs}], [{"paper": both}])]

    assert [(one.abstract, one.summary_by) for one in found] == [
        ("Short.", "Semantic Scholar"),
        ("Shorter.", "Hugging Face"),
        ("Ours.", ""),
    ]


def test_arxiv_s_snapshot_loses_its_line_breaks_and_keeps_its_paragraphs() -> None:
    record = only(json.dumps(KAGGLE))

    assert (record.title, record.abstract) == ("Tidal Sorting of Gravel", "We sort.\nBy tides, and by moon.")
    assert (record.authors, record.published) == (("Ada Okafor", "Kenji Ito Jr"), date(2026, 11, 16))


def test_a_withdrawn_paper_is_recognised() -> None:
    withdrawn = KAGGLE | {"comments": "This paper has been withdrawn by the authors due to an error"}
    about = KAGGLE | {"abstract": "We study drugs that were withdrawn. This paper is long."}

    assert only(json.dumps(withdrawn)).announcement is Announcement.WITHDRAWN
    assert only(json.dumps(about)).announcement is Announcement.NEW


def test_later_versions_and_withdrawals_of_preprints_are_distinguished() -> None:
    rows = [
        {"doi": f"10.1101/{number}", "title": "T", "version": version, "type": kind}
        for number, (version, kind) in enumerate(
            [("1", "new results"), ("2", "new results"), ("3", "WITHDRAWN")]
        )
    ]

    found = items(json.dumps({"messages": [], "collection": rows}))

    assert [item.announcement.value for item in found if isinstance(item, Record)] == [
        "new",
        "replaced",
        "withdrawn",
    ]


def test_own_columns_in_json_and_csv_give_the_same_record() -> None:
    line = {
        "title": "Tidal Sorting",
        "abstract": "We sort, by tides and by moon.",
        "ids": {"arxiv": "2611.00001"},
        "authors": ["Ada Okafor", "Kenji Ito"],
        "published": "2026-11-16",
        "signals": {"upvotes": 7},
        "urls": ["https://github.com/tides/gravel"],
    }

    one, other = only(json.dumps(line)), only(CSV)

    names = ("title", "abstract", "ids", "authors", "published", "signals", "urls")
    assert [getattr(one, name) for name in names] == [getattr(other, name) for name in names]


def test_own_columns_can_give_every_field_of_a_record() -> None:
    names = "title;abstract;journal;comment;announcement;organization;n_authors;citations;downloads;views"
    row = "Tidal Sorting;We sort.;Letters on Gravel 12, 3;16 pages;Cross;Institute of Gravel;12;4;310;2048"

    table = only(f"{names}\n{row}\n")

    same = only(json.dumps(dict(zip(names.split(";"), row.split(";"), strict=True))))
    assert table == replace(same, line=2)
    assert (table.journal, table.comment) == ("Letters on Gravel 12, 3", "16 pages")
    assert table.announcement is Announcement.CROSS
    assert table.organization == Organization(handle="Institute of Gravel", name="Institute of Gravel")
    assert table.n_authors == 12
    assert table.signals == {"citations": 4, "downloads": 310, "views": 2048}


@pytest.mark.parametrize(
    ("fields", "announcement"),
    [
        ({"announcement": "replaced"}, Announcement.REPLACED),
        ({"announcement": "Withdrawn"}, Announcement.WITHDRAWN),
        ({"comment": "This paper has been withdrawn by the authors"}, Announcement.WITHDRAWN),
        ({"announcement": "on television"}, Announcement.NEW),
        ({"announcement": 7}, Announcement.NEW),
        ({"arxiv": "2611.00001"}, Announcement.NEW),
    ],
)
def test_own_columns_give_the_announcement(fields: dict[str, Any], announcement: Announcement) -> None:
    assert only(json.dumps({"title": "Tidal Sorting"} | fields)).announcement is announcement


def test_a_bad_line_does_not_affect_other_lines() -> None:
    good = json.dumps(KAGGLE)
    found = items("\n".join([good, '{"id": "2611.00002", "title"', "[" * 100_000, '"x"', good]))

    assert [type(item).__name__ for item in found] == [
        "Record",
        "RecordProblem",
        "RecordProblem",
        "RecordProblem",
        "Record",
    ]
    assert [(item.line, item.reason) for item in found if isinstance(item, RecordProblem)] == [
        (2, "not JSON: Expecting ':' delimiter at column 29"),
        (3, "the value is nested too deeply"),
        (4, "not an object"),
    ]


def test_a_list_is_split_across_reads() -> None:
    many = [HF | {"numComments": number, "padding": "ä" * 5000} for number in range(400)]

    text = json.dumps(many, ensure_ascii=False, indent=1)
    begins = [number for number, line in enumerate(text.splitlines(), start=1) if line == " {"]
    found = items(text)

    assert [item.signals["comments"] for item in found if isinstance(item, Record)] == list(range(400))
    assert [item.line for item in found if isinstance(item, Record)] == begins


@pytest.mark.parametrize("cut", [150, 400, 700])
def test_a_list_that_is_not_closed_is_reported(cut: int) -> None:
    content = json.dumps([HF, HF, HF])[:cut]

    last = items(content)[-1]

    assert isinstance(last, RecordProblem)
    assert last.is_truncation


# ── XML ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("kind", "announcement", "published"),
    [
        ("new", Announcement.NEW, date(2026, 11, 20)),
        ("cross", Announcement.CROSS, date(2026, 11, 20)),
        ("replace", Announcement.REPLACED, None),
        ("replace-cross", Announcement.REPLACED, None),
    ],
)
def test_an_announcement_says_what_is_new(
    kind: str, announcement: Announcement, published: date | None
) -> None:
    record = only(RSS % (ITEM % (kind, kind)))

    assert (record.announcement, record.published) == (announcement, published)
    assert (record.abstract, record.authors) == ("We sort $x < y$.", ("Ada Okafor", "Kenji Ito"))
    assert record.ids == {"arxiv": "2611.00001"}


def test_a_feed_without_entries_announces_no_papers() -> None:
    quiet = reading(RSS % "")

    assert (list(quiet.records), quiet.header.announced, quiet.header.date) == ([], 0, date(2026, 11, 20))


def test_xml_that_breaks_off_is_reported_after_its_complete_records() -> None:
    found = items((RSS % (ITEM % ("new", "new") * 3))[:-600])

    assert isinstance(found[0], Record)
    assert isinstance(found[-1], RecordProblem)
    assert found[-1].is_truncation


# ── texts ───────────────────────────────────────────────────────────────────────────────────────


def test_a_listing_is_read_section_by_section() -> None:
    found: list[Any] = items(LISTING)

    assert [(item.ids["arxiv"], item.announcement.value) for item in found] == [
        ("2611.00001", "new"),
        ("2611.00002", "cross"),
        ("2511.00003", "replaced"),
    ]
    assert (found[0].title, found[0].abstract) == (
        "Tidal Sorting of Gravel",
        "We sort by tides, and by moon.",
    )
    assert found[0].authors == ("Ada Okafor", "Kenji Ito", "P. Lind")
    assert (found[0].published, found[2].published) == (date(2026, 11, 19), None)
    assert (reading(LISTING).header.date, reading(LISTING).header.announced) == (date(2026, 11, 20), 2)


def test_a_listing_shorter_than_announced_is_reported() -> None:
    short = LISTING.replace("1 new + 1", "53 new + 4")

    assert items(short)[-1] == RecordProblem(
        line=len(LISTING.splitlines()),
        reason="its subject announces 57 new papers and cross-lists, but the file has 2",
        is_truncation=True,
        missing_papers=55,
    )


def test_a_listing_without_its_closing_line_is_reported() -> None:
    cut = LISTING[: LISTING.index("%%%---")]
    missing = "the closing line (%%%---) is missing, so the listing is probably incomplete"

    assert items(cut)[-1].reason == missing  # type: ignore[attr-defined]


def test_a_blank_count_of_cross_lists_is_zero() -> None:
    header = reading(LISTING.replace("1 new + 1 crosses", "13 new +  crosses")).header

    assert header.announced == 13


def test_reference_files_give_names_ids_and_days() -> None:
    bib, ris, nbib = only(BIB), only(RIS), only(NBIB)

    assert bib.title == r"Tidal Sorting of NICO Gravel in {\"O}land"
    assert bib.ids == {"doi": "10.1234/abc", "arxiv": "2611.00001"}
    assert (bib.authors, bib.published) == (("Okafor, Ada", "Kenji Ito"), date(2026, 11, 1))
    assert (ris.authors, ris.abstract) == (("Okafor, Ada", "Ito, Kenji"), "We sort by tides.")
    assert (nbib.ids, nbib.abstract) == ({"pmid": "12345678", "doi": "10.1234/abc"}, "We sort by tides.")
    assert (ris.published, nbib.published) == (date(2026, 11, 1), date(2026, 11, 16))


def test_an_invalid_entry_is_reported_with_its_line() -> None:
    found = items(BIB + "\n@article{broken, title = {No end\n" + BIB.replace("okafor", "other"))

    assert any(isinstance(item, RecordProblem) and item.line == 5 for item in found)


def test_a_row_with_too_many_columns_is_reported_and_the_next_is_read() -> None:
    found = items("title,doi\nA,10.1234/a,x\nB,10.1234/b\n")

    assert found[0] == RecordProblem(line=2, reason="3 columns instead of 2")
    assert isinstance(found[1], Record)


# ── pages under headings ────────────────────────────────────────────────────────────────────────

NOTEBOOK = """new
Get trending papers in your email inbox!

Daily Papers
Tidal gravel
Nov 19

 [-] 19
https://huggingface.co/login?next=%2Fpapers%2F2611.00001

### Tidal Sorting of Gravel
https://huggingface.co/papers/2611.00001

We sort by tides, and by
moon.
https://huggingface.co/papers/2611.00001

  - 5 authors
·
Nov 16
3
https://huggingface.co/papers/2611.00001#community

 [-] 4
### Kites That Steer
https://huggingface.co/papers/2611.00002
They fly.
"""


def test_figures_around_a_heading_belong_to_the_right_paper() -> None:
    found: list[Any] = items(NOTEBOOK)

    assert [(item.title, item.abstract, dict(item.ids)) for item in found] == [
        ("Tidal Sorting of Gravel", "We sort by tides, and by moon.", {"arxiv": "2611.00001"}),
        ("Kites That Steer", "They fly.", {"arxiv": "2611.00002"}),
    ]
    assert [item.signals for item in found] == [{"upvotes": 19.0, "comments": 3.0}, {"upvotes": 4.0}]
    assert (found[0].n_authors, found[0].published) == (5, date(2026, 11, 16))


def test_references_at_the_foot_of_a_page_give_the_ids() -> None:
    page = (
        "# Daily Papers\n\nNov 19\n[\n12\n][1]\n### [Tidal Sorting][2]\n[\nWe sort.\n][2]\n[\n* 3 authors\n][2]\n"
        "·\nNov 16\n\nReferences\n\n1. https://huggingface.co/login\n2. https://huggingface.co/papers/2611.00001\n"
    )

    record = only(page)

    assert (record.ids, record.signals, record.n_authors) == ({"arxiv": "2611.00001"}, {"upvotes": 12.0}, 3)
    assert record.abstract == "We sort."


def test_a_page_in_blocks_may_carry_its_links_and_figures_on_lines_of_their_own() -> None:
    linked = blocks(
        (f"Tidal Sorting\nhttps://huggingface.co/papers/2611.00001\n\n{GRAVEL}", meta(5, "Nov 16"))
    )

    assert (only(linked).title, only(linked).abstract) == ("Tidal Sorting", GRAVEL)
    assert only(linked).ids == {"arxiv": "2611.00001"}


# ── packed ──────────────────────────────────────────────────────────────────────────────────────


def test_a_decompression_bomb_is_refused_early() -> None:
    with pytest.raises(UnreadableDump, match="decompresses to more than 100 times its size"):
        items(gzip.compress(b"Get trending papers in your email inbox!\n\n" + (b"x" * 999 + b"\n") * 60_000))


def test_a_file_compressed_twice_is_refused() -> None:
    with pytest.raises(UnreadableDump, match="binary"):
        reading(gzip.compress(gzip.compress(pairs(("T", GRAVEL)).encode())))


def test_own_columns_can_give_every_figure_that_filters_use() -> None:
    from digest.topics.clauses.field_names import SIGNALS

    figures = dict(zip(SIGNALS, range(10, 30), strict=False))

    assert only(json.dumps({"title": "Tidal Sorting", **figures})).signals == figures
    assert only(json.dumps({"title": "Tidal Sorting", "likes": 3})).signals == {"likes": 3, "upvotes": 3}


def test_the_docs_list_exactly_the_known_column_names() -> None:
    from digest.dumps.formats.own_columns import COLUMN_ALIASES, SIGNAL_ALIASES

    page = (Path(__file__).parents[2] / "docs" / "dumps.md").read_text(encoding="utf-8")
    table = page.partition("| column | accepted names | value |")[2].partition("\n\n")[0]
    documented = [
        list(dict.fromkeys(map(field_parsing.folded_name, re.findall(r"`([^`]+)`", row.split("|")[2]))))
        for row in table.splitlines()[2:]
    ]

    read = [list(names) for names in (*COLUMN_ALIASES.values(), *SIGNAL_ALIASES.values())]
    assert documented == read
