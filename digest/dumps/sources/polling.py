"""Poll the sources that are due: fetch each list into a file and load it like any other dump.

 due ─▶ claimed ─▶ server reserved ─▶ fetched into a file ─▶ intake ─▶ next poll scheduled

No transaction is open during a request to a server. If a poll is interrupted, the source is polled again
15 minutes later; loading the same list again changes nothing.
"""

from __future__ import annotations

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

from digest import plurals
from digest.db.tables.dumps import DumpState, SourceRow
from digest.dumps.formats import recognition
from digest.dumps.intake import load_dump, load_report
from digest.dumps.intake.load_report import LoadResult
from digest.dumps.sources import polling_backoff, source_presets, stored_sources
from digest.dumps.sources.http_fetch import Fetcher, FetchFailed, FetchResponse
from digest.dumps.sources.source_presets import SourceRequest
from digest.errors import UnreadableDump
from digest.site.site_profile import Site

log = logging.getLogger(__name__)

MAX_TURN_WAIT = timedelta(minutes=3)  #: maximum wait for a server that another worker has reserved
KEEP_FILES_FOR = timedelta(days=30)  #: age at which fetched files are deleted

Clock = Callable[[], datetime]
Sleep = Callable[[float], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class PollResult:
    """The result of polling one source."""

    source: str
    state: str  #: loaded, unchanged, empty, held, rejected or failed
    result: str  #: what happened, in words for the operator
    requests: int = 0
    dumps: tuple[LoadResult, ...] = ()
    next_poll_at: datetime | None = None

    @property
    def is_fine(self) -> bool:
        """Return whether the poll succeeded."""
        return self.state in ("loaded", "unchanged", "empty")

    @property
    def new(self) -> int:
        """Return the number of new papers."""
        return sum(loaded.new for loaded in self.dumps)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object that the command line prints."""
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
class PollContext:
    """The resources for polling: a session, a fetcher, a folder for files, and the time."""

    session: Session
    fetcher: Fetcher
    folder: Path
    now: datetime
    clock: Clock  #: the real time, for pauses between requests; `now` may be set by the operator
    wait: Sleep = time.sleep
    incomplete_ok: bool = False  #: whether lists that are short, truncated or perhaps misread are also loaded


def fetcher_of(site: Site, version: str) -> Fetcher:
    """Return a fetcher whose User-Agent contains the site's URL and contact address."""
    return Fetcher(agent=f"paper-digest/{version} (+{site.url}; {site.sender_address})")


def poll(
    context: PollContext,
    *,
    names: Sequence[str] | None = None,
    if_due: bool = False,
    progress: Callable[[int], None] | None = None,
) -> list[PollResult]:
    """Poll the sources that are due, and commit.

    With `names`, poll these sources even if they are not due, unless `if_due` is set. Raises NotFound for an
    unknown name.
    """
    is_forced = names is not None and not if_due
    for name in names or ():
        stored_sources.get(context.session, name)
    found = []
    for name in stored_sources.due(context.session, context.now) if names is None else names:
        context.session.commit()
        row = stored_sources.claim(context.session, name, now=context.now, is_forced=is_forced)
        context.session.commit()
        if row is not None:
            found.append(poll_source(context, row))
            if progress is not None:
                progress(len(found))
    if found:
        delete_old_files(context.folder, context.now)
    return found


def poll_source(context: PollContext, row: SourceRow) -> PollResult:
    """Poll one claimed source and record the result."""
    source_requests = source_presets.poll_requests(
        row.kind, row.name, row.url, today=context.now.date(), since=row.since
    )
    polled = make_requests(context, row, source_requests, is_conditional=True)
    row.polled_at, row.result = context.now, polled.result
    if polled.state == "failed":
        row.failures += 1
        log.warning("source %s: %s", row.name, polled.result)
    else:
        row.failures = 0
        row.next_poll_at = context.now + timedelta(seconds=row.interval_seconds)
    context.session.commit()
    return replace(polled, next_poll_at=row.next_poll_at)


def back_fill(
    context: PollContext, name: str, *, days: int, progress: Callable[[int], None] | None = None
) -> PollResult:
    """Fetch a source's lists of the last `days` days as history, and commit.

    The papers are added to the catalog, but no digest shows them as new. Fetching stops at the first failure.
    Lists loaded before the failure remain loaded and are not loaded again the next time.
    """
    row = stored_sources.get(context.session, name)
    context.session.commit()
    source_requests = source_presets.history_requests(
        row.kind, row.name, row.url, days=days, today=context.now.date()
    )
    polled = make_requests(context, row, source_requests, is_conditional=False, progress=progress)
    context.session.commit()
    return polled


def make_requests(
    context: PollContext,
    row: SourceRow,
    source_requests: Iterable[SourceRequest],
    *,
    is_conditional: bool,
    progress: Callable[[int], None] | None = None,
) -> PollResult:
    """Make these requests and those for their further pages until one fails; return the combined result."""
    loads: list[LoadResult] = []
    requests = 0
    validators: dict[str, list[str | None]] = {}
    try:
        for done, first in enumerate(source_requests, start=1):
            request: SourceRequest | None = first
            while request is not None:
                requests += 1
                one = make_request(context, row, request, is_conditional=is_conditional)
                validators[request.url] = one.validators
                loads += one.loads
                request = one.next
            if progress is not None:
                progress(done)
    except FetchFailed as error:
        failures = row.failures + 1
        retry_at = polling_backoff.parse_retry_after(error.retry_after, context.now)
        row.next_poll_at = polling_backoff.next_request_at(
            context.now, failures=failures, retry_after=retry_at
        )
        return poll_result(row, loads, requests, failure=str(error))
    finally:
        if is_conditional:  # also after a failure: store the validators of the processed responses
            row.validators = {url: known for url, known in validators.items() if any(known)}
    return poll_result(row, loads, requests)


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestResult:
    """The dumps loaded from one response, and the request for the next page, if any."""

    validators: list[str | None]
    loads: tuple[LoadResult, ...] = ()
    next: SourceRequest | None = None


def make_request(
    context: PollContext, row: SourceRow, source_request: SourceRequest, *, is_conditional: bool
) -> RequestResult:
    """Make one request and load its response.

    Raises FetchFailed if the request fails or the response cannot contain papers. A failed request for a day
    that has not begun in the server's time zone does not count as a failure.
    """
    known = (row.validators.get(source_request.url) if is_conditional else None) or [None, None]
    path = (
        context.folder
        / folder_name(row.name)
        / f"{context.now:%Y%m%dT%H%M%SZ}-{file_name(source_request)}.part"
    )
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        answer = fetch_in_turn(context, row.kind, source_request, path, etag=known[0], since=known[1])
    except FetchFailed as error:
        if source_presets.is_day_not_begun(row.kind, source_request, error.status):
            return RequestResult(validators=known)
        raise
    if answer.is_unchanged:
        return RequestResult(validators=known)
    if not source_presets.is_accepted_type(row.kind, answer.content_type):
        path.unlink()
        raise FetchFailed(f"It returned {answer.content_type[:60]!r}, which cannot contain papers.")
    return load_fetched(context, row, source_request, path, [answer.etag, answer.last_modified])


def fetch_in_turn(
    context: PollContext,
    kind: str,
    source_request: SourceRequest,
    path: Path,
    *,
    etag: str | None,
    since: str | None,
) -> FetchResponse:
    """Reserve the server, waiting if necessary, and fetch.

    Each server gets one request at a time, with pauses between requests.
    """
    host = (urlsplit(source_request.url).hostname or "")[:255]
    began, longest = context.clock(), timedelta(seconds=2 * context.fetcher.most_seconds)
    while True:
        now = context.clock()
        next_request_at = stored_sources.reserve_host(context.session, host, now=now, until=now + longest)
        context.session.commit()
        if next_request_at is None:
            break
        if next_request_at - began > MAX_TURN_WAIT:
            raise FetchFailed(
                f"{host} accepts no requests until {next_request_at:%Y-%m-%d %H:%M} UTC.",
                retry_after=str(int((next_request_at - now).total_seconds()) + 1),
            )
        context.wait(min(max((next_request_at - now).total_seconds(), 0.01), 5.0))
    until = None
    try:
        return context.fetcher.fetch(source_request.url, path, etag=etag, since=since)
    except FetchFailed as error:
        until = polling_backoff.parse_retry_after(error.retry_after, context.clock())
        raise
    finally:
        later = context.clock() + source_presets.pause_for(kind)
        stored_sources.release_host(context.session, host, until=max(later, until or later))
        context.session.commit()


def load_fetched(
    context: PollContext,
    row: SourceRow,
    source_request: SourceRequest,
    path: Path,
    validators: list[str | None],
) -> RequestResult:
    """Load a fetched file as a dump; delete a file that contains no papers or was loaded before."""
    content = path.read_bytes()
    following = source_presets.next_page(row.kind, source_request, content)
    if is_empty(path, source_request.day or context.now.date()):
        path.unlink()
        return RequestResult(validators=validators, next=following)
    kept = path.with_suffix(source_presets.file_suffix(content))
    path.rename(kept)
    loaded = load_dump.load(
        context.session,
        kept,
        now=context.now,
        date=source_request.day if source_request.is_history else None,
        order=row.order,
        as_history=source_request.is_history,
        source=row.name,
        figures_at=context.now if source_request.has_figures and source_request.is_history else None,
        incomplete_ok=context.incomplete_ok,
        still_news=min(load_report.LATEST, context.now.date() - row.since),
    )
    if loaded.is_known:
        kept.unlink()
    if not loaded.is_loaded:
        validators = [None, None]  # so that the next poll fetches the list again, which may then be complete
    return RequestResult(validators=validators, loads=(loaded,), next=following)


def is_empty(path: Path, day: date) -> bool:
    """Return whether a response contains no papers, for example on a weekend."""
    with path.open("rb") as file:
        if file.read(64).strip() in (b"", b"[]", b"{}"):
            return True
        try:
            return next(iter(recognition.read(file, name=path.name, observed_on=day).records), None) is None
        except UnreadableDump:
            return False  # intake records the reason and keeps the file


def poll_result(row: SourceRow, results: list[LoadResult], requests: int, *, failure: str = "") -> PollResult:
    """Return the combined result of all requests of a poll."""
    papers, new = sum(one.papers for one in results), sum(one.new for one in results)
    bad = [one for one in results if not one.is_loaded]
    state, result = "unchanged", "nothing new"
    if results and not bad:
        is_known = all(one.is_known for one in results)
        state, result = (
            ("unchanged", "nothing new")
            if is_known
            else ("loaded", f"{plurals.count(papers, 'paper')}, {new:,} new")
        )
    if bad:
        state = "held" if bad[0].state is DumpState.HELD else "rejected"
        result = bad[0].reason
    if failure:
        state, result = "failed", failure
    return PollResult(
        source=row.name,
        state=state,
        result=result,
        requests=requests,
        dumps=tuple(results),
        next_poll_at=row.next_poll_at,
    )


# ── files ───────────────────────────────────────────────────────────────────────────────────────


def folder_name(source: str) -> str:
    """Return the name of a source's folder: a single safe path component for any source name."""
    plain = "".join(char if char.isascii() and (char.isalnum() or char in "-.") else "_" for char in source)
    return (
        plain.strip(".")[:60]
        if plain == source
        else f"{plain.strip('.')[:50]}-{source_presets.short_hash(source)}"
    )


def file_name(source_request: SourceRequest) -> str:
    """Return a file name for a request; no two requests of a poll have the same file name."""
    day = f"{source_request.day:%Y-%m-%d}" if source_request.day else "new"
    return f"{day}-{source_request.page}-{source_presets.short_hash(source_request.url)}"


def delete_old_files(folder: Path, now: datetime) -> int:
    """Delete the fetched files that are older than KEEP_FILES_FOR and return their number."""
    before = datetime.combine(now.date(), time_of_day(), UTC) - KEEP_FILES_FOR
    old = [path for path in folder.glob("*/*") if path.is_file() and is_older(path, before)]
    for path in old:
        path.unlink(missing_ok=True)
    return len(old)


def is_older(path: Path, before: datetime) -> bool:
    """Return whether a file exists and was last written before the given time."""
    try:
        return path.stat().st_mtime < before.timestamp()
    except FileNotFoundError:
        return False
