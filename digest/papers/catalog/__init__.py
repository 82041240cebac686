"""Store and look up papers and their observations; callers commit."""

from digest.papers.catalog.add_records import CatalogCounts, add, lock_catalog_writes
from digest.papers.catalog.queries import (
    arrivals,
    evidence,
    find,
    observed_at,
    papers,
    positions,
    resolve,
    state,
)

__all__ = [
    "CatalogCounts",
    "add",
    "arrivals",
    "evidence",
    "find",
    "lock_catalog_writes",
    "observed_at",
    "papers",
    "positions",
    "resolve",
    "state",
]
