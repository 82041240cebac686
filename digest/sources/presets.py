"""What to ask a source for, and what its answers say: values in, values out.

A preset knows a server that publishes papers: where its list of a day stands, how it turns the
page, how long it wants to be left in peace. Anything else is a single URL.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from urllib.parse import quote, urlencode, urlsplit

from digest.errors import BadField

URL = "url"  #: the kind of a source that is no preset
LONGEST_NAME = 80
LONGEST_URL = 2_000
JSON = ("application/json", "text/json")
XML = ("application/xml", "text/xml", "application/atom+xml", "application/rss+xml")
NOT_PAPERS = ("text/html", "application/xhtml+xml", "image/", "audio/", "video/", "font/")
MOST_PAGES = 40  #: of one day; then something is wrong
PER_PAGE = 200  #: entries asked of arXiv's API at a time
LOOK_BACK = 2  #: days before today whose list still changes
ARCHIVE = re.compile(r"[a-z-]+(?:\.[A-Za-z-]+)?(?:\+[a-z-]+(?:\.[A-Za-z-]+)?)*")
TOTAL = re.compile(rb"<opensearch:totalResults[^>]*>\s*(\d{1,9})\s*<")
ENTRY = re.compile(rb"<entry\b")


@dataclass(frozen=True, kw_only=True, slots=True)
class Ask:
    """One request for papers."""

    url: str
    day: date | None = None  #: whose papers these are; None: whatever is new
    page: int = 0
    is_history: bool = False  #: back-filled: in the catalog, never news
    has_figures: bool = False  #: what it tells of attention holds now, not on its day


@dataclass(frozen=True, kw_only=True, slots=True)
class Preset:
    """A server we know."""

    kind: str
    url: str  #: what the requests begin with
    order: str = "none"
    every: timedelta
    back_fill: int = 0  #: days fetched when it is turned on, unless told otherwise
    most_back_fill: int = 0
    types: tuple[str, ...] = ()  #: of its answers; empty: any but a web page
    pause: timedelta = timedelta(seconds=1)  #: between two requests to its server


HOUR = timedelta(hours=1)
PRESETS = {
    "hf-daily": Preset(
        kind="hf-daily",
        url="https://huggingface.co/api/daily_papers",
        every=3 * HOUR,
        back_fill=14,
        most_back_fill=90,
        types=JSON,
    ),
    "arxiv": Preset(
        kind="arxiv",
        url="https://rss.arxiv.org/atom",
        every=HOUR,
        back_fill=7,
        most_back_fill=30,
        types=XML,
        pause=timedelta(seconds=3),  # and one connection: its terms of use
    ),
    "biorxiv": Preset(
        kind="biorxiv",
        url="https://api.biorxiv.org/details/biorxiv",
        every=6 * HOUR,
        back_fill=3,
        most_back_fill=30,
        types=JSON,
    ),
    "medrxiv": Preset(
        kind="medrxiv",
        url="https://api.biorxiv.org/details/medrxiv",
        every=6 * HOUR,
        back_fill=3,
        most_back_fill=30,
        types=JSON,
    ),
}
LEAST, MOST = timedelta(minutes=15), timedelta(days=7)  #: between two polls
ARXIV_API = "https://export.arxiv.org/api/query"


def named(name: str) -> Preset:
    """Return the preset that a name asks for, or a plain URL as one; raise BadField for neither."""
    kind, _, rest = name.partition(":")
    if "://" in name:
        if urlsplit(name).scheme != "https" or not urlsplit(name).hostname:
            raise BadField("source", f"{name[:80]} is no https address.")
        if len(name) > LONGEST_URL:
            raise BadField(
                "source", f"the address has {len(name):,} characters; {LONGEST_URL:,} are the most."
            )
        return Preset(kind=URL, url=name, every=6 * HOUR)
    if kind == "arxiv" and ARCHIVE.fullmatch(rest):
        if len(name) > LONGEST_NAME:
            raise BadField(
                "source",
                f"{name[:40]}... has {len(name)} characters, and {LONGEST_NAME} are the most: name whole archives"
                " (arxiv:cs+stat), or share them out over two sources.",
            )
        return PRESETS[kind]
    if kind != "arxiv" and name in PRESETS:
        return PRESETS[name]
    raise BadField(
        "source",
        f"there is no preset {name[:80]!r}; there are hf-daily, arxiv:cs.CL+cs.LG (any archives), biorxiv,"
        " medrxiv, or an https address.",
    )


def short_name(name: str) -> str:
    """Return what a source is called: itself, but for an address too long for a column, or for anybody's eyes."""
    if len(name) <= LONGEST_NAME:
        return name
    hash8 = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{(urlsplit(name).hostname or 'source')[:60]}-{hash8}"


def pause_for(kind: str) -> timedelta:
    """Return how long the server of such a source is left in peace after a request."""
    return PRESETS[kind].pause if kind in PRESETS else timedelta(seconds=1)


# ── what to ask ─────────────────────────────────────────────────────────────────────────────────


def asks(kind: str, name: str, url: str, *, today: date, since: date) -> tuple[Ask, ...]:
    """Return the requests of one poll; what is older than `since`, the source's first day, is no news."""
    if kind == "hf-daily":  # a list grows for two days, and its votes are worth a second look
        days = [today - timedelta(days=back) for back in range(LOOK_BACK, -1, -1)]
        return tuple(hf_day(url, day, is_history=day < since) for day in days)
    if kind == "arxiv":
        return (Ask(url=f"{url}/{quote(archives(name), safe='+')}"),)
    if kind in ("biorxiv", "medrxiv"):
        return (rxiv_days(url, max(since, today - timedelta(days=1)), today),)
    return (Ask(url=url),)


def past(kind: str, name: str, url: str, *, days: int, today: date) -> Iterator[Ask]:
    """Yield a request for each of the last days, the earliest first; today is not among them.

    `url` is that of the source; the past of an arXiv feed is asked of its API.
    """
    for back in range(days, 0, -1):
        day = today - timedelta(days=back)
        if kind == "hf-daily":
            yield hf_day(url, day, is_history=True)
        elif kind == "arxiv":
            yield arxiv_day(api_of(url), archives(name), day)
        elif kind in ("biorxiv", "medrxiv"):
            yield rxiv_days(url, day, day, is_history=True)


def archives(name: str) -> str:
    """Return `cs.CL+cs.LG` of `arxiv:cs.CL+cs.LG`."""
    return name.partition(":")[2]


def api_of(feed: str) -> str:
    """Return where the API stands that goes with a feed: arXiv's own, or beside a feed that is not arXiv's."""
    return ARXIV_API if feed == PRESETS["arxiv"].url else feed.rpartition("/")[0] + "/api/query"


def hf_day(url: str, day: date, *, is_history: bool) -> Ask:
    """Return the request for a day's page of Hugging Face."""
    query = urlencode({"date": day.isoformat(), "limit": 100})
    return Ask(url=f"{url}?{query}", day=day, is_history=is_history, has_figures=True)


def arxiv_day(url: str, categories: str, day: date, page: int = 0) -> Ask:
    """Return the request for what was submitted to arXiv on a day."""
    wanted = " OR ".join(f"cat:{one}" if "." in one else f"cat:{one}*" for one in categories.split("+"))
    query = {
        "search_query": f"({wanted}) AND submittedDate:[{day:%Y%m%d}0000 TO {day:%Y%m%d}2359]",
        "start": page * PER_PAGE,
        "max_results": PER_PAGE,
        "sortBy": "submittedDate",
        "sortOrder": "ascending",
    }
    return Ask(url=f"{url}?{urlencode(query)}", day=day, page=page, is_history=True)


def rxiv_days(url: str, first: date, last: date, *, cursor: int = 0, is_history: bool = False) -> Ask:
    """Return the request for what bioRxiv or medRxiv posted on some days."""
    address = f"{url}/{first}/{last}/{cursor}/json"
    return Ask(url=address, day=last if is_history else None, page=cursor, is_history=is_history)


# ── what an answer says ─────────────────────────────────────────────────────────────────────────


def next_page(kind: str, ask: Ask, content: bytes) -> Ask | None:
    """Return the request for the page behind this one, or None where it was the last."""
    follow = FOLLOWERS.get(kind)
    return follow(ask, content) if follow else None


def next_of_arxiv(ask: Ask, content: bytes) -> Ask | None:
    """Return the next page of arXiv's API; its feeds have one."""
    total = TOTAL.search(content)
    is_full = len(ENTRY.findall(content)) >= PER_PAGE
    if ask.day is None or total is None or not is_full or ask.page + 1 >= MOST_PAGES:
        return None
    page = ask.page + 1
    if page * PER_PAGE >= int(total[1]):
        return None
    url = re.sub(r"([?&]start=)\d+", rf"\g<1>{page * PER_PAGE}", ask.url)
    return Ask(url=url, day=ask.day, page=page, is_history=True)


def next_of_rxiv(ask: Ask, content: bytes) -> Ask | None:
    """Return the next page: the cursor counts records, and figures come as strings."""
    try:
        told = json.loads(content)
        said = told["messages"][0]
        count, total = len(told["collection"]), int(said["total"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    after = ask.page + count
    if not count or after >= total or after >= MOST_PAGES * 100:
        return None
    head, _, _ = ask.url.removesuffix("/json").rpartition("/")
    return Ask(url=f"{head}/{after}/json", day=ask.day, page=after, is_history=ask.is_history)


FOLLOWERS: dict[str, Callable[[Ask, bytes], Ask | None]] = {
    "arxiv": next_of_arxiv,
    "biorxiv": next_of_rxiv,
    "medrxiv": next_of_rxiv,
}


def is_not_yet(kind: str, ask: Ask, status: int) -> bool:
    """Return whether a refusal only says that this day has not begun where the server stands."""
    return kind == "hf-daily" and status == 400 and ask.day is not None


def is_type(kind: str, told: str) -> bool:
    """Return whether an answer of that content type can hold papers; one without any may."""
    told = told.partition(";")[0].strip().casefold()
    known = PRESETS[kind].types if kind in PRESETS else ()
    if not told:
        return True
    return told in known if known else not told.startswith(NOT_PAPERS)


def suffix(content: bytes) -> str:
    """Return how the name of a kept answer ends."""
    start = content.lstrip()[:1]
    return {b"<": ".xml", b"{": ".json", b"[": ".json"}.get(start, ".txt")
