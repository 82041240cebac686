"""A library from a reference manager is read and not stored."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from io import BytesIO

import pytest

from digest.errors import BadField
from digest.web import library_upload
from digest.web.library_upload import UPLOAD_LIMITS, LibraryLimits, ReadLibrary

NOW = datetime(2026, 11, 20, tzinfo=UTC)
BIBTEX = """
@article{ito, title = {Tide Tables for Gradient Descent}, author = {Ito, Yuki and Lind, Ada},
  abstract = {We time the tides.}}
@article{again, title = {Tide tables for gradient descent}, author = {Ito, Yuki}}
@article{untitled, author = {Ito, Yuki}}
"""
RIS = "TY  - JOUR\nTI  - Tide Tables for Gradient Descent\nAU  - Ito, Yuki\nAU  - Lind, Ada\nER  - \n"
CSL = json.dumps(
    [
        {
            "id": "ito",
            "type": "article-journal",
            "title": "Tide Tables for Gradient Descent",
            "issued": {"date-parts": [[2026, 11]]},
            "author": [{"family": "Ito", "given": "Yuki"}, {"family": "Lind", "given": "Ada"}],
        }
    ]
)


#: Enough for every test, so that a slow machine changes no result.
LIMITS = replace(UPLOAD_LIMITS, max_seconds=60.0)


def read(content: str | bytes, name: str = "library.bib", limits: LibraryLimits = LIMITS) -> ReadLibrary:
    stream = BytesIO(content if isinstance(content, bytes) else content.encode())
    return library_upload.read_library(stream, name=name, limits=limits, now=NOW, seconds=lambda: 0.0)


@pytest.mark.parametrize(
    ("name", "text"), [("a.bib", BIBTEX), ("a.ris", RIS), ("a.json", CSL)], ids=["bibtex", "ris", "csl-json"]
)
def test_the_papers_of_a_library_are_read_once_each(name: str, text: str) -> None:
    (paper,) = read(text, name).papers

    assert paper.title == "Tide Tables for Gradient Descent"
    assert len(paper.authors) == 2
    assert paper.first_seen_at == NOW


def test_an_entry_that_cannot_be_read_is_reported_with_its_line() -> None:
    (problem,) = read(BIBTEX).problems

    assert problem.line == 5
    assert "title" in problem.reason


def test_a_file_of_any_usual_encoding_is_read() -> None:
    text = BIBTEX.replace("Ada", "Éda")

    for encoding in ("utf-8", "utf-8-sig", "utf-16", "cp1252"):
        (paper,) = read(text.encode(encoding)).papers
        assert paper.authors == ("Ito, Yuki", "Lind, Éda")


def test_references_after_a_preface_are_read() -> None:
    assert len(read(f"Provider: A Library\nContent: text/plain\n\n{RIS}").papers) == 1


def entries(number: int) -> str:
    return "".join(f"@article{{p{n}, title = {{Kites, Part {n}}}}}\n" for n in range(number))


def test_two_thousand_entries_of_a_library_are_read() -> None:
    assert len(read(entries(2_000)).papers) == 2_000
    assert read(entries(2_000)).is_complete

    longer = read(entries(2_001))
    assert len(longer.papers) == 2_000
    assert not longer.is_complete


def test_a_library_is_read_for_a_limited_time() -> None:
    found = read(entries(3), limits=replace(LIMITS, max_seconds=-1.0))

    assert len(found.papers) == 1
    assert not found.is_complete


def test_an_entry_that_would_take_the_parser_seconds_is_skipped_and_reported() -> None:
    long = "@article{k,\n" + "@a{\n" * 20_000

    found = read(f"{entries(2)}{long}@article{{last, title = {{Tide Tables}}}}\n")

    assert len(found.papers) == 3
    assert [(one.line, one.reason) for one in found.problems] == [(3, "the entry is longer than 32 KB")]


def test_the_line_of_a_problem_behind_a_long_entry_is_right() -> None:
    long = "@article{k,\n title = {" + "tide\n" * 8_000 + "}}\n"

    found = read(f"{long}@article{{q, author = {{Ito, Yuki}}}}\n")

    assert [one.line for one in found.problems] == [1, 8_003]


def test_papers_before_a_fault_of_the_file_are_read() -> None:
    found = read(f"{CSL[:-1]}, {{")

    assert len(found.papers) == 1
    assert "ends in the middle" in found.problems[-1].reason


@pytest.mark.parametrize("content", [b"", b" \n"])
def test_an_empty_file_is_refused(content: bytes) -> None:
    with pytest.raises(BadField, match=r"^library.bib: This file is empty"):
        read(content)


def test_a_large_file_is_refused() -> None:
    with pytest.raises(BadField, match="larger than 1 MB"):
        read(b"%" * (1024 * 1024 + 1))


@pytest.mark.parametrize("content", [b"%PDF-1.7 \0\0", b"Dear diary,\n", b"{" * 50_000, b"\xff\xfe\0"])
def test_a_file_of_another_kind_has_no_papers(content: bytes) -> None:
    assert read(content).papers == ()
