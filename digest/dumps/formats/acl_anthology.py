"""Read the XML files of the ACL Anthology ("acl-anthology")."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from digest.dumps.formats import clean_values, field_parsing, xml_stream
from digest.dumps.formats.reader_interface import DumpInput, Header, Items, RecordProblem
from digest.dumps.formats.xml_stream import Element
from digest.papers.paper_record import Record

NAME = "acl-anthology"

SITE = "https://aclanthology.org/"


def recognises(head: str) -> bool:
    """Return whether the dump is a collection of volumes."""
    return xml_stream.root_element_name(head) == "collection" and "<volume" in head


@dataclass(frozen=True, kw_only=True, slots=True)
class Volume:
    """The fields that all papers of a volume share."""

    title: str = ""
    published: date | None = None


def read(source: DumpInput) -> tuple[Header, Items]:
    """Read the papers of every volume."""
    return Header(), records(source)


def records(source: DumpInput) -> Items:
    """Yield a record for each paper; each volume's `meta` element precedes the volume's papers."""
    volume = Volume()
    for line, element in xml_stream.elements(source, "meta", "paper"):
        if isinstance(element, RecordProblem):
            yield element
        elif element.tag == "meta":
            volume = volume_of(element)
        else:
            yield record_of(element, volume, line)


def volume_of(meta: Element) -> Volume:
    """Return the fields that a volume's `meta` element contains."""
    month = xml_stream.text_at(meta, "month")
    return Volume(
        title=xml_stream.text_at(meta, "booktitle"),
        published=field_parsing.parse_day(f"{xml_stream.text_at(meta, 'year')} {month}"),
    )


def record_of(paper: Element, volume: Volume, line: int) -> Record:
    """Return the record for one paper."""
    address = xml_stream.text_at(paper, "url")
    url = address if address.startswith("http") or not address else SITE + address
    return clean_values.paper(
        title=xml_stream.text_at(paper, "title"),
        abstract=xml_stream.text_at(paper, "abstract"),
        ids=[("doi", xml_stream.text_at(paper, "doi"))],
        addresses=[url],
        authors=map(name_of, xml_stream.children(paper, "author")),
        published=volume.published,
        urls=[url, *(one.get("url") for one in xml_stream.children(paper, "pwccode"))],
        journal=volume.title,
        line=line,
    )


def name_of(author: Element) -> str:
    """Return the name of an author as "First Last"."""
    return f"{xml_stream.text_at(author, 'first')} {xml_stream.text_at(author, 'last')}".strip()
