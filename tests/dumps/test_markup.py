"""The same papers come out of a page in every markup that tools write."""

from __future__ import annotations

from datetime import date

from digest.papers.paper_record import Record
from tests.dumps import abstract, items

SUBJECTS = ("gravel", "kites", "owls", "fog")
PAPERS = [
    (f"A Study of {subject.capitalize()} and Other Things", abstract(subject), f"2611.0000{n}")
    for n, subject in enumerate(SUBJECTS)
]

#: Markup -> how it writes a heading with a link, a link around a text, and a picture with a name.
#: `t` is a text, `u` the address of its paper; `p` is the address of an organisation.
MARKUPS = {
    "asciidoc": ("==== link:{u}[{t}]", "link:{u}[{t}]", "link:{p}[image:https://x.example/a.png[lab] Tidal Lab][.px]#·#"),
    "jira": ("h3. {{anchor:a}}[{t}|{u}]", "[{t}|{u}]", "[!https://x.example/a.png|alt=lab! Tidal Lab|{p}]·"),
    "textile": ('h3(#a). "{t}":{u}', '"{t}":{u}', '!/a.png|alt=lab! "Tidal Lab":{p} ·'),
    "slack": ("<{u}|{t}>", "<{u}|{t}>", "Tidal Lab ·"),
    "mediawiki": ("=== [{u} {t}] ===", "[{u} {t}]", "[[File:a.png|lab]] [{p} Tidal Lab] ·"),
    "dokuwiki": ("==== [[{u}|{t}]] ====", "[[{u}|{t}]]", "{{{{a.png|lab}}}} [[{p}|Tidal Lab]] ·"),
    "org": (":PROPERTIES:\n:CUSTOM_ID: a\n:END:\n*** [[{u}][{t}]]", "[[{u}][{t}]]", "Tidal Lab ·"),
    "twiki": ("---+++ [[{u}][{t}]]", "[[{u}][{t}]]", "Tidal Lab ·"),
    "xwiki": ("=== [[{t}>>{u}]] ===", "[[{t}>>{u}]]", "[[image:a.png]] [[Tidal Lab>>{p}]] ·"),
    "rst": ("`{t} <{u}>`__\n" + "^" * 60, "`{t} <{u}>`__", ".. |lab| image:: a.png\n\n|lab| `Tidal Lab <{p}>`__ ·"),
    "latex": (
        r"\subsection{{\texorpdfstring{{\href{{{u}}}{{{t}}}}}{{{t}}}}}\label{{a}}", r"\href{{{u}}}{{{t}}}",
        r"\href{{{p}}}{{\includegraphics[width=1in]{{a.png}} Tidal Lab}} ·",
    ),
    "typst": ('=== #link("{u}")[{t}]\n<a>', '#link("{u}")[{t}]', '#link("{p}")[#box(image("a.png", alt: "lab")) Tidal Lab] ·'),
    "bbcode": ("[b][url={u}]{t}[/url][/b]", "[url={u}]{t}[/url]", "Tidal Lab ·"),
    "address in brackets": ("{t} [{u}]", "{t} [{u}]", "lab [https://x.example/a.png] Tidal Lab [{p}]·"),
    "address in parentheses": ("{t} ({u})", "{t} ({u})", "Tidal Lab ({p}) ·"),
    "address in angles": ("{t} <{u}>", "{t} <{u}>", "Tidal Lab <{p}> ·"),
    "emphasis": ("### **[{t}]({u})**", "_[{t}]({u})_", "**Tidal Lab** ·"),
}  # fmt: skip


def page(markup: str) -> str:
    """Return a page of the papers in a markup."""
    title, link, lab = MARKUPS[markup]
    cards = (
        "\n\n".join(
            (
                title.format(t=name, u=f"https://huggingface.co/papers/{number}"),
                link.format(t=text, u=f"https://huggingface.co/papers/{number}"),
                lab.format(p="https://huggingface.co/lab"),
                "Nov 3, 2025",
            )
        )
        for name, text, number in PAPERS
    )
    return "Daily Papers\n\n" + "\n\n".join(cards) + "\n"


def test_links_and_emphasis_of_every_markup_are_understood() -> None:
    wrong = {}
    for markup in MARKUPS:
        found = [one for one in items(page(markup)) if isinstance(one, Record)]
        read = [
            (
                one.title,
                one.abstract,
                one.ids.get("arxiv"),
                one.organization and one.organization.name,
                one.published,
            )
            for one in found
        ]
        expected = [(*paper, "Tidal Lab", date(2025, 11, 3)) for paper in PAPERS]
        if read != expected:
            wrong[markup] = next(
                (pair for pair in zip(read, expected, strict=False) if pair[0] != pair[1]), len(read)
            )

    assert wrong == {}


def test_a_title_in_the_brackets_of_textile_is_read_without_them() -> None:
    subjects = ("Gravel", "Kites", "Owls", "Fog", "Bells")
    page = "h1. Daily Papers\n\n" + "".join(
        f"h3. [*A Study of {subject}: Part {n}*]\n\np. {abstract(subject)}\n\n* 5 authors\n·\np. Nov {n}, 2026\n\n"
        for n, subject in enumerate(subjects, 1)
    )

    found = [one for one in items(page) if isinstance(one, Record)]

    assert [one.title for one in found] == [
        f"A Study of {subject}: Part {n}" for n, subject in enumerate(subjects, 1)
    ]


def test_quotes_panels_and_italics_of_wikis_are_no_text() -> None:
    def read(text: str) -> set[str]:
        cards = (
            f"h3. {{anchor:a}}[{name}|https://huggingface.co/papers/{number}]\n\n{text.format(abstract_)}\n\nNov 3, 2025\n"
            for name, abstract_, number in PAPERS
        )
        found = items("Daily Papers\n\n" + "\n".join(cards))
        return {one.abstract for one in found if isinstance(one, Record)}

    for text in (
        "bq. {}",
        "{{quote}}{}{{quote}}",
        "{{panel:role=main}}{}{{panel}}",
        "#+begin_quote\n{}\n#+end_quote",
        "''{}''",
    ):
        assert read(text) == {abstract(subject) for subject in SUBJECTS}, text
    assert read("So ''{}'' is quoted.") == {f"So ''{abstract(subject)}'' is quoted." for subject in SUBJECTS}
