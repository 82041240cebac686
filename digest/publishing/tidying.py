"""Tidying: what no digest can need any more is forgotten, once a day."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from digest import presses, showings

#: A press reaches back 36 days at most, so a paper shown before that can never be news again.
SHOWINGS_KEPT = timedelta(days=180)
#: For so long the page of a digest on the web can be opened.
PRESSES_KEPT = timedelta(days=60)


def tidy(session: Session, *, now: datetime) -> tuple[int, int]:
    """Forget showings and presses past their time; return how many of each. Commits."""
    shown = showings.prune(session, before=(now - SHOWINGS_KEPT).date())
    session.commit()
    made = presses.prune(session, before=now - PRESSES_KEPT)
    session.commit()
    return shown, made
