"""The specimen: a digest letter with a mark in every place, from which the stencils are cut."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from digest.links import Site
from digest.rendering import Templates
from digest.rendering.cards import Card, Link
from digest.rendering.inlining import inline
from digest.rendering.letters import FILLER
from digest.rendering.runs import Run
from digest.rendering.stencils import Stencil, cut, slot

#: The values of a digest letter that stand outside its sections.
WORDS = (
    "subject", "preheader", "headline", "checked", "note", "day", "next_due", "recipient", "asked",
    "manage_url", "unsubscribe_url", "browser_url",
)  # fmt: skip


def cut_digest(templates: Templates, site: Site) -> tuple[Stencil, Stencil]:
    """Return the digest letter's stencils, HTML and text, with the site's own words in them."""
    page = {**specimen(), "site": site, "filler": FILLER}
    html = templates.cut_html.get_template("letters/digest/body.html").render(page)
    text = templates.cut_text.get_template("letters/digest/body.txt").render(page)
    return cut(inline(html)), cut(text)


@lru_cache(maxsize=1)
def specimen() -> dict[str, Any]:
    """Return a page on which everything that can be there is there, some of it twice."""
    card = Card(
        meta=slot("meta"),
        href=slot("href"),
        title=(Run(slot("title")), Run(slot("marked"), is_marked=True)),
        byline=slot("byline"),
        abstract=(Run(slot("abstract")), Run(slot("marked"), is_marked=True)),
        why=slot("why"),
        links=(Link(slot("label"), slot("href"), slot("about")),) * 2,
        leads_to=slot("label"),
    )
    section = {
        "name": slot("name"),
        "topic": slot("topic"),
        "underline": slot("underline"),
        "cards": [{"card": card, "number": slot("number")}] * 2,
        "more": slot("more"),
        "rest": slot("rest"),
        "rest_url": slot("rest_url"),
    }
    anchor = {"name": slot("name"), "topic": slot("topic"), "count": slot("count")}
    item = {"href": slot("href"), "title": slot("title"), "says": slot("says")}
    words = {word: slot(word) for word in WORDS}
    repeated = {"anchors": [anchor] * 2, "sections": [section] * 2, "news": [item] * 2}
    words |= {"offer": slot("offer"), "offer_url": slot("offer_url")}
    return {**words, "is_sample": True, **repeated}
