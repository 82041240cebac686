"""Letters: what we say, and the copy-by-copy rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any

from digest.rendering.cards import Card
from digest.rendering.headers import one_line
from digest.rendering.inlining import inline
from digest.rendering.templates import Templates

#: Follows the preheader unseen, so that no mail program shows the letter's first lines after it.
FILLER = "\u034f " * 40


@dataclass(frozen=True, kw_only=True, slots=True)
class Letter:
    """A letter as its reader sees it."""

    subject: str
    text: str
    html: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Copy:
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
    browser_url: str = ""
    filters: Mapping[int, str] = field(default_factory=dict)  #: canonical filters by the ids in the digest


#: The letters besides the digest, and what each says of its own. `site` is in all of them; times are
#: in words (`words.moment_in_words`), so that the decision kept with a delivery is plain JSON.
KINDS: Mapping[str, tuple[str, ...]] = {
    "confirm": ("confirm_url",),
    "welcome": ("next_due", "manage_url", "unsubscribe_url"),  #: and `cards`: up to three (Card.to_json)
    "goodbye": ("undo_url",),
}
UNSAID: Mapping[str, Any] = {"preheader": "", "filler": FILLER, "cards": (), "email": ""}


def letter(templates: Templates, kind: str, context: Mapping[str, Any]) -> Letter:
    """Return the letter of that kind: templates/letters/KIND/{subject.txt,body.txt,body.html}.

    `context` has the Site as `site`, and what KINDS names. The digest letter is made by the press.
    """
    folder = f"letters/{kind}"
    said = {**UNSAID, **context}
    said["cards"] = [Card.from_json(kept) for kept in said["cards"]]
    said["subject"] = one_line(templates.text.get_template(f"{folder}/subject.txt").render(said))
    return Letter(
        subject=said["subject"],
        text=templates.text.get_template(f"{folder}/body.txt").render(said),
        html=inline(templates.html.get_template(f"{folder}/body.html").render(said)),
    )
