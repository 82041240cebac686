"""The seed dumps against their truth: every field of every paper, in order."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from digest.dumps.formats import recognition
from digest.papers.paper_record import Record
from tests.dumps import SHARED

SEEDS = sorted((SHARED / "seeds").glob("*.txt")) if (SHARED / "seeds").is_dir() else []
OBSERVED_ON = date(2026, 6, 25)  #: the day the truth files were written for

if not SEEDS:
    pytest.skip("the seed dumps are not here (../shared/seeds)", allow_module_level=True)


@pytest.mark.parametrize("path", SEEDS, ids=lambda path: path.stem[:3])
def test_every_field_of_every_paper_is_exact(path: Path) -> None:
    truth = [json.loads(line) for line in path.with_suffix(".truth.jsonl").read_text().splitlines()]

    with path.open("rb") as stream:
        records = list(recognition.read(stream, name=path.name, observed_on=OBSERVED_ON).records)

    assert [as_truth(record) for record in records] == [without_print(paper) for paper in truth]


def as_truth(record: object) -> dict[str, Any]:
    assert isinstance(record, Record), record
    organization = record.organization
    return {
        "title": record.title,
        "abstract": record.abstract,
        "n_authors": record.n_authors,
        "organization": organization and {"handle": organization.handle, "name": organization.name},
        "published": record.published and record.published.isoformat(),
        "published_year_inferred": record.published_inferred,
        "comments": record.signals.get("comments"),
        "urls": list(record.urls),
        "line": record.line,
    }


def without_print(paper: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in paper.items() if name != "published_raw"}
