"""One clause of a filter: what may stand before the colon, and how what stands after it is read."""

from digest.topics.clauses.fields import FIELDS, MISTYPED, NO_FIELDS, SIGNALS, field_named, field_suggestion
from digest.topics.clauses.mistake import Mistake
from digest.topics.clauses.reading import clause, quoted
from digest.topics.clauses.references import LONGEST_NAME, NAME, used
from digest.topics.clauses.wording import MOST_CHARACTERS, WIDEST

__all__ = [
    "FIELDS",
    "LONGEST_NAME",
    "MISTYPED",
    "MOST_CHARACTERS",
    "NAME",
    "NO_FIELDS",
    "SIGNALS",
    "WIDEST",
    "Mistake",
    "clause",
    "field_named",
    "field_suggestion",
    "quoted",
    "used",
]
