"""The matches of a filter, and the arithmetic of the score of each."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.conftest import FRIDAY, Digest
from tests.cli.test_papers import TITLES

GRASP = {"title": "Grasp Planning for $\\alpha$ Grippers", "abstract": "A gripper plans a grasp by touch."}


@pytest.mark.usefixtures("catalog")
def test_json_has_the_title_as_in_the_dump_and_as_displayed(digest: Digest, tmp_path: Path) -> None:
    (tmp_path / "grasps.jsonl").write_text(json.dumps(GRASP))
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
