"""Read PubMed's XML ("pubmed")."""

from __future__ import annotations

from digest.dumps.formats import clean_values, xml_stream
from digest.dumps.formats.reader_interface import DumpInput, Header, Items
from digest.dumps.formats.xml_stream import Element
from digest.papers.paper_record import Record

NAME = "pubmed"

SCHEMES = {"doi": "doi", "pmc": "pmcid"}


def recognises(head: str) -> bool:
    """Return whether the dump contains PubMed articles."""
    return xml_stream.root_element_name(head) in ("PubmedArticleSet", "PubmedArticle", "MedlineCitationSet")


def read(source: DumpInput) -> tuple[Header, Items]:
    """Read the articles."""
    return Header(), xml_stream.records(source, record_of, "PubmedArticle")


def record_of(found: Element, line: int) -> Record:
    """Return the record for one article."""
    citation = xml_stream.child(found, "MedlineCitation")
    article = xml_stream.child(citation, "Article")
    sections = map(abstract_section, xml_stream.children(article, "Abstract/AbstractText"))
    return clean_values.paper(
        title=xml_stream.text_at(article, "ArticleTitle"),
        abstract="\n\n".join(filter(None, sections)),
        ids=ids_of(found, citation, article),
        authors=map(name_of, xml_stream.children(article, "AuthorList/Author")),
        published=published(article),
        categories=map(
            xml_stream.one_line, xml_stream.children(citation, "MeshHeadingList/MeshHeading/DescriptorName")
        ),
        journal=xml_stream.text_at(article, "Journal/Title"),
        line=line,
    )


def abstract_section(text: Element) -> str:
    """Return one section of a structured abstract with its label."""
    label, words = text.get("Label"), xml_stream.one_line(text)
    return f"{label}: {words}" if label and words else words


def name_of(author: Element) -> str:
    """Return the name of an author or of a group."""
    given = xml_stream.text_at(author, "ForeName") or xml_stream.text_at(author, "Initials")
    name = f"{given} {xml_stream.text_at(author, 'LastName')} {xml_stream.text_at(author, 'Suffix')}"
    return " ".join(name.split()) or xml_stream.text_at(author, "CollectiveName")


def ids_of(found: Element, citation: Element | None, article: Element | None) -> list[tuple[str, str]]:
    """Return the ids of the article, without the ids of its references."""
    listed = xml_stream.children(found, "PubmedData/ArticleIdList/ArticleId")
    located = xml_stream.children(article, "ELocationID")
    named = [(one.get("IdType") or one.get("EIdType"), one) for one in (*listed, *located)]
    return [
        ("pmid", xml_stream.text_at(citation, "PMID")),
        *((SCHEMES[kind], xml_stream.one_line(one)) for kind, one in named if kind in SCHEMES),
    ]


def published(article: Element | None) -> list[str]:
    """Return the online publication date, or else the print publication date, and the year alone."""
    printed = xml_stream.child(article, "ArticleDate")
    if printed is None:
        printed = xml_stream.child(article, "Journal/JournalIssue/PubDate")
    year, month, day = (xml_stream.text_at(printed, part) for part in ("Year", "Month", "Day"))
    return [f"{year} {month} {day}", xml_stream.text_at(printed, "MedlineDate")[:4]]
