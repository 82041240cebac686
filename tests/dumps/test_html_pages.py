"""Web pages as HTML: lists of papers in any markup, the page of one paper, mails, and pages that are refused."""

from __future__ import annotations

from datetime import date
from email.message import EmailMessage

import pytest

from digest.dumps.formats.mail_page import page_in_mail
from digest.dumps.formats.reader_interface import RecordProblem
from digest.errors import UnreadableDump
from digest.papers.paper_record import Record
from tests.dumps import abstract, items, reading
from tests.dumps.test_formats import LISTING
from tests.support.flattening_scores import score
from tests.support.paper_pages import CARDS, invented_papers, page

SUBJECTS = ("gravel", "kites", "owls", "fog")
TEXTS = [(f"A Study of {subject.capitalize()}", abstract(subject)) for subject in SUBJECTS]


def papers(content: str | bytes) -> list[Record]:
    """Return the papers of a page in which nothing is wrong."""
    found = items(content)
    assert not [one for one in found if isinstance(one, RecordProblem)], found
    return [one for one in found if isinstance(one, Record)]


def listed(*cards: str, head: str = "", before: str = "", after: str = "") -> str:
    """Return a page with these cards."""
    return f"<!DOCTYPE html><html><head>{head}</head><body>{before}<main>{''.join(cards)}</main>{after}</body></html>"


def card(number: int, *, title: str = "", extra: str = "") -> str:
    """Return the card of a paper, whose address is relative to its site."""
    name, text = TEXTS[number]
    return (
        f'<article><header><h3><a href="/abs/2611.0000{number}">{title or name}</a></h3></header>'
        f"<p>{text}</p>{extra}</article>\n"
    )


def test_every_paper_of_a_page_in_html_is_read() -> None:
    invented = invented_papers(49)
    for shape in CARDS:
        found = score(page(shape, invented), invented, shape)

        assert (found.right, found.phantoms) == (49, 0), (shape, found.wrong)


@pytest.mark.parametrize(
    "head",
    [
        '<base href="https://arxiv.org/">',
        '<link rel="canonical" href="https://arxiv.org/list/cs.LG/new">',
        '<meta property="og:url" content="https://arxiv.org/list/cs.LG/new">',
    ],
)
def test_relative_addresses_are_completed_by_the_page_s_own_address(head: str) -> None:
    content = listed(*map(card, range(4)), head=head)
    saved = "<!-- saved from url=(0037)https://arxiv.org/list/cs.LG/new -->\n" + listed(*map(card, range(4)))

    for found in (papers(content), papers(saved)):
        assert [(one.title, one.abstract) for one in found] == TEXTS
        assert [one.ids["arxiv"] for one in found] == [f"2611.0000{n}" for n in range(4)]


def test_a_page_without_an_address_is_read_without_ids() -> None:
    found = papers(listed(*map(card, range(4))))

    assert [(one.title, one.abstract, one.ids) for one in found] == [(*text, {}) for text in TEXTS]


def test_hidden_parts_and_menus_of_a_page_are_skipped() -> None:
    hidden = '<p hidden>Buried</p><p style="display: none">Buried</p><p class="sr-only">Buried</p><script>Buried()</script>'
    menu = "<header><h3>Menu</h3></header><nav><h3><a href='/abs/2611.09999'>Buried</a></h3></nav>"
    content = listed(
        *(card(n, extra=hidden + "<!-- Buried --><svg><text>Buried</text></svg>") for n in range(4)),
        before=menu,
        after="<footer><h3>Buried</h3></footer>",
        head='<base href="https://arxiv.org/">',
    )

    found = papers(content)

    assert [(one.title, one.abstract) for one in found] == TEXTS


@pytest.mark.parametrize(
    ("printed", "day"),
    [
        ('<time datetime="2026-11-16T08:00:00Z">3 days ago</time>', date(2026, 11, 16)),
        ('<time datetime="2026-11-16">Nov 16</time>', date(2026, 11, 16)),
        ('<time datetime="soon">Nov 3, 2025</time>', date(2025, 11, 3)),
        ('<time datetime="2026-11-16">Nov 3, 2025</time>', date(2025, 11, 3)),
    ],
)
def test_a_date_is_taken_from_its_element_if_the_page_prints_none(printed: str, day: date) -> None:
    found = papers(listed(*(card(n, extra=f"<div>{printed}</div>") for n in range(4))))

    assert {one.published for one in found} == {day}


def test_the_text_behind_a_comment_is_kept() -> None:
    found = papers(listed(card(0, title="A Study <!-- not --> of Gravel"), *map(card, range(1, 4))))

    assert found[0].title == "A Study of Gravel"


def test_words_in_neighbouring_elements_are_separate_unless_one_is_highlighted() -> None:
    found = papers(
        listed(
            card(
                0,
                title='<span>A Study</span><span>of</span><span class="search-hit">Gravel</span>s <b>F</b>ound',
            ),
            *map(card, range(1, 4)),
            head='<base href="https://arxiv.org/">',
        )
    )

    assert found[0].title == "A Study of Gravels Found"


def test_a_link_around_several_blocks_and_an_image_is_one_link() -> None:
    cards = (
        f'<div><a href="https://arxiv.org/abs/2611.0000{n}"><img alt="thumbnail" src="x.png"><h3>{title}</h3><div>{text}</div></a></div>'
        for n, (title, text) in enumerate(TEXTS)
    )

    found = papers(listed(*cards))

    assert [(one.title, one.abstract, one.ids["arxiv"]) for one in found] == [
        (*text, f"2611.0000{n}") for n, text in enumerate(TEXTS)
    ]


def test_an_invalid_address_does_not_stop_a_page() -> None:
    extra = '<a href="http://[half">x</a><a>none</a>' + '<a href="/1">' * 9 + "deep" + "</a>" * 9

    assert (
        len(
            papers(listed(*(card(n, extra=extra) for n in range(4)), head='<base href="https://arxiv.org/">'))
        )
        == 4
    )


def test_a_part_of_a_page_from_the_clipboard_is_read() -> None:
    part = "<meta charset='utf-8'>" + "".join(map(card, range(4)))

    assert reading(part).format == "html"
    assert [(one.title, one.abstract) for one in papers(part)] == TEXTS


@pytest.mark.parametrize("charset", ["iso-8859-1", "no-such-charset"])
def test_a_page_in_another_encoding_is_read(charset: str) -> None:
    content = listed(
        card(0, title="Caf\xe9s of Gravel"), *map(card, range(1, 4)), head=f'<meta charset="{charset}">'
    )

    titles = [one.title for one in papers(content.encode("latin-1"))]

    assert titles[1:] == [title for title, _ in TEXTS[1:]]
    assert (titles[0] == "Caf\xe9s of Gravel") is (charset == "iso-8859-1")


# ── the page of one paper ───────────────────────────────────────────────────────────────────────

META = {
    "citation_title": "Tidal Sorting",
    "citation_author": "Okafor, Ada",
    "citation_date": "2026/11/16",
    "citation_arxiv_id": "2611.00001",
    "citation_doi": "10.1234/X",
    "citation_pdf_url": "https://arxiv.org/pdf/2611.00001",
    "citation_journal_title": "Letters on Gravel",
}


def test_the_page_of_one_paper_is_read_from_its_metadata() -> None:
    head = "".join(f'<meta name="{name}" content="{value}">' for name, value in META.items())
    head += f'<meta name="citation_author" content="Ito, Kenji"><meta property="og:description" content="{TEXTS[0][1]}"><meta>'

    (found,) = papers(listed("<h1>Tidal Sorting</h1><p>Cite as: arXiv</p>", head=head))

    assert (found.title, found.abstract) == ("Tidal Sorting", TEXTS[0][1])
    assert (found.authors, found.n_authors) == (("Okafor, Ada", "Ito, Kenji"), 2)
    assert (found.ids, found.published) == ({"arxiv": "2611.00001", "doi": "10.1234/x"}, date(2026, 11, 16))
    assert (found.journal, found.urls) == ("Letters on Gravel", ("https://arxiv.org/pdf/2611.00001",))


@pytest.mark.parametrize(
    "content",
    [
        "<!DOCTYPE html><html><body><h1>Welcome</h1><p>Lunch is at noon.</p></body></html>",
        "<html></html>",
        "<html><!-- nothing -->",
        "<!DOCTYPE html><html><body>" + "<div>" * 5000,
    ],
)
def test_a_page_without_papers_is_refused(content: str) -> None:
    with pytest.raises(UnreadableDump, match=r"without a list of papers|cannot be parsed"):
        items(content)


def test_a_page_without_elements_is_refused() -> None:
    with pytest.raises(UnreadableDump, match="without a list of papers"):
        items("<!-- nothing -->", format="html")


# ── mails ───────────────────────────────────────────────────────────────────────────────────────


def mail(*, html: str = "", text: str = "", charset: str = "") -> bytes:
    """Return a mail with these parts."""
    message = EmailMessage()
    message["From"], message["Subject"] = "ada@example.org", "Papers"
    message.set_content(text or "See the page.")
    if html:
        message.add_alternative(html, subtype="html")
    raw = message.as_bytes()
    return raw.replace(b'charset="utf-8"', f'charset="{charset}"'.encode()) if charset else raw


def test_the_page_in_a_mail_is_found() -> None:
    content = listed(*map(card, range(4)))

    assert [(one.title, one.abstract) for one in papers(page_in_mail(mail(html=content)))] == TEXTS
    assert page_in_mail(mail(text="- Kites\n")) == b"- Kites\n"
    assert b"Kites" in page_in_mail(mail(text="Kites \u2022", charset="no-such-charset"))


@pytest.mark.parametrize(
    "content",
    [
        b"<html></html>",
        b"Title: Kites\nAbstract: They fly.\n",
        LISTING.replace("Subject:", "MIME-Version: 1.0\nSubject:").encode(),
        b"From: ada@example.org\nMIME-Version: 1.0\nContent-Type: image/png\n\nx",
    ],
)
def test_other_content_is_left_as_it_is(content: bytes) -> None:
    assert page_in_mail(content) == content


# ── other documents ─────────────────────────────────────────────────────────────────────────────


def refusal(content: str) -> str:
    """Return why a dump is refused."""
    with pytest.raises(UnreadableDump) as found:
        papers(content)
    return str(found.value)


def test_a_manual_with_headings_that_link_to_themselves_is_no_list() -> None:
    sections = "".join(
        f'<h2 id="s{n}"><a href="#s{n}">{title}</a></h2><p>{text}</p>'
        for n, (title, text) in enumerate(TEXTS)
    )

    assert "without a list of papers" in refusal(listed(sections))


def test_a_text_below_a_menu_is_no_paper() -> None:
    menu = "<ul><li>Weak Decays</li><li>Matrix Elements</li></ul>"

    assert "without a list of papers" in refusal(listed(f"<h1>{TEXTS[0][0]}</h1><p>{TEXTS[0][1]}</p>{menu}"))


@pytest.mark.parametrize(
    "start", ['<?xml version="1.0"?>', '<!DOCTYPE article PUBLIC "-//NLM//DTD" "a.dtd">']
)
def test_the_article_of_a_journal_in_xml_is_refused(start: str) -> None:
    sections = "".join(f"<sec><title>{title}</title><p>{text}</p></sec>" for title, text in TEXTS)

    assert "not recognised" in refusal(f"{start}\n<article><body>{sections}</body></article>")
