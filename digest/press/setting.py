"""Setting a letter: the parts of the stencils filled, joined, and put on the wire.

Plain and right: every part is filled anew.
"""

from __future__ import annotations

from collections.abc import Iterable

from digest.composition import Digest
from digest.links import Site, message_id
from digest.press.pages import Anchor, Numbered, Page, page
from digest.press.presses import Press
from digest.rendering import Copy, Letter, list_headers, message
from digest.rendering.cards import Card
from digest.rendering.runs import Run
from digest.rendering.stencils import Stencil
from digest.rendering.words import plain, wrapped

Parts = dict[str, Stencil]


def digest_letter(press: Press, site: Site, digest: Digest, copy: Copy) -> Letter:
    """Return the digest as its reader sees it."""
    shown = page(press, site, digest, copy)
    return Letter(subject=shown.subject, html=html_of(press.html, shown), text=text_of(press.text, shown))


def digest_message(press: Press, site: Site, digest: Digest, copy: Copy) -> bytes:
    """Return the whole message (RFC 5322, CRLF); the same press, digest and copy give the same bytes."""
    return message(
        digest_letter(press, site, digest, copy),
        site=site,
        recipient=copy.recipient,
        message_id=copy.message_id or message_id(site, f"delivery-{copy.delivery_id}"),
        dated_at=copy.dated_at,
        headers=list_headers(site, copy.unsubscribe_url, campaign=copy.edition),
    )


# ── HTML ────────────────────────────────────────────────────────────────────────────────────────


def html_of(stencil: Stencil, shown: Page) -> str:
    """Return the page in HTML."""
    parts = stencil.parts()
    values = {name: escaped(value) for name, value in words_of(shown).items()}
    sections = (
        parts["section"].fill(
            {
                "name": section.name,
                "topic": escaped(section.topic),
                "card": joined(parts, (html_card(parts, one) for one in section.cards), "rule"),
                **({"more": parts["more"].fill({"more": escaped(section.more)})} if section.more else {}),
            }
        )
        for section in shown.sections
    )
    values["section"] = joined(parts, sections, "gap")
    if shown.anchors:
        ways = joined(parts, (html_anchor(parts, anchor) for anchor in shown.anchors), "between")
        values["anchors"] = parts["anchors"].fill({"anchor": ways})
    if shown.next_due:
        values["next"] = parts["next"].fill(values)
    return stencil.fill(values)


def words_of(shown: Page) -> dict[str, str]:
    """Return the values that stand outside the sections."""
    return {
        name: getattr(shown, name)
        for name in (
            "subject", "preheader", "headline", "checked", "day", "next_due", "reason",
            "manage_url", "unsubscribe_url", "browser_url",
        )
    }  # fmt: skip


def html_anchor(parts: Parts, anchor: Anchor) -> str:
    """Return one way to a section."""
    return parts["anchor"].fill({"name": anchor.name, "topic": escaped(anchor.topic), "count": anchor.count})


def html_card(parts: Parts, one: Numbered) -> str:
    """Return one card; what the paper lacks leaves no trace."""
    card = one.card
    said = parts["said"].fill({"meta": escaped(card.meta)}) if card.meta else ""
    values = {
        "href": escaped(card.href),
        "title": html_runs(parts, card.title),
        "meta": parts["meta"].fill({"number": one.number, "said": said}),
        "byline": parts["byline"].fill({"byline": escaped(card.byline)}) if card.byline else "",
        "why": parts["why"].fill({"why": escaped(card.why)}) if card.why else "",
        "links": html_links(parts, card) if card.links else "",
    }
    if card.abstract:
        values["abstract"] = parts["abstract"].fill({"abstract": html_runs(parts, card.abstract)})
    return parts["card"].fill(values)


def html_runs(parts: Parts, runs: Iterable[Run]) -> str:
    """Return text with what is marked marked."""
    return "".join(
        parts["mark"].fill({"marked": escaped(run.text)}) if run.is_marked else escaped(run.text)
        for run in runs
    )


def html_links(parts: Parts, card: Card) -> str:
    """Return the links line of a card."""
    ways = (
        parts["link"].fill({"label": escaped(link.label), "href": escaped(link.href)}) for link in card.links
    )
    return parts["links"].fill({"link": joined(parts, ways, "dot")})


def joined(parts: Parts, filled: Iterable[str], between: str) -> str:
    """Return filled parts with the part that stands between two of them."""
    return parts[between].fill({}).join(filled)


def escaped(text: str) -> str:
    """Return `text` as lxml writes it: quotes stay as they are (in links there are none)."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


# ── text ────────────────────────────────────────────────────────────────────────────────────────


def text_of(stencil: Stencil, shown: Page) -> str:
    """Return the page as text."""
    parts = stencil.parts()
    values = {**words_of(shown), "reason": wrapped(shown.reason)}
    sections = (
        parts["section"].fill(
            {
                "topic": section.topic,
                "underline": section.underline,
                "card": "".join(text_card(parts, one) for one in section.cards),
                **({"more": parts["more"].fill({"more": section.more})} if section.more else {}),
            }
        )
        for section in shown.sections
    )
    values["section"] = "".join(sections)
    if shown.next_due:
        values["next"] = parts["next"].fill(values)
    return stencil.fill(values)


def text_card(parts: Parts, one: Numbered) -> str:
    """Return one card as text."""
    card = one.card
    said = parts["said"].fill({"meta": card.meta}) if card.meta else ""
    values = {
        "title": wrapped(plain(card.title)),
        "marked": "",
        "meta": parts["meta"].fill({"number": one.number, "said": said}),
        "byline": parts["byline"].fill({"byline": wrapped(card.byline)}) if card.byline else "",
        "why": parts["why"].fill({"why": wrapped(card.why)}) if card.why else "",
    }
    if card.abstract:
        values["abstract"] = parts["abstract"].fill({"abstract": wrapped(plain(card.abstract)), "marked": ""})
    if card.links:
        ways = (parts["link"].fill({"label": link.label, "href": link.href}) for link in card.links)
        values["links"] = parts["links"].fill({"link": "".join(ways)})
    return parts["card"].fill(values)
