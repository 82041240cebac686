"""Presses kept where every machine can read them, until no delivery made with them can be retried."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime, time, timedelta

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from digest import catalog, db, expectations, press, ranking
from digest.errors import NotFound
from digest.links import Site
from digest.model import Delivery, DumpRow, DumpState, PaperRow, PressRow
from digest.press import Press
from digest.rendering import Templates, words

#: How far back a press reaches, in days: what a daily reader needs, and what a monthly one does.
#: Two sizes only, so that the first run of an hour makes the press and all others find it made.
REACHES = (8, 36)


def since(now: datetime, earliest: datetime | None) -> datetime:
    """Return where a press begins that has news for somebody who last looked at `earliest`."""
    today = datetime.combine(now.astimezone(UTC).date(), time(), UTC)
    starts = [today - timedelta(days=reach) for reach in REACHES]
    return next((start for start in starts if earliest is None or earliest >= start), starts[-1])


def current(session: Session, *, site: Site, templates: Templates, now: datetime, since: datetime) -> Press:
    """Return the press of the news after `since` as known at `now`, stored for every machine."""
    found, key = fitting(session, site=site, templates=templates, now=now, since=since)
    if session.scalar(select(PressRow.key).where(PressRow.name == found.name)) != key:
        keep(session, found, key=key, now=now)
    remember(found)
    return found


def fitting(
    session: Session, *, site: Site, templates: Templates, now: datetime, since: datetime
) -> tuple[Press, str]:
    """Return the press that `current` would, and its key, without storing anything."""
    as_of = catalog.observed_at(session, until=now) or since
    note = note_of(session, site, now)
    key = key_of(session, site, templates, now=now, since=since, as_of=as_of, note=note)
    name = session.scalar(select(PressRow.name).where(PressRow.key == key).limit(1))
    if name is not None:
        return load(session, name), key
    papers = catalog.papers(session, since=since, until=now, news_only=True)
    ranked = ranking.rank(papers, catalog.evidence(session, papers, as_of=as_of), as_of)
    return press.make(ranked, site=site, templates=templates, as_of=as_of, note=note), key


def keep(session: Session, made: Press, *, key: str, now: datetime) -> None:
    """Store a press under its name; the same content is stored once."""
    row = {"name": made.name, "key": key, "made_at": now, "content": press.to_bytes(made)}
    adding = db.upsert(session, PressRow).values(row)
    session.execute(adding.on_conflict_do_update(index_elements=["name"], set_={"key": key, "made_at": now}))


def note_of(session: Session, site: Site, now: datetime) -> str:
    """Return what the letters of a day say of lists that came short, and of those that have not come."""
    short = session.execute(
        select(DumpRow.missing, DumpRow.usual, DumpRow.papers)
        .where(
            DumpRow.missing.is_not(None) | DumpRow.usual.is_not(None),
            DumpRow.state == DumpState.LOADED,
            DumpRow.is_history.is_(False),
            DumpRow.read_at > now - timedelta(days=1),
            DumpRow.read_at <= now,
        )
        .order_by(DumpRow.id)
    ).all()
    missing = [row.missing for row in short if row.missing is not None]
    said = [words.short_of(sum(missing))] if missing else []
    said += [words.far_below(row.papers, row.usual) for row in short if row.missing is None][-1:]
    if site.owns_up and (absent := late(session, now)):
        said.append(words.not_come([one.source for one in absent]))
    return " ".join(said)


def late(session: Session, now: datetime) -> list[expectations.Late]:
    """Return the lists of the day that should have come and have not."""
    found = expectations.late(catalog.arrivals(session, until=now), now=now)
    return [one for one in found if one.day == now.astimezone(UTC).date()]


def key_of(
    session: Session,
    site: Site,
    templates: Templates,
    *,
    now: datetime,
    since: datetime,
    as_of: datetime,
    note: str,
) -> str:
    """Return the hash of everything a press is made from, without making it."""
    state = session.execute(
        select(
            select(func.max(DumpRow.id)).scalar_subquery(),
            func.count(PaperRow.id),
            func.max(PaperRow.id),
            func.count(PaperRow.merged_into),
        ).where(PaperRow.first_seen_at > since, PaperRow.first_seen_at <= now)
    ).one()
    names = [site.name, site.url, site.sender_name, site.sender_address, site.postal_address]
    made_from = [templates.fingerprint, names, note, since.isoformat(), as_of.isoformat(), list(state)]
    return hashlib.sha256(json.dumps(made_from).encode()).hexdigest()


def load(session: Session, name: str) -> Press:
    """Return the press of that name, from this process's memory if it was read lately."""
    found = RECENT.pop(name, None) or read(session, name)
    remember(found)
    return found


def read(session: Session, name: str) -> Press:
    """Return the stored press of that name; raises NotFound if it is gone."""
    content = session.scalar(select(PressRow.content).where(PressRow.name == name))
    if content is None:
        raise NotFound(f"The press {name[:12]} is not in the database any more.")
    return press.from_bytes(content, name=name)


RECENT: dict[str, Press] = {}  # immutable and named by content, so any process may keep them, any thread ask
AT_ONCE = 4  # this morning's, the one before it, and those being retried


def remember(made: Press) -> None:
    """Keep a press in this process's memory; the one read longest ago makes room."""
    RECENT[made.name] = made
    for name in list(RECENT)[:-AT_ONCE]:
        RECENT.pop(name, None)


def prune(session: Session, *, before: datetime) -> int:
    """Forget presses made before that moment that no open delivery needs, and return how many."""
    needed = select(Delivery.press).where(Delivery.settled_at.is_(None), Delivery.press.is_not(None))
    forgetting = delete(PressRow).where(PressRow.made_at < before, PressRow.name.not_in(needed))
    return session.connection().execute(forgetting).rowcount
