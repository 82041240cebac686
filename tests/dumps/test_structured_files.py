"""Structured files of services and reference managers in the shapes in which people store them."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import pytest

from digest.dumps.formats.reader_interface import RecordProblem
from digest.errors import UnreadableDump
from digest.papers.identifiers import id_in
from digest.papers.paper_record import Record
from tests.dumps import abstract, items, reading

GRAVEL = abstract("gravel")
S2_ID = "0123456789abcdef0123456789abcdef01234567"


def papers(content: str | bytes) -> list[Record]:
    """Return the papers of a dump in which nothing is wrong."""
    found = items(content)
    assert not [one for one in found if isinstance(one, RecordProblem)], found
    return [one for one in found if isinstance(one, Record)]


def only(content: Any) -> Record:
    """Return the one paper of a dump."""
    (found,) = papers(content if isinstance(content, str) else json.dumps(content))
    return found


def reasons(content: Any) -> list[str]:
    """Return why records of a dump are rejected."""
    found = items(content if isinstance(content, str) else json.dumps(content))
    return [one.reason for one in found if isinstance(one, RecordProblem)]


# ── own columns ─────────────────────────────────────────────────────────────────────────────────


def test_inner_objects_fill_the_missing_fields_of_a_paper() -> None:
    found = only(
        [
            {
                "title": "Tidal Sorting",
                "arxiv_id": "2611.00001",
                "abstract": None,
                "stats": {"likes": 7, "views": 90},
            }
            | {
                "details": {
                    "abstract": GRAVEL,
                    "authors": ["Ada Okafor"],
                    "published": "2026-11-16",
                    "title": "Another",
                }
            }
            | {"journal": {"name": "Letters on Gravel", "url": "https://letters.example/"}}
        ]
    )

    assert (found.title, found.abstract, found.authors) == ("Tidal Sorting", GRAVEL, ("Ada Okafor",))
    assert (found.published, found.signals) == (date(2026, 11, 16), {"upvotes": 7, "likes": 7, "views": 90})
    assert found.urls == ()


def test_an_inner_object_with_an_abstract_fills_it_whatever_its_name_is_unless_it_is_another_paper() -> None:
    wrapped, other = ({"abstract": GRAVEL}, {"title": "Kites", "abstract": "They fly."})
    found = papers(json.dumps([{"title": "Tidal Sorting", "year": 2026, "english": wrapped, "best": other}]))

    assert found[0].abstract == GRAVEL
    assert only([{"title": "Tidal Sorting", "year": 2026, "best": other}]).abstract == ""


def test_a_field_of_the_paper_itself_counts_more_than_that_of_an_inner_object() -> None:
    found = only(
        [{"title": "T", "summary": "Ours.", "details": {"abstract": "Theirs."}, "meta": {"year": 2026}}]
    )

    assert (found.abstract, found.published) == ("Ours.", date(2026, 1, 1))


def test_both_versions_of_openreview_are_read() -> None:
    content: dict[str, Any] = {
        "title": "Tidal Sorting",
        "abstract": GRAVEL,
        "authors": ["Ada Okafor", "Kenji Ito"],
    }
    content |= {"keywords": ["gravel", "tides"], "venue": "Gravel 2026 poster", "pdf": "/pdf/1.pdf"}
    note = {"id": "aB3", "forum": "aB3", "cdate": 1795132800000, "invitation": "Gravel/-/Submission"}
    first = json.dumps({"notes": [note | {"content": content}], "count": 1})
    values = {name: {"value": value, "readers": ["everyone"]} for name, value in content.items()}
    second = json.dumps({"notes": [note | {"content": values, "invitations": []}], "count": 1})

    for found in (only(first), only(second)):
        assert (found.title, found.abstract) == ("Tidal Sorting", GRAVEL)
        assert (found.authors, found.categories) == (("Ada Okafor", "Kenji Ito"), ("gravel", "tides"))
        assert (found.published, found.journal) == (date(2026, 11, 20), "Gravel 2026 poster")
        assert found.urls == ("https://openreview.net/forum?id=aB3",)


@pytest.mark.parametrize(
    "name",
    ["PaperURL", "paper_url", "Paper Url", "paper-url", "arxivLink", "HuggingFace", "Abs URL", "Seen At"],
)
def test_an_id_is_found_in_any_column_that_holds_an_address(name: str) -> None:
    address = "https://arxiv.org/abs/2611.00001v2"
    row = {"Title": "Tidal Sorting", "Abstract": GRAVEL, name: address}

    assert only([row]).ids == {"arxiv": "2611.00001"}
    assert only(f'Title,Abstract,{name}\nTidal Sorting,"{GRAVEL}",{address}\n').ids == {"arxiv": "2611.00001"}


def test_addresses_of_other_things_give_no_ids() -> None:
    other = "https://doi.org/10.1234/other"
    found = only(
        [{"title": "T", "abstract": "A", "references": other, "related_paper": other, "license": other}]
    )

    assert (found.ids, found.urls) == ({}, ())


def test_addresses_in_lists_objects_and_cells_with_several_are_all_kept() -> None:
    code, project = "https://github.com/tides/gravel", "https://tides.example/"
    several = only([{"title": "T", "abstract": "A", "links": {"code": code, "page": project}}])
    listed = only([{"title": "T", "abstract": "A", "links": [{"url": code}, {"name": project}]}])
    cell = only([{"title": "T", "abstract": "A", "link": f"{code} {project}", "pdf": "none"}])

    assert several.urls == listed.urls == cell.urls == (code, project)


@pytest.mark.parametrize(
    ("fields", "ids"),
    [
        ({"id": "2611.00001v1"}, {"arxiv": "2611.00001"}),
        ({"paper_id": "math-ph/9701001"}, {"arxiv": "math-ph/9701001"}),
        ({"identifier": "10.1234/ABC"}, {"doi": "10.1234/abc"}),
        ({"id": "2699.00001"}, {}),
        ({"id": 26}, {}),
        (
            {"externalIds": {"ArXiv": "2611.00001", "DOI": "10.1234/x"}},
            {"arxiv": "2611.00001", "doi": "10.1234/x"},
        ),
    ],
)
def test_a_column_named_id_may_hold_a_known_id(fields: dict[str, Any], ids: dict[str, str]) -> None:
    assert only([{"title": "T", "abstract": "A"} | fields]).ids == ids


def test_a_record_with_a_title_alone_is_rejected() -> None:
    reason = "the object has a title but no other known field"

    assert reasons([{"title": "T", "abstract": "A"}, {"title": "Kites", "colour": "red"}]) == [reason]
    assert (
        reasons(
            [{"title": "T", "abstract": "A"}, {"title": "Kites", "seen": "https://arxiv.org/abs/2611.00001"}]
        )
        == []
    )


def test_an_unknown_paper_in_an_answer_is_skipped() -> None:
    assert len(papers(json.dumps([None, {"title": "T", "abstract": "A"}, None]))) == 1


# ── Semantic Scholar ────────────────────────────────────────────────────────────────────────────


def test_the_default_fields_of_semantic_scholar_are_enough() -> None:
    found = reading(
        json.dumps({"total": 1, "token": "x", "data": [{"paperId": S2_ID, "title": "Tidal Sorting"}]})
    )

    assert found.format == "semantic-scholar"
    assert [(one.title, one.ids) for one in found.records if isinstance(one, Record)] == [
        ("Tidal Sorting", {"s2": S2_ID})
    ]


def test_a_line_of_semantic_scholar_s_datasets_is_read() -> None:
    found = only(
        {"corpusid": 7, "title": "Tidal Sorting", "year": 2026, "citationcount": 3, "publicationdate": None}
        | {
            "externalids": {"ArXiv": "2611.00001", "DOI": None},
            "authors": [{"authorId": "1", "name": "Ada Okafor"}],
        }
        | {
            "s2fieldsofstudy": [
                {"category": "Geology", "source": "external"},
                {"category": "Geology", "source": "s2"},
            ]
        }
    )

    assert found.ids == {"arxiv": "2611.00001", "corpusid": "7"}
    assert (found.published, found.categories) == (date(2026, 1, 1), ("Geology",))
    assert (found.authors, found.signals) == (("Ada Okafor",), {"citations": 3})


@pytest.mark.parametrize("wrapper", ["citingPaper", "citedPaper", "paper"])
def test_the_papers_of_a_citation_answer_are_read(wrapper: str) -> None:
    inner = {
        "paperId": S2_ID,
        "title": "Tidal Sorting",
        "abstract": GRAVEL,
        "authors": ["Ada Okafor", {"name": "Kenji Ito"}],
    }
    found = only({"offset": 0, "data": [{"contexts": ["as shown"], "isInfluential": True, wrapper: inner}]})

    assert (found.title, found.abstract, found.ids) == ("Tidal Sorting", GRAVEL, {"s2": S2_ID})
    assert found.authors == ("Ada Okafor", "Kenji Ito")


# ── DataCite and Crossref ───────────────────────────────────────────────────────────────────────

DATACITE: dict[str, Any] = {
    "doi": "10.5281/ZENODO.1",
    "url": "https://zenodo.org/records/1",
    "titles": [
        {"title": "Sorted by Tides", "titleType": "TranslatedTitle"},
        {"title": "Tidal <i>Sorting</i>"},
    ],
    "creators": [
        {"name": "Okafor, Ada", "givenName": "Ada", "familyName": "Okafor"},
        {"name": "Gravel Group", "nameType": "Organizational"},
        "nobody",
    ],
    "descriptions": [
        {"description": "12 pages", "descriptionType": "Other"},
        {"description": f"<p>{GRAVEL}</p>", "descriptionType": "Abstract"},
    ],
    "publicationYear": 2026,
    "dates": [
        {"date": "2026", "dateType": "Issued"},
        {"date": "2026-11-16", "dateType": "Created"},
        {"dateType": "Updated"},
    ],
    "subjects": [{"subject": "Geology"}],
    "container": {"title": "Letters on Gravel"},
    "citationCount": 3,
    "viewCount": 90,
}


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(
            {"data": [{"id": "10.5281/zenodo.1", "type": "dois", "attributes": DATACITE}], "meta": {}},
            id="search",
        ),
        pytest.param(
            {"data": {"id": "10.5281/zenodo.1", "type": "dois", "attributes": DATACITE}}, id="one DOI"
        ),
        pytest.param(DATACITE, id="Crosscite"),
        pytest.param([DATACITE], id="a list"),
    ],
)
def test_datacite_is_read_by_its_fields(content: Any) -> None:
    assert reading(json.dumps(content)).format == "datacite"
    found = only(content)

    assert (found.title, found.abstract) == ("Tidal Sorting", GRAVEL)
    assert (found.ids, found.urls) == ({"doi": "10.5281/zenodo.1"}, ("https://zenodo.org/records/1",))
    assert found.authors == ("Ada Okafor", "Gravel Group")
    assert (found.published, found.journal) == (date(2026, 11, 16), "Letters on Gravel")
    assert (found.categories, found.signals) == (("Geology",), {"citations": 3, "views": 90})


@pytest.mark.parametrize(
    ("dates", "year", "day"),
    [
        ([{"date": "2026-11", "dateType": "Available"}], 2025, date(2026, 11, 1)),
        ([{"date": "soon-or-later", "dateType": "Issued"}], "2025", date(2025, 1, 1)),
        ([], None, None),
    ],
)
def test_the_best_date_of_datacite_is_used(dates: list[Any], year: Any, day: date | None) -> None:
    assert only([DATACITE | {"dates": dates, "publicationYear": year}]).published == day


def test_single_objects_of_datacite_are_read_like_lists() -> None:
    found = only(
        {"titles": {"title": "T"}, "creators": {"name": "Ada Okafor"}, "descriptions": {"description": "A"}}
    )

    assert (found.title, found.authors, found.abstract) == ("T", ("Ada Okafor",), "A")
    assert reasons([{"titles": [{"title": "T"}], "creators": []}]) == [
        "the object has a title but no other known field"
    ]


def test_crossref_with_selected_fields_is_read() -> None:
    rows = [
        {"DOI": "10.1234/X", "title": ["Tidal Sorting"], "author": [{"given": "Ada", "family": "Okafor"}]},
        {"title": ["Kites"]},
    ]
    content = {"status": "ok", "message-type": "work-list", "message": {"items": rows}}
    first, second = items(json.dumps(content))

    assert isinstance(first, Record)
    assert (first.title, first.ids, first.authors) == ("Tidal Sorting", {"doi": "10.1234/x"}, ("Ada Okafor",))
    assert isinstance(second, RecordProblem)
    assert second.reason == "the object has a title but no other known field"


# ── BibTeX and RIS ──────────────────────────────────────────────────────────────────────────────


def test_entries_with_the_same_key_are_read_alike() -> None:
    entry = '@article{tides, title = {{Tidal} Sorting %d}, author = "Okafor, Ada and Ito, Kenji", journal = jgr, year = {2026}, month = nov}\n'
    found = papers('@string{jgr = "Journal of Gravel"}\n' + "".join(entry % number for number in range(3)))

    assert [one.title for one in found] == [f"Tidal Sorting {number}" for number in range(3)]
    assert {(one.authors, one.journal, one.published) for one in found} == {
        (("Okafor, Ada", "Ito, Kenji"), "Journal of Gravel", date(2026, 11, 1))
    }


def test_the_acl_anthology_s_bibtex_is_read_without_its_volumes() -> None:
    found = only(
        '@proceedings{gravel-2026, title = "Proceedings of the First Workshop on Gravel", editor = "Lind, Per", year = "2026"}\n'
        '@inproceedings{okafor-2026, title = "{T}idal Sorting", author = "Okafor, Ada  and\n      Ito, Kenji",\n'
        '    booktitle = "Proceedings of the First Workshop on Gravel", month = jul, year = "2026",\n'
        f'    url = "https://aclanthology.org/2026.gravel-1.2/", doi = "10.18653/v1/2026.gravel-1.2", abstract = "{GRAVEL}"}}\n'
    )

    assert (found.title, found.authors, found.abstract) == (
        "Tidal Sorting",
        ("Okafor, Ada", "Ito, Kenji"),
        GRAVEL,
    )
    assert found.ids == {"acl": "2026.gravel-1.2", "doi": "10.18653/v1/2026.gravel-1.2"}
    assert (found.published, found.journal) == (
        date(2026, 7, 1),
        "Proceedings of the First Workshop on Gravel",
    )


RIS = "TY  - JOUR\nTI  - Tidal Sorting\nAU  - Okafor, Ada\nER  - \n"


def test_a_preface_may_precede_the_first_reference() -> None:
    preface = "Exported from the library of gravel\nSearch: gravel AND tides\n\nRecords: 1\n\n"

    for content in (RIS, preface + RIS, "\ufeff" + preface + RIS):
        assert (reading(content).format, only(content).title) == ("ris", "Tidal Sorting")


@pytest.mark.parametrize("content", ["Dear all,\nTY - see you\nat noon.\n", "\n".join("x" * 60) + "\n" + RIS])
def test_a_text_that_only_mentions_a_reference_type_is_not_ris(content: str) -> None:
    with pytest.raises(UnreadableDump):
        reading(content)


# ── ACL Anthology and old archives ──────────────────────────────────────────────────────────────

COLLECTION = f"""<?xml version='1.0' encoding='UTF-8'?>
<collection id="2026.gravel">
  <volume id="1"><meta><booktitle>Proceedings of the First Workshop on <fixed-case>G</fixed-case>ravel</booktitle>
      <month>July</month><year>2026</year><url hash="x">2026.gravel-1</url></meta>
    <frontmatter><url hash="x">2026.gravel-1.0</url></frontmatter>
    <paper id="1"><title><fixed-case>T</fixed-case>idal Sorting</title>
      <author><first>Ada</first><last>Okafor</last></author><author><last>Ito</last></author>
      <abstract>{GRAVEL}</abstract><url hash="x">2026.gravel-1.1</url><doi>10.18653/v1/2026.gravel-1.1</doi>
      <pwccode url="https://github.com/tides/gravel">tides/gravel</pwccode></paper>
    <paper id="2"><title>Kites</title></paper>
  </volume>
</collection>"""


def test_the_acl_anthology_s_collections_are_read() -> None:
    first, second = papers(COLLECTION)

    assert reading(COLLECTION).format == "acl-anthology"
    assert (first.title, first.abstract, first.authors) == ("Tidal Sorting", GRAVEL, ("Ada Okafor", "Ito"))
    assert first.ids == {"acl": "2026.gravel-1.1", "doi": "10.18653/v1/2026.gravel-1.1"}
    assert first.urls == ("https://aclanthology.org/2026.gravel-1.1", "https://github.com/tides/gravel")
    assert (first.published, first.journal) == (
        date(2026, 7, 1),
        "Proceedings of the First Workshop on Gravel",
    )
    assert (second.title, second.ids, second.urls) == ("Kites", {}, ())
    assert "truncated" in reasons(COLLECTION[:-60])[0]


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("https://aclanthology.org/2024.acl-long.12/", ("acl", "2024.acl-long.12")),
        ("https://aclanthology.org/2024.acl-long.12.pdf", ("acl", "2024.acl-long.12")),
        ("https://www.aclweb.org/anthology/P19-1001.pdf", ("acl", "P19-1001")),
        ("https://aclanthology.org/2024.acl-long.0/", None),
        ("https://aclanthology.org/volumes/2024.acl-long/", None),
        ("https://arxiv.org/abs/math-ph/9701001", ("arxiv", "math-ph/9701001")),
        ("https://arxiv.org/abs/cond-mat.supr-con/9701102", ("arxiv", "cond-mat/9701102")),
        ("https://ar5iv.labs.arxiv.org/html/2611.00001", ("arxiv", "2611.00001")),
        ("https://www.alphaxiv.org/abs/2611.00001", ("arxiv", "2611.00001")),
        (
            "https://www.biorxiv.org/content/10.1101/2026.11.16.123456v2.full.pdf",
            ("doi", "10.1101/2026.11.16.123456"),
        ),
        ("https://dl.acm.org/doi/abs/10.1145/3292500.3330701", ("doi", "10.1145/3292500.3330701")),
        ("https://example.org/doi/none", None),
    ],
)
def test_an_address_of_a_paper_contains_its_id(url: str, found: tuple[str, str] | None) -> None:
    assert id_in(url) == found


def test_a_listing_of_an_old_archive_is_read() -> None:
    entry = r"""\\
Paper%s: %s
From: Ada Okafor <ada@example.org>
Date: Fri, 10 Jan 1997 08:26:03 GMT   (29kb)

Title: Tidal Sorting
Authors: Ada Okafor and Kenji Ito
Categories: math-ph
\\
------------------------------------------------------------------------------
"""
    rule = "-" * 78 + "\n"
    found = papers(
        rule + entry % (" (*cross-listing*)", "cond-mat/9701067") + entry % ("", "math-ph/9701001")
    )

    assert [(one.ids["arxiv"], one.announcement.value) for one in found] == [
        ("cond-mat/9701067", "cross"),
        ("math-ph/9701001", "new"),
    ]


def test_the_columns_of_bibliographic_databases_are_known() -> None:
    (found,) = items(
        "Title,Author Names,Abstract,Publication Year\nKites,Ada Okafor; Kenji Ito,They fly.,2024\n"
    )

    assert isinstance(found, Record)
    assert (found.authors, found.published) == (("Ada Okafor", "Kenji Ito"), date(2024, 1, 1))


@pytest.mark.parametrize("sign", [";", "|"])
def test_names_and_keywords_in_a_cell_are_separated(sign: str) -> None:
    found = only(
        f"UID,title,authors,keywords,abstract\n1,Tidal Sorting,Ada Okafor{sign}Kenji Ito,tides{sign}gravel,A\n"
    )

    assert (found.authors, found.categories) == (("Ada Okafor", "Kenji Ito"), ("tides", "gravel"))


def test_a_title_in_two_pairs_of_braces_loses_both() -> None:
    found = papers(
        "@article{a, title = {{Tidal \\textit{Sorting} of Gravel}}, year = 2026}\n"
        "@article{b, title = {{A \\textbf{B}} and {C \\textbf{D}}}, year = 2026}\n"
    )

    assert [one.title for one in found] == [
        r"Tidal \textit{Sorting} of Gravel",
        r"{A \textbf{B}} and {C \textbf{D}}",
    ]


def test_an_empty_author_and_an_impossible_year_are_missing() -> None:
    (nbib,) = papers("PMID- 1\nTI  - Tidal Sorting\nFAU - Okafor, Ada\nFAU - \n\n")
    (ris,) = papers("TY  - JOUR\nTI  - Tidal Sorting\nAU  - Okafor, Ada\nPY  - 0099\nER  - \n")

    assert (nbib.authors, nbib.n_authors) == (("Okafor, Ada",), 1)
    assert ris.published is None
