"""Store presses in the database, for retries of letters and for the web pages of digests."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime, time, timedelta

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from digest import db
from digest.db.tables.deliveries import Delivery, PressRow
from digest.db.tables.dumps import DumpRow, DumpState
from digest.db.tables.papers import PaperRow
from digest.delivery import restore_point
from digest.errors import NotFound
from digest.letters import figures_in_words
from digest.letters.press.press_value import MAX_PRESSES, Press, from_bytes, make_press, to_bytes
from digest.letters.templates import Templates
from digest.papers import expected_arrivals, trending
from digest.papers.catalog import queries
from digest.process.caches import Caches
from digest.site.site_profile import Site

#: Age of the oldest papers in a press, in days: for daily readers, for monthly readers, and for readers who were
#: paused or whose editions were missed. There are few values, so that all runs in the same hour can share a press.
REACH_DAYS = (8, 36, 101)


def press_start(now: datetime, earliest: datetime | None) -> datetime:
    """Return the start of the shortest of a press's periods that includes `earliest`, or of the longest.

    If `earliest` is None, it is the start of the shortest.
    """
    today = datetime.combine(now.astimezone(UTC).date(), time(), UTC)
    starts = [today - timedelta(days=reach) for reach in REACH_DAYS]
    return next((start for start in starts if earliest is None or earliest >= start), starts[-1])


def current_press(
    session: Session, *, site: Site, templates: Templates, caches: Caches, now: datetime, since: datetime
) -> Press:
    """Return the press of the papers first seen between `since` and `now`; make and store it if necessary."""
    found, key = build_press(session, site=site, templates=templates, caches=caches, now=now, since=since)
    if session.scalar(select(PressRow.key).where(PressRow.name == found.name)) != key:
        store_press(session, found, key=key, now=now)
    return caches.get_or_make("press", found.name, lambda: found, bound=MAX_PRESSES)


def build_press(
    session: Session, *, site: Site, templates: Templates, caches: Caches, now: datetime, since: datetime
) -> tuple[Press, str]:
    """Return the same press as `current_press`, and its key, without storing anything.

    If the database was restored from a backup, the press omits papers first seen before the restore, because
    readers may already have received them.
    """
    since = max(since, restore_point.restore_point(session) or since)
    as_of = queries.observed_at(session, until=now) or since
    note = press_note(session, site, now)
    key = press_key(session, site, templates, now=now, since=since, as_of=as_of, note=note)
    name = session.scalar(select(PressRow.name).where(PressRow.key == key).limit(1))
    if name is not None:
        return load_press(session, name, caches), key
    papers = queries.papers(session, since=since, until=now, news_only=True)
    ranked = trending.rank(papers, queries.evidence(session, papers, as_of=as_of), as_of)
    return make_press(ranked, as_of=as_of, note=note, made_for=made_for(site, templates)), key


def store_press(session: Session, made: Press, *, key: str, now: datetime) -> None:
    """Store a press under its name; if it is already stored, update its key and time."""
    row = {"name": made.name, "key": key, "made_at": now, "content": to_bytes(made)}
    adding = db.upsert(session, PressRow).values(row)
    session.execute(adding.on_conflict_do_update(index_elements=["name"], set_={"key": key, "made_at": now}))


def press_note(session: Session, site: Site, now: datetime) -> str:
    """Return the sentences with which today's letters announce incomplete or missing lists of papers."""
    short = session.execute(
        select(DumpRow.missing_papers, DumpRow.usual_papers, DumpRow.papers)
        .where(
            DumpRow.missing_papers.is_not(None) | DumpRow.usual_papers.is_not(None),
            DumpRow.state == DumpState.LOADED,
            DumpRow.is_history.is_(False),
            DumpRow.read_at > now - timedelta(days=1),
            DumpRow.read_at <= now,
        )
        .order_by(DumpRow.id)
    ).all()
    missing = [row.missing_papers for row in short if row.missing_papers is not None]
    sentences = [figures_in_words.short_list_note(sum(missing))] if missing else []
    sentences += [
        figures_in_words.far_below_usual_note(row.papers, row.usual_papers)
        for row in short
        if row.missing_papers is None
    ][-1:]
    if site.announces_late_lists and (absent := todays_late_lists(session, now)):
        sentences.append(figures_in_words.missing_lists_note([one.source for one in absent]))
    return " ".join(sentences)


def todays_late_lists(session: Session, now: datetime) -> list[expected_arrivals.LateList]:
    """Return the lists of papers that were expected today and have not arrived."""
    found = expected_arrivals.late_lists(queries.arrivals(session, until=now), now=now)
    return [one for one in found if one.day == now.astimezone(UTC).date()]


def press_key(
    session: Session,
    site: Site,
    templates: Templates,
    *,
    now: datetime,
    since: datetime,
    as_of: datetime,
    note: str,
) -> str:
    """Return the hash of everything that a press is made from."""
    state = session.execute(
        select(
            select(func.max(DumpRow.id)).scalar_subquery(),
            func.count(PaperRow.id),
            func.max(PaperRow.id),
            func.count(PaperRow.merged_into),
            func.count(PaperRow.hidden_at),
        ).where(PaperRow.first_seen_at > since, PaperRow.first_seen_at <= now)
    ).one()
    made_from = [made_for(site, templates), note, since.isoformat(), as_of.isoformat(), list(state)]
    return hashlib.sha256(json.dumps(made_from).encode()).hexdigest()


def made_for(site: Site, templates: Templates) -> str:
    """Return the hash of what letters contain besides the papers: another site or template is another press."""
    names = [site.name, site.url, site.sender_name, site.sender_address, site.postal_address]
    return hashlib.sha256(json.dumps([templates.fingerprint, *names]).encode()).hexdigest()


def load_press(session: Session, name: str, caches: Caches) -> Press:
    """Return the press with this name, cached if it was used recently.

    Raises NotFound if it was deleted, and SetupMismatch if it is damaged or of another release.
    """
    return caches.get_or_make("press", name, lambda: read_stored_press(session, name), bound=MAX_PRESSES)


def read_stored_press(session: Session, name: str) -> Press:
    """Return the stored press with this name.

    Raises NotFound if it was deleted, and SetupMismatch if it is damaged or of another release.
    """
    content = session.scalar(select(PressRow.content).where(PressRow.name == name))
    if content is None:
        raise NotFound(f"The press {name[:12]} is no longer in the database.")
    return from_bytes(content, name=name)


def delete_old_presses(session: Session, *, before: datetime) -> int:
    """Delete presses made before `before` that no open delivery needs; return their number."""
    needed = select(Delivery.press).where(Delivery.settled_at.is_(None), Delivery.press.is_not(None))
    forgetting = delete(PressRow).where(PressRow.made_at < before, PressRow.name.not_in(needed))
    return session.connection().execute(forgetting).rowcount
