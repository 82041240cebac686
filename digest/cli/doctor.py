"""`digest doctor`: diagnose problems and suggest fixes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from digest.cli import command_context, status, terminal
from digest.cli.common_options import AsJson, Now, current_time
from digest.dns_records import DnsUnavailable
from digest.errors import DigestError

if TYPE_CHECKING:
    from digest.monitoring.check_results import Check, Problem
    from digest.monitoring.dkim_checks import CheckOutcome

MARKS = {"ok": "ok", "warning": "--", "error": "!!"}


def doctor(
    send_to: Annotated[
        str | None,
        typer.Option("--send-test", metavar="EMAIL", help="Also send a test letter.", show_default=False),
    ] = None,
    received: Annotated[
        Path | None,
        typer.Option(
            "--received",
            metavar="PATH",
            help="Check a received letter: a saved file, or with --send-test the Maildir it arrives in.",
            show_default=False,
        ),
    ] = None,
    now: Now = None,
    as_json: AsJson = False,
) -> None:
    """Diagnose problems and suggest fixes.

    Exits with 1 if something does not work.

    Examples:
        digest doctor
        digest doctor --send-test you@example.org
        digest doctor --received letter.eml
    """
    from digest.monitoring import report

    settings = command_context.read_settings()
    checks = [*report.report_from_settings(settings, current_time(now), thorough=True).checks]
    if send_to is not None or received is not None:
        checks.extend(check_test_letter(send_to, received))
    if as_json:
        terminal.lines(results(checks))
    else:
        for result in results(checks):
            show(result)
    if any(problem.is_failure for check in checks for problem in check.problems):
        raise typer.Exit(1)


def check_test_letter(email: str | None, received: Path | None) -> Iterator[Check]:
    """Yield the checks of a test letter or a received letter, or the error that prevented them."""
    from digest.monitoring.check_results import failed, warning
    from digest.monitoring.setup_checks import check_of

    try:
        for outcome in test_letter_checks(email, received):
            yield check_of("test", outcome)
    except DnsUnavailable as reason:
        message = f"Could not look up the keys of the letter's signatures ({reason})."
        yield warning("test", message, "Run this again on a machine that can reach the DNS.")
    except DigestError as problem:
        yield failed("test", str(problem), "")


def test_letter_checks(email: str | None, received: Path | None) -> Iterator[CheckOutcome]:
    """Send a test letter and check it or, if `email` is None, check the letter saved in `received`."""
    from digest.monitoring import mail_path_checks

    with command_context.open_context() as context:
        if email is not None:
            yield from mail_path_checks.send_and_check_test_letter(context, email, received)
        else:
            yield from mail_path_checks.check_received_letter(
                received or Path(), (), context.site, is_signed=bool(context.signers)
            )


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


def show(result: dict[str, str]) -> None:
    """Print one result."""
    mark = MARKS[result["status"]]
    terminal.print_paragraph(f"{mark}  {result['subject'].ljust(10)} ", result["message"])
    if result["fix"]:
        terminal.print_paragraph(" " * 15, result["fix"])
