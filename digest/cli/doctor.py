"""`digest doctor`: diagnose problems and suggest fixes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from digest.cli import command_context, status
from digest.cli.frame import command
from digest.cli.options import CLOCK, Now, option
from digest.cli.results import CommandResult, Text, lines, paragraph
from digest.errors import DigestError
from digest.mail.dns_records import DnsUnavailable

if TYPE_CHECKING:
    from digest.monitoring.check_results import Check, Problem

RECEIVED = "Check a received letter: a saved file, or with --send-test the Maildir it arrives in."
MARKS = {"ok": "ok", "warning": "--", "error": "!!"}


@command()
def doctor(
    send_to: str | None = option("--send-test EMAIL", "Also send a test letter."),
    received: Path | None = option("--received PATH", RECEIVED),
    now: Now = CLOCK,
) -> CommandResult:
    """Diagnose problems and suggest fixes.

    Exits with 1 if something does not work.

    Examples:
        digest doctor
        digest doctor --send-test you@example.org
        digest doctor --received letter.eml
    """
    from digest.monitoring import report

    settings = command_context.read_settings()
    checks = [*report.report_from_settings(settings, now, thorough=True).checks]
    if send_to is not None or received is not None:
        checks.extend(check_test_letter(send_to, received))
    found = [*results(checks)]
    is_broken = any(problem.is_failure for check in checks for problem in check.problems)
    return lines(found, map(result_text, found), code=int(is_broken))


def check_test_letter(email: str | None, received: Path | None) -> Iterator[Check]:
    """Yield the checks of a test letter or a received letter, or the error that prevented them."""
    from digest.monitoring import letter_checks
    from digest.monitoring.check_results import failed, warning

    try:
        with command_context.open_context() as context:
            if email is not None:
                yield from letter_checks.send_and_check_test_letter(context, email, received)
            else:
                yield from letter_checks.check_received_letter(context, received or Path())
    except DnsUnavailable as reason:
        message = f"Could not look up the keys of the letter's signatures ({reason})."
        yield warning("test", message, "Run this again on a machine that can reach the DNS.")
    except DigestError as problem:
        yield failed("test", str(problem), "")


def results(checks: Iterable[Check]) -> Iterator[dict[str, str]]:
    """Yield one result for each check without problems, and one result for each problem of the other checks."""
    for check in checks:
        for problem in check.problems:
            status = "error" if problem.is_failure else "warning"
            yield {
                "subject": check.subject,
                "status": status,
                "message": sentence(problem),
                "fix": problem.fix,
            }
        if check.message and not check.problems:
            yield {"subject": check.subject, "status": "ok", "message": check.message, "fix": ""}


def sentence(problem: Problem) -> str:
    """Return the problem's message with its first facts."""
    if not problem.facts:
        return f"{problem.message.removesuffix('.')}."
    more = ["..."] if len(problem.facts) > status.FACTS else []
    return f"{problem.message}: {'; '.join([*problem.facts[: status.FACTS], *more])}"


def result_text(result: dict[str, str]) -> Iterator[Text]:
    """Yield one result, and how to fix it."""
    yield paragraph(f"{MARKS[result['status']]}  {result['subject'].ljust(10)} ", result["message"])
    if result["fix"]:
        yield paragraph(" " * 15, result["fix"])
