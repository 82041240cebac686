"""Sources: dumps that are fetched, politely, from servers that publish papers. Off until turned on."""

from digest.sources.fetching import Failed, Fetcher
from digest.sources.polling import Line, Polled, back_fill, fetcher_of, poll
from digest.sources.register import add, due, get, listing, remove

__all__ = [
    "Failed",
    "Fetcher",
    "Line",
    "Polled",
    "add",
    "back_fill",
    "due",
    "fetcher_of",
    "get",
    "listing",
    "poll",
    "remove",
]
