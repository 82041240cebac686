"""Show the trending papers of past days, on all topics or on one, and name the public pages to crawlers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date
from typing import Any
from xml.etree import ElementTree

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from digest.letters import figures_in_words
from digest.papers.catalog import queries
from digest.topics import filter_parser
from digest.topics.filter_parser import Filter
from digest.topics.starter_filters import STARTER_TOPICS
from digest.web import feeds, trending_list, visits
from digest.web.middleware import READER_PAGES
from digest.web.visits import Page, Visit

MAX_DAYS = 1000  #: maximum number of days listed in the archive and in the sitemap
PAGES_AT_ONCE = 4  #: maximum number of lists of papers made at the same time
PAGE_NUMBER = re.compile(r"[1-9][0-9]{0,2}", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class DayLink:
    """A link to the list of one day, or of one topic."""

    href: str
    label: str


def archive_route(path: str, page: Page) -> BaseRoute:
    """Return the route of a page of which few are made at a time, so that a crawler cannot occupy all threads.

    The page is not found if the operator has switched the archive off.
    """

    async def endpoint(request: Request) -> Response:
        if not visits.context_of(request).settings.public.has_archive:
            raise HTTPException(404)
        async with request.app.state.archive_pages:
            return await run_in_threadpool(visits.answer, request, page)

    return Route(path, endpoint)


def show_days(visit: Visit) -> Response:
    """List the starter topics, and the days for which there is a list, latest first."""
    links = [
        DayLink(href=f"/days/{day}", label=f"{figures_in_words.weekday_and_day(day)} {day.year}")
        for day in reversed(listed_days(visit))
    ]
    return visit.page("days", days=links, topics=topic_links())


def show_day(visit: Visit) -> Response:
    """Show the list of one day, as it was at the end of the day, with links to the days around it."""
    days = listed_days(visit)
    place = next((place for place, day in enumerate(days) if visit.path == f"/days/{day}"), None)
    if place is None:
        raise HTTPException(404)
    earlier = short_link(days[place - 1]) if place else None
    later = short_link(days[place + 1]) if place + 1 < len(days) else None
    return list_page(visit, days[place], feed="/feed.atom", earlier=earlier, later=later)


def show_topic(visit: Visit) -> Response:
    """Show the latest list of papers on a starter topic."""
    name, text = starter_topic(visit)
    days = listed_days(visit)
    if not days:
        raise HTTPException(404)
    return list_page(visit, days[-1], feed=f"{visit.path}.atom", title=name, filter=filter_parser.parse(text))


def list_page(
    visit: Visit, day: date, *, title: str = "", filter: Filter | None = None, **values: Any
) -> Response:
    """Return a page of a day's list, with links to the list's other pages; raise 404 if there is no such page."""
    number = visit.request.query_params.get("page", "1")
    if not PAGE_NUMBER.fullmatch(number):
        raise HTTPException(404)
    found = trending_list.list_of_day(visit, day, filter, int(number))
    if found is None:
        raise HTTPException(404)
    values = {"earlier": None, "later": None, **values}
    return visit.page("day", found=found, title=title, path=visit.path, topics=topic_links(), **values)


def listed_days(visit: Visit) -> list[date]:
    """Return the days for which there is a list, in order, cached until the catalog changes."""
    return visit.cached(
        "listed days", lambda: queries.days_with_news(visit.session, until=visit.now)[-MAX_DAYS:]
    )


def earlier_list(visit: Visit, day: date) -> DayLink | None:
    """Return a link to the last list before a day; None if there is none or the archive is switched off."""
    earlier = [one for one in listed_days(visit) if one < day]
    if not earlier or not visit.context.settings.public.has_archive:
        return None
    if (visit.now.astimezone(UTC).date() - earlier[-1]).days == 1:
        label = "Yesterday"
        return DayLink(href=f"/days/{earlier[-1]}", label=label)
    return short_link(earlier[-1])


def whole_list(visit: Visit, today: trending_list.TrendingList) -> str | None:
    """Return the path of the list with all papers of `today`.

    Returns None if `today` has all of them, or if the archive does not show that day.
    """
    is_open = visit.context.settings.public.has_archive and today.day in listed_days(visit)
    return f"/days/{today.day}" if is_open and today.listed > len(today.cards) else None


def short_link(day: date) -> DayLink:
    """Return a link to a day without its year, such as `20 November`."""
    return DayLink(href=f"/days/{day}", label=figures_in_words.day_in_words(day).rpartition(" ")[0])


# ── starter topics ──────────────────────────────────────────────────────────────────────────────


def topic_links() -> list[DayLink]:
    """Return a link to each starter topic's page, such as `/topics/language-models`."""
    return [DayLink(href=f"/topics/{name.lower().replace(' ', '-')}", label=name) for name in STARTER_TOPICS]


def starter_topic(visit: Visit) -> tuple[str, str]:
    """Return the name and filter of the starter topic in the URL; raise 404 if there is no such topic."""
    path = f"/topics/{visit.request.path_params['topic']}"
    name = next((one.label for one in topic_links() if one.href == path), None)
    if name is None:
        raise HTTPException(404)
    return name, STARTER_TOPICS[name]


def show_topic_feed(visit: Visit) -> Response:
    """Return the feed of a starter topic's recent papers."""
    name, text = starter_topic(visit)
    return feeds.show_matches(visit, filter_parser.parse(text), name)


# ── for crawlers ─────────────────────────────────────────────────────────────────────────────────────


SITEMAP = "http://www.sitemaps.org/schemas/sitemap/0.9"


def show_robots(visit: Visit) -> Response:
    """Return robots.txt (RFC 9309): crawlers may fetch the public pages, but no reader's personal pages."""
    rules = "".join(f"Disallow: /{page}/\n" for page in READER_PAGES) + "Disallow: /outbox\n"
    has_archive = visit.context.settings.public.has_archive
    place = f"\nSitemap: {visit.site.url}/sitemap.xml\n" * has_archive
    return PlainTextResponse(f"User-agent: *\n{rules}{place}")


def show_sitemap(visit: Visit) -> Response:
    """Return the sitemap with the addresses of the public pages (sitemaps.org, protocol 0.9)."""
    root = ElementTree.Element("urlset", xmlns=SITEMAP)
    for path, changed in public_paths(listed_days(visit)):
        entry = ElementTree.SubElement(root, "url")
        ElementTree.SubElement(entry, "loc").text = visit.site.url + path
        if changed:
            ElementTree.SubElement(entry, "lastmod").text = str(changed)
    content = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return Response(content, media_type="application/xml")


def public_paths(days: list[date]) -> Iterator[tuple[str, date | None]]:
    """Yield the path of each public page, and the day on which it last changed."""
    latest = days[-1] if days else None
    yield "/", latest
    yield "/days", latest
    yield from ((link.href, latest) for link in topic_links())
    yield from ((f"/days/{day}", day) for day in reversed(days))
