"""The table in docs/delivery.md maps the transitions of the model to functions that exist."""

from __future__ import annotations

import re
from pkgutil import resolve_name

import pytest

from tests.conftest import ROOT

MODEL = (ROOT / "tests" / "judge" / "delivery_model" / "delivery.pml").read_text()
PAGE = (ROOT / "docs" / "delivery.md").read_text()
ROWS = re.findall(r"^\| `(\w+)` \| `([\w.:]+)` \|", PAGE, flags=re.MULTILINE)
VERBS = {"claim", "sweep", "renew", "intend", "settle"}


@pytest.mark.parametrize(("transition", "function"), ROWS)
def test_each_transition_of_the_model_has_a_function(transition: str, function: str) -> None:
    assert re.search(rf"\b{transition}\b", MODEL)
    assert callable(resolve_name(function))


def test_every_verb_of_the_outbox_is_in_the_table() -> None:
    named = {function.rpartition(":")[2] for _, function in ROWS}

    assert named >= VERBS
