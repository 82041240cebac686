"""Show the trending papers of past days, on all topics or on one."""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import UTC, date
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from digest import db
from digest.app_context import AppContext
from digest.db import Session
from digest.letters import figures_in_words
from digest.papers.catalog import queries
from digest.topics import filter_parser
from digest.topics.filter_parser import Filter
from digest.topics.starter_filters import STARTER_TOPICS
from digest.web import feeds, page_rendering, request_context, trending_list

MAX_DAYS = 1000  #: maximum number of days listed in the archive and in the sitemap
PAGES_AT_ONCE = 4  #: maximum number of lists of papers made at the same time
PAGE_NUMBER = re.compile(r"[1-9][0-9]{0,2}", re.ASCII)


@dataclass(frozen=True, kw_only=True, slots=True)
class DayLink:
    """A link to the list of one day."""

    href: str
    label: str


def page_in_turn(page: Callable[[Request], Response]) -> Callable[[Request], Coroutine[Any, Any, Response]]:
    """Return an endpoint that makes few lists at a time, so that a crawler cannot occupy all threads."""

    async def endpoint(request: Request) -> Response:
        async with request.app.state.archive_pages:
            return await run_in_threadpool(page, request)

    return endpoint


def show_days(request: Request) -> Response:
    """List the starter topics, and the days for which there is a list, latest first."""
    context = open_archive(request)
    with db.read_session(context.engine) as session:
        days = listed_days(context, session)
    links = [
        DayLink(href=f"/days/{day}", label=f"{figures_in_words.weekday_and_day(day)} {day.year}")
        for day in reversed(days)
    ]
    return page_rendering.render_page(request, "days", days=links, topics=topic_links())


def show_day(request: Request) -> Response:
    """Show the list of one day, as it was at the end of the day, with links to the days around it."""
    context, path = open_archive(request), request.path_params["day"]
    with db.read_session(context.engine) as session:
        links = {
            str(day): DayLink(href=f"/days/{day}", label=short_day(day))
            for day in listed_days(context, session)
        }
        if path not in links:
            raise HTTPException(404)
        days = list(links)
        place = days.index(path)
        return list_page(
            request,
            session,
            date.fromisoformat(path),
            path=f"/days/{path}",
            feed="/feed.atom",
            earlier=links[days[place - 1]] if place else None,
            later=links[days[place + 1]] if place + 1 < len(days) else None,
        )


def show_topic(request: Request) -> Response:
    """Show the latest list of papers on a starter topic."""
    context, (name, text) = open_archive(request), starter_topic(request)
    path = f"/topics/{slug(name)}"
    with db.read_session(context.engine) as session:
        days = listed_days(context, session)
        if not days:
            raise HTTPException(404)
        return list_page(
            request,
            session,
            days[-1],
            path=path,
            feed=f"{path}.atom",
            title=name,
            filter=filter_parser.parse(text),
        )


def list_page(
    request: Request,
    session: Session,
    day: date,
    *,
    title: str = "",
    filter: Filter | None = None,
    earlier: DayLink | None = None,
    later: DayLink | None = None,
    **values: Any,
) -> Response:
    """Return a page of a day's list, with links to the list's other pages; raise 404 if there is no such page."""
    context = request_context.context_of(request)
    found = trending_list.list_of_day(context, session, day, filter, requested_page(request))
    if found is None:
        raise HTTPException(404)
    return page_rendering.render_page(
        request, "day", found=found, title=title, topics=topic_links(), earlier=earlier, later=later, **values
    )


def open_archive(request: Request) -> AppContext:
    """Return the app context; raise 404 if the operator has switched the archive off."""
    context = request_context.context_of(request)
    if not context.settings.public.has_archive:
        raise HTTPException(404)
    return context


def listed_days(context: AppContext, session: Session) -> list[date]:
    """Return the days for which there is a list, in order, cached until the catalog changes."""
    key, now = queries.state(session), context.clock()
    return context.caches.get_or_make(
        "listed days", (key, now.date()), lambda: queries.days_with_news(session, until=now)[-MAX_DAYS:]
    )


def earlier_list(context: AppContext, session: Session, day: date) -> DayLink | None:
    """Return a link to the last list before a day; None if there is none or the archive is switched off."""
    earlier = [one for one in listed_days(context, session) if one < day]
    if not earlier or not context.settings.public.has_archive:
        return None
    is_yesterday = (context.clock().astimezone(UTC).date() - earlier[-1]).days == 1
    label = figures_in_words.TRANSLATIONS.gettext("Yesterday") if is_yesterday else short_day(earlier[-1])
    return DayLink(href=f"/days/{earlier[-1]}", label=label)


def whole_list(context: AppContext, session: Session, today: trending_list.TrendingList) -> str | None:
    """Return the path of the list with all papers of `today`.

    Returns None if `today` has all of them, or if the archive does not show that day.
    """
    is_open = context.settings.public.has_archive and today.day in listed_days(context, session)
    return f"/days/{today.day}" if is_open and today.listed > len(today.cards) else None


def requested_page(request: Request) -> int:
    """Return the page number in the URL, by default 1; raise 404 if it is not a number from 1 to 999."""
    text = request.query_params.get("page", "1")
    if not PAGE_NUMBER.fullmatch(text):
        raise HTTPException(404)
    return int(text)


def short_day(day: date) -> str:
    """Return a day without its year, such as `20 November`."""
    return figures_in_words.day_in_words(day).rpartition(" ")[0]


# ── starter topics ──────────────────────────────────────────────────────────────────────────────


def slug(name: str) -> str:
    """Return the name of a topic in the form that URLs contain, such as `language-models`."""
    return name.lower().replace(" ", "-")


def topic_links() -> list[DayLink]:
    """Return a link to each starter topic's page."""
    return [DayLink(href=f"/topics/{slug(name)}", label=name) for name in STARTER_TOPICS]


def starter_topic(request: Request) -> tuple[str, str]:
    """Return the name and filter of the starter topic in the URL; raise 404 if there is no such topic."""
    for name, text in STARTER_TOPICS.items():
        if slug(name) == request.path_params["topic"]:
            return name, text
    raise HTTPException(404)


def show_topic_feed(request: Request) -> Response:
    """Return the feed of a starter topic's recent papers."""
    context, form = open_archive(request), request.path_params["format"]
    name, text = starter_topic(request)
    if form not in feeds.FEED_FORMATS:
        raise HTTPException(404)
    address = f"{context.site.url}/topics/{slug(name)}.{form}"
    with db.read_session(context.engine) as session:
        feed = feeds.cached_feed(context, session, filter_parser.parse(text), name, address)
    return feeds.FEED_FORMATS[form](context, feed)


def redirect_to_icon(request: Request) -> Response:
    """Redirect the programs that request /favicon.ico without reading a page."""
    del request
    return RedirectResponse("/static/icon.svg", 301)
