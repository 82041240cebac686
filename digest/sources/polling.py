"""Polling: what is due is fetched, kept as a file, and read like any other dump.

 due ─▶ claimed ─▶ a server's turn ─▶ fetched into a file ─▶ intake ─▶ when next

No transaction is open while a server is waited for. What dies on the way is polled again a quarter
of an hour later; what was loaded before changes nothing.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from datetime import time as time_of_day
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from sqlalchemy.orm import Session

from digest import dumps, intake
from digest.errors import Unreadable
from digest.intake import Loaded
from digest.links import Site
from digest.model import DumpState, SourceRow
from digest.sources import pacing, presets, register
from digest.sources.fetching import Answer, Failed, Fetcher
from digest.sources.presets import Ask

log = logging.getLogger(__name__)

PATIENCE = timedelta(minutes=3)  #: for which a server's turn is waited for
KEPT = timedelta(days=30)  #: for which fetched files are kept

Clock = Callable[[], datetime]
Wait = Callable[[float], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Polled:
    """What came of asking one source."""

    source: str
    state: str  #: loaded, unchanged, empty, held, rejected or failed
    result: str  #: one sentence
    requests: int = 0
    dumps: tuple[Loaded, ...] = ()
    next_poll_at: datetime | None = None

    @property
    def is_fine(self) -> bool:
        """Return whether nothing went wrong."""
        return self.state in ("loaded", "unchanged", "empty")

    @property
    def new(self) -> int:
        """Return how many papers nobody had seen."""
        return sum(loaded.new for loaded in self.dumps)

    def to_json(self) -> dict[str, Any]:
        """Return it as the command line prints it."""
        return {
            "source": self.source,
            "state": self.state,
            "result": self.result,
            "requests": self.requests,
            "papers": sum(loaded.papers for loaded in self.dumps),
            "new": self.new,
            "dumps": [loaded.to_json() for loaded in self.dumps],
            "next_poll_at": self.next_poll_at.isoformat() if self.next_poll_at else None,
        }


@dataclass(frozen=True, kw_only=True)
class Line:
    """What polling works with: a session, the way out, a folder for files, and the time."""

    session: Session
    fetcher: Fetcher
    folder: Path
    now: datetime
    clock: Clock  #: for the distance between requests, which is real whatever `now` is
    wait: Wait = time.sleep
    incomplete_ok: bool = False  #: what is short by its own count is loaded all the same


def fetcher_of(site: Site, version: str) -> Fetcher:
    """Return the way out to the internet, which says who we are and whom to write to."""
    return Fetcher(agent=f"paper-digest/{version} (+{site.url}; {site.sender_address})")


def poll(
    line: Line,
    *,
    names: Sequence[str] | None = None,
    if_due: bool = False,
    progress: Callable[[int], None] | None = None,
) -> list[Polled]:
    """Poll what is due, or these sources, whether they are due or not unless `if_due`. Commits."""
    is_forced = names is not None and not if_due
    for name in names or ():
        register.get(line.session, name)
    found = []
    for name in register.due(line.session, line.now) if names is None else names:
        line.session.commit()
        row = register.claim(line.session, name, now=line.now, is_forced=is_forced)
        line.session.commit()
        if row is not None:
            found.append(poll_one(line, row))
            if progress is not None:
                progress(len(found))
    if found:
        prune(line.folder, line.now)
    return found


def poll_one(line: Line, row: SourceRow) -> Polled:
    """Ask one claimed source for what is new, and write down what came of it."""
    wanted = presets.asks(row.kind, row.name, row.url, today=line.now.date(), since=row.since)
    polled = asked(line, row, wanted, is_conditional=True)
    row.polled_at, row.result = line.now, polled.result
    if polled.state == "failed":
        row.failures += 1
        log.warning("source %s: %s", row.name, polled.result)
    else:
        row.failures = 0
        row.next_poll_at = line.now + timedelta(seconds=row.every)
    line.session.commit()
    return replace(polled, next_poll_at=row.next_poll_at)


def back_fill(line: Line, name: str, *, days: int, progress: Callable[[int], None] | None = None) -> Polled:
    """Fetch the last days of a source as history: in the catalog, and nobody's news. Commits.

    It ends at the first failure; what was loaded stays, and is not fetched in vain a second time.
    """
    row = register.get(line.session, name)
    line.session.commit()
    wanted = presets.past(row.kind, row.name, row.url, days=days, today=line.now.date())
    polled = asked(line, row, wanted, is_conditional=False, progress=progress)
    line.session.commit()
    return polled


def asked(
    line: Line,
    row: SourceRow,
    wanted: Iterable[Ask],
    *,
    is_conditional: bool,
    progress: Callable[[int], None] | None = None,
) -> Polled:
    """Make these requests and those that follow from their answers, until one fails."""
    loads: list[Loaded] = []
    requests = 0
    validators: dict[str, list[str | None]] = {}
    try:
        for done, first in enumerate(wanted, start=1):
            ask: Ask | None = first
            while ask is not None:
                requests += 1
                one = request(line, row, ask, is_conditional=is_conditional)
                validators[ask.url] = one.validators
                loads += one.loads
                ask = one.next
            if progress is not None:
                progress(done)
    except Failed as error:
        failures = row.failures + 1
        told = pacing.retry_after(error.retry_after, line.now)
        row.next_poll_at = pacing.again_at(line.now, failures=failures, retry_after=told)
        return polled_of(row, loads, requests, failure=str(error))
    finally:
        if is_conditional:  # an answer that was dealt with, whatever became of later ones
            row.validators = {url: known for url, known in validators.items() if any(known)}
    return polled_of(row, loads, requests)


@dataclass(frozen=True, kw_only=True, slots=True)
class One:
    """What came of one request."""

    validators: list[str | None]
    loads: tuple[Loaded, ...] = ()
    next: Ask | None = None


def request(line: Line, row: SourceRow, ask: Ask, *, is_conditional: bool) -> One:
    """Make one request and load what it brings; raise Failed where it brings none."""
    known = (row.validators.get(ask.url) if is_conditional else None) or [None, None]
    path = line.folder / folder_name(row.name) / f"{line.now:%Y%m%dT%H%M%SZ}-{name_of(ask)}.part"
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        answer = in_turn(line, row, ask, path, etag=known[0], since=known[1])
    except Failed as error:
        if presets.is_not_yet(row.kind, ask, error.status):
            return One(validators=known)
        raise
    if answer.is_unchanged:
        return One(validators=known)
    if not presets.is_type(row.kind, answer.content_type):
        path.unlink()
        raise Failed(f"It answered with {answer.content_type[:60]!r}, which holds no papers.")
    return taken(line, row, ask, path, [answer.etag, answer.last_modified])


def in_turn(
    line: Line, row: SourceRow, ask: Ask, path: Path, *, etag: str | None, since: str | None
) -> Answer:
    """Fetch when it is our turn at that server: one request at a time, and a pause between two."""
    host = (urlsplit(ask.url).hostname or "")[:255]
    began, longest = line.clock(), timedelta(seconds=2 * line.fetcher.most_seconds)
    while True:
        now = line.clock()
        free_at = register.turn(line.session, host, now=now, until=now + longest)
        line.session.commit()
        if free_at is None:
            break
        if free_at - began > PATIENCE:
            raise Failed(
                f"{host} wants to be left in peace until {free_at:%Y-%m-%d %H:%M} UTC.",
                retry_after=str(int((free_at - now).total_seconds()) + 1),
            )
        line.wait(min(max((free_at - now).total_seconds(), 0.01), 5.0))
    until = None
    try:
        return line.fetcher.fetch(ask.url, path, etag=etag, since=since)
    except Failed as error:
        until = pacing.retry_after(error.retry_after, line.clock())
        raise
    finally:
        later = line.clock() + presets.pause_for(row.kind)
        register.leave(line.session, host, until=max(later, until or later))
        line.session.commit()


def taken(line: Line, row: SourceRow, ask: Ask, path: Path, validators: list[str | None]) -> One:
    """Read a fetched file as a dump, unless it holds nothing; keep it unless it was known."""
    content = path.read_bytes()
    following = presets.next_page(row.kind, ask, content)
    if is_empty(path, ask.day or line.now.date()):
        path.unlink()
        return One(validators=validators, next=following)
    kept = path.with_suffix(presets.suffix(content))
    path.rename(kept)
    loaded = intake.load(
        line.session,
        kept,
        now=line.now,
        date=ask.day if ask.is_history else None,
        order=row.order,
        as_history=ask.is_history,
        source=row.name,
        figures_at=line.now if ask.has_figures and ask.is_history else None,
        incomplete_ok=line.incomplete_ok,
        still_news=min(intake.LATEST, line.now.date() - row.since),
    )
    if loaded.is_known:
        kept.unlink()
    if not loaded.is_loaded:
        validators = [None, None]  # it may be whole the next time
    return One(validators=validators, loads=(loaded,), next=following)


def is_empty(path: Path, day: date) -> bool:
    """Return whether an answer says, in its own way, that there are no papers: a weekend, say."""
    with path.open("rb") as file:
        if file.read(64).strip() in (b"", b"[]", b"{}"):
            return True
        try:
            return next(iter(dumps.read(file, name=path.name, observed_on=day).records), None) is None
        except Unreadable:
            return False  # intake says why, and keeps it


def polled_of(row: SourceRow, loads: list[Loaded], requests: int, *, failure: str = "") -> Polled:
    """Return what came of all requests, in one word and one sentence."""
    papers, new = sum(one.papers for one in loads), sum(one.new for one in loads)
    bad = [one for one in loads if not one.is_loaded]
    state, result = "unchanged", "nothing new"
    if loads and not bad:
        is_known = all(one.is_known for one in loads)
        state, result = (
            ("unchanged", "nothing new") if is_known else ("loaded", f"{papers} papers, {new} new")
        )
    if bad:
        state = "held" if bad[0].state is DumpState.HELD else "rejected"
        result = bad[0].reason
    if failure:
        state, result = "failed", failure
    return Polled(
        source=row.name,
        state=state,
        result=result,
        requests=requests,
        dumps=tuple(loads),
        next_poll_at=row.next_poll_at,
    )


# ── files ───────────────────────────────────────────────────────────────────────────────────────


def folder_name(source: str) -> str:
    """Return the name of the folder for what a source brings: no name of theirs is a path of ours."""
    plain = "".join(char if char.isascii() and (char.isalnum() or char in "-.") else "_" for char in source)
    return plain.strip(".")[:60] if plain == source else f"{plain.strip('.')[:50]}-{short_hash(source)}"


def name_of(ask: Ask) -> str:
    """Return what tells the files of one poll apart."""
    day = f"{ask.day:%Y-%m-%d}" if ask.day else "new"
    return f"{day}-{ask.page}-{short_hash(ask.url)}"


def short_hash(text: str) -> str:
    """Return eight characters that stand for a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def prune(folder: Path, now: datetime) -> int:
    """Delete fetched files of more than a month ago, and return how many; they can be fetched again."""
    before = datetime.combine(now.date(), time_of_day(), UTC) - KEPT
    old = [path for path in folder.glob("*/*") if path.is_file() and is_older(path, before)]
    for path in old:
        path.unlink(missing_ok=True)
    return len(old)


def is_older(path: Path, before: datetime) -> bool:
    """Return whether a file of ours was written before that moment."""
    try:
        return path.stat().st_mtime < before.timestamp()
    except FileNotFoundError:
        return False
