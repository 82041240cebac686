"""Store and look up papers and their observations; callers commit."""

from typing import TYPE_CHECKING

from digest.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from digest.papers.catalog.hidden_papers import hide, hide_dump
    from digest.papers.catalog.match_or_add_records import CatalogCounts, add, lock_catalog_writes
    from digest.papers.catalog.other_versions import delete_old_shingles, earlier_versions
    from digest.papers.catalog.queries import (
        arrivals,
        as_known,
        current,
        days_with_news,
        evidence,
        find,
        loaded_lists,
        nearest_title,
        observed_at,
        papers,
        positions,
        resolve,
        state,
    )
else:
    __getattr__ = lazy_exports(__name__, __file__)

__all__ = [
    "CatalogCounts",
    "add",
    "arrivals",
    "as_known",
    "current",
    "days_with_news",
    "delete_old_shingles",
    "earlier_versions",
    "evidence",
    "find",
    "hide",
    "hide_dump",
    "loaded_lists",
    "lock_catalog_writes",
    "nearest_title",
    "observed_at",
    "papers",
    "positions",
    "resolve",
    "state",
]
