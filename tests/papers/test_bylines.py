"""A byline names people as they are called, and where they work."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from digest.papers.bylines import byline, short_name
from digest.papers.paper_record import Organization, Paper

GRAVEL_WORKS = Organization(handle="gw", name="Gravel Works")
SEEN = datetime(2026, 11, 20, tzinfo=UTC)


def paper(**fields: object) -> Paper:
    return Paper(id=1, title="Tidal Sorting", first_seen_at=SEEN, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (
            {"authors": ("Kenji Ito", "Ada Okafor", "P. Lind", "X Y", "Z W"), "n_authors": 7},
            "Ito, Okafor, Lind + 4",
        ),
        ({"authors": ("van der Berg, Jan",), "n_authors": 1}, "van der Berg"),
        ({"authors": ("Jan van der Berg",)}, "van der Berg et al."),
        ({"organization": GRAVEL_WORKS, "n_authors": 3}, "Gravel Works"),
        ({"organization": GRAVEL_WORKS, "authors": ("Kenji Ito",), "n_authors": 1}, "Ito · Gravel Works"),
        ({"organization": GRAVEL_WORKS, "authors": ("Gravel Works",)}, "Gravel Works"),
        ({"n_authors": 7}, "7 authors"),
        ({"n_authors": 1}, "1 author"),
        ({}, ""),
    ],
    ids=[
        "names",
        "inverted",
        "unknown count",
        "organization",
        "institution",
        "once",
        "count",
        "one",
        "nothing",
    ],
)
def test_the_byline_names_authors_organization_or_count(fields: dict[str, object], expected: str) -> None:
    assert byline(paper(**fields)) == expected


@pytest.mark.parametrize(
    "name",
    [
        "Qwen Team",
        "The ATLAS Collaboration",
        "Gravel Works Research Group",
        "Example Lab",
        "王小明",
        "伊藤 健二",
        "김민수",
        "Nguyễn Văn An",
        "Nguyen Van An",
        "Trần Thị Hoa",
        "Plato",
        "",
    ],
)
def test_a_name_without_a_family_name_that_stands_for_it_is_written_whole(name: str) -> None:
    assert short_name(name) == name


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("Ludwig van der Berg", "van der Berg"),
        ("Ludwig Van Der Berg", "Van Der Berg"),
        ("Ana de la Cruz", "de la Cruz"),
        ("Omar ibn Said", "ibn Said"),
        ("Layla Al Rashid", "Al Rashid"),
        ("Layla al-Rashid", "al-Rashid"),
        ("Ana Ramón y Cajal", "Ramón y Cajal"),
        ("Ana García Márquez", "García Márquez"),
        ("Ana Lucía Gómez Ortega", "Gómez Ortega"),
        ("Ana Gómez", "Gómez"),
        ("Huong Van Nguyen", "Nguyen"),
        ("Kenji T. Ito Jr.", "Ito"),
        ("Lind P.", "Lind"),
        ("Kim SH", "Kim"),
        ("Jane LI", "LI"),
        ("Ito, Kenji", "Ito"),
        ("P. Lind", "Lind"),
        ("X Y", "Y"),
    ],
)
def test_a_family_name_keeps_all_its_words(name: str, short: str) -> None:
    assert short_name(name) == short
