"""What became of the rows of a file."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """A row that was not imported."""

    line: int
    reason: str


@dataclass(kw_only=True, slots=True)
class Imported:
    """What became of the rows."""

    added: int = 0
    updated: int = 0
    unchanged: int = 0
    invited: int = 0  #: of the pending ones; asked once, whatever is imported again
    problems: list[Problem] = field(default_factory=list)

    @property
    def rejected(self) -> int:
        """Return how many rows were not imported."""
        return len(self.problems)

    def reject(self, line: int, reason: str) -> None:
        """Keep why a row was not imported."""
        self.problems.append(Problem(line=line, reason=reason))
