"""Read Semantic Scholar's Graph API and datasets ("semantic-scholar").

The licence of the data (ODC-BY) requires attribution.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from typing import Any

from digest.dumps.formats import field_parsing, json_stream
from digest.dumps.formats.reader_interface import DumpInput, Header, Items
from digest.papers import Record

NAME = "semantic-scholar"
SUMMARY_BY = "Semantic Scholar"

SCHEMES = {
    "ArXiv": "arxiv", "DOI": "doi", "PubMed": "pmid", "PubMedCentral": "pmcid", "CorpusId": "corpusid",
    "DBLP": "dblp", "MAG": "mag", "ACL": "acl",
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
    abstract = field_parsing.as_prose(found.get("abstract"))
    summary = field_parsing.as_prose(field_parsing.as_mapping(found.get("tldr")).get("text"))
    authors = tuple(
        filter(
            None,
            (
                field_parsing.as_text(
                    one if isinstance(one, str) else field_parsing.as_mapping(one).get("name")
                )
                for one in field_parsing.as_list(found.get("authors"))
            ),
        )
    )
    pmcid = outside.get("PubMedCentral")
    known = [
        (SCHEMES[key], value) for key, value in outside.items() if key in SCHEMES and key != "PubMedCentral"
    ]
    return Record(
        title=field_parsing.as_text(found.get("title")),
        abstract=abstract or summary,
        summary_by=SUMMARY_BY if summary and not abstract else "",
        ids=field_parsing.normalised_ids(
            [
                *known,
                ("s2", found.get("paperid")),
                ("corpusid", found.get("corpusid")),
                ("pmcid", f"PMC{pmcid}" if pmcid and not str(pmcid).startswith("PMC") else pmcid),
            ]
        ),
        authors=authors,
        organization=field_parsing.institutions(
            name
            for author in field_parsing.as_list(found.get("authors"))
            for name in field_parsing.as_list(field_parsing.as_mapping(author).get("affiliations"))
        ),
        n_authors=len(authors) or None,
        published=published(found),
        categories=categories(found),
        urls=field_parsing.web_urls(field_parsing.as_mapping(found.get("openaccesspdf")).get("url")),
        signals=field_parsing.known_signals(citations=found.get("citationcount")),
        journal=field_parsing.as_text(field_parsing.as_mapping(found.get("journal")).get("name"))
        or field_parsing.as_text(found.get("venue")),
        position=position,
        line=line,
    )


def published(found: Mapping[str, Any]) -> date | None:
    """Return the publication date, or the first day of the year if only the year is known."""
    exact = field_parsing.parse_day(found.get("publicationdate"))
    return exact or field_parsing.make_date(found.get("year"), 1, 1)


def categories(found: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the fields of study, which some responses give as objects with the origin of each field."""
    plain = field_parsing.as_texts(found.get("fieldsofstudy"))
    named = field_parsing.as_list(found.get("s2fieldsofstudy"))
    texts = field_parsing.as_texts([field_parsing.as_mapping(one).get("category") for one in named])
    return plain or tuple(dict.fromkeys(texts))
