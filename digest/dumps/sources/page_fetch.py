"""Fetch one page at the operator's request and load it, with the same restrictions as for sources.

The site's robots.txt is read first. Each server gets one request at a time, with pauses between requests.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.robotparser import RobotFileParser

from digest.dumps.formats import mail_page
from digest.dumps.intake import load_dump
from digest.dumps.intake.load_report import LoadResult
from digest.dumps.sources import source_presets
from digest.dumps.sources.http_fetch import FetchFailed
from digest.dumps.sources.polling import PollContext, fetch_in_turn, file_name, folder_name
from digest.dumps.sources.source_presets import URL_KIND, SourceRequest

MAX_ROBOTS_BYTES = 512 * 1024
NO_PAGES = ("image/", "audio/", "video/", "font/")


def load_page(context: PollContext, url: str, *, dry_run: bool = False, **options: Any) -> LoadResult:
    """Fetch a page, load it like any other dump, and commit.

    Raises FetchFailed if the address is not allowed, robots.txt forbids it, the page cannot be fetched, or
    the response is an image or another file that cannot contain papers.
    """
    context.fetcher.check_target(url)
    path = fetch_page(context, url)
    try:
        return load_dump.load(
            context.session,
            path,
            now=context.now,
            source=source_presets.short_name(url),
            dry_run=dry_run,
            **options,
        )
    finally:
        if dry_run:
            path.unlink(missing_ok=True)


def fetch_page(context: PollContext, url: str) -> Path:
    """Fetch a page into a file in the sources' folder, add the page's address, and return the path."""
    folder = context.folder / folder_name(source_presets.short_name(url))
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    check_robots(context, url, folder)
    request = SourceRequest(url=url)
    path = folder / f"{context.now:%Y%m%dT%H%M%SZ}-{file_name(request)}.part"
    answer = fetch_in_turn(context, URL_KIND, request, path, etag=None, since=None)
    kind = answer.content_type.partition(";")[0].strip().casefold()
    if kind.startswith(NO_PAGES):
        path.unlink()
        raise FetchFailed(f"It returned {kind[:60]!r}, which cannot contain papers.")
    content = path.read_bytes()
    suffix = ".html" if "html" in kind else source_presets.file_suffix(content)
    if suffix == ".html":
        path.write_bytes(mail_page.with_address(content, url))
    kept = path.with_suffix(suffix)
    path.rename(kept)
    return kept


def check_robots(context: PollContext, url: str, folder: Path) -> None:
    """Raise FetchFailed if the site's robots.txt forbids the page, or cannot be read (RFC 9309)."""
    parts = urlsplit(url)
    address = parts._replace(path="/robots.txt", query="", fragment="").geturl()
    path = folder / "robots.part"
    limited = replace(context, fetcher=replace(context.fetcher, most_bytes=MAX_ROBOTS_BYTES))
    try:
        fetch_in_turn(limited, URL_KIND, SourceRequest(url=address), path, etag=None, since=None)
    except FetchFailed as error:
        if 400 <= error.status < 500:
            return  # the site has no such file
        raise FetchFailed(f"The page was not fetched, because robots.txt cannot be read. {error}") from error
    rules = RobotFileParser()
    rules.parse(path.read_text(encoding="utf-8", errors="replace").splitlines())
    path.unlink()
    if not rules.can_fetch(context.fetcher.agent, url):
        raise FetchFailed(f"{parts.hostname} does not allow programs to fetch this page (robots.txt).")
