"""Publishing: every due digest is composed into the outbox. Nothing is sent yet.

First the press, once for everybody; then chunk after chunk of subscribers, each in a transaction of its
own. A preview takes the same way and writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from digest import presses, subscriptions
from digest.links import Site
from digest.model import Delivery
from digest.press import Press
from digest.publishing.chunks import Published, publish_chunk
from digest.publishing.deciding import cut_of
from digest.publishing.desk import is_news, is_young
from digest.publishing.gathering import reach
from digest.publishing.places import places, places_now, rest
from digest.publishing.previews import Preview, decided, edition_for, preview
from digest.publishing.tidying import tidy
from digest.rendering import Templates

__all__ = [
    "CHUNK",
    "Preview",
    "Published",
    "cut_of",
    "decided",
    "edition_for",
    "is_news",
    "is_young",
    "places",
    "places_now",
    "prepare",
    "preview",
    "publish",
    "publish_chunk",
    "rest",
    "tidy",
]

#: Subscribers in one transaction: for fewer the commits weigh, for more a second writer waits.
CHUNK = 1_000


def publish(
    session: Session,
    *,
    site: Site,
    templates: Templates,
    now: datetime,
    progress: Callable[[int], None] | None = None,
) -> Published:
    """Publish whoever is due at `now`, and return what came of it.

    Once more at the same moment, by anybody: nothing is written, and everything counts as `already`.
    """
    press = prepare(session, site=site, templates=templates, now=now)
    total = Published()
    last_id: int | None = 0
    while press is not None and last_id is not None:
        published, last_id = publish_chunk(session, press, site=site, after_id=last_id, limit=CHUNK, now=now)
        total += published
        if progress is not None:
            progress(published.due)
    stood = standing(session, now) - total.queued - total.empty - total.already
    return total + Published(due=stood, already=stood)


def prepare(session: Session, *, site: Site, templates: Templates, now: datetime) -> Press | None:
    """Wake those whose leave is over, and return the press for whoever is due; None if nobody is. Commits."""
    subscriptions.wake(session, now)
    due, earliest = reach(session, now)
    press = None
    if due:
        since = presses.since(now, earliest)
        press = presses.current(session, site=site, templates=templates, now=now, since=since)
    session.commit()
    return press


def standing(session: Session, now: datetime) -> int:
    """Return how many digests are decided whose editions are open at `now`."""
    return session.execute(
        select(func.count()).where(
            Delivery.edition.is_not(None), Delivery.expires_at > now, Delivery.dated_at <= now
        )
    ).scalar_one()
