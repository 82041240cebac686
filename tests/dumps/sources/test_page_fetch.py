"""Pages fetched at the operator's request: what robots.txt allows, with pauses, and never from a private network."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from digest.db.tables.dumps import DumpRow
from digest.db.tables.papers import PaperRow
from digest.dumps.sources import page_fetch
from digest.dumps.sources.http_fetch import Fetcher, FetchFailed
from digest.dumps.sources.polling import PollContext
from tests.conftest import NOW
from tests.dumps.sources.paper_server import Papers, refuses, says
from tests.support.clock import Clock
from tests.support.paper_pages import invented_papers, page

AGENT = "paper-digest/0 (+https://digest.example.org)"
PAGE = page("results", invented_papers(10)).replace('href="https://huggingface.co/', 'href="/')


@pytest.fixture
def clock() -> Clock:
    return Clock(NOW)


@pytest.fixture
def context(session: Session, tmp_path: Path, clock: Clock) -> PollContext:
    return PollContext(
        session=session,
        fetcher=Fetcher(agent=AGENT, loopback=True),
        folder=tmp_path / "sources",
        now=NOW,
        clock=clock,
        wait=clock.wait,
    )


def files(context: PollContext) -> list[Path]:
    return [path for path in context.folder.rglob("*") if path.is_file()]


def test_a_page_is_fetched_once_after_robots_txt_and_its_papers_are_loaded(
    context: PollContext, papers: Papers, clock: Clock
) -> None:
    papers.answers["/robots.txt"] = says("User-agent: *\nDisallow: /private\n", kind="text/plain")
    papers.answers["/papers?day=1"] = says(PAGE, kind="text/html; charset=utf-8")

    loaded = page_fetch.load_page(context, f"{papers.url}/papers?day=1")

    assert (loaded.format, loaded.papers, loaded.is_loaded) == ("html", 10, True)
    assert papers.paths == ["/robots.txt", "/papers?day=1"]
    assert {headers["User-Agent"] for _, headers in papers.requests} == {AGENT}
    assert sum(clock.waits) >= 1
    (kept,) = files(context)
    assert kept.suffix == ".html"
    assert kept.read_text().startswith(
        f"<!-- saved from url=({len(papers.url) + 13:04d}){papers.url}/papers?day=1 -->\n"
    )
    assert context.session.scalars(select(DumpRow.source)).one() == f"{papers.url}/papers?day=1"


@pytest.mark.parametrize(
    "rules", ["User-agent: *\nDisallow: /\n", "User-agent: paper-digest\nDisallow: /papers\n"]
)
def test_a_page_that_robots_txt_forbids_is_not_fetched(
    context: PollContext, papers: Papers, rules: str
) -> None:
    papers.answers["/robots.txt"] = says(rules, kind="text/plain")
    papers.answers["/papers"] = says(PAGE, kind="text/html")

    with pytest.raises(FetchFailed, match=r"does not allow programs to fetch this page \(robots\.txt\)"):
        page_fetch.load_page(context, f"{papers.url}/papers")

    assert papers.paths == ["/robots.txt"]
    assert files(context) == []


def test_a_page_is_not_fetched_if_robots_txt_cannot_be_read(context: PollContext, papers: Papers) -> None:
    papers.answers["/robots.txt"] = refuses(503)

    with pytest.raises(FetchFailed, match=r"because robots\.txt cannot be read\. The server returned 503"):
        page_fetch.load_page(context, f"{papers.url}/papers")

    assert papers.paths == ["/robots.txt"]


def test_a_site_without_robots_txt_allows_every_page(context: PollContext, papers: Papers) -> None:
    papers.answers["/robots.txt"] = refuses(404)
    papers.answers["/papers.json"] = says('[{"title": "Kites", "abstract": "They fly."}]')

    loaded = page_fetch.load_page(context, f"{papers.url}/papers.json", as_history=True)

    assert (loaded.format, loaded.papers) == ("json", 1)
    assert [path.suffix for path in files(context)] == [".json"]


def test_a_dry_run_keeps_neither_papers_nor_the_page(context: PollContext, papers: Papers) -> None:
    papers.answers["/robots.txt"] = refuses(404)
    papers.answers["/papers"] = says(PAGE, kind="text/html")

    tried = page_fetch.load_page(context, f"{papers.url}/papers", dry_run=True, show=2)

    assert (tried.new, tried.shown is not None and len(tried.shown)) == (10, 2)
    assert context.session.scalars(select(PaperRow.id)).all() == []
    assert files(context) == []


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (says(b"\x89PNG", kind="image/png"), "'image/png', which cannot contain papers"),
        (says("x" * 3000, kind="text/html"), "The content is larger than"),
        (refuses(404), "The server returned 404"),
    ],
)
def test_a_page_that_cannot_be_papers_is_refused_and_not_kept(
    context: PollContext, papers: Papers, answer: Any, reason: str
) -> None:
    papers.answers["/robots.txt"] = refuses(404)
    papers.answers["/papers"] = answer
    small = replace(context, fetcher=replace(context.fetcher, most_bytes=2000))

    with pytest.raises(FetchFailed, match=reason):
        page_fetch.load_page(small, f"{papers.url}/papers")

    assert files(context) == []


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://papers.example.org/", "is not an https URL"),
        ("https://ada:secret@papers.example.org/", "contains a user name or a password"),
        ("https://127.0.0.1/papers", "not on the open internet"),
        ("ftp://papers.example.org/", "is not an https URL"),
    ],
)
def test_an_address_that_sources_may_not_have_is_refused(context: PollContext, url: str, reason: str) -> None:
    strict = replace(context, fetcher=Fetcher(agent=AGENT, resolve=lambda host, _port: [host]))

    with pytest.raises(FetchFailed, match=reason):
        page_fetch.load_page(strict, url)
