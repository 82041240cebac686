"""Topics: which papers belong to a filter, and why."""

from digest.topics.language import Filter, parse

__all__ = ["Filter", "parse"]
