"""Values that programs write in their own ways are read alike in every format."""

from __future__ import annotations

import json
from typing import Any

from digest.papers.paper_record import Announcement, Organization, Record
from tests.dumps import items

NO = ("nan", "NaN", "null", "None", "N/A", "-", "[]")
#: {value of the column: names and number}; a number of None is unknown
NAMES: dict[str, tuple[tuple[str, ...], int | None]] = {
    "['Ada Okafor', 'Kenji Ito', \"Mara O'Neil\"]": (("Ada Okafor", "Kenji Ito", "Mara O'Neil"), 3),
    '["Ada Okafor"]': (("Ada Okafor",), 1),
    "Ada Okafor; Kenji Ito": (("Ada Okafor", "Kenji Ito"), 2),
    "Ada Okafor\nKenji Ito\nMara Silva": (("Ada Okafor", "Kenji Ito", "Mara Silva"), 3),
    "Okafor, A., Ito, K., & Lind, P.": (("Okafor, A.", "Ito, K.", "Lind, P."), 3),
    "Ada Okafor, Kenji Ito & Mara Silva": (("Ada Okafor", "Kenji Ito", "Mara Silva"), 3),
    "Ada Okafor, Kenji Ito": (("Ada Okafor", "Kenji Ito"), 2),
    "Okafor A, Ito K.": (("Okafor A", "Ito K"), 2),
    "Jo Lind et al.": (("Jo Lind",), None),
    "Ada Okafor, Kenji Ito, et al": (("Ada Okafor", "Kenji Ito"), None),
    "Ito, Kenji": (("Ito, Kenji",), 1),
    "{Bedran de Magalh{\\~{a}}es}, Claudio; Hern\\'{a}ndez, Ana": (
        ("Bedran de Magalhães, Claudio", "Hernández, Ana"),
        2,
    ),
    "Jo Lind 0002": (("Jo Lind",), 1),
    "23": ((), 23),
    "5 authors": ((), 5),
} | dict.fromkeys(NO, ((), None))
CATEGORIES = {
    "cs.RO, cs.LG": ("cs.RO", "cs.LG"),
    "cs.RO cs.LG": ("cs.RO", "cs.LG"),
    "['cs.RO', 'cs.LG']": ("cs.RO", "cs.LG"),
    "kites; wind (light, strong)": ("kites", "wind (light, strong)"),
    "cs.CV": ("cs.CV",),
    "Kites and Other Wings": ("Kites and Other Wings",),
} | dict.fromkeys(NO, ())
TEXTS = {
    "<jats:title>Abstract</jats:title> <jats:p>A kite &amp; its <jats:italic>rope</jats:italic>.</jats:p>": "A kite & its rope.",
    "<p>We fly CO<sub>2</sub>.</p><p>It lands.</p>": "We fly CO2. It lands.",
    "Let <mml:math><mml:mi>x</mml:mi><mml:mo>&lt;</mml:mo><mml:mn>2</mml:mn></mml:math> hold.": "Let x<2 hold.",
    "{\\textless}i{\\textgreater}Kites{\\textless}/i{\\textgreater} at 5{\\%}": "Kites at 5%",
    "R&amp;amp;D of kites": "R&D of kites",
    "ABSTRACT: We fly.": "We fly.",
    "We keep p < 0.001, a_{ij}, \\textbf{bold} and <cup, on, table>.": "We keep p < 0.001, a_{ij}, \\textbf{bold} and <cup, on, table>.",
    "Abstract reasoning is hard.": "Abstract reasoning is hard.",
} | dict.fromkeys(NO, "")


def only(content: str) -> Record:
    (found,) = (one for one in items(content) if isinstance(one, Record))
    return found


def read_one(**fields: Any) -> Record:
    (found,) = (
        one
        for one in items(json.dumps([{"title": "On Kites", "doi": "10.5555/k"} | fields]))
        if isinstance(one, Record)
    )
    return found


def test_names_are_read_from_lists_in_text_and_an_open_list_has_no_number() -> None:
    for value, (names, number) in NAMES.items():
        found = read_one(authors=value)
        assert (found.authors, found.n_authors) == (names, number), value
        assert read_one(authors=[value]).authors == names or "," in value or "\n" in value, value
    assert read_one(authors=23).n_authors == 23


def test_categories_texts_and_placeholders_are_read_alike() -> None:
    for value, expected in CATEGORIES.items():
        assert read_one(categories=value).categories == expected, value
    for value, text in TEXTS.items():
        assert read_one(abstract=value).abstract == text, value
        ris = f"TY  - JOUR\nTI  - On Kites\nAB  - {value}\nER  - \n"
        assert [one.abstract for one in items(ris) if isinstance(one, Record)] == [text], value


def test_columns_and_addresses_are_found_under_other_spellings_and_in_inner_objects() -> None:
    (found,) = items("Title,Author/s,Year\nOn Kites,Ada Okafor; Kenji Ito,2026\n")

    assert isinstance(found, Record)
    assert found.authors == ("Ada Okafor", "Kenji Ito")
    inner = {
        "title": "On Kites",
        "abstract": "We fly.",
        "open_access": {"oa_url": "https://doi.org/10.5555/k"},
    }
    (nested,) = items(json.dumps([inner]))
    assert isinstance(nested, Record)
    assert nested.ids == {"doi": "10.5555/k"}
    for address in (
        "https://kites.example/counter/pdf/10.5555/k",
        "https://www.kites.example/articles/10.5555/k/full",
    ):
        assert read_one(doi="", url=address).ids == {"doi": "10.5555/k"}, address


def test_ids_are_found_in_journals_and_code_in_abstracts() -> None:
    bib = "@article{a, title={On Kites}, author={A and others}, journal={arXiv preprint arXiv:2611.01234}}\n@misc{b, title={On Owls}, journal={CoRR}, volume={abs/2611.01235}}"
    first, second = (one for one in items(bib) if isinstance(one, Record))

    assert (first.ids, first.n_authors, second.ids) == (
        {"arxiv": "2611.01234"},
        None,
        {"arxiv": "2611.01235"},
    )
    found = read_one(
        abstract="Code: github.com/kites/rope. See https://github.com/kites/rope.",
        url="https://kites.example",
    )
    assert found.urls == ("https://kites.example", "https://github.com/kites/rope")


def test_braces_of_bibtex_are_not_part_of_values() -> None:
    (found,) = items(
        "@article{w, Title = {{Kites at 5{\\%} \\& More}}, Abstract = {{We fly.}}, DOI = {{10.5555/K.1}}, Year = {{2026}}, "
        "Keywords = {{kites; wind}}, Journal = {{J. {\\rm Kites}}}}"
    )

    assert isinstance(found, Record)
    assert (found.title, found.abstract, found.ids) == (
        "Kites at 5% & More",
        "We fly.",
        {"doi": "10.5555/k.1"},
    )
    assert (found.categories, found.published and found.published.year) == (("kites", "wind"), 2026)


FEED = (
    '<?xml version="1.0"?><rss version="2.0" xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:content="http://purl.org/rss/1.0/modules/content/">'
    "<channel><title>Kites</title>\n%s\n</channel></rss>"
)
HEADED = (
    "<![CDATA[<p>J Kites. 2026. doi: 10.5555/k.</p><p><b>ABSTRACT</b></p><p>We fly.</p><p>We land.</p>]]>"
)
LABELLED = "<![CDATA[<p>Kites 9: 5-7</p><p>DOI: 10.5555/k</p><p>Authors: Per Holm, Ana Duarte</p><p>Abstract: We fly.</p><p>PDF</p>]]>"
DESCRIPTIONS = {
    f"<description>We fl...</description><content:encoded>{HEADED}</content:encoded>": "We fly. We land.",
    "<description>KITES, EarlyView. </description><dc:description>Abstract We fly.</dc:description>": "We fly.",
    "<description>Volume 5, Issue 3, Page 1-9&lt;br/&gt;. &lt;br/&gt;</description>": "",
    f"<description>{LABELLED}</description>": "We fly.",
    "<description>&lt;div&gt;Abstract&lt;/div&gt;We fly.</description>": "We fly.",
    "<description>We fly.</description>": "We fly.",
}


def test_the_abstract_of_a_publisher_s_feed_is_found_wherever_it_stands() -> None:
    for fields, text in DESCRIPTIONS.items():
        (found,) = items(
            FEED % f"<item><title>On Kites</title><link>https://kites.example/1</link>{fields}</item>"
        )
        assert isinstance(found, Record)
        assert found.abstract == text, fields
    (found,) = items(FEED % (
        f"<item><title>On Kites</title><description>{LABELLED}</description><dc:identifier>pmid:99</dc:identifier>"
        "<dc:identifier>doi:10.5555/K</dc:identifier></item>"
    ))  # fmt: skip
    assert isinstance(found, Record)
    assert (found.ids, found.authors) == ({"pmid": "99", "doi": "10.5555/k"}, ("Per Holm", "Ana Duarte"))


def test_arxiv_s_rss_1_0_says_in_the_title_what_is_new() -> None:
    kinds = {"": Announcement.NEW, " UPDATED": Announcement.REPLACED, " CROSS LISTED": Announcement.CROSS}
    entries = "".join(
        f"<item><title>On Kites {n}. (arXiv:2611.0000{n}v1 [math.QA]{kind})</title><link>http://arxiv.org/abs/2611.0000{n}</link>"
        "<dc:creator>&lt;a href=&quot;x&quot;&gt;Ada Okafor&lt;/a&gt;, &lt;a href=&quot;y&quot;&gt;Kenji Ito&lt;/a&gt;</dc:creator></item>"
        for n, kind in enumerate(kinds)
    )

    found = [one for one in items(FEED % entries) if isinstance(one, Record)]

    assert [(one.title, one.announcement) for one in found] == [
        (f"On Kites {n}", kind) for n, kind in enumerate(kinds.values())
    ]
    assert {(one.authors, one.categories) for one in found} == {(("Ada Okafor", "Kenji Ito"), ("math.QA",))}


def test_one_bad_character_or_element_spoils_one_entry_of_a_feed() -> None:
    entry = "<item><title>On Kites %d%s</title>%s<link>https://arxiv.org/abs/2611.%05d</link></item>"
    for line_end, bad in (("\n", 0), ("", 799)):
        for damage, lost in (("<b>x</i>", 1), ("</item>", 1), (" R&D", 0), (" A &nbsp; B", 0), ("\x0c", 0)):
            text = line_end.join(entry % (n, damage if n == bad else "", line_end, n) for n in range(800))
            found = items(FEED % text)
            papers = [one for one in found if isinstance(one, Record)]
            assert (len(papers), len(found)) == (800 - lost, 800), (bad, damage)
            assert [one.line for one in papers] == sorted(one.line for one in papers)


def test_institutions_of_the_authors_are_the_organisation_of_a_paper() -> None:
    authorships = [
        {"author": {"display_name": name}, "institutions": [{"display_name": place}]}
        for name, place in (
            ("Ada Okafor", "Kite University"),
            ("Kenji Ito", "Owl Lab"),
            ("Jo Lind", "Kite University"),
        )
    ]
    work = {
        "id": "https://openalex.org/W1",
        "title": "On Kites",
        "publication_date": "2026-11-20",
        "authorships": authorships,
    }
    paper = {"paperId": "0" * 40, "externalIds": {}, "title": "On Kites", "year": 2026}
    paper["authors"] = [{"name": "Ada Okafor", "affiliations": ["Kite University", "Owl Lab"]}]

    for content in (work, paper):
        (found,) = items(json.dumps(content))
        assert isinstance(found, Record)
        assert found.organization == Organization(handle="Kite University; Owl Lab", name="Kite University")


def test_a_summary_stands_in_for_a_missing_abstract_and_is_kept_beside_another() -> None:
    for abstract in ("We fly kites by night and measure the wind.", None):
        paper = {
            "paperId": "a" * 40,
            "title": "On Kites",
            "year": 2026,
            "abstract": abstract,
            "tldr": {"text": "Kites fly."},
        }
        found = only(json.dumps({"data": [paper]}))
        expected = (
            (abstract, "", "AI summary, Semantic Scholar: Kites fly.")
            if abstract
            else ("Kites fly.", "Semantic Scholar", "")
        )
        assert (found.abstract, found.summary_by, found.comment) == expected
    for urls, journal in (
        ("https://arxiv.org/abs/2611.01234", "https://arxiv.org/abs/2611.01234"),
        ("", "Journal of Kites"),
    ):
        found = only(
            f"@article{{k, title={{On Kites}}, year=2026, doi={{10.5555/k}}, journal={{{journal}}}}}"
        )
        assert found.journal == ("" if urls else journal)
