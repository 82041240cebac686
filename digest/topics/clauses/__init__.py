"""Parse one clause of a filter: the field before the colon and the value after it."""

from typing import TYPE_CHECKING

from digest.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from digest.topics.clauses.clause_error import ClauseError
    from digest.topics.clauses.field_names import FIELDS, MISTYPED, SIGNALS, field_named
    from digest.topics.clauses.pack_references import LONGEST_NAME, NAME, make_use
    from digest.topics.clauses.parse_clause import clause, read_examples, read_quoted_clause
    from digest.topics.clauses.text_words import MAX_CHARACTERS, WIDEST
else:
    __getattr__ = lazy_exports(__name__, __file__)

__all__ = [
    "FIELDS",
    "LONGEST_NAME",
    "MAX_CHARACTERS",
    "MISTYPED",
    "NAME",
    "SIGNALS",
    "WIDEST",
    "ClauseError",
    "clause",
    "field_named",
    "make_use",
    "read_examples",
    "read_quoted_clause",
]
