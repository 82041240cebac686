"""Welcome subscribers who confirmed, with some papers until their first digest."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from sqlalchemy import select
from sqlalchemy.orm import Session

from digest.db.tables.deliveries import Delivery
from digest.db.tables.subscribers import Confirmation, Subscriber
from digest.delivery import shown
from digest.delivery.outbox import planned_letters
from digest.letters import figures_in_words
from digest.site.site_profile import Site
from digest.subscribers import next_digest, subscriber_letters, subscriber_topics

if TYPE_CHECKING:
    from digest.letters.cards import Card


@dataclass(frozen=True, kw_only=True, slots=True)
class WelcomePapers:
    """The papers of a welcome letter, best first."""

    cards: Mapping[int, Card] = field(default_factory=dict)  #: the cards, keyed by paper id
    is_on_topics: bool = False  #: whether the papers match the reader's topics
    is_from_today: bool = False

    @property
    def sentence(self) -> str:
        """Return the sentence in the welcome letter that announces the papers."""
        if not self.cards:
            return ""
        return figures_in_words.welcome_papers_sentence(
            len(self.cards), is_on_topics=self.is_on_topics, is_from_today=self.is_from_today
        )


ChoosePapers: TypeAlias = Callable[[Session, Subscriber], WelcomePapers]


def welcome_of(session: Session, confirmation: Confirmation) -> Mapping[str, Any]:
    """Return the content of the welcome letter (`until_then`, `is_on_topics` and `cards`).

    The result is empty if the letter was deleted.
    """
    letter = planned_letters.WelcomeLetter(confirmation_id=confirmation.id)
    query = select(Delivery.decision).where(Delivery.dedupe_key == letter.key)
    found: Mapping[str, Any] = json.loads(session.scalar(query) or "{}")
    return found


def queue_welcome(
    session: Session,
    site: Site,
    subscriber: Subscriber,
    confirmation_id: int,
    papers: WelcomePapers,
    now: datetime,
) -> None:
    """Queue the welcome letter with the first digest's date and some papers, which then count as shown."""
    contents = {
        "next_due": next_digest.next_digest_in_words(session, subscriber, now=now),
        "until_then": papers.sentence,
        "is_on_topics": papers.is_on_topics,
        "has_topics": bool(subscriber_topics.typed_topics(session, [subscriber.id])),
        "cards": [card.to_json() for card in papers.cards.values()],
        "papers": list(papers.cards),
    }
    letter = planned_letters.WelcomeLetter(confirmation_id=confirmation_id, contents=contents)
    number = subscriber_letters.queue_letter(session, site, subscriber, letter, now=now)
    if number is not None:
        shown.record(session, (subscriber.id, number, list(papers.cards)), shown_on=now.date())
