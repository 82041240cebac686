"""Compose every due digest and write it to the outbox; sending is a separate step.

The press (the papers and their texts) is made once for all subscribers. Each chunk of subscribers is
published in its own transaction. A preview runs the same code but writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sqlalchemy import func, select

from digest.db.tables.deliveries import Delivery
from digest.delivery import press_store
from digest.letters.press.press_value import Press
from digest.publishing.chunk_of_digests import PublishReport, publish_chunk
from digest.publishing.due_readers import count_due
from digest.publishing.publication import Publication
from digest.subscribers import pauses

#: Number of subscribers that are published in one transaction. In smaller transactions, most of the time goes
#: into commits; in larger ones, other writers wait too long.
CHUNK_SUBSCRIBERS = 1_000


def publish(publication: Publication, progress: Callable[[int], None] | None = None) -> PublishReport:
    """Publish every digest that is due at this moment, and return the counts.

    If two runs publish at the same time, each digest is written once; the other run counts it as `already`.
    """
    total, press = PublishReport(), prepare_press(publication)
    publication = replace(publication, fixed_press=press)
    last_id: int | None = 0
    while press is not None and last_id is not None:
        published, last_id = publish_chunk(publication, after_id=last_id, limit=CHUNK_SUBSCRIBERS)
        total += published
        if progress is not None:
            progress(published.due)
    is_open = Delivery.expires_at > publication.now, Delivery.dated_at <= publication.now
    decided = select(func.count()).where(Delivery.edition.is_not(None), *is_open)
    earlier = publication.session.execute(decided).scalar_one() - total.queued - total.empty
    return total + PublishReport(due=earlier, already=earlier)


def prepare_press(publication: Publication) -> Press | None:
    """Resume subscribers whose pause is over; return the stored press for the due readers, if any. Commits."""
    session, now = publication.session, publication.now
    pauses.resume_due(session, now)
    due, earliest = count_due(session, now)
    press = None
    if due:
        since = press_store.press_start(now, earliest)
        press = press_store.current_press(
            session,
            site=publication.site,
            templates=publication.templates,
            caches=publication.caches,
            now=now,
            since=since,
        )
    session.commit()
    return press
