"""Semantic Scholar's Graph API and datasets ("semantic-scholar"). Their licence asks for credit (ODC-BY)."""

from __future__ import annotations

from typing import Any

from digest.dumps import fields, objects
from digest.dumps.reading import Header, Items, Source
from digest.papers import Record

NAME = "semantic-scholar"

SCHEMES = {
    "ArXiv": "arxiv", "DOI": "doi", "PubMed": "pmid", "PubMedCentral": "pmcid", "CorpusId": "corpusid",
    "DBLP": "dblp", "MAG": "mag", "ACL": "acl",
}  # fmt: skip


def recognises(head: str) -> bool:
    """Return whether these are papers with Semantic Scholar's ids."""
    keys = {key.casefold() for key in objects.keys_in(head)}
    return (
        "title" in keys
        and bool(keys & {"paperid", "corpusid"})
        and bool(keys & {"externalids", "citationcount", "s2fieldsofstudy", "year"})
    )


def read(source: Source) -> tuple[Header, Items]:
    """Read a search's `data`, recommendations, a dataset's lines, or a single paper."""
    return objects.read(source, record_of, at=("data", "recommendedPapers"))


def record_of(found: dict[str, Any], position: int, line: int) -> Record:
    """Return one paper; publishers withhold abstracts, and then the one-sentence summary stands in."""
    found = {key.casefold(): value for key, value in found.items()}
    outside = fields.mapping(found.get("externalids"))
    abstract = fields.prose(found.get("abstract"))
    summary = fields.prose(fields.mapping(found.get("tldr")).get("text"))
    authors = tuple(
        filter(
            None,
            (fields.text(fields.mapping(one).get("name")) for one in fields.listed(found.get("authors"))),
        )
    )
    pmcid = outside.get("PubMedCentral")
    known = [
        (SCHEMES[key], value) for key, value in outside.items() if key in SCHEMES and key != "PubMedCentral"
    ]
    return Record(
        title=fields.text(found.get("title")),
        abstract=abstract or summary,
        is_summary=not abstract and bool(summary),
        ids=fields.ids(
            [
                *known,
                ("s2", found.get("paperid")),
                ("corpusid", found.get("corpusid")),
                ("pmcid", f"PMC{pmcid}" if pmcid and not str(pmcid).startswith("PMC") else pmcid),
            ]
        ),
        authors=authors,
        n_authors=len(authors) or None,
        published=fields.day(found.get("publicationdate")),
        categories=fields.texts(found.get("fieldsofstudy")),
        urls=fields.urls(fields.mapping(found.get("openaccesspdf")).get("url")),
        signals=fields.signals(citations=found.get("citationcount")),
        journal=fields.text(fields.mapping(found.get("journal")).get("name"))
        or fields.text(found.get("venue")),
        position=position,
        line=line,
    )
