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

from digest import db, topics
from digest.app_context import AppContext
from digest.db import Session
from digest.letters import figures_in_words
from digest.papers import catalog
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
    """Show the list of one day, as it was at the end of the day."""
    return list_page(request, "/days", title="", filter_text=None)


def show_topic(request: Request) -> Response:
    """Show the list of papers on a starter topic, either the latest or that of one day."""
    name, text = starter_topic(request)
    return list_page(request, f"/topics/{slug(name)}", title=name, filter_text=text)


def list_page(request: Request, place: str, *, title: str, filter_text: str | None) -> Response:
    """Return a page of a day's list, with links to the list's other pages and to the days around it."""
    context = open_archive(request)
    with db.read_session(context.engine) as session:
        days = listed_days(context, session)
        day = requested_day(request, days)
        chosen = topics.parse(filter_text) if filter_text else None
        found = trending_list.list_of_day(context, session, day, chosen, requested_page(request))
    if found is None:
        raise HTTPException(404)
    number = days.index(day)
    return page_rendering.render_page(
        request,
        "day",
        title=title,
        found=found,
        path=f"{place}/{day}",
        earlier=DayLink(href=f"{place}/{days[number - 1]}", label=short_day(days[number - 1]))
        if number
        else None,
        later=DayLink(href=f"{place}/{days[number + 1]}", label=short_day(days[number + 1]))
        if number + 1 < len(days)
        else None,
        feed=f"{place}.atom" if title else "/feed.atom",
        topics=topic_links(),
    )


def open_archive(request: Request) -> AppContext:
    """Return the app context; raise 404 if the operator has switched the archive off."""
    context = request_context.context_of(request)
    if not context.settings.public.has_archive:
        raise HTTPException(404)
    return context


def listed_days(context: AppContext, session: Session) -> list[date]:
    """Return the days for which there is a list, in order, cached until the catalog changes."""
    key, now = catalog.state(session), context.clock()
    return context.caches.get_or_make(
        "listed days", (key, now.date()), lambda: catalog.days_with_news(session, until=now)[-MAX_DAYS:]
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


def requested_day(request: Request, days: list[date]) -> date:
    """Return the day in the URL, by default the latest; raise 404 if there is no list for the day."""
    text = request.path_params.get("day")
    found = {str(day): day for day in days}
    if not found or (text is not None and text not in found):
        raise HTTPException(404)
    return found[text] if text is not None else days[-1]


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
        feed = feeds.cached_feed(context, session, topics.parse(text), name, address)
    return feeds.FEED_FORMATS[form](context, feed)


def redirect_to_icon(request: Request) -> Response:
    """Redirect the programs that request /favicon.ico without reading a page."""
    del request
    return RedirectResponse("/static/icon.svg", 301)
