"""Render a sample digest letter with a placeholder for every value, and split it into template pieces."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from digest.letters import Templates
from digest.letters.cards import Card, Link
from digest.letters.css_inlining import inline
from digest.letters.letter_rendering import FILLER
from digest.letters.piece_templates import PieceTemplate, cut_at_marks, placeholder_mark
from digest.letters.reason_lines import ReasonLine
from digest.site_profile import Site

#: The names of a digest letter's values outside its sections.
PAGE_VALUES = (
    "subject", "preheader", "headline", "lead_url", "checked", "note", "day", "next_due", "recipient", "asked",
    "forwarded", "manage_url", "unsubscribe_url", "browser_url", "share", "share_url",
)  # fmt: skip


def cut_digest_templates(templates: Templates, site: Site) -> tuple[PieceTemplate, PieceTemplate]:
    """Return the digest letter's template pieces, HTML and text, with the site's values filled in."""
    page = {**sample_page(), "site": site, "filler": FILLER}
    html = templates.cut_html.get_template("letters/digest/body.html").render(page)
    text = templates.cut_text.get_template("letters/digest/body.txt").render(page)
    return cut_at_marks(inline(html)), cut_at_marks(text)


@lru_cache(maxsize=1)  # one entry, because the sample never changes
def sample_page() -> dict[str, Any]:
    """Return a page with every optional part once and every repeatable part twice."""
    card = Card(
        meta=placeholder_mark("meta"),
        href=placeholder_mark("href"),
        title=placeholder_mark("title"),
        byline=placeholder_mark("byline"),
        abstract=placeholder_mark("abstract"),
        why=ReasonLine(*map(placeholder_mark, ("why", "word", "after"))),
        links=(Link(placeholder_mark("label"), placeholder_mark("href"), placeholder_mark("about")),) * 2,
        leads_to=placeholder_mark("label"),
    )
    section: dict[str, Any] = {
        "name": placeholder_mark("name"),
        "topic": placeholder_mark("topic"),
        "share": placeholder_mark("share"),
        "heading_width": 0,
        "underline": placeholder_mark("underline"),
        "cards": [{"card": card, "number": placeholder_mark("number")}] * 2,
        "more": placeholder_mark("more"),
        "rest": placeholder_mark("rest"),
        "rest_url": placeholder_mark("rest_url"),
    }
    anchor = {
        "name": placeholder_mark("name"),
        "topic": placeholder_mark("topic"),
        "count": placeholder_mark("count"),
    }
    item = {
        "href": placeholder_mark("href"),
        "title": placeholder_mark("title"),
        "text": placeholder_mark("text"),
    }
    words = {word: placeholder_mark(word) for word in PAGE_VALUES}
    repeated = {"anchors": [anchor] * 2, "sections": [section] * 2, "news": [item] * 2}
    words |= {name: placeholder_mark(name) for name in ("offer", "offer_label", "offer_url")}
    title = {name: placeholder_mark(name) for name in ("number", "title", "href")}
    repeated["titles"] = [{**anchor, "titles": [title] * 2, "more": placeholder_mark("more")}] * 2
    return {**words, "is_sample": True, "has_save_line": True, "lead": section["cards"][0], **repeated}
