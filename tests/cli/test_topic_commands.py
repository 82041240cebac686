"""Suggesting topics, and explaining the score of each match."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import FRIDAY, Digest
from tests.cli.test_papers import TITLES

GRASPS = [
    {"title": "Grasp Planning for $\\alpha$ Grippers", "abstract": "A gripper plans a grasp by touch."},
    {"title": "Tactile Grasp Planning", "abstract": "We plan a grasp with tactile sensing."},
    {"title": "Grasp Planning in Clutter", "abstract": "Clutter makes grasp planning hard."},
    {"title": "Kites in the Wind", "abstract": "Kites fly."},
]
TIDES = "".join(
    f"@article{{t{n}, title = {{Tide Tables, Part {n}}}, author = {{Ito, Yuki and Lind, Ada{n}}}}}\n"
    for n in range(6)
)
KITES = "".join(f"@article{{k{n}, title = {{Kites in the Wind: Volume {n}}}}}\n" for n in range(5))


@pytest.fixture
def grasps(digest: Digest, tmp_path: Path) -> None:
    """Three papers on one subject and one on another."""
    (tmp_path / "grasps.jsonl").write_text("\n".join(map(json.dumps, GRASPS)))
    assert digest("intake", tmp_path / "grasps.jsonl", "--now", FRIDAY).code == 0


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A library with two subjects and one frequent author."""
    path = tmp_path / "library.bib"
    path.write_text(TIDES + KITES)
    return path


@pytest.mark.usefixtures("grasps")
def test_a_topic_is_suggested_for_papers_and_tried(digest: Digest) -> None:
    titles = [paper["title"] for paper in GRASPS[:3]]
    report = digest("topics", "suggest", *titles, "--json").document

    assert report["name"] == "Grasp planning"
    assert sorted(match["title"] for match in report["matches"]) == sorted(titles)
    assert report["finds"][0] | {"clause": ""} == {"clause": "", "examples": 3, "found": 3, "added": 3}
    assert report["missed"] == []
    assert digest("topics", "check", report["canonical"]).code == 0


@pytest.mark.usefixtures("grasps")
def test_a_suggestion_says_what_each_clause_finds(digest: Digest) -> None:
    shown = digest("topics", "suggest", "1", "2", "3").out.splitlines()

    assert shown[0] == "Grasp planning"
    assert re.fullmatch(r"  \S.* finds 3 of your 3 papers and 3 in the catalog\.", shown[1])


@pytest.mark.usefixtures("grasps")
def test_a_paper_that_is_not_in_the_catalog_is_reported(digest: Digest) -> None:
    ran = digest("topics", "suggest", "Tactile Grasp Plan")

    assert ran.code == 1
    assert "Did you mean “Tactile Grasp Planning”?" in ran.err


@pytest.mark.usefixtures("catalog")
def test_json_has_the_title_as_in_the_dump_and_as_displayed(digest: Digest, tmp_path: Path) -> None:
    (tmp_path / "grasps.jsonl").write_text(json.dumps(GRASPS[0]))
    digest("intake", tmp_path / "grasps.jsonl", "--now", FRIDAY)

    (match,) = digest("topics", "test", "gripper", "--json").document["matches"]

    assert (match["id"], match["title"]) == (4, "Grasp Planning for $\\alpha$ Grippers")
    assert match["display_title"] == "Grasp Planning for α Grippers"


@pytest.mark.usefixtures("catalog")
def test_the_printed_terms_add_up_to_the_printed_score(digest: Digest) -> None:
    shown = digest("topics", "test", "gradient OR diffusion OR descent", "--explain").out
    terms: dict[str, list[float]] = {}
    score = ""
    for line in shown.splitlines():
        if found := re.match(r"(\d+)  (\d\.\d{4})  ", line):
            score = found[2]
            terms[score] = []
        elif found := re.match(r"    (\d\.\d{4})  .* = .*÷", line):
            terms[score].append(float(found[1]))

    assert len(terms) == 2
    assert all(round(sum(values), 4) == float(score) for score, values in terms.items())
    assert TITLES[2] in shown


@pytest.mark.usefixtures("catalog")
def test_the_terms_in_json_add_up_to_the_score(digest: Digest) -> None:
    report = digest("topics", "test", 'about:"gradient descent with tides"', "--explain", "--json").document

    assert report["matches"]
    for match in report["matches"]:
        assert [list(term) for term in match["terms"]] == [["words", "value", "arithmetic"]] * len(
            match["terms"]
        )
        assert sum(term["value"] for term in match["terms"]) == pytest.approx(match["score"])


@pytest.mark.usefixtures("catalog")
def test_topics_and_authors_are_suggested_for_a_library(digest: Digest, library: Path) -> None:
    before = digest("papers", "--json").out
    report: dict[str, Any] = digest("topics", "suggest", "--from", library, "--json").document

    assert report["papers"] == 11
    assert [(one["name"], one["papers"]) for one in report["topics"]] == [("Tide tables", 6), ("Kites", 5)]
    assert report["topics"][0]["found"] == 1
    (author,) = report["authors"]
    assert (author["name"], author["papers"], author["canonical"]) == ("Ito, Yuki", 6, 'au:"yuki ito"')
    assert digest("papers", "--json").out == before


@pytest.mark.usefixtures("catalog")
def test_topics_of_a_library_are_printed_with_their_back_tests(digest: Digest, library: Path) -> None:
    shown = digest("topics", "suggest", "--from", library).out

    assert shown.startswith("11 papers of library.bib: 2 topics.\n\nTide tables: 6 papers of the library\n")
    assert "1 match in 1 day" in shown
    assert "Ito, Yuki" in shown


@pytest.mark.parametrize("arguments", [[], ["1", "--from", "library.bib"]], ids=["neither", "both"])
def test_either_papers_or_a_library_are_needed(digest: Digest, arguments: list[str]) -> None:
    ran = digest("topics", "suggest", *arguments)

    assert ran.code == 2
    assert "--from FILE" in ran.err


@pytest.mark.usefixtures("catalog")
def test_an_entry_that_cannot_be_read_is_reported_once(digest: Digest, library: Path) -> None:
    library.write_text(f"{TIDES}@article{{bad, title = {{Kites}}\n")

    ran = digest("topics", "suggest", "--from", library)

    assert ran.code == 0
    assert ran.err.splitlines() == [
        "note: 1 entry could not be read; line 7: Unexpectedly reached end of file."
    ]


@pytest.mark.usefixtures("catalog")
def test_a_library_without_papers_is_refused_with_the_reason(digest: Digest, library: Path) -> None:
    library.write_text("@article{untitled, author = {Ito, Yuki}}\n")

    ran = digest("topics", "suggest", "--from", library)

    assert ran.code == 2
    assert "library.bib has no papers that can be read as BibTeX, RIS or CSL-JSON. Line 1:" in ran.err


def test_a_library_that_does_not_exist_is_reported(digest: Digest) -> None:
    ran = digest("topics", "suggest", "--from", "absent.bib")

    assert ran.code == 2
    assert "absent.bib: No such file or directory." in ran.err
