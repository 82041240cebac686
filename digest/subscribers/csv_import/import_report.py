"""Count the rows of an import by their outcome, and store the problems found."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice

MAX_EMAILS = 1_000  #: maximum number of addresses stored per outcome
MAX_PROBLEMS = 10_000  #: maximum number of rejected rows whose reasons are stored


@dataclass(frozen=True, kw_only=True, slots=True)
class ImportProblem:
    """A row that was not imported, and the reason."""

    line: int
    reason: str


@dataclass(kw_only=True, slots=True)
class ImportReport:
    """The numbers of rows and addresses by outcome, and the problems of an import."""

    added: int = 0
    updated: int = 0
    unchanged: int = 0
    #: Number of pending subscribers who were invited; a repeated import does not invite them again.
    invited: int = 0
    suppressed: int = 0  #: number of addresses suppressed by the file that were not suppressed before
    removed: int = 0  #: number of subscribers who were unsubscribed because they are no longer in the list
    kept_out: int = 0  #: number of rows of the list whose address is suppressed or unsubscribed
    rejected: int = 0  #: number of rows that were not imported
    names_nobody: int = 0  #: number of rejected rows whose address cannot be read
    #: Addresses of the subscribers who were added first, at most `MAX_EMAILS`.
    added_emails: list[str] = field(default_factory=list)
    changed_emails: list[str] = field(default_factory=list)
    removed_emails: list[str] = field(default_factory=list)
    #: The first rejected rows, at most `MAX_PROBLEMS`.
    problems: list[ImportProblem] = field(default_factory=list)

    @property
    def is_loaded(self) -> bool:
        """Return whether the import accepted any row."""
        return bool(self.added or self.updated or self.unchanged or self.suppressed)

    def note_added(self, emails: Iterable[str]) -> None:
        """Store the addresses of added subscribers until the maximum is reached."""
        self.added_emails += islice(emails, MAX_EMAILS - len(self.added_emails))

    def note_changed(self, email: str) -> None:
        """Store the address of a changed subscriber, unless the maximum is reached."""
        if len(self.changed_emails) < MAX_EMAILS:
            self.changed_emails.append(email)

    def note_removed(self, emails: Iterable[str]) -> None:
        """Store the addresses of removed subscribers until the maximum is reached."""
        self.removed_emails += islice(emails, MAX_EMAILS - len(self.removed_emails))

    def reject(self, line: int, reason: str) -> None:
        """Count a rejected row, and store the reason unless the maximum is reached."""
        self.rejected += 1
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(ImportProblem(line=line, reason=reason))
