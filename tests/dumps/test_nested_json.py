"""JSON in which papers stand in several lists or objects: every paper is found, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from typing import Any

import pytest

from digest.dumps.formats.reader_interface import RecordProblem
from digest.papers.paper_record import Record
from tests.dumps import abstract, items

GRAVEL = abstract("gravel")


def paper(number: int) -> dict[str, Any]:
    """Return a paper in the format `json`."""
    return {
        "title": f"Tidal Sorting, Part {number}",
        "abstract": GRAVEL,
        "authors": ["Ada Okafor"],
        "url": f"https://arxiv.org/abs/2611.0000{number}",
    }


def reference(number: int) -> dict[str, Any]:
    """Return a paper in CSL-JSON."""
    return {
        "id": number,
        "type": "article-journal",
        "title": f"Tidal Sorting, Part {number}",
        "author": [{"family": "Okafor", "given": "Ada"}],
        "issued": {"date-parts": [[2026]]},
    }


def titles(content: Any) -> list[str]:
    """Return the titles of a dump in which nothing is wrong."""
    found = items(content if isinstance(content, str) else json.dumps(content))
    assert not [one for one in found if isinstance(one, RecordProblem)], found
    return sorted(one.title for one in found if isinstance(one, Record))


def only(content: Any) -> Record:
    """Return the one paper of a dump."""
    (found,) = items(json.dumps(content))
    assert isinstance(found, Record)
    return found


SHAPES: dict[str, Callable[[dict[str, Any], dict[str, Any], dict[str, Any]], Any]] = {
    "several lists": lambda a, b, c: {"train": [a], "test": [b, c]},
    "lists by day": lambda a, b, c: {"2026-11-01": [a], "2026-11-02": [b, c]},
    "a known list before another": lambda a, b, c: {"papers": [a], "count": 3, "posters": [b, c]},
    "a known list after another": lambda a, b, c: {"posters": [a], "papers": [b, c]},
    "a list beside a paper": lambda a, b, c: {"list": [a, b], "single": c},
    "objects of lists": lambda a, b, c: {"cs.CL": {"papers": [a]}, "cs.LG": {"papers": [b, c]}},
    "objects by id": lambda a, b, c: {"cs.CL": {"x": a, "y": b}, "cs.LG": {"z": c}},
    "sections": lambda a, b, c: {"sections": [{"title": "S", "papers": [a, b]}, {"title": "T", "papers": [c]}]},
    "a list of sections": lambda a, b, c: [{"title": "S", "papers": [a, b]}, {"title": "T", "papers": [c]}],
    "a list of days": lambda a, b, c: [{"date": "2026-11-01", "papers": [a, b]}, {"date": "x", "papers": [c]}],
    "a list with a title": lambda a, b, c: {"title": "Our list", "date": "2026-11-01", "entries": [a, b, c]},
    "two responses": lambda a, b, c: json.dumps({"papers": [a], "posters": [b]}) + json.dumps({"papers": [c]}),
    "a node in each element": lambda a, b, c: {"data": {"papers": {"edges": [{"node": one} for one in (a, b, c)]}}},
}  # fmt: skip


@pytest.mark.parametrize("made", [paper, reference])
@pytest.mark.parametrize("shape", SHAPES)
def test_papers_in_several_lists_and_objects_are_all_read(
    shape: str, made: Callable[[int], dict[str, Any]]
) -> None:
    found = titles(SHAPES[shape](made(1), made(2), made(3)))

    assert found == [f"Tidal Sorting, Part {number}" for number in (1, 2, 3)]


def test_papers_beside_a_list_are_read_however_long_the_list_is() -> None:
    many = [
        paper(1) | {"title": f"Volume {n}", "url": f"https://arxiv.org/abs/2612.{n:05}"} for n in range(3_000)
    ]

    found = titles({"papers": many, "posters": [paper(2)]})

    assert len(found) == 3_001
    assert "Tidal Sorting, Part 2" in found


@pytest.mark.parametrize("rest", [", nonsense", ', "posters": [' + "[" * 200_000, ', "posters": [{"title"'])
def test_invalid_text_beside_a_list_is_ignored(rest: str) -> None:
    content = json.dumps({"papers": [paper(1), paper(2)]}).removesuffix("}") + rest

    assert len([one for one in items(content) if isinstance(one, Record)]) == 2


def test_text_beside_a_list_that_is_not_utf_8_is_ignored() -> None:
    content = json.dumps({"papers": [paper(1)]}).removesuffix("}").encode() + b" " * 2_000_000 + b"\xff"

    assert len([one for one in items(content) if isinstance(one, Record)]) == 1


def test_works_that_a_list_cites_are_read_only_if_there_are_no_others() -> None:
    cited = {"references": [paper(2), paper(3)]}

    assert titles({"found": [paper(1)], **cited}) == ["Tidal Sorting, Part 1"]
    assert titles(cited) == ["Tidal Sorting, Part 2", "Tidal Sorting, Part 3"]
    assert titles([{"title": "Tidal Sorting, Part 1", "year": 2026, **cited}]) == ["Tidal Sorting, Part 1"]


def test_a_paper_with_lists_of_other_things_is_one_paper() -> None:
    data = [{"title": "A Bay in Winter", "url": "https://data.example/1"}, "gravel"]

    assert only([{"title": "Tidal Sorting", "year": 2026, "datasets": data}]).title == "Tidal Sorting"


# ── exports and services ────────────────────────────────────────────────────────────────────────

ZOTERO = {
    "itemType": "journalArticle",
    "title": "Tidal Sorting",
    "creators": [
        {"creatorType": "author", "firstName": "Ada", "lastName": "Okafor"},
        {"creatorType": "editor", "firstName": "Per", "lastName": "Lind"},
        {"creatorType": "author", "name": "The Gravel Group"},
    ],
    "abstractNote": GRAVEL,
    "publicationTitle": "Letters on Gravel",
    "date": "2026-11-03",
    "DOI": "10.1234/gravel",
    "tags": [{"tag": "gravel"}],
}


@pytest.mark.parametrize(
    "content",
    [
        [{"key": "K1", "data": ZOTERO}, {"key": "K2", "data": {"itemType": "attachment", "title": "Full Text PDF"}}],
        {"config": {}, "items": [ZOTERO, {"itemType": "note", "title": "To read", "note": "soon"}]},
    ],
)  # fmt: skip
def test_exports_of_zotero_are_read_without_attachments(content: Any) -> None:
    found = only(content)

    assert found.authors == ("Ada Okafor", "The Gravel Group")
    assert (found.abstract, found.journal, found.published) == (
        GRAVEL,
        "Letters on Gravel",
        date(2026, 11, 3),
    )
    assert (found.ids, found.categories) == ({"doi": "10.1234/gravel"}, ("gravel",))


def test_editors_are_the_authors_of_a_work_without_authors() -> None:
    editors = [{"creatorType": "editor", "firstName": "Per", "lastName": "Lind"}]

    assert only([ZOTERO | {"creators": editors}]).authors == ("Per Lind",)


@pytest.mark.parametrize(
    ("authors", "names"),
    [
        ({"author": [{"@pid": "1", "text": "Ada Okafor"}, {"text": "Kenji Ito 0001"}]}, ("Ada Okafor", "Kenji Ito")),
        ({"author": {"@pid": "1", "text": "Ada Okafor"}}, ("Ada Okafor",)),
        ({"first": "Ada Okafor", "last": "Kenji Ito"}, ("Ada Okafor", "Kenji Ito")),
    ],
)  # fmt: skip
def test_authors_may_be_objects_in_an_object(authors: Any, names: tuple[str, ...]) -> None:
    info = {"title": "Tidal Sorting.", "authors": authors, "venue": "Gravel", "year": "2026"}

    assert only({"result": {"hits": {"@total": "1", "hit": [{"@id": "1", "info": info}]}}}).authors == names


def test_a_response_of_ads_is_read() -> None:
    found = only(
        {
            "responseHeader": {"status": 0},
            "response": {
                "numFound": 1,
                "docs": [
                    {
                        "bibcode": "2026LeGr....1....1O",
                        "title": ["Tidal Sorting"],
                        "abstract": GRAVEL,
                        "author": ["Okafor, Ada"],
                        "pubdate": "2026-11-00",
                        "doi": ["10.1234/gravel"],
                        "identifier": ["2026arXiv261100001O", "arXiv:2611.00001"],
                        "pub": "Letters on Gravel",
                    }
                ],
            },
        }
    )

    assert found.ids == {"doi": "10.1234/gravel", "arxiv": "2611.00001"}
    assert (found.title, found.published, found.journal) == (
        "Tidal Sorting",
        date(2026, 11, 1),
        "Letters on Gravel",
    )


def test_a_response_of_europe_pmc_and_a_json_feed_are_read() -> None:
    work = {
        "title": "Tidal Sorting",
        "pmid": "101",
        "authorString": "Okafor A; Ito K",
        "abstractText": GRAVEL,
    }
    entry = {"title": "Tidal Sorting", "url": "https://arxiv.org/abs/2611.00001", "content_text": GRAVEL}

    found = only({"hitCount": 1, "resultList": {"result": [work | {"firstPublicationDate": "2026-11-03"}]}})

    assert (found.abstract, found.authors, found.published) == (
        GRAVEL,
        ("Okafor A", "Ito K"),
        date(2026, 11, 3),
    )
    assert only({"version": "1.1", "title": "Gravel", "items": [entry]}).abstract == GRAVEL


def test_a_second_list_far_below_the_first_is_read() -> None:
    content = json.dumps([paper(1)]) + "\n" * 2_500_000 + json.dumps([paper(2)])

    assert titles(content) == ["Tidal Sorting, Part 1", "Tidal Sorting, Part 2"]
