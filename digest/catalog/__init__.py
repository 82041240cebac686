"""The catalog: the stored papers, and what was observed of them. Nothing here commits."""

from digest.catalog.adding import Tally, add, one_at_a_time
from digest.catalog.looking import arrivals, evidence, find, observed_at, papers, resolve

__all__ = [
    "Tally",
    "add",
    "arrivals",
    "evidence",
    "find",
    "observed_at",
    "one_at_a_time",
    "papers",
    "resolve",
]
