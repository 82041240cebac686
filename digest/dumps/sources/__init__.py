"""Fetch dumps from servers that publish papers, if an operator has added them as sources."""

from typing import TYPE_CHECKING

from digest.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from digest.dumps.sources.http_fetch import Fetcher, FetchFailed
    from digest.dumps.sources.page_fetch import load_page
    from digest.dumps.sources.polling import PollContext, PollResult, back_fill, fetcher_of, poll
    from digest.dumps.sources.stored_sources import add, due, get, list_sources, remove
else:
    __getattr__ = lazy_exports(__name__, __file__)

__all__ = [
    "FetchFailed",
    "Fetcher",
    "PollContext",
    "PollResult",
    "add",
    "back_fill",
    "due",
    "fetcher_of",
    "get",
    "list_sources",
    "load_page",
    "poll",
    "remove",
]
