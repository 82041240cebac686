"""Write papers as BibTeX and RIS, for reference managers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from starlette.responses import PlainTextResponse, Response

from digest.letters import cards
from digest.papers.display_text import display
from digest.papers.paper_record import Paper, title_key
from digest.site import links
from digest.site.site_profile import Site
from digest.web.visits import Visit

#: The names of the months in BibTeX.
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
RIS_TYPE = "x-research-info-systems"
BIBTEX_ESCAPES = str.maketrans(
    {
        "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#",
        "_": r"\_", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    }
)  # fmt: skip


def bibtex_entry(paper: Paper, site: Site) -> str:
    """Return the paper as a BibTeX entry with those fields that are known."""
    kind = "article" if paper.journal else "misc"
    fields = "".join(f"  {name} = {{{value}}},\n" for name, value in bibtex_fields(paper, site))
    return f"@{kind}{{{cite_key(paper)},\n{fields}}}\n"


def cite_key(paper: Paper) -> str:
    """Return a key such as `ito2026slow`: first author, year, first title word of four letters or more."""
    who = title_key(paper.authors[0].split()[-1]).replace(" ", "") if paper.authors else ""
    word = next((word for word in title_key(paper.title).split() if len(word) > 3), "paper")
    year = f"{paper.published:%Y}" if paper.published else ""
    return f"{who or 'paper'}{year}{word}"


def bibtex_fields(paper: Paper, site: Site) -> Iterator[tuple[str, str]]:
    """Yield the fields of a BibTeX entry."""
    yield "title", "{" + display(paper.title).translate(BIBTEX_ESCAPES) + "}"
    if paper.authors:
        yield "author", " and ".join(display(author).translate(BIBTEX_ESCAPES) for author in paper.authors)
    if paper.published:
        yield "year", f"{paper.published:%Y}"
        yield "month", MONTHS[paper.published.month - 1]
    if paper.journal:
        yield "journal", display(paper.journal).translate(BIBTEX_ESCAPES)
    if "doi" in paper.ids:
        yield "doi", paper.ids["doi"]
    if "arxiv" in paper.ids:
        yield "eprint", paper.ids["arxiv"]
        yield "archiveprefix", "arXiv"
    first = cards.safe_url(next(iter(paper.urls), None))
    yield "url", first or links.paper_url(site, paper.id)


def ris_entry(paper: Paper, site: Site) -> str:
    """Return the paper's RIS entry."""
    return "".join(f"{tag}  - {value}\r\n" for tag, value in ris_fields(paper, site))


def ris_fields(paper: Paper, site: Site) -> Iterator[tuple[str, str]]:
    """Yield the lines of a RIS entry; every value is one line."""
    yield "TY", "JOUR" if paper.journal else "UNPB"
    yield "TI", one_line(display(paper.title))
    yield from (("AU", one_line(display(author))) for author in paper.authors)
    if paper.published:
        yield "PY", f"{paper.published:%Y}"
        yield "DA", f"{paper.published:%Y/%m/%d}"
    if paper.journal:
        yield "JO", one_line(display(paper.journal))
    if "doi" in paper.ids:
        yield "DO", paper.ids["doi"]
    if paper.abstract and not paper.summary_by:
        yield "AB", one_line(display(paper.abstract))
    yield "UR", cards.safe_url(next(iter(paper.urls), None)) or links.paper_url(site, paper.id)
    yield "ER", ""


def one_line(text: str) -> str:
    """Return the text on a single line, because a RIS value may not contain line breaks."""
    return " ".join(text.split())


def as_file(visit: Visit, papers: Iterable[Paper]) -> Response:
    """Return papers as a file to be saved, in the format that the URL names: `bib` or `ris`."""
    ending = visit.request.path_params["format"]
    if ending == "bib":
        text, media_type = "\n".join(bibtex_entry(paper, visit.site) for paper in papers), "x-bibtex"
    else:
        text, media_type = "".join(ris_entry(paper, visit.site) for paper in papers), RIS_TYPE
    named = {"content-disposition": f'attachment; filename="digest.{ending}"'}
    return PlainTextResponse(text, media_type=f"application/{media_type}", headers=named)
