"""Count the rows of an import by outcome."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice

MAX_EMAILS = 1_000  #: maximum number of addresses stored for each outcome
MAX_PROBLEMS = 10_000  #: maximum number of problems stored


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
    invited: int = 0  #: number of invited pending subscribers; a repeated import does not invite them again
    suppressed: int = 0  #: number of addresses that the file newly suppressed
    removed: int = 0  #: number of subscribers who were unsubscribed because the list no longer has them
    kept_out: int = 0  #: number of members of the list who are suppressed or unsubscribed
    rejected: int = 0  #: number of rows that were not imported
    names_nobody: int = 0  #: number of rejected rows without a readable address
    added_emails: list[str] = field(default_factory=list)  #: the first added addresses, at most `MAX_EMAILS`
    changed_emails: list[str] = field(default_factory=list)
    removed_emails: list[str] = field(default_factory=list)
    problems: list[ImportProblem] = field(default_factory=list)  #: the first problems, at most `MAX_PROBLEMS`

    @property
    def is_loaded(self) -> bool:
        """Return whether any row was accepted."""
        return bool(self.added or self.updated or self.unchanged or self.suppressed)

    def note_added(self, emails: Iterable[str]) -> None:
        """Store added addresses until the maximum is reached."""
        self.added_emails += islice(emails, MAX_EMAILS - len(self.added_emails))

    def note_changed(self, email: str) -> None:
        """Store a changed address, unless the maximum is reached."""
        if len(self.changed_emails) < MAX_EMAILS:
            self.changed_emails.append(email)

    def note_removed(self, emails: Iterable[str]) -> None:
        """Store removed addresses until the maximum is reached."""
        self.removed_emails += islice(emails, MAX_EMAILS - len(self.removed_emails))

    def reject(self, line: int, reason: str) -> None:
        """Record why a row was not imported."""
        self.rejected += 1
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(ImportProblem(line=line, reason=reason))
