"""Topics: which papers belong to a filter, how well, and why."""

from digest.errors import BadFilter
from digest.topics.backtest import Backtest, Compared, PerDay, backtest, compared
from digest.topics.explanation import Explanation, Pages, Word, explain
from digest.topics.index import Index
from digest.topics.language import Filter, parse
from digest.topics.likeness import likened, suggest
from digest.topics.narrowing import Narrowing, narrowed
from digest.topics.packs import Pack
from digest.topics.plan import Plan
from digest.topics.resolving import Shelf, meanings, resolved, stands_on, written_out

__all__ = [
    "Backtest",
    "BadFilter",
    "Compared",
    "Explanation",
    "Filter",
    "Index",
    "Narrowing",
    "Pack",
    "Pages",
    "PerDay",
    "Plan",
    "Shelf",
    "Word",
    "backtest",
    "compared",
    "explain",
    "likened",
    "meanings",
    "narrowed",
    "parse",
    "resolved",
    "stands_on",
    "suggest",
    "written_out",
]
