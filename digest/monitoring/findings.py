"""Define what a check of the service finds: that a part works, or problems, each with its fix."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any


class Severity(StrEnum):
    """What a problem means for the service, and so who hears of it."""

    WARNING = "warning"  #: it works, but could be better: shown, no letter is sent
    NOTICE = "notice"  #: it works, but needs the operator's attention
    FAILURE = "failure"  #: part of it does not work: `digest status` and `digest doctor` exit with 1
    OUTAGE = "outage"  #: it cannot do its work: /readyz fails, too


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """Something that is wrong, and how to fix it."""

    cause: str  #: identifies the problem: two with the same cause are one
    message: str
    fix: str
    severity: Severity = Severity.OUTAGE
    since: datetime | None = None
    facts: tuple[str, ...] = ()

    @property
    def is_warning(self) -> bool:
        """Return whether no letter is sent about it."""
        return self.severity is Severity.WARNING

    @property
    def is_outage(self) -> bool:
        """Return whether the service cannot do its work."""
        return self.severity is Severity.OUTAGE

    @property
    def is_failure(self) -> bool:
        """Return whether something does not work."""
        return self.severity in {Severity.FAILURE, Severity.OUTAGE}

    def to_json(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        return asdict(self) | {"is_warning": self.is_warning}


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One part of the service, and what checking it found."""

    subject: str
    message: str = ""  #: what was found if nothing is wrong
    problems: tuple[Problem, ...] = ()


def passed(subject: str, message: str) -> Check:
    """Return the check of a part that works."""
    return Check(subject=subject, message=message)


def warning(subject: str, message: str, fix: str) -> Check:
    """Return the check of a part that could be better."""
    return failed(subject, message, fix, severity=Severity.WARNING)


def outage(subject: str, message: str, fix: str, *facts: str) -> Check:
    """Return the check of a part without which the service cannot do its work."""
    return failed(subject, message, fix, *facts, severity=Severity.OUTAGE)


def failed(subject: str, message: str, fix: str, *facts: str, severity: Severity = Severity.FAILURE) -> Check:
    """Return the check of a part that does not work; the problem's cause is the part."""
    problem = Problem(cause=subject, message=message, fix=fix, facts=facts, severity=severity)
    return Check(subject=subject, problems=(problem,))
