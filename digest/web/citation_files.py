"""Write papers as BibTeX and RIS, for reference managers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from starlette.responses import PlainTextResponse, Response

from digest.app_context import AppContext
from digest.letters import cards
from digest.papers.display_text import display
from digest.papers.paper_record import Paper, title_key
from digest.site import links

#: The names of the months in BibTeX.
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
BIBTEX_ESCAPES = str.maketrans(
    {
        "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#",
        "_": r"\_", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    }
)  # fmt: skip


def bibtex_entry(paper: Paper, context: AppContext) -> str:
    """Return the paper as a BibTeX entry with those fields that are known."""
    kind = "article" if paper.journal else "misc"
    fields = "".join(f"  {name} = {{{value}}},\n" for name, value in bibtex_fields(paper, context))
    return f"@{kind}{{{cite_key(paper)},\n{fields}}}\n"


def cite_key(paper: Paper) -> str:
    """Return a key such as `ito2026slow`: first author, year, first title word of four letters or more."""
    who = title_key(paper.authors[0].split()[-1]).replace(" ", "") if paper.authors else ""
    word = next((word for word in title_key(paper.title).split() if len(word) > 3), "paper")
    year = f"{paper.published:%Y}" if paper.published else ""
    return f"{who or 'paper'}{year}{word}"


def bibtex_fields(paper: Paper, context: AppContext) -> Iterator[tuple[str, str]]:
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
    yield "url", first or links.paper_url(context.site, paper.id)


def ris_entry(paper: Paper, context: AppContext) -> str:
    """Return the paper's RIS entry."""
    return "".join(f"{tag}  - {value}\r\n" for tag, value in ris_fields(paper, context))


def ris_fields(paper: Paper, context: AppContext) -> Iterator[tuple[str, str]]:
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
    yield "UR", cards.safe_url(next(iter(paper.urls), None)) or links.paper_url(context.site, paper.id)
    yield "ER", ""


def one_line(text: str) -> str:
    """Return the text on a single line, because a RIS value may not contain line breaks."""
    return " ".join(text.split())


def bibtex_file(context: AppContext, listed: Iterable[Paper]) -> Response:
    """Return papers as a BibTeX file to be saved."""
    text = "\n".join(bibtex_entry(paper, context) for paper in listed)
    return PlainTextResponse(text, media_type="application/x-bibtex", headers=attachment_header("bib"))


def ris_file(context: AppContext, listed: Iterable[Paper]) -> Response:
    """Return papers as a RIS file to be saved."""
    text = "".join(ris_entry(paper, context) for paper in listed)
    return PlainTextResponse(
        text, media_type="application/x-research-info-systems", headers=attachment_header("ris")
    )


def attachment_header(ending: str) -> dict[str, str]:
    """Return the header that makes a browser save the file as `digest.` followed by `ending`."""
    return {"content-disposition": f'attachment; filename="digest.{ending}"'}
