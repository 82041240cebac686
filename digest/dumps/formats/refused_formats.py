"""Recognise exports that no reader reads, and name the export to use instead."""

from __future__ import annotations

import re

from digest.errors import UnreadableDump

#: {what a file is: how it begins}. A file of one of these kinds is refused, because general readers would misread it.
REFUSED = {
    "a tagged export of Web of Science": r"\ufeff?(?:FN (?:Clarivate|ISI|Thomson)|PT [JBSCP]\s*\n(?:A[UN]|TI) )",
    "a CSV export of IEEE Xplore": r"\ufeff?\"?Document Title\"?,\"?Authors\"?,\"?Author Affiliations",
    "an XML export of EndNote": r"\s*(?:<\?xml[^>]*\?>\s*)?<xml>\s*<records>",
    "an EndNote or Refer file (ENW)": r"\ufeff?\s*%[0AT] \S.*\n%[A-Z0-9@] ",
    "an RDF export of Zotero": r"\s*(?:<\?xml[^>]*\?>\s*)?<rdf:RDF(?=[^>]*(?:zotero\.org|/bibo?/|net-zotero))",
    "a response of zbMATH": r"\s*\{\s*\"result\"\s*:\s*\[\s*\{(?=[\s\S]{0,3000}\"(?:contributors|zbmath_url)\")",
    "an XML deposit of Crossref": r"\s*(?:<\?xml[^>]*\?>\s*)?<(?:doi_batch|crossref_result|crossref)\b",
    "a MODS or MARC record": r"\s*(?:<\?xml[^>]*\?>\s*)?<(?:\w+:)?(?:modsCollection|mods|collection xmlns=\"http://www\.loc|marc)\b",
    "a notebook": r"\s*\{(?=[\s\S]*\"nbformat\"|\s*\"cells\"\s*:)",
    "a tagged export of Ovid": r"\s*<1?\d>\s*\n(?:[A-Z][\w ]+\n  )",
    "a citation file (CFF)": r"(?:#.*\n|---\s*\n)*(?=[\s\S]{0,2000}^cff-version:)",
}
PATTERNS = {kind: re.compile(beginning, re.MULTILINE) for kind, beginning in REFUSED.items()}
INSTEAD = "export the list as RIS, BibTeX or CSL-JSON, or as CSV with the columns in docs/dumps.md"


def refuse(head: str) -> None:
    """Raise UnreadableDump if a file begins like one of the refused kinds."""
    for kind, beginning in PATTERNS.items():
        if beginning.match(head):
            raise UnreadableDump(f"The file is {kind}, which is not read; {INSTEAD}.")
