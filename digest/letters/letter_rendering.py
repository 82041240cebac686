"""Render letters from their templates, and fill in the values of each reader."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

from msgspec import Struct

from digest.editions.schedule import Cadence
from digest.letters import figures_in_words
from digest.letters.cards import Card
from digest.letters.headers import one_line
from digest.letters.line_wrapping import keep_figures
from digest.letters.mime import RenderedLetter
from digest.letters.templates import Templates
from digest.site import links
from digest.site.site_profile import Site

#: Invisible characters after the preheader; without them, mail programs append the letter's first lines.
FILLER = "\u034f " * 40


class Personalization(Struct, frozen=True, kw_only=True):
    """The personal values of one copy of a digest, apart from its papers."""

    delivery_id: int = 0
    recipient: str
    edition: str
    day: date
    dated_at: datetime  #: the value of the Date header, which is the same on every attempt
    message_id: str = ""  #: if empty, the id is made from the delivery's id
    next_due_at: datetime | None = None
    timezone: str = "UTC"
    is_group: bool = False  #: whether the copy goes to a group and so has no links that belong to one reader
    unsubscribe_url: str  #: empty for a group
    manage_url: str  #: empty for a group
    unsubscribe_address: str = ""  #: empty if no incoming mail is accepted
    reply_address: str = ""  #: empty if replies go to the sender address
    browser_url: str = ""
    paper_token: str = ""  #: the reader's token in the links of the cards; empty for a group
    filters: Mapping[int, str] = {}  #: canonical filters, keyed by the filter ids in the digest


#: The letters whose settings link opens the settings directly. Other letters may be forwarded, so the link in
#: them only opens a page that mails the settings link.
LETTERS_WITH_SETTINGS_LINK = frozenset(
    {"welcome", "settings", "settings_link", "changed", "paused", "reply", "help", "no_command"}
)

#: Default values of the optional context.
DEFAULT_CONTEXT: Mapping[str, Any] = {
    "preheader": "",
    "filler": FILLER,
    "cards": (),
    "email": "",
    "group": "",  #: the address of the group, in a letter to the owner of the group's digests
    "remarks": (),
    "unread": (),
    "address": "",
    "problem": "",
    "is_talk": False,
    "is_absence": False,
    "is_for_readers": False,
    "is_unproven": False,
    "next_due": "",
    "manage_url": "",
    "topics": (),
    "until": "",
    "others": (),
    "answered_subject": "",
    "prefilled": "",
    "is_changed": False,
    "change_url": "",  #: the settings link, which undoes the change that the letter reports
    "settings": "",
    "links": (),
    "state": (),
    "is_answer": False,
    "is_passed_on": False,
    "asks_to_unsubscribe": False,
    "asked_at": "",
    "requested": figures_in_words.requested_digest(Cadence.DAILY, ()),
    "schedule": "",
    "until_then": "",
    "is_on_topics": False,
    "has_topics": True,
    "invited_by": "",
    "days": 14,
    "nearest": None,
    "is_wanted": True,  #: whether the reader asked for letters on days without papers
    "pack": None,
    "news": (),
    "since": "",
    "facts": (),
}


def render_letter(templates: Templates, kind: str, context: Mapping[str, Any]) -> RenderedLetter:
    """Render the letter of this kind from templates/letters/KIND/{subject.txt,body.txt,body.html}.

    `context` has the `site` and the decision stored with the delivery. Links and times may be given as
    text (`manage_url`, `next_due`) or as the values they are made from: `subscriber_id`, `link_version`
    and `key`; `confirmation_id`; `next_due_at`, `timezone` and `dated_at`.
    """
    folder = f"letters/{kind}"
    values = {**DEFAULT_CONTEXT, **derived_context(kind, context), **context}
    values["cards"] = [Card.from_json(stored) for stored in values["cards"]]
    times = {name: keep_figures(values[name]) for name in TIMES if values.get(name)}
    values["subject"] = one_line(templates.text.get_template(f"{folder}/subject.txt").render(values))
    return RenderedLetter(
        subject=values["subject"],
        text=templates.text.get_template(f"{folder}/body.txt").render(values),
        html=templates.letter(kind).render(values | times),
    )


TIMES = ("next_due", "until", "asked_at", "schedule")  #: the names of the values with dates or times in words


def derived_context(kind: str, context: Mapping[str, Any]) -> dict[str, Any]:
    """Return the links and texts that are made from the ids and times in `context`."""
    site: Site = context["site"]
    key = context.get("key")
    made: dict[str, Any] = {}
    if "confirmation_id" in context:
        made["confirm_url"] = links.confirm_url(site, context["confirmation_id"], key=key)
    if context.get("subscriber_id") is not None:
        subscriber, link_version = context["subscriber_id"], context.get("link_version", 0)
        url_of = links.manage_url if kind in LETTERS_WITH_SETTINGS_LINK else links.topic_links_url
        made["manage_url"] = url_of(site, subscriber, link_version, key=key)
        if context.get("change_id"):
            made["change_url"] = f"{made['manage_url']}?change={context['change_id']}"
        made["unsubscribe_url"] = links.unsubscribe_url(site, subscriber, link_version, key=key)
        if kind == "account_link" and "made_at" in context:
            made["account_url"] = links.account_url(
                site, subscriber, link_version, context["made_at"], key=key
            )
        if kind in {"new_address", "address_changed"} and "made_at" in context:
            made["new_address_url"] = links.new_address_url(
                site, subscriber, link_version, context["email"], context["made_at"], key=key
            )
        made["undo_url"] = made["unsubscribe_url"]  # the unsubscribe page can also undo unsubscribing
    if context.get("dated_at"):
        made["asked_at"] = figures_in_words.day_and_hour(context["dated_at"])
    if context.get("next_due_at"):
        due, now = (parse_moment(context[name]) for name in ("next_due_at", "dated_at"))
        made["next_due"] = figures_in_words.moment_in_words(
            due, context.get("timezone", "UTC"), seen_from=now
        )
    return made


def parse_moment(stored: datetime | str) -> datetime:
    """Return `stored` as a datetime; the stored context of a letter contains datetimes as text."""
    return datetime.fromisoformat(stored) if isinstance(stored, str) else stored
