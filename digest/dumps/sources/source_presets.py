"""Build the requests for a source and interpret its responses.

A preset describes a server that publishes papers: the URLs of its daily lists, its paging, and the
pause between requests. A source without a preset is a single URL.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from urllib.parse import SplitResult, quote, urlencode, urlsplit

from digest.errors import BadField

URL_KIND = "url"  #: the kind of a source without a preset
LONGEST_NAME = 80
LONGEST_URL = 2_000
JSON = ("application/json", "text/json")
XML = ("application/xml", "text/xml", "application/atom+xml", "application/rss+xml")
NOT_PAPERS = ("text/html", "application/xhtml+xml", "image/", "audio/", "video/", "font/")
MAX_PAGES = 40  #: maximum number of pages per day; if there are more, the server's paging is broken
PER_PAGE = 200  #: number of entries per request to arXiv's API
DAYS_LOOKED_BACK = 2  #: number of days before today whose lists may still change
ARCHIVE = re.compile(r"[a-z-]+(?:\.[A-Za-z-]+)?(?:\+[a-z-]+(?:\.[A-Za-z-]+)?)*")
TOTAL_RESULTS = re.compile(rb"<opensearch:totalResults[^>]*>\s*(\d{1,9})\s*<")
#: Secret query parameters: api_key=..., access-token=..., X-Amz-Signature=...; not author=... or keywords=...
SECRET_PARAMETER = re.compile(
    r"(?i)((?<![^&])[^&=]*(?:key(?!word)|token|secret|passw|pwd|signature|credential|auth(?!or)|\bsig)[^&=]*)=[^&]+"
)
ENTRY = re.compile(rb"<entry\b")


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceRequest:
    """One request for papers."""

    url: str
    day: date | None = None  #: the day of the papers; None for the latest papers
    page: int = 0
    is_history: bool = False  #: whether the papers are added to the catalog without being shown as new
    has_figures: bool = False  #: whether the signals, such as votes, were observed now and not on `day`


@dataclass(frozen=True, kw_only=True, slots=True)
class SourcePreset:
    """A known server and how to poll it."""

    kind: str
    url: str  #: the beginning of the URLs of all requests
    order: str = "none"
    interval: timedelta
    back_fill: int = 0  #: number of days of history that are fetched by default when the source is added
    most_back_fill: int = 0
    types: tuple[str, ...] = ()  #: accepted content types; if empty, all except NOT_PAPERS
    pause: timedelta = timedelta(seconds=1)  #: pause between two requests to the server


HOUR = timedelta(hours=1)
PRESETS = {
    "hf-daily": SourcePreset(
        kind="hf-daily",
        url="https://huggingface.co/api/daily_papers",
        interval=3 * HOUR,
        back_fill=14,
        most_back_fill=90,
        types=JSON,
    ),
    "arxiv": SourcePreset(
        kind="arxiv",
        url="https://rss.arxiv.org/atom",
        interval=HOUR,
        back_fill=7,
        most_back_fill=30,
        types=XML,
        pause=timedelta(seconds=3),  # required by arXiv's terms of use, which also allow only one connection
    ),
    **{
        kind: SourcePreset(
            kind=kind,
            url=f"https://api.biorxiv.org/details/{kind}",
            interval=6 * HOUR,
            back_fill=3,
            most_back_fill=30,
            types=JSON,
        )
        for kind in ("biorxiv", "medrxiv")
    },
}
#: the shortest and longest allowed time between two polls
MIN_INTERVAL, MAX_INTERVAL = timedelta(minutes=15), timedelta(days=7)
ARXIV_API = "https://export.arxiv.org/api/query"


def preset_for(name: str) -> SourcePreset:
    """Return the preset for a source's name or URL; raise BadField if the name or URL is invalid."""
    kind, _, rest = name.partition(":")
    if "://" in name:
        parts = parts_of(name)
        if "@" in parts.netloc:
            raise BadField(
                "source",
                f"{without_secrets(name)[:80]} contains a user name or a password; such URLs are not fetched.",
            )
        if parts.scheme != "https" or not parts.hostname:
            raise BadField("source", f"{without_secrets(name)[:80]} is not an https URL.")
        if len(name) > LONGEST_URL:
            raise BadField(
                "source", f"the URL has {len(name):,} characters; at most {LONGEST_URL:,} are allowed."
            )
        return SourcePreset(kind=URL_KIND, url=name, interval=6 * HOUR)
    if kind == "arxiv" and ARCHIVE.fullmatch(rest):
        if len(name) > LONGEST_NAME:
            raise BadField(
                "source",
                f"{name[:40]}... has {len(name)} characters; at most {LONGEST_NAME} are allowed. Name whole"
                " archives (arxiv:cs+stat), or add two sources.",
            )
        return PRESETS[kind]
    if kind != "arxiv" and name in PRESETS:
        return PRESETS[name]
    raise BadField(
        "source",
        f"there is no preset {name[:80]!r}; use hf-daily, arxiv:cs.CL+cs.LG (any archives), biorxiv,"
        " medrxiv, or an https URL.",
    )


def parts_of(url: str) -> SplitResult:
    """Return the parts of a URL; raise BadField if the URL is invalid."""
    try:
        return urlsplit(url)
    except ValueError as error:
        raise BadField("source", f"it is not a URL ({error}).") from None


def short_name(name: str) -> str:
    """Return a short name for a source; the name contains no secrets.

    A URL that is long or contains a secret is replaced by its server and a hash; other names are unchanged.
    """
    if len(name) <= LONGEST_NAME and without_secrets(name) == name:
        return name
    return f"{(parts_of(name).hostname or 'source')[:60]}-{short_hash(name)}"


def short_hash(text: str) -> str:
    """Return the first eight hexadecimal digits of a string's SHA-256."""
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def without_secrets(url: str) -> str:
    """Return a URL without user name and password, replacing query values that look like secrets with ***."""
    parts = parts_of(url) if "://" in url else None
    if parts is None or not ("@" in parts.netloc or SECRET_PARAMETER.search(parts.query)):
        return url
    query = SECRET_PARAMETER.sub(r"\1=***", parts.query)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query=query).geturl()


def pause_for(kind: str) -> timedelta:
    """Return how long to pause after a request to the server of a source of this kind."""
    return PRESETS[kind].pause if kind in PRESETS else timedelta(seconds=1)


# ── building requests ───────────────────────────────────────────────────────────────────────────


def poll_requests(kind: str, name: str, url: str, *, today: date, since: date) -> tuple[SourceRequest, ...]:
    """Return the requests of one poll; lists from before `since`, the source's first day, are history."""
    if kind == "hf-daily":  # for two days, papers are added to a list and their votes change
        days = [today - timedelta(days=back) for back in range(DAYS_LOOKED_BACK, -1, -1)]
        return tuple(hf_day(url, day, is_history=day < since) for day in days)
    if kind == "arxiv":
        return (SourceRequest(url=f"{url}/{quote(archives_in_name(name), safe='+')}"),)
    if kind in ("biorxiv", "medrxiv"):
        return (rxiv_days(url, max(since, today - timedelta(days=1)), today),)
    return (SourceRequest(url=url),)


def history_requests(kind: str, name: str, url: str, *, days: int, today: date) -> Iterator[SourceRequest]:
    """Yield a request for each of the last `days` before today, the earliest first.

    `url` is the source's URL; the history of an arXiv feed is requested from the API.
    """
    for back in range(days, 0, -1):
        day = today - timedelta(days=back)
        if kind == "hf-daily":
            yield hf_day(url, day, is_history=True)
        elif kind == "arxiv":
            yield arxiv_day(api_of(url), archives_in_name(name), day)
        elif kind in ("biorxiv", "medrxiv"):
            yield rxiv_days(url, day, day, is_history=True)


def archives_in_name(name: str) -> str:
    """Return the arXiv categories in a source's name: `cs.CL+cs.LG` for `arxiv:cs.CL+cs.LG`."""
    return name.partition(":")[2]


def api_of(feed: str) -> str:
    """Return the URL of the API for an arXiv feed: arXiv's own API, or the API on another feed's server."""
    return ARXIV_API if feed == PRESETS["arxiv"].url else feed.rpartition("/")[0] + "/api/query"


def hf_day(url: str, day: date, *, is_history: bool) -> SourceRequest:
    """Return the request for Hugging Face's list of a day."""
    query = urlencode({"date": day.isoformat(), "limit": 100})
    return SourceRequest(url=f"{url}?{query}", day=day, is_history=is_history, has_figures=True)


def arxiv_day(url: str, categories: str, day: date, page: int = 0) -> SourceRequest:
    """Return the request for the papers submitted to arXiv on a day."""
    terms = " OR ".join(f"cat:{one}" if "." in one else f"cat:{one}*" for one in categories.split("+"))
    query = {
        "search_query": f"({terms}) AND submittedDate:[{day:%Y%m%d}0000 TO {day:%Y%m%d}2359]",
        "start": page * PER_PAGE,
        "max_results": PER_PAGE,
        "sortBy": "submittedDate",
        "sortOrder": "ascending",
    }
    return SourceRequest(url=f"{url}?{urlencode(query)}", day=day, page=page, is_history=True)


def rxiv_days(
    url: str, first: date, last: date, *, cursor: int = 0, is_history: bool = False
) -> SourceRequest:
    """Return the request for the papers that bioRxiv or medRxiv posted from `first` to `last`."""
    address = f"{url}/{first}/{last}/{cursor}/json"
    return SourceRequest(url=address, day=last if is_history else None, page=cursor, is_history=is_history)


# ── reading responses ─────────────────────────────────────────────────────────────────────────


def next_page(kind: str, request: SourceRequest, content: bytes) -> SourceRequest | None:
    """Return the request for the page after this response, or None after the last page."""
    follow = NEXT_PAGE_READERS.get(kind)
    return follow(request, content) if follow else None


def next_arxiv_page(request: SourceRequest, content: bytes) -> SourceRequest | None:
    """Return the request for the next page of arXiv's API, or None; feeds have one page."""
    total = TOTAL_RESULTS.search(content)
    is_full = len(ENTRY.findall(content)) >= PER_PAGE
    if request.day is None or total is None or not is_full or request.page + 1 >= MAX_PAGES:
        return None
    page = request.page + 1
    if page * PER_PAGE >= int(total[1]):
        return None
    url = re.sub(r"([?&]start=)\d+", rf"\g<1>{page * PER_PAGE}", request.url)
    return SourceRequest(url=url, day=request.day, page=page, is_history=True)


def next_rxiv_page(request: SourceRequest, content: bytes) -> SourceRequest | None:
    """Return the request for the next page of bioRxiv's or medRxiv's API, or None after the last page.

    The cursor counts records, and `total` may be a number or a string.
    """
    try:
        answer = json.loads(content)
        message = answer["messages"][0]
        count, total = len(answer["collection"]), int(message["total"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    after = request.page + count
    if not count or after >= total or after >= MAX_PAGES * 100:
        return None
    head, _, _ = request.url.removesuffix("/json").rpartition("/")
    return SourceRequest(
        url=f"{head}/{after}/json", day=request.day, page=after, is_history=request.is_history
    )


NEXT_PAGE_READERS: dict[str, Callable[[SourceRequest, bytes], SourceRequest | None]] = {
    "arxiv": next_arxiv_page,
    "biorxiv": next_rxiv_page,
    "medrxiv": next_rxiv_page,
}


def is_day_not_begun(kind: str, request: SourceRequest, status: int) -> bool:
    """Return whether an error status only means that the day has not begun in the server's time zone."""
    return kind == "hf-daily" and status == 400 and request.day is not None


def is_accepted_type(kind: str, content_type: str) -> bool:
    """Return whether a response of this content type may contain papers; a missing type is accepted."""
    content_type = content_type.partition(";")[0].strip().casefold()
    known = PRESETS[kind].types if kind in PRESETS else ()
    if not content_type:
        return True
    return content_type in known if known else not content_type.startswith(NOT_PAPERS)


def file_suffix(content: bytes) -> str:
    """Return the file suffix for a response with this content."""
    start = content.lstrip()[:1]
    return {b"<": ".xml", b"{": ".json", b"[": ".json"}.get(start, ".txt")
