"""PubMed's XML ("pubmed")."""

from __future__ import annotations

from datetime import date

from digest.dumps import fields, markup
from digest.dumps.markup import Element
from digest.dumps.reading import Header, Items, Source
from digest.papers import Record

NAME = "pubmed"

SCHEMES = {"doi": "doi", "pmc": "pmcid"}


def recognises(head: str) -> bool:
    """Return whether these are PubMed articles."""
    return markup.root_of(head) in ("PubmedArticleSet", "PubmedArticle", "MedlineCitationSet")


def read(source: Source) -> tuple[Header, Items]:
    """Read the articles."""
    return Header(), markup.records(source, record_of, "PubmedArticle")


def record_of(found: Element, position: int, line: int) -> Record:
    """Return one article."""
    citation = markup.child(found, "MedlineCitation")
    article = markup.child(citation, "Article")
    authors = tuple(filter(None, map(name_of, markup.children(article, "AuthorList/Author"))))
    return Record(
        title=markup.text(article, "ArticleTitle"),
        abstract="\n".join(filter(None, map(section, markup.children(article, "Abstract/AbstractText")))),
        ids=ids_of(found, citation, article),
        authors=authors,
        n_authors=len(authors) or None,
        published=published(article),
        categories=tuple(
            markup.line(one)
            for one in markup.children(citation, "MeshHeadingList/MeshHeading/DescriptorName")
        ),
        journal=markup.text(article, "Journal/Title"),
        position=position,
        line=line,
    )


def section(text: Element) -> str:
    """Return one part of a structured abstract with its label."""
    label, words = text.get("Label"), markup.line(text)
    return f"{label}: {words}" if label and words else words


def name_of(author: Element) -> str:
    """Return an author's name, or the group's."""
    given = markup.text(author, "ForeName") or markup.text(author, "Initials")
    name = f"{given} {markup.text(author, 'LastName')} {markup.text(author, 'Suffix')}"
    return " ".join(name.split()) or markup.text(author, "CollectiveName")


def ids_of(found: Element, citation: Element, article: Element) -> dict[str, str]:
    """Return the article's ids, not those of what it cites."""
    named = [
        *((one.get("IdType"), one) for one in markup.children(found, "PubmedData/ArticleIdList/ArticleId")),
        *((one.get("EIdType"), one) for one in markup.children(article, "ELocationID")),
    ]
    known = [(SCHEMES.get(kind, ""), markup.line(one)) for kind, one in named]
    return fields.ids(
        [("pmid", markup.text(citation, "PMID")), *((scheme, value) for scheme, value in known if scheme)]
    )


def published(article: Element) -> date | None:
    """Return the day of publication: online where it is given, else in print, as far as it is printed."""
    printed = markup.child(article, "ArticleDate")
    if printed is None:
        printed = markup.child(article, "Journal/JournalIssue/PubDate")
    if printed is None:
        return None
    year = markup.text(printed, "Year") or markup.text(printed, "MedlineDate")[:4]
    month = markup.text(printed, "Month")
    return fields.day_of(year, fields.MONTH.get(month[:3], month or 1), markup.text(printed, "Day") or 1)
