"""Exports that are not read are refused with the export to use instead, and the docs list them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from digest.dumps.formats.recognition import FORMATS
from digest.dumps.formats.refused_formats import REFUSED
from digest.dumps.laws.conservation import TEXT_FORMATS
from digest.errors import UnreadableDump
from tests.dumps import reading

PAGE = (Path(__file__).parents[2] / "docs" / "dumps.md").read_text(encoding="utf-8")
#: The beginning of a file of each refused kind, in the order of the table.
EXPORTS = (
    "FN Clarivate Analytics Web of Science\nVR 1.0\nPT J\nAU Okafor, A\nTI Kites\nER\n",
    '"Document Title",Authors,"Author Affiliations"\n"Kites","A. Okafor","Kite Lab"\n',
    "<?xml version='1.0'?>\n<xml>\n <records><record><titles><title>Kites</title></titles></record></records></xml>",
    "%0 Journal Article\n%T Kites\n%A Ada Okafor\n%D 2026\n",
    '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:z="http://www.zotero.org/namespaces/export#"></rdf:RDF>',
    '{"result": [{"contributors": {"authors": []}, "title": {"title": "Kites"}}]}',
    '<?xml version="1.0"?><doi_batch version="5.3"><body></body></doi_batch>',
    '<modsCollection xmlns="http://www.loc.gov/mods/v3"><mods><titleInfo><title>Kites</title></titleInfo></mods></modsCollection>',
    '{"cells": [], "metadata": {}, "nbformat": 4}',
    "<1>\nAccession Number\n  12345\nTitle\n  Kites.\n",
    "cff-version: 1.2.0\ntitle: Kites\nauthors:\n  - family-names: Okafor\n",
)


def test_a_refused_export_is_named_with_what_to_use_instead() -> None:
    for kind, content in zip(REFUSED, EXPORTS, strict=True):
        with pytest.raises(UnreadableDump, match=rf"The file is {re.escape(kind)}.*RIS, BibTeX or CSL-JSON"):
            reading(content)


def test_the_docs_say_which_formats_are_supported_which_are_guessed_and_which_are_refused() -> None:
    rows = re.findall(r"^\| (`[a-z-]+`(?:, `[a-z-]+`)*) \| ([a-z ]+) \|", PAGE, re.MULTILINE)
    support = {name: how for names, how in rows for name in re.findall(r"[a-z-]+", names)}

    assert set(support) == {known.NAME for known in FORMATS}
    assert {name for name, how in support.items() if how == "best effort"} == set(TEXT_FORMATS)
    assert set(support.values()) == {"supported", "best effort"}
    assert re.findall(r"^\| (an? [^|]+) \|$", PAGE, re.MULTILINE)[: len(REFUSED)] == list(REFUSED)
