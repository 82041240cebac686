"""Topics: which papers belong to a filter, how well, and why."""

from digest.errors import BadFilter
from digest.topics.backtest import Backtest, PerDay, backtest
from digest.topics.explanation import Explanation, Word, explain
from digest.topics.index import Index
from digest.topics.language import Filter, parse
from digest.topics.likeness import likened, suggest
from digest.topics.plan import Plan

__all__ = [
    "Backtest",
    "BadFilter",
    "Explanation",
    "Filter",
    "Index",
    "PerDay",
    "Plan",
    "Word",
    "backtest",
    "explain",
    "likened",
    "parse",
    "suggest",
]
