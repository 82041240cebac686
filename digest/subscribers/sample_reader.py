"""Load invented papers and one reader, so that a new installation has a digest to show."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from sqlalchemy import exists, select
from sqlalchemy.orm import Session

from digest.db.tables.papers import PaperRow
from digest.db.tables.subscribers import Subscriber, SubscriberState
from digest.dumps.intake import load_dump
from digest.site.site_profile import Site
from digest.subscribers import subscriber_rows

SAMPLE = Path(__file__).parent.parent / "dumps" / "sample"
SAMPLE_READER = "you@localhost"
SAMPLE_TOPICS = {
    "Language models": '"language model*" OR "chain* of thought" OR retrieval',
    "Images": "diffusion OR image* OR video*",
}


def load_sample(session: Session, site: Site, *, timezone: str, now: datetime) -> None:
    """Load the invented papers and the reader, unless there are papers or subscribers."""
    if session.scalar(select(exists(select(PaperRow.id)) | exists(select(Subscriber.id)))):
        return
    for path in sorted(SAMPLE.glob("*.txt")):
        load_dump.load(session, path, now=now, is_sample=True)
    subscriber_rows.add(
        session,
        SAMPLE_READER,
        name="Sample reader",
        topics=SAMPLE_TOPICS,
        texts={"at": "00:00", "timezone": timezone},
        state=SubscriberState.ACTIVE,
        consent="sample",
        now=now,
        site=site,
        is_sample=True,
    )
