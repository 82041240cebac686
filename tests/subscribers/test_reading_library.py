"""A library from a reference manager is read and not stored."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from io import BytesIO

import pytest

from digest import subscribers
from digest.errors import UnreadableDump, UsageError

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


def read(text: str, name: str = "library.bib") -> subscribers.ReadLibrary:
    return subscribers.read_library(BytesIO(text.encode()), name=name, now=NOW)


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


def test_a_library_of_more_than_two_thousand_papers_is_refused() -> None:
    entries = "".join(f"@article{{p{n}, title = {{Kites, Part {n}}}}}\n" for n in range(2001))

    with pytest.raises(UsageError, match="more than 2,000 papers"):
        read(entries)


def test_a_file_of_another_kind_is_refused() -> None:
    with pytest.raises(UnreadableDump, match="empty"):
        read("")
