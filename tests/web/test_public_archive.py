"""Everybody can read the lists of past days and topics, unless the operator closes or hides them."""

from __future__ import annotations

import asyncio
import gzip
import re
from datetime import date, datetime, timedelta
from pathlib import Path
from threading import Event

import httpx2
import pytest

from digest.papers.catalog import hidden_papers
from digest.papers.paper_record import Record
from digest.web import trending_list
from tests.support.waiting import pause
from tests.web.conftest import load_papers, opened, settings_for

ARXIV = {"arxiv": "2611.00001"}


@pytest.fixture
def yesterday(served, now) -> date:
    """A list of yesterday with one paper."""
    at: datetime = now - timedelta(days=1)
    record = Record(title="Early Language Models", ids={"arxiv": "2611.00077"})
    load_papers(served, [record], at=at)
    return at.date()


def hide(served, reference: str, now) -> None:
    with served.writing() as session:
        hidden_papers.hide(session, reference, now=now)


def test_each_day_has_a_page_that_links_to_the_days_around_it(served, papers, yesterday, now):
    today = served.client.get(f"/days/{now.date()}")
    before = served.client.get(f"/days/{yesterday}")

    assert "Slow Diffusion" in today.text
    assert f'rel="prev" href="/days/{yesterday}"' in today.text
    assert "Early Language Models" in before.text
    assert "Slow Diffusion" not in before.text
    assert f'rel="next" href="/days/{now.date()}"' in before.text


def test_the_front_page_links_to_the_list_before_todays(served, papers, yesterday):
    page = served.client.get("/").text

    assert (
        re.findall(r'href="(/days/[\d-]+)">(← [^<]+)<', page) == [(f"/days/{yesterday}", "← Yesterday")] * 2
    )


def test_a_past_day_keeps_its_list(served, papers, yesterday, now):
    before = served.client.get(f"/days/{yesterday}").text
    served.clock.now += timedelta(days=40)

    after = served.client.get(f"/days/{yesterday}").text

    cards = re.compile(r'<ol class="cards">.*?</ol>', re.DOTALL)
    assert cards.findall(after) == cards.findall(before) != []


def load_many(served, at: datetime, count: int) -> None:
    """Load a dump with some papers whose titles contain their positions."""
    records = [
        Record(title=f"Gravel {number:02d}.", ids={"arxiv": f"2611.{number:05d}"})
        for number in range(1, count + 1)
    ]
    load_papers(served, records, at=at)


def listed_papers(page: str) -> list[tuple[str, str]]:
    """Return the number and the title of each paper on a page."""
    start = re.search(r'<ol class="cards"(?: start="(\d+)")?', page)
    first = int(start[1] or 1) if start else 1
    return [
        (str(number), title)
        for number, title in enumerate(re.findall(r"<h3[^>]*><a[^>]*>(Gravel \d\d)", page), first)
    ]


def test_every_paper_of_a_day_can_be_reached_from_the_front_page(served, now):
    load_many(served, now - timedelta(hours=1), 65)
    front = served.client.get("/").text

    path = re.findall(r'href="([^"]+)">Show all 65 papers<', front)[0]
    found: list[list[tuple[str, str]]] = []
    page = ""
    while path:
        page = served.client.get(path).text
        found.append(listed_papers(page))
        path = next(iter(re.findall(r'href="([^"]+)">Next \d+ papers? →<', page)), "")

    assert len(listed_papers(front)) == 10
    assert [len(some) for some in found] == [30, 30, 5]
    assert [int(number) for some in found for number, _ in some] == list(range(1, 66))
    assert len({title for some in found for _, title in some}) == 65
    assert "Papers 61 to 65 of 65" in page
    assert f'href="/days/{now.date()}?page=2">← Previous papers<' in page


def test_a_short_list_has_one_page(served, now):
    load_many(served, now - timedelta(hours=1), 10)

    assert "Show all" not in served.client.get("/").text
    assert "Papers 1 to" not in served.client.get(f"/days/{now.date()}").text


def test_the_front_page_does_not_link_to_a_closed_archive(sqlite_url, tmp_path, clock, now):
    closed = next(opened(settings_for(sqlite_url, tmp_path, public="archive off"), clock))
    load_many(closed, now - timedelta(hours=1), 20)

    assert "Show all" not in closed.client.get("/").text


@pytest.mark.parametrize("page", ["0", "2", "-1", "1000", "two", "", "²"])
def test_a_page_that_a_list_does_not_have_is_not_found(served, papers, now, page):
    assert served.client.get(f"/days/{now.date()}?page={page}").status_code == 404


@pytest.mark.parametrize("day", ["2026-11-01", "2026-11-21", "yesterday", "2026-11-20x", "20261120"])
def test_a_day_without_a_list_is_not_found(served, papers, day):
    assert served.client.get(f"/days/{day}").status_code == 404


def test_the_archive_lists_every_day_latest_first(served, papers, yesterday, now):
    page = served.client.get("/days").text

    assert re.findall(r'href="/days/([\d-]+)"', page) == [str(now.date()), str(yesterday)]
    assert 'href="/topics/language-models"' in page


def test_each_starter_topic_has_a_page_and_feeds(served, papers, yesterday):
    latest = served.client.get("/topics/language-models").text
    feed = served.client.get("/topics/language-models.atom")

    for text in (latest, feed.text):
        assert "Early Language Models" in text
        assert "Slow Diffusion" not in text
    assert feed.headers["content-type"].startswith("application/atom+xml")
    assert served.client.get("/topics/language-models.json").json()["items"][0]["title"] == (
        "Early Language Models"
    )
    day = f"/topics/language-models/{yesterday}"
    for missing in (day, "/topics/gravel", "/topics/gravel.atom", "/topics/language-models.rss"):
        assert served.client.get(missing).status_code == 404


def test_a_crawler_does_not_occupy_all_threads(served, yesterday, monkeypatch):
    is_done = Event()
    make = trending_list.list_of_day
    monkeypatch.setattr(trending_list, "list_of_day", lambda *given: is_done.wait() and make(*given))

    async def crawl() -> tuple[int, set[int]]:
        transport = httpx2.ASGITransport(app=served.app)
        async with httpx2.AsyncClient(transport=transport, base_url=served.site.url) as client:
            pages = [asyncio.create_task(client.get(f"/days/{yesterday}")) for _ in range(60)]
            await asyncio.to_thread(pause, 0.2, "the crawler's requests take the threads")
            other = await client.get("/privacy")
            is_done.set()
            return other.status_code, {page.status_code for page in await asyncio.gather(*pages)}

    assert asyncio.run(crawl()) == (200, {200})


def test_without_papers_the_archive_says_so(served):
    assert "will appear here soon" in served.client.get("/days").text
    assert served.client.get("/topics/vision").status_code == 404


def test_the_sitemap_lists_the_public_pages_and_robots_leave_private_ones(served, papers, yesterday, now):
    places = re.findall(r"<loc>([^<]+)</loc>", served.client.get("/sitemap.xml").text)
    robots = served.client.get("/robots.txt").text

    assert f"{served.site.url}/days/{yesterday}" in places
    for place in places:
        assert served.client.get(place).status_code == 200
    assert f"Sitemap: {served.site.url}/sitemap.xml" in robots
    for private in "cumtavflsde":
        assert f"Disallow: /{private}/\n" in robots


def test_the_archive_can_be_switched_off(sqlite_url, tmp_path: Path, clock, now):
    for served in opened(settings_for(sqlite_url, tmp_path, public="archive off"), clock):
        for path in (
            "/days",
            f"/days/{now.date()}",
            "/topics/vision",
            "/topics/vision.atom",
            "/sitemap.xml",
        ):
            assert served.client.get(path).status_code == 404
        assert "Sitemap" not in served.client.get("/robots.txt").text
        assert "/days" not in served.client.get("/").text


def test_a_hidden_paper_is_gone_from_pages_and_feeds(served, papers, digest_sent, now):
    number = papers[0]
    pages = ["/", f"/days/{now.date()}", "/feed.atom", "/feed.json", "/email"]
    assert all("Slow Diffusion" in served.client.get(page).text for page in pages)

    hide(served, str(number), now)

    for page in pages:
        assert "Slow Diffusion" not in served.client.get(page).text
    for path in (f"/papers/{number}", f"/papers/{number}.bib", f"/papers/{number}.ris"):
        answer = served.client.get(path)
        assert answer.status_code == 410
        assert "This paper was removed" in answer.text


def test_a_hidden_paper_leaves_the_web_page_of_a_digest_too(served, papers, digest_sent, view, now):
    assert "Slow Diffusion" in served.client.get(view).text

    hide(served, str(papers[0]), now)

    page = served.client.get(view)
    assert page.status_code == 200
    assert "Slow Diffusion" not in page.text
    assert "Quiet Paper" in page.text
    assert "Slow Diffusion" not in served.client.get(f"{view}.bib").text


def test_a_paper_that_is_hidden_can_be_shown_again(served, papers, now):
    hide(served, str(papers[0]), now)
    with served.writing() as session:
        hidden_papers.hide(session, str(papers[0]), now=served.clock.now, undo=True)

    assert served.client.get(f"/papers/{papers[0]}").status_code == 200
    assert "Slow Diffusion" in served.client.get("/").text


def test_sources_that_are_not_open_show_only_titles(sqlite_url, tmp_path, clock, papers, served):
    assert "Nothing happens." in served.client.get(f"/papers/{papers[5]}").text

    public = settings_for(sqlite_url, tmp_path, base_url="https://papers.example.org")
    for other in opened(public, clock):
        assert "Diffusion models wait." in other.client.get(f"/papers/{papers[0]}").text
        quiet = other.client.get(f"/papers/{papers[5]}").text
        assert "Quiet Paper" in quiet
        assert "Nothing happens." not in quiet
        assert "Nothing happens." not in other.client.get("/").text + other.client.get("/feed.atom").text

    closed = settings_for(sqlite_url, tmp_path, public="folder no")
    for other in opened(closed, clock):
        assert other.client.get(f"/papers/{papers[5]}").status_code == 410
        assert "Slow Diffusion" not in other.client.get("/").text


def test_reference_managers_find_a_paper_by_its_meta_tags(served, papers):
    page = served.client.get(f"/papers/{papers[0]}").text

    assert '<meta name="citation_title" content="Slow Diffusion">' in page
    assert page.count('<meta name="citation_author"') == 2
    assert '<meta name="citation_arxiv_id" content="2611.00001">' in page


def test_a_papers_page_shows_its_days_on_the_list(served, papers):
    assert "20 November 2026: 90 upvotes" in served.client.get(f"/papers/{papers[0]}").text


def test_public_pages_are_compressed_and_private_pages_are_not(served, papers, alice, manage_path):
    public = served.client.get("/", headers={"accept-encoding": "gzip"})
    private = served.client.get(manage_path, headers={"accept-encoding": "gzip"})

    assert public.headers["content-encoding"] == "gzip"
    assert len(gzip.compress(public.content)) < len(public.content) / 2
    assert "content-encoding" not in private.headers


def test_the_footer_links_to_the_operators_notices(sqlite_url, tmp_path, clock):
    notices = "Privacy https://lab.example/privacy, Imprint https://lab.example/imprint, A11y https://lab.example/a11y"
    for served in opened(settings_for(sqlite_url, tmp_path, footer_links=notices), clock):
        page = served.client.get("/").text
        assert all(f'href="{link.split()[-1]}"' in page for link in notices.split(","))
        assert 'href="/privacy"' not in page


def test_programs_that_ask_for_favicon_are_sent_to_the_icon(served):
    assert served.client.get("/favicon.ico").headers["location"] == "/static/icon.svg"
    assert served.client.get("/static/icon.svg").status_code == 200
