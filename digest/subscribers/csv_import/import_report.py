"""Count the rows of an import by outcome."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportProblem:
    """A row that was not imported."""

    line: int
    reason: str


@dataclass(kw_only=True, slots=True)
class ImportReport:
    """The counts and problems of an import."""

    added: int = 0
    updated: int = 0
    unchanged: int = 0
    invited: int = 0  #: invited pending subscribers; a repeated import does not invite them again
    suppressed: int = 0  #: addresses newly suppressed by the file
    problems: list[ImportProblem] = field(default_factory=list)

    @property
    def rejected(self) -> int:
        """Return how many rows were not imported."""
        return len(self.problems)

    @property
    def is_loaded(self) -> bool:
        """Return whether any row was accepted."""
        return bool(self.added or self.updated or self.unchanged or self.suppressed)

    def reject(self, line: int, reason: str) -> None:
        """Record why a row was not imported."""
        self.problems.append(ImportProblem(line=line, reason=reason))
