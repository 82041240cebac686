"""Find the papers that match a filter, score their relevance and explain why they match."""

from typing import TYPE_CHECKING

from digest.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from digest.errors import BadFilter
    from digest.topics.example_topics import ExampleTopic, topic_like, topic_like_library
    from digest.topics.explanation import Explainer, Explanation, MatchedWord, explain
    from digest.topics.filter_backtest import Backtest, FilterComparison, PerDay, backtest, compare_filters
    from digest.topics.filter_parser import MAX_CHARACTERS, Filter, any_of, parse
    from digest.topics.marked_text import marked_html
    from digest.topics.pack_files import Pack
    from digest.topics.pack_resolution import (
        PackVersions,
        pack_dependencies,
        parse_resolved,
        resolve_filter,
        resolved_canonical,
        resolved_uses,
    )
    from digest.topics.paper_index import PaperIndex
    from digest.topics.relevance_terms import RelevanceTerm, score_terms
else:
    __getattr__ = lazy_exports(__name__, __file__)

__all__ = [
    "MAX_CHARACTERS",
    "Backtest",
    "BadFilter",
    "ExampleTopic",
    "Explainer",
    "Explanation",
    "Filter",
    "FilterComparison",
    "MatchedWord",
    "Pack",
    "PackVersions",
    "PaperIndex",
    "PerDay",
    "RelevanceTerm",
    "any_of",
    "backtest",
    "compare_filters",
    "explain",
    "marked_html",
    "pack_dependencies",
    "parse",
    "parse_resolved",
    "resolve_filter",
    "resolved_canonical",
    "resolved_uses",
    "score_terms",
    "topic_like",
    "topic_like_library",
]
