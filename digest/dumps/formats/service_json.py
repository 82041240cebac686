"""Read the JSON of services that publish or index papers, each as a mapping of its fields.

In arXiv's snapshot on Kaggle, `update_date` is the date of the record's last change. In Hugging Face's lists,
the date of the outer object is ignored: it is the inner date shifted by an American time zone offset but still
marked as UTC; only the outer object has the number of comments. The licence of Semantic Scholar's data (ODC-BY)
requires attribution.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from digest.dumps.formats import clean_values, json_stream
from digest.dumps.formats.field_parsing import (
    as_list,
    as_mapping,
    as_text,
    first_at,
    institutions,
    parse_number,
    split_names,
    texts_at,
    values_at,
)
from digest.dumps.formats.reader_interface import DumpInput, Header, Items
from digest.papers.paper_record import Announcement, Organization, Record

MAX_ABSTRACT_WORDS = 20_000


@dataclass(frozen=True, slots=True)
class JsonFormat:
    """The JSON of one service: how it is recognised, and what its objects mean."""

    NAME: str
    is_known: Callable[[str, frozenset[str]], object]  #: of the beginning of a dump and the keys in it
    record_of: json_stream.ObjectConverter
    list_names: tuple[str, ...] = ()  #: the possible keys of the list in a response

    def recognises(self, head: str) -> bool:
        """Return whether a dump that begins with `head` is in this format."""
        return bool(self.is_known(head, json_stream.keys_in(head)))

    def read(self, source: DumpInput) -> tuple[Header, Items]:
        """Read the objects of a response, the lines of a snapshot, or a single object."""
        return json_stream.read(source, self.record_of, list_names=self.list_names)


# ── arXiv's snapshot on Kaggle ──────────────────────────────────────────────────────────────────


def snapshot_record(found: dict[str, Any], line: int) -> Record:
    """Return the record for one line of arXiv's snapshot, with the date of its first version."""
    dois = as_text(found.get("doi")).split()
    versions = as_list(found.get("versions"))
    return clean_values.paper(
        title=found.get("title"),
        abstract=found.get("abstract"),
        ids=(("arxiv", found.get("id")), ("doi", dois[0] if dois else None)),
        authors=map(parsed_name, as_list(found.get("authors_parsed")))
        if found.get("authors_parsed")
        else split_names(found.get("authors")),
        published=as_mapping(versions[0]).get("created") if versions else None,
        categories=as_text(found.get("categories")).split(),
        comment=found.get("comments"),
        journal=found.get("journal-ref"),
        line=line,
    )


def parsed_name(parsed: Any) -> str:
    """Return the author's name in `["Lind", "Per", "Jr"]` as "Per Lind Jr"."""
    try:  # a fast path for most names; a snapshot has ten times as many names as papers
        return " ".join(" ".join((parsed[1], parsed[0], parsed[2])).split())
    except (TypeError, LookupError):
        pass
    last, first, suffix = (*as_list(parsed)[:3], "", "", "")[:3]
    return " ".join(" ".join([part for part in (first, last, suffix) if isinstance(part, str)]).split())


# ── Hugging Face ────────────────────────────────────────────────────────────────────────────────

HUGGINGFACE_KEYS = {
    "submittedOnDailyAt",
    "discussionId",
    "upvotes",
    "numComments",
    "ai_summary",
    "githubStars",
}


def is_huggingface(_head: str, keys: frozenset[str]) -> bool:
    """Return whether the dump contains papers with fields that only Hugging Face uses."""
    is_known = len(keys & HUGGINGFACE_KEYS) > 1 or {"upvotes", "publishedAt"} <= keys
    return {"title", "summary"} <= keys and is_known


def huggingface_record(found: dict[str, Any], line: int) -> Record:
    """Return the record for one element; any field may be missing."""
    paper = dict(as_mapping(found.get("paper"))) or found
    return clean_values.paper(
        title=paper.get("title") or found.get("title"),
        abstract=paper.get("summary") or found.get("summary"),
        summary=paper.get("ai_summary"),
        summary_by="Hugging Face",
        ids=[("arxiv", paper.get("id"))],
        authors=[
            as_text(first_at(one, "name") or one)
            for one in values_at(paper, "authors")
            if not values_at(one, "hidden") or not one["hidden"]
        ],
        organization=huggingface_organization(paper.get("organization") or found.get("organization")),
        published=paper.get("publishedAt"),
        posted=paper.get("submittedOnDailyAt"),
        urls=[paper.get("githubRepo"), paper.get("projectPage")],
        signals={
            "upvotes": paper.get("upvotes", found.get("upvotes")),
            "comments": found.get("numComments"),
            "stars": paper.get("githubStars"),
        },
        line=line,
    )


def huggingface_organization(value: Any) -> Organization | None:
    """Return the paper's organisation, given as a name or as an object."""
    handle = as_text(first_at(value, "name") or value)
    name = as_text(first_at(value, "fullname")) or handle
    return Organization(handle=handle, name=name) if handle else None


# ── Semantic Scholar ────────────────────────────────────────────────────────────────────────────

SCHEMES = {
    "ArXiv": "arxiv", "DOI": "doi", "PubMed": "pmid", "CorpusId": "corpusid", "DBLP": "dblp", "MAG": "mag", "ACL": "acl",
}  # fmt: skip

#: The keys of papers in responses about citations, references and snippets.
PAPER_WRAPPERS = ("citingpaper", "citedpaper", "paper")
PAPER_ID = re.compile(r'"paperId"\s*:\s*"[0-9a-f]{40}"')


def is_semantic_scholar(head: str, keys: frozenset[str]) -> bool:
    """Return whether the dump contains papers with Semantic Scholar's ids."""
    folded = {key.casefold() for key in keys}
    others = {"externalids", "citationcount", "s2fieldsofstudy", "year"}
    is_known = folded & {"paperid", "corpusid"} and folded & others
    return "title" in folded and bool(is_known or PAPER_ID.search(head))


def semantic_scholar_record(found: dict[str, Any], line: int) -> Record:
    """Return the record for one paper, with its one-sentence summary if the abstract is not available."""
    found = {key.casefold(): value for key, value in found.items()}
    for name in PAPER_WRAPPERS:
        if isinstance(inner := found.get(name), dict):
            found = {key.casefold(): value for key, value in inner.items()}
    outside = as_mapping(found.get("externalids"))
    pmcid = outside.get("PubMedCentral")
    return clean_values.paper(
        title=found.get("title"),
        abstract=found.get("abstract"),
        summary=first_at(found, "tldr.text"),
        summary_by="Semantic Scholar",
        ids=[
            *((SCHEMES[key], value) for key, value in outside.items() if key in SCHEMES),
            ("s2", found.get("paperid")),
            ("corpusid", found.get("corpusid")),
            ("pmcid", f"PMC{pmcid}" if pmcid and not str(pmcid).startswith("PMC") else pmcid),
        ],
        authors=[as_text(first_at(one, "name") or one) for one in values_at(found, "authors")],
        organization=institutions(values_at(found, "authors.affiliations")),
        published=[found.get("publicationdate"), found.get("year")],
        categories=texts_at(found, "fieldsofstudy") or texts_at(found, "s2fieldsofstudy.category"),
        urls=values_at(found, "openaccesspdf.url"),
        signals={"citations": found.get("citationcount")},
        journal=first_at(found, "journal.name", "venue"),
        line=line,
    )


# ── OpenAlex ────────────────────────────────────────────────────────────────────────────────────

OPENALEX_IDS = {
    "openalex": ("id", "ids.openalex"),
    "doi": ("doi", "ids.doi"),
    "pmid": ("ids.pmid",),
    "pmcid": ("ids.pmcid",),
}


def openalex_record(found: dict[str, Any], line: int) -> Record:
    """Return the record for one work."""
    return clean_values.paper(
        title=first_at(found, "title", "display_name"),
        abstract=abstract_in_order(found.get("abstract_inverted_index")),
        ids=[(scheme, first_at(found, *paths)) for scheme, paths in OPENALEX_IDS.items()],
        addresses=values_at(found, "primary_location.landing_page_url"),
        authors=[
            as_text(first_at(one, "author.display_name", "raw_author_name"))
            for one in values_at(found, "authorships")
        ],
        organization=institutions(values_at(found, "authorships.institutions.display_name")),
        published=found.get("publication_date"),
        categories=texts_at(found, "primary_topic.display_name", "topics.display_name"),
        urls=values_at(found, "open_access.oa_url"),
        signals={"citations": found.get("cited_by_count")},
        journal=first_at(found, "primary_location.source.display_name"),
        line=line,
    )


def abstract_in_order(index: Any) -> str:
    """Return the abstract from an inverted index (word -> positions), ignoring missing positions."""
    places = [
        (place, word)
        for word, found in as_mapping(index).items()
        for place in as_list(found)
        if isinstance(place, int)
    ]
    return " ".join(word for _, word in sorted(places)[:MAX_ABSTRACT_WORDS])


# ── bioRxiv and medRxiv ─────────────────────────────────────────────────────────────────────────


def rxiv_record(found: dict[str, Any], line: int) -> Record:
    """Return the record for one row.

    Each version of a preprint has its own row; a row of a later version is marked as a replacement. The rows
    of `pubs`, which lists preprints later published in journals, have different field names.
    """
    found = {name.removeprefix("preprint_"): value for name, value in found.items()}
    doi = as_text(found.get("doi") or found.get("biorxiv_doi"))
    server = as_text(found.get("server")) or "bioRxiv"
    return clean_values.paper(
        title=found.get("title"),
        abstract=found.get("abstract"),
        ids=[("doi", doi)],
        authors=map(str.strip, as_text(found.get("authors")).split(";")),
        published=found.get("date"),
        categories=[as_text(found.get("category"))],
        urls=[f"https://www.{server.casefold()}.org/content/{doi}"] if doi.isprintable() else (),
        announcement=rxiv_announcement(found),
        line=line,
    )


def rxiv_announcement(found: dict[str, Any]) -> Announcement:
    """Return whether a row announces a first version, a later version or a withdrawal."""
    if "withdrawn" in as_text(found.get("type")).casefold():
        return Announcement.WITHDRAWN
    later = (parse_number(found.get("version")) or 1) > 1
    return Announcement.REPLACED if later else Announcement.NEW


# ── DataCite ────────────────────────────────────────────────────────────────────────────────────

#: The types of dates, in order of preference for the date of a paper.
DATE_TYPES = ("Issued", "Submitted", "Available", "Created", "Copyrighted")


def datacite_record(found: dict[str, Any], line: int) -> Record:
    """Return the record for one DOI; raise NotAPaper if the DOI has only a title."""
    found = dict(as_mapping(found.get("data"))) or found
    found = dict(as_mapping(found.get("attributes"))) or found
    url = as_text(found.get("url"))
    titles = [one for one in values_at(found, "titles") if first_at(one, "titleType") is None]
    record = clean_values.paper(
        title=first_at({"titles": titles}, "titles.title"),
        abstract=datacite_abstract(values_at(found, "descriptions")),
        ids=[("doi", found.get("doi") or found.get("id"))],
        addresses=[url],
        authors=map(creator_name, values_at(found, "creators")),
        published=datacite_days(found),
        categories=texts_at(found, "subjects.subject"),
        urls=[] if "doi.org/" in url else [url],
        signals={
            "citations": found.get("citationCount"),
            "views": found.get("viewCount"),
            "downloads": found.get("downloadCount"),
        },
        journal=first_at(found, "container.title"),
        line=line,
    )
    return json_stream.check_has_more_than_title(record)


def datacite_abstract(descriptions: list[Any]) -> Any:
    """Return the description that is an abstract, or else the first description of an unknown type."""
    kinds = {first_at(one, "descriptionType"): one for one in reversed(descriptions)}
    return first_at(kinds.get("Abstract") or kinds.get(None), "description")


def creator_name(creator: Any) -> str:
    """Return the name of a person as "Given Family", or the name of a group."""
    return " ".join(texts_at(creator, "givenName", "familyName")) or as_text(first_at(creator, "name"))


def datacite_days(found: dict[str, Any]) -> list[Any]:
    """Return the dates that may be the date of a paper, the best first: whole dates, partial ones, the year."""
    dates = {first_at(one, "dateType"): as_text(first_at(one, "date")) for one in values_at(found, "dates")}
    printed = [dates[kind] for kind in DATE_TYPES if kind in dates]
    whole = [value for value in printed if len(value) >= len("2026-11-16")]
    return [*whole, *printed, found.get("publicationYear")]


# ── CSL-JSON and Crossref ───────────────────────────────────────────────────────────────────────

CSL_DATES = ("issued", "published-online", "published-print", "published", "posted", "created")
TITLE_LIST = re.compile(r'"title"\s*:\s*\[')
CSL_KEYS = {"DOI", "container-title", "issued", "page", "publisher", "is-referenced-by-count"}


def is_csl(head: str, keys: frozenset[str]) -> bool:
    """Return whether the dump contains objects with the keys of CSL-JSON."""
    is_crossref = "DOI" in keys and TITLE_LIST.search(head) is not None
    return "title" in keys and (
        "date-parts" in keys or is_crossref or ("type" in keys and len(keys & CSL_KEYS) >= 2)
    )


def csl_record(found: dict[str, Any], line: int) -> Record:
    """Return the record for one item; raise NotAPaper if it has only a title."""
    found = dict(as_mapping(found.get("message"))) or found
    url = as_text(found.get("URL"))
    record = clean_values.paper(
        title=found.get("title"),
        abstract=found.get("abstract"),
        ids=[("doi", found.get("DOI")), ("pmid", found.get("PMID")), ("pmcid", found.get("PMCID"))],
        addresses=[url],
        authors=map(csl_name, values_at(found, "author")),
        published=[found.get(name) for name in CSL_DATES],
        categories=texts_at(found, "subject"),
        urls=[] if "doi.org/" in url else [url],
        signals={"citations": found.get("is-referenced-by-count")},
        journal=found.get("container-title"),
        line=line,
    )
    return json_stream.check_has_more_than_title(record)


def csl_name(author: Any) -> str:
    """Return the author's name as "Given Family", or the name of a group."""
    parts = texts_at(author, "given", "non-dropping-particle", "family", "suffix")
    return " ".join(parts) or as_text(first_at(author, "literal", "name"))


#: The formats, the most specific first.
FORMATS = (
    JsonFormat("hf-json", is_huggingface, huggingface_record, ("dailyPapers", "papers")),
    JsonFormat(
        "kaggle",
        lambda _, keys: {"authors_parsed", "categories", "versions", "title"} <= keys,
        snapshot_record,
    ),
    JsonFormat(
        "semantic-scholar", is_semantic_scholar, semantic_scholar_record, ("data", "recommendedPapers")
    ),
    JsonFormat(
        "openalex",
        lambda head, keys: (
            "openalex.org/W" in head and keys & {"authorships", "abstract_inverted_index", "publication_date"}
        ),
        openalex_record,
        ("results",),
    ),
    JsonFormat(
        "biorxiv",
        lambda _, keys: {"collection", "messages"} <= keys or {"doi", "author_corresponding"} <= keys,
        rxiv_record,
        ("collection",),
    ),
    JsonFormat(
        "datacite",
        lambda _, keys: "titles" in keys and keys & {"creators", "publicationYear", "descriptions", "doi"},
        datacite_record,
        ("data",),
    ),
    JsonFormat("csl-json", is_csl, csl_record, ("items",)),
)
