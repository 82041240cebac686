"""Letters: what we say, and the copy-by-copy rest."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache
from typing import Any

from msgspec import Struct

from digest import links
from digest.links import Site
from digest.rendering import words
from digest.rendering.cards import Card
from digest.rendering.headers import one_line
from digest.rendering.inlining import inline
from digest.rendering.stencils import Stencil, cut, escaped, slot
from digest.rendering.templates import Templates

#: Follows the preheader unseen, so that no mail program shows the letter's first lines after it.
FILLER = "\u034f " * 40


@dataclass(frozen=True, kw_only=True, slots=True)
class Letter:
    """A letter as its reader sees it."""

    subject: str
    text: str
    html: str


class Copy(Struct, frozen=True, kw_only=True):
    """What differs from one copy of a digest to the next, beside the papers in it."""

    delivery_id: int = 0
    recipient: str
    edition: str
    day: date
    dated_at: datetime  #: the Date header, the same on every attempt
    message_id: str = ""  #: empty: made from the delivery's id
    next_due_at: datetime | None = None
    timezone: str = "UTC"
    unsubscribe_url: str
    manage_url: str
    leave_address: str = ""  #: empty while we take no mail in
    browser_url: str = ""
    filters: Mapping[int, str] = {}  #: canonical filters by the ids in the digest


#: The letters besides the digest, and what each must be told beside the site.
KINDS: Mapping[str, tuple[str, ...]] = {
    "confirm": ("confirm_url",),
    "reminder": ("confirm_url",),  #: once, after a day
    "invite": (
        "confirm_url",
        "unsubscribe_url",
    ),  #: to whom an operator imported; may name `topics` and who it is `by`
    "welcome": ("manage_url", "unsubscribe_url"),  #: may show `cards` (Card.to_json)
    "settings": ("manage_url", "unsubscribe_url"),  #: to somebody who subscribed again
    "manage": ("manage_url", "unsubscribe_url"),  #: to somebody who asked for their link
    "changed": (
        "manage_url",
        "unsubscribe_url",
    ),  #: `topics` as {name, filter}; none means trending; may be for a `pack`
    "paused": ("manage_url", "unsubscribe_url"),  #: may say `until`
    "quiet": (
        "manage_url",
        "unsubscribe_url",
        "checked",
    ),  #: may tell the `nearest` {title, href, lacked} and `news`
    "goodbye": ("undo_url",),
    "reply": (
        "manage_url",
        "outcomes",
    ),  #: {command, said} for every command in a mail `about` something; `fills` in what is to be saved
    "help": ("manage_url", "commands"),  #: {spelled, does}
    "alarm": ("wrong", "mend"),  #: to the operator; may tell `since` when, and `facts`
}
#: The letters whose link opens the settings at once. All others are passed on, or come every day: their
#: link only has that one mailed.
KEYS = frozenset({"welcome", "settings", "manage", "changed", "paused", "reply", "help"})

#: What a letter says nothing about unless it is told.
UNSAID: Mapping[str, Any] = {
    "preheader": "",
    "filler": FILLER,
    "cards": (),
    "email": "",
    "next_due": "",
    "manage_url": "",
    "topics": (),
    "until": "",
    "about": "",
    "fills": "",
    "asked_at": "",
    "by": "",
    "days": 14,
    "nearest": None,
    "pack": None,
    "news": (),
    "since": "",
    "facts": (),
}


def letter(templates: Templates, kind: str, context: Mapping[str, Any]) -> Letter:
    """Return the letter of that kind: templates/letters/KIND/{subject.txt,body.txt,body.html}.

    `context` has the `site` and the decision kept with the delivery. Links and moments may be given
    as they are said (`manage_url`, `next_due`) or as what they are made from: `subscriber_id`,
    `epoch` and `key`; `confirmation_id`; `next_due_at`, `timezone` and `dated_at`.
    """
    folder = f"letters/{kind}"
    said = {**UNSAID, **derived(kind, context), **context}
    said["cards"] = [Card.from_json(kept) for kept in said["cards"]]
    said["subject"] = one_line(templates.text.get_template(f"{folder}/subject.txt").render(said))
    return Letter(
        subject=said["subject"],
        text=templates.text.get_template(f"{folder}/body.txt").render(said),
        html=html_of(templates, kind, said),
    )


#: What differs from one copy of a letter to the next: links and a few words, set as they are given.
VARIES = (
    "subject", "email", "next_due", "until", "asked_at",
    "confirm_url", "manage_url", "unsubscribe_url", "undo_url",
)  # fmt: skip


def html_of(templates: Templates, kind: str, said: Mapping[str, Any]) -> str:
    """Return the letter's HTML. What differs from copy to copy is filled in after premailer has run.

    So it runs once for many readers. A template that does more with those values than show them gives
    itself away, and is inlined whole, each time.
    """
    template = templates.html.get_template(f"letters/{kind}/body.html")
    given = {name: said[name] for name in VARIES if isinstance(said.get(name), str) and said[name]}
    if kind not in templates.whole:
        page = stencil_of(template.render({**said, **{name: slot(name) for name in given}}))
        made = page.fill({name: escaped(value) for name, value in given.items()})
        if kind in templates.proven and not LEFT_OVER.search(made):
            return made
        whole = inline(template.render(said))
        (templates.proven if made == whole else templates.whole).add(kind)
        return whole
    return inline(template.render(said))


#: Part of a mark that a template has changed or cut.
LEFT_OVER = re.compile(r"q9[a-z]|9slot|\.q9", re.IGNORECASE)


@lru_cache(maxsize=256)
def stencil_of(page: str) -> Stencil:
    """Return a page with marks in it, inlined and cut at them."""
    return cut(inline(page))


def derived(kind: str, context: Mapping[str, Any]) -> dict[str, Any]:
    """Return the links and words that follow from the ids and moments in `context`."""
    site: Site = context["site"]
    key = context.get("key")
    made: dict[str, Any] = {}
    if "confirmation_id" in context:
        made["confirm_url"] = links.confirm_url(site, context["confirmation_id"], key=key)
    if context.get("subscriber_id") is not None:
        subscriber, epoch = context["subscriber_id"], context.get("epoch", 0)
        way = links.manage_url if kind in KEYS else links.ask_url
        made["manage_url"] = way(site, subscriber, epoch, key=key)
        made["unsubscribe_url"] = links.unsubscribe_url(site, subscriber, epoch, key=key)
        made["undo_url"] = made["unsubscribe_url"]  # the page of somebody who left offers the way back
    if context.get("dated_at"):
        made["asked_at"] = words.day_and_hour(context["dated_at"])
    if context.get("next_due_at"):
        due, now = (moment(context[name]) for name in ("next_due_at", "dated_at"))
        made["next_due"] = words.moment_in_words(due, context.get("timezone", "UTC"), seen_from=now)
    return made


def moment(kept: datetime | str) -> datetime:
    """Return a moment, which a decision keeps as text."""
    return datetime.fromisoformat(kept) if isinstance(kept, str) else kept
