"""Cards render for papers with missing fields or hostile text."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from digest.letters.cards import Card, CardForm, make_card, safe_url
from digest.letters.figures_in_words import cut_at_word
from digest.letters.line_wrapping import fill, wrap, wrap_with_bar
from digest.letters.reason_lines import NO_REASON, ReasonLine
from digest.letters.templates import Templates
from digest.papers.paper_record import Organization, Paper
from digest.site.site_profile import Site
from tests.letters.invented_papers import (
    ATTENTION,
    BARE,
    FLOW,
    ROBOTS,
    copy_for,
    letters_of,
    pressed,
    trending,
)

PAGE = "https://digest.example.org/papers/11"


def shown(paper: Paper, **told: Any) -> Card:
    return make_card(paper, page=PAGE, **told)


# ── what is missing vanishes ────────────────────────────────────────────────────────────────────


def test_a_card_of_a_complete_paper_shows_every_field() -> None:
    found = shown(FLOW, why=ReasonLine(words="flow", before="+42 votes"))

    assert found.meta == "Ito, Okafor, Lind + 4 · 19 Nov 2026 · cs.LG"
    assert found.href == "https://arxiv.org/abs/2611.01234"
    assert found.title == "Flow matching in twelve lines"
    assert (found.why.words, found.why.line) == ("flow", "+42 votes")
    assert [link.label for link in found.links] == ["Read", "PDF", "Code", "Cite"]
    assert found.text_links == found.links


def test_a_paper_without_any_link_leads_to_its_page_on_our_site() -> None:
    found = shown(ROBOTS)

    assert found.href == PAGE
    assert [(link.label, link.href) for link in found.links] == [("Details", PAGE), ("Cite", f"{PAGE}#cite")]


def test_an_address_too_long_for_a_letter_is_replaced_by_the_page_on_our_site() -> None:
    found = shown(replace(ROBOTS, urls=(f"https://example.org/{'x' * 300}",)))

    assert (found.href, found.links[0].label) == (PAGE, "Details")


def test_the_quiet_line_names_nobody_where_no_name_is_known() -> None:
    assert shown(ROBOTS).meta == "18 Nov 2026"


def test_a_paper_without_a_date_says_when_it_was_first_listed_or_that_it_is_new() -> None:
    listed = BARE.first_seen_at.date()

    assert (shown(BARE).meta, shown(BARE).abstract) == ("First listed 20 Nov", "")
    assert shown(BARE, today=listed).meta == "New today"


def test_the_text_of_a_card_has_no_link_that_differs_from_reader_to_reader() -> None:
    found = shown(FLOW, save_url="https://digest.example.org/s/a", less_url="https://digest.example.org/l/a")

    assert [link.label for link in found.links] == ["Read", "PDF", "Code", "Save", "Less like this"]
    assert [link.label for link in found.text_links] == ["Read", "PDF", "Code"]


def test_the_organisation_is_shown_if_there_are_no_authors() -> None:
    dated = replace(ATTENTION, published=FLOW.published)

    assert shown(dated).meta.startswith("Example Lab · ")
    assert shown(replace(dated, organization=Organization(handle="lab", name=""))).meta.startswith("lab · ")


def test_three_hundred_authors_fit_on_a_line() -> None:
    crowd = replace(FLOW, authors=tuple(f"Family{n}, Given" for n in range(300)), n_authors=300)

    assert shown(crowd).meta.startswith("Family0, Family1, Family2 + 297 · ")


def test_a_card_of_titles_has_the_links_and_the_reason() -> None:
    found = shown(FLOW, why=ReasonLine("flow"), form=CardForm.LINE)

    assert (found.title, found.abstract, found.why.words) == (FLOW.title, "", "flow")
    assert [link.label for link in found.links] == ["Read", "PDF", "Code", "Cite"]


def test_the_shortest_card_has_the_date_and_a_cut_title() -> None:
    found = shown(replace(FLOW, title="A long word " * 20), form=CardForm.TITLE)

    assert (found.meta, found.links, found.why) == ("19 Nov 2026", (), NO_REASON)
    assert len(found.title) <= 100


def test_a_card_is_unchanged_by_a_round_trip_through_a_decision() -> None:
    found = shown(FLOW, why=ReasonLine("flow", "… a ", "flow", " of words"))

    assert Card.from_json(found.to_json()).to_json() == found.to_json()


# ── the abstract ────────────────────────────────────────────────────────────────────────────────


def test_an_abstract_is_cut_at_the_end_of_a_sentence() -> None:
    long = replace(FLOW, abstract="A first sentence of a usual length stands here. " * 20)

    text = shown(long).abstract

    assert 90 <= len(text) <= 320
    assert text.endswith("here.")


def test_one_endless_sentence_is_cut_at_a_word() -> None:
    text = shown(replace(FLOW, abstract="word " * 200)).abstract

    assert len(text) <= 320
    assert text.endswith("word…")


def test_a_card_shows_what_the_paper_did_and_a_shorter_card_the_first_sentence_of_it() -> None:
    text = "Robots are old. However, we propose a robot that asks. It asks each question twice. The end."
    paper = replace(FLOW, abstract=text)

    full = shown(paper).abstract
    brief = shown(paper, form=CardForm.BRIEF).abstract

    assert full == "We propose a robot that asks. It asks each question twice."
    assert brief == "We propose a robot that asks."
    assert shown(paper, form=CardForm.WHOLE).paragraphs == (text.removesuffix(" The end."), "The end.")
    whole = {link.label: link.href for link in shown(paper, form=CardForm.CUT).links}
    assert whole["Whole abstract"] == PAGE
    assert shown(paper, form=CardForm.LINE).abstract == ""


def test_a_machine_s_summary_is_labelled_and_shown_from_its_beginning() -> None:
    text = "Robots are old. However, we propose a robot that asks. The end."
    paper = replace(FLOW, abstract=text, summary_by="Hugging Face")

    assert shown(paper).abstract == (
        "AI summary, Hugging Face: Robots are old. However, we propose a robot that asks."
    )
    assert shown(paper, form=CardForm.BRIEF).abstract == "AI summary, Hugging Face: Robots are old."
    assert shown(replace(paper, abstract="")).abstract == ""


# ── text stays text ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)", "JaVaScRiPt:alert(1)", " javascript:alert(1)", "java\tscript:alert(1)", "data:text/html,x",
        "vbscript:x", "file:///etc/passwd", "//example.org/x", "https://", "http://[", "mailto:x@example.org", "", None,
    ],
)  # fmt: skip
def test_only_web_addresses_become_links(url: str | None) -> None:
    assert safe_url(url) is None


@pytest.mark.parametrize(
    ("url", "link"),
    [
        ("https://example.org/a?b=1&c=2#d", "https://example.org/a?b=1&c=2#d"),
        ('https://example.org/"onmouseover="x', "https://example.org/%22onmouseover=%22x"),
        ("https://example.org/<script>", "https://example.org/%3Cscript%3E"),
        ("https://example.org/a b", "https://example.org/a%20b"),
        ("https://example.org/ä", "https://example.org/%C3%A4"),
    ],
)
def test_a_link_has_only_the_characters_a_link_may_have(url: str, link: str) -> None:
    assert safe_url(url) == link


EVIL = {
    "markup": "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "closing tags": "</a></h3></td></table></style><h1>Mine",
    "a table": "<cup, on, table>",
    "a template": "{{ 7*7 }}{% include '/etc/passwd' %}",
    "our own marks": "q9slot.subject.q9z q9open.card.q9z",
    "a million letters": "x" * 1_000_000,
    "a million words": "word " * 200_000,
    "zalgo": ("Z" + "\u0300\u0301\u0302\u0303" * 100) * 50,
    "a reversed line": "\u202egnihtemos \u2066else",
    "hidden": "in\u200bvis\u00adible\ufeff",
    "controls": "a\0b\x07c\r\nd\x1b[31m",
    "emoji": "🧑🏽‍🔬 🏳️‍🌈 🦜",
    "chinese": "关于扩散模型的一个很长的标题" * 20,
    "arabic": "نماذج الانتشار وتعلم الآلة " * 10,
    "TeX": r"$\mathcal{O}(n^{2})$ \textbf{bold} \'e ~ Erd\H{o}s \input{/etc/passwd}",
    "an encoded word": "=?utf-8?q?a=0ABcc:_x@example.com?=",
    "a dot": ".",
    "quotes": "\"double\" 'single' `back`",
}


@pytest.mark.parametrize("text", EVIL.values(), ids=EVIL)
def test_a_paper_that_cannot_be_rendered_does_not_stop_the_digest(
    text: str, site: Site, templates: Templates
) -> None:
    evil = Paper(
        id=1, title=text, abstract=text, authors=(text, text), organization=Organization(handle=text, name=text),
        categories=(text,), urls=(text, f"https://example.org/{text[:100]}"), first_seen_at=FLOW.first_seen_at,
    )  # fmt: skip
    made = pressed([evil, FLOW], p1=text)
    letter = letters_of(made, site, templates).letter(trending(1, 11), copy_for())

    assert letter.html.count("<h1") == letter.html.count("<h3") == 1
    assert "<script" not in letter.html
    assert "onerror" not in letter.html.replace("onerror=alert(1)&gt;", "")
    assert "49" not in letter.subject
    assert "Flow matching in twelve lines" in letter.text
    assert len(letter.html.encode()) < 30_000
    assert not set("\u202e\u2066\0\x07\x1b") & set(letter.html + letter.text + letter.subject)


def test_chinese_is_cut_and_wrapped_where_there_are_no_spaces() -> None:
    text = "关于扩散模型的一个很长的标题" * 20

    assert len(cut_at_word(text, 60)) == 60
    assert all(len(line) <= 72 for line in wrap(text).splitlines())


@given(st.text(st.sampled_from("abcdé-  \t\n\u00a0"), max_size=120), st.integers(5, 30))
def test_lines_are_wrapped_as_textwrap_wraps_them(text: str, measure: int) -> None:
    expected = fill(text, measure) if len(text) > measure else text

    assert wrap(text, measure=measure) == expected


def test_a_link_is_never_broken_over_lines() -> None:
    url = "https://example.org/" + "a" * 100

    assert url in wrap(f"See {url} for more.").split()
    assert wrap_with_bar("short") == "| short"
