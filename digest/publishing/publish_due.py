"""Compose every due digest and write it to the outbox; sending is a separate step.

The press (the papers and their texts) is made once for all subscribers. Each chunk of subscribers is
published in its own transaction. A preview runs the same code but writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from digest.db.tables.deliveries import Delivery
from digest.letters import press_store
from digest.letters.press.press_value import Press
from digest.letters.templates import Templates
from digest.process.caches import Caches
from digest.publishing.chunk_of_digests import PublishReport, publish_chunk
from digest.publishing.due_readers import count_due
from digest.site.site_profile import Site
from digest.subscribers import pauses

#: Number of subscribers that are published in one transaction. In smaller transactions, most of the time goes
#: into commits; in larger ones, other writers wait too long.
CHUNK_SUBSCRIBERS = 1_000


def publish(
    session: Session,
    *,
    site: Site,
    templates: Templates,
    caches: Caches,
    now: datetime,
    progress: Callable[[int], None] | None = None,
) -> PublishReport:
    """Publish every digest that is due at `now`, and return the counts.

    If two runs publish at the same time, each digest is written once; the other run counts it as `already`.
    """
    press = prepare_press(session, site=site, templates=templates, caches=caches, now=now)
    total = PublishReport()
    last_id: int | None = 0
    while press is not None and last_id is not None:
        published, last_id = publish_chunk(
            session, press, site=site, caches=caches, after_id=last_id, limit=CHUNK_SUBSCRIBERS, now=now
        )
        total += published
        if progress is not None:
            progress(published.due)
    earlier = count_open_decisions(session, now) - total.queued - total.empty
    return total + PublishReport(due=earlier, already=earlier)


def prepare_press(
    session: Session, *, site: Site, templates: Templates, caches: Caches, now: datetime
) -> Press | None:
    """Resume subscribers whose pause is over; return the press for the due readers, if any. Commits."""
    pauses.resume_due(session, now)
    due, earliest = count_due(session, now)
    press = None
    if due:
        since = press_store.press_start(now, earliest)
        press = press_store.current_press(
            session, site=site, templates=templates, caches=caches, now=now, since=since
        )
    session.commit()
    return press


def count_open_decisions(session: Session, now: datetime) -> int:
    """Return the number of digests that are already decided for the editions open at `now`."""
    return session.execute(
        select(func.count()).where(
            Delivery.edition.is_not(None), Delivery.expires_at > now, Delivery.dated_at <= now
        )
    ).scalar_one()
