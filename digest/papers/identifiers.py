"""Normalise external ids (arXiv, DOI, PMID, ...) to one spelling each, without version numbers."""

from __future__ import annotations

import re
from urllib.parse import unquote

MAX_ID = 200  #: maximum number of characters of an id

ARXIV = re.compile(
    r"(?:(?=[a-z])(?:arxiv:|(?:https?://)?(?:[a-z0-9-]+\.){0,3}(?:arxiv\.org|alphaxiv\.org|ar5iv\.org|huggingface\.co)/"
    r"(?:abs|pdf|html|format|papers)/))?"
    r"(?P<id>\d{4}\.\d{4,5}|(?P<archive>[a-z-]+)(?:\.[a-z-]{2,9})?/(?P<number>\d{7}))"
    r"(?:v\d+)?(?:\.pdf)?/?(?:[?#].*)?",
    re.IGNORECASE,
)
DOI = re.compile(
    r"(?:doi:\s*|(?:https?://)?[\w.-]*\bdoi\.[\w.-]+/(?:abs/)?)?(?P<id>10\.\d{4,9}/[^\s<>\"]+)", re.IGNORECASE
)
ARXIV_DOI = "10.48550/arxiv."
NUMBER = re.compile(
    r"(?:[a-z]+:|https?://pubmed\.ncbi\.nlm\.nih\.gov/)?(?P<id>\d{1,12})/?(?:[?#].*)?", re.IGNORECASE
)
PMC = re.compile(r"(?:.*/)?(?P<id>PMC\d{1,12})/?", re.IGNORECASE)
#: An id of the ACL Anthology: `2024.acl-long.12`, formerly `P19-1001`. The number 0 (front matter) does not match.
ACL = re.compile(
    r"(?:https?://)?(?:www\.)?(?:aclanthology\.org|aclanthology\.info/papers|aclweb\.org/anthology)/(?:papers/\w/\w+/)?"
    r"(?P<id>[A-Z]\d\d-\d{4}|\d{4}\.[a-z0-9_]+-[a-z0-9_]+\.[1-9]\d{0,4})(?:v\d+)?(?:\.(?:pdf|bib))?/?(?:[?#].*)?"
)
#: A URL on a publisher's site that contains the paper's DOI.
PUBLISHER_DOI = re.compile(
    r"https?://[^/]+/(?:[a-z-]{1,20}/){1,3}(?P<id>10\.\d{4,9}/[^\s<>\"?#]+?)"
    r"(?:v\d{1,2})?(?:[./](?:full|abstract|article-info|meta|html|pdf)(?:-text)?)?(?:\.pdf)?(?:\+html)?/?(?:[?#].*)?",
    re.IGNORECASE,
)
OPENALEX = re.compile(r"(?:https?://(?:api\.)?openalex\.org/(?:works/)?)?(?P<id>W\d{1,12})", re.IGNORECASE)

#: Id schemes from the most to the least reliable; a paper is identified by its most reliable id.
SCHEMES_BY_STRENGTH = ("arxiv", "doi", "pmid", "pmcid", "openalex", "s2", "corpusid")


def normalised_id(scheme: str, value: str) -> tuple[str, str] | None:  # noqa: PLR0911  (one return for each scheme)
    """Return the normalised (scheme, id), or None if `value` is not an id of the scheme.

    A DOI that arXiv assigned becomes the arXiv id: `10.48550/arXiv.X` is `X`.
    """
    scheme, value = scheme.strip().casefold(), value.strip()
    if not value or len(value) > MAX_ID:
        return None
    match scheme:
        case "arxiv":
            return arxiv_id(value)
        case "doi":
            return doi(value)
        case "pmid" | "corpusid":
            return matching_id(NUMBER, scheme, value)
        case "pmcid":
            return matching_id(PMC, scheme, value)
        case "openalex":
            return matching_id(OPENALEX, scheme, value)
        case _:
            return (scheme, value) if value.isprintable() else None


def matching_id(pattern: re.Pattern[str], scheme: str, value: str) -> tuple[str, str] | None:
    """Return (scheme, id in upper case) if the pattern matches the whole `value`, else None."""
    found = pattern.fullmatch(value)
    return (scheme, found["id"].upper()) if found else None


def arxiv_id(value: str) -> tuple[str, str] | None:
    """Return the arXiv id in `value` without its version and, for an old id, without its subject class."""
    if value[:8].casefold() == "10.48550":
        return doi(value)
    found = ARXIV.fullmatch(value)
    if found is None:
        return None
    archive = found["archive"]
    return "arxiv", f"{archive.casefold()}/{found['number']}" if archive else found["id"]


def doi(value: str) -> tuple[str, str] | None:
    """Return the DOI in `value` in lower case; for a DOI assigned by arXiv, return the arXiv id."""
    found = DOI.fullmatch(unquote(value))
    if found is None:
        return None
    name = found["id"].casefold().rstrip(".,;")
    if name.startswith(ARXIV_DOI):
        return arxiv_id(name.removeprefix(ARXIV_DOI))
    return "doi", name


def id_in(url: str) -> tuple[str, str] | None:  # noqa: PLR0911  (one return for each host)
    """Return the id in `url` as (scheme, id), or None if there is none."""
    if len(url) > 10 * MAX_ID:
        return None
    lowered = url[:MAX_ID].casefold()
    if any(
        host in lowered for host in ("arxiv.org/", "alphaxiv.org/", "ar5iv.org/", "huggingface.co/papers/")
    ):
        return arxiv_id(url)
    if "doi.org/10." in lowered:
        return doi(url)
    if "pubmed.ncbi" in lowered:
        return matching_id(NUMBER, "pmid", url)
    if "openalex.org/" in lowered:
        return matching_id(OPENALEX, "openalex", url)
    if "aclanthology." in lowered or "aclweb.org/" in lowered:
        found = ACL.fullmatch(url)
        return ("acl", found["id"]) if found else None
    if "/10." in lowered:
        found = PUBLISHER_DOI.fullmatch(url)
        return doi(found["id"]) if found else None
    return None
