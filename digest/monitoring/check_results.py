"""Define the results of checks: a component works or has problems, and each problem has a fix."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from digest.errors import DigestError


class Severity(StrEnum):
    """The severity of a problem, which determines how it is reported."""

    WARNING = "warning"  #: the service works, but a setting should be improved; no letter is sent about it
    NOTICE = "notice"  #: the service works, but needs the operator's attention
    FAILURE = "failure"  #: a component does not work; `digest status` and `digest doctor` exit with 1
    OUTAGE = "outage"  #: the service does not work; /readyz also fails


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """A fault of the service, and its fix."""

    cause: str  #: identifies the problem: findings with the same cause are the same problem
    message: str
    fix: str
    severity: Severity = Severity.OUTAGE
    since: datetime | None = None
    facts: tuple[str, ...] = ()

    @property
    def is_warning(self) -> bool:
        """Return whether the problem is only shown, and no letter is sent about it."""
        return self.severity is Severity.WARNING

    @property
    def is_outage(self) -> bool:
        """Return whether the service does not work."""
        return self.severity is Severity.OUTAGE

    @property
    def is_failure(self) -> bool:
        """Return whether a component or the whole service does not work."""
        return self.severity in {Severity.FAILURE, Severity.OUTAGE}

    def to_json(self) -> dict[str, Any]:
        """Return the fields of the problem for the JSON output."""
        return asdict(self) | {"is_warning": self.is_warning}


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """The result of checking one component of the service."""

    subject: str  #: the component
    message: str = ""  #: the finding if there are no problems
    problems: tuple[Problem, ...] = ()


def passed(subject: str, message: str) -> Check:
    """Return the result for a component that works."""
    return Check(subject=subject, message=message)


def warning(subject: str, message: str, fix: str) -> Check:
    """Return the result for a component that works but should be improved."""
    return failed(subject, message, fix, severity=Severity.WARNING)


def outage(subject: str, message: str, fix: str, *facts: str) -> Check:
    """Return the result for an essential component that does not work."""
    return failed(subject, message, fix, *facts, severity=Severity.OUTAGE)


def failed(subject: str, message: str, fix: str, *facts: str, severity: Severity = Severity.FAILURE) -> Check:
    """Return the result for a component that does not work; `subject` is also the cause of the problem."""
    problem = Problem(cause=subject, message=message, fix=fix, facts=facts, severity=severity)
    return Check(subject=subject, problems=(problem,))


def run_check(subject: str, check: Callable[[], Iterable[Check]]) -> Iterator[Check]:
    """Run a check; a DigestError or OSError that the check raises is reported as a problem."""
    try:
        yield from check()
    except DigestError as error:
        yield failed(subject, str(error), "")
    except OSError as error:
        yield failed(subject, f"{error.filename or subject}: {error.strerror}", "")
