"""Find the papers that match a filter, score their relevance and explain why they match."""

from typing import TYPE_CHECKING

from digest.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from digest.errors import BadFilter
    from digest.topics.clause_proposals import ClauseProposal, propose_additions, propose_exclusions
    from digest.topics.explanation import Explainer, Explanation, MatchedWord, explain
    from digest.topics.filter_backtest import Backtest, FilterComparison, PerDay, backtest, compare_filters
    from digest.topics.filter_parser import Filter, any_of, parse
    from digest.topics.library_topics import FrequentAuthor, LibraryTopic, LibraryTopics, suggest_from_library
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
    from digest.topics.similar_papers import expand_like
    from digest.topics.suggested_topics import SuggestedClause, SuggestedTopic, suggest_topic
else:
    __getattr__ = lazy_exports(__name__, __file__)

__all__ = [
    "Backtest",
    "BadFilter",
    "ClauseProposal",
    "Explainer",
    "Explanation",
    "Filter",
    "FilterComparison",
    "FrequentAuthor",
    "LibraryTopic",
    "LibraryTopics",
    "MatchedWord",
    "Pack",
    "PackVersions",
    "PaperIndex",
    "PerDay",
    "RelevanceTerm",
    "SuggestedClause",
    "SuggestedTopic",
    "any_of",
    "backtest",
    "compare_filters",
    "expand_like",
    "explain",
    "marked_html",
    "pack_dependencies",
    "parse",
    "parse_resolved",
    "propose_additions",
    "propose_exclusions",
    "resolve_filter",
    "resolved_canonical",
    "resolved_uses",
    "score_terms",
    "suggest_from_library",
    "suggest_topic",
]
