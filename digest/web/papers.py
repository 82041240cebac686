"""A page for each paper: all we know of it, and where to find it."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote_plus

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from digest import catalog, db, links
from digest.house import House
from digest.papers import Paper, display, title_key
from digest.rendering import cards, words
from digest.rendering.cards import Link
from digest.web import house, pages

#: Where a paper without a link is looked for, by its title.
FINDERS = (
    ("arXiv", "https://arxiv.org/search/?searchtype=title&query="),
    ("Scholar", "https://scholar.google.com/scholar?q="),
    ("Semantic Scholar", "https://www.semanticscholar.org/search?q="),
)
#: Months as BibTeX spells them.
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
SPECIAL = str.maketrans(
    {
        "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#",
        "_": r"\_", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    }
)  # fmt: skip


def show(request: Request) -> Response:
    """Show one paper; one that turned out to be another leads there."""
    of, number = house.of(request), int(request.path_params["number"])
    found = paper(request, number)
    if found.id != number:
        return RedirectResponse(f"/papers/{found.id}", 301)
    here = links.paper_url(of.site, found.id)
    card = cards.card(found, page=here)
    return pages.page(
        request,
        "paper",
        card=card,
        ways=[way for way in card.ways if way.href not in (here, f"{here}#cite")],
        abstract=display(found.abstract),
        authors=found.authors,
        first_seen=words.day_in_words(found.first_seen_at.date()),
        finders=finders(found),
        paper=found,
        bibtex=entry(found, of),
    )


def bibtex(request: Request) -> Response:
    """Give the paper's BibTeX entry."""
    found = paper(request, int(request.path_params["number"]))
    return PlainTextResponse(entry(found, house.of(request)), media_type="application/x-bibtex")


def ris(request: Request) -> Response:
    """Give the paper's entry for reference managers that read RIS."""
    found = paper(request, int(request.path_params["number"]))
    return PlainTextResponse(
        ris_entry(found, house.of(request)), media_type="application/x-research-info-systems"
    )


def paper(request: Request, number: int) -> Paper:
    """Return the paper of that number, or the one it turned out to be."""
    if number >= 2**63:
        raise HTTPException(404)
    with db.reading(house.of(request).engine) as session:
        current = catalog.resolve(session, [number]).get(number, number)
        found = catalog.papers(session, ids=[current])
    if not found:
        raise HTTPException(404)
    return found[0]


def finders(paper: Paper) -> list[Link]:
    """Return where to look for a paper by its title."""
    title = quote_plus(cards.title(paper))
    return [Link(label, href + title) for label, href in FINDERS]


# ── BibTeX ──────────────────────────────────────────────────────────────────────────────────────


def entry(paper: Paper, of: House) -> str:
    """Return the paper as a BibTeX entry, of what is known and nothing else."""
    kind = "article" if paper.journal else "misc"
    fields = "".join(f"  {name} = {{{value}}},\n" for name, value in fields_of(paper, of))
    return f"@{kind}{{{cite_key(paper)},\n{fields}}}\n"


def cite_key(paper: Paper) -> str:
    """Return `ito2026slow`: who, when, and the title's first telling word."""
    who = title_key(paper.authors[0].split()[-1]).replace(" ", "") if paper.authors else ""
    telling = next((word for word in title_key(paper.title).split() if len(word) > 3), "paper")
    year = f"{paper.published:%Y}" if paper.published else ""
    return f"{who or 'paper'}{year}{telling}"


def fields_of(paper: Paper, of: House) -> Iterator[tuple[str, str]]:
    """Yield the fields of a BibTeX entry."""
    yield "title", "{" + display(paper.title).translate(SPECIAL) + "}"
    if paper.authors:
        yield "author", " and ".join(display(author).translate(SPECIAL) for author in paper.authors)
    if paper.published:
        yield "year", f"{paper.published:%Y}"
        yield "month", MONTHS[paper.published.month - 1]
    if paper.journal:
        yield "journal", display(paper.journal).translate(SPECIAL)
    if "doi" in paper.ids:
        yield "doi", paper.ids["doi"]
    if "arxiv" in paper.ids:
        yield "eprint", paper.ids["arxiv"]
        yield "archiveprefix", "arXiv"
    first = cards.safe_url(next(iter(paper.urls), None))
    yield "url", first or links.paper_url(of.site, paper.id)


# ── RIS ─────────────────────────────────────────────────────────────────────────────────────────


def ris_entry(paper: Paper, of: House) -> str:
    """Return the paper's RIS entry."""
    return "".join(f"{tag}  - {value}\r\n" for tag, value in ris_fields(paper, of))


def ris_fields(paper: Paper, of: House) -> Iterator[tuple[str, str]]:
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
    if paper.abstract:
        yield "AB", one_line(display(paper.abstract))
    yield "UR", cards.safe_url(next(iter(paper.urls), None)) or links.paper_url(of.site, paper.id)
    yield "ER", ""


def one_line(text: str) -> str:
    """Return a text without line breaks, of which RIS knows none."""
    return " ".join(text.split())
