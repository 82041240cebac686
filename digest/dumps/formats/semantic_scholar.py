"""Read Semantic Scholar's Graph API and datasets ("semantic-scholar").

The licence of the data (ODC-BY) requires attribution.
"""

from __future__ import annotations

import re
from typing import Any

from digest.dumps.formats import clean_values, field_parsing, json_stream
from digest.dumps.formats.field_parsing import as_text, first_at, texts_at, values_at
from digest.dumps.formats.reader_interface import DumpInput, Header, Items
from digest.papers import Record

NAME = "semantic-scholar"
SUMMARY_BY = "Semantic Scholar"

SCHEMES = {
    "ArXiv": "arxiv", "DOI": "doi", "PubMed": "pmid", "CorpusId": "corpusid", "DBLP": "dblp", "MAG": "mag", "ACL": "acl",
}  # fmt: skip

#: The keys of papers in responses about citations, references and snippets.
PAPER_WRAPPERS = ("citingpaper", "citedpaper", "paper")
PAPER_ID = re.compile(r'"paperId"\s*:\s*"[0-9a-f]{40}"')


def recognises(head: str) -> bool:
    """Return whether the dump contains papers with Semantic Scholar's ids."""
    keys = {key.casefold() for key in json_stream.keys_in(head)}
    is_known = bool(keys & {"paperid", "corpusid"}) and bool(
        keys & {"externalids", "citationcount", "s2fieldsofstudy", "year"}
    )
    return "title" in keys and (is_known or PAPER_ID.search(head) is not None)


def read(source: DumpInput) -> tuple[Header, Items]:
    """Read the `data` of a search, a list of recommendations, the lines of a dataset, or a single paper."""
    return json_stream.read(source, record_of, list_names=("data", "recommendedPapers"))


def record_of(found: dict[str, Any], position: int, line: int) -> Record:
    """Return the record for one paper, with its one-sentence summary if the abstract is not available."""
    found = {key.casefold(): value for key, value in found.items()}
    for name in PAPER_WRAPPERS:
        if isinstance(inner := found.get(name), dict):
            found = {key.casefold(): value for key, value in inner.items()}
    outside = field_parsing.as_mapping(found.get("externalids"))
    summary = first_at(found, "tldr.text")
    pmcid = outside.get("PubMedCentral")
    return clean_values.paper(
        title=found.get("title"),
        abstract=found.get("abstract") or summary,
        summary_by=SUMMARY_BY if summary and not found.get("abstract") else "",
        ids=[
            *((SCHEMES[key], value) for key, value in outside.items() if key in SCHEMES),
            ("s2", found.get("paperid")),
            ("corpusid", found.get("corpusid")),
            ("pmcid", f"PMC{pmcid}" if pmcid and not str(pmcid).startswith("PMC") else pmcid),
        ],
        authors=[as_text(first_at(one, "name") or one) for one in values_at(found, "authors")],
        organization=field_parsing.institutions(values_at(found, "authors.affiliations")),
        published=[found.get("publicationdate"), found.get("year")],
        categories=texts_at(found, "fieldsofstudy") or texts_at(found, "s2fieldsofstudy.category"),
        urls=values_at(found, "openaccesspdf.url"),
        signals={"citations": found.get("citationcount")},
        journal=first_at(found, "journal.name", "venue"),
        position=position,
        line=line,
    )
