"""`digest deliveries`, `digest trace` and `digest why`: show letters, their states and the reasons."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from digest import plurals
from digest.cli import command_context, completion, terminal
from digest.cli.command_tree import CommandGroup
from digest.cli.common_options import AsJson, Limit, Now, current_time, parse_choice, positive_number
from digest.cli.confirmation_prompt import DRY_RUN, DryRun
from digest.errors import BadField

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from digest.db.tables import Attempt, Delivery

app = typer.Typer(cls=CommandGroup)


@app.callback(invoke_without_command=True)
def deliveries(
    context: typer.Context,
    state: Annotated[
        str | None,
        typer.Option(
            "--state",
            metavar="STATE",
            help="The state: queued, claimed, sending, sent, failed, expired, suppressed, stuck or empty.",
            show_default=False,
        ),
    ] = None,
    email: Annotated[
        str | None,
        typer.Option("--email", metavar="EMAIL", help="Only letters to this address.", show_default=False),
    ] = None,
    limit: Limit = None,
    as_json: AsJson = False,
) -> None:
    """List every letter, its state and the reason, newest first; stop and resume mail; decide about stuck letters.

    Examples:
        digest deliveries --state failed
        digest deliveries --email ada@example.org --json
    """
    if context.invoked_subcommand is not None:
        return
    from digest.db.tables import DeliveryState
    from digest.delivery import outbox

    with command_context.open_context() as app_context, app_context.read_session() as session:
        chosen = parse_choice("--state", state, DeliveryState)
        if as_json:
            rows = outbox.list_deliveries(session, state=chosen, email=email, limit=limit)
            terminal.lines(as_report(row) for row in rows)
            return
        shown = limit or terminal.LIMIT
        terminal.print_table(
            ("id#", "letter", "to", "state", "when", "reason"),
            (
                (str(r.id), r.edition or r.letter, r.email, r.state, r.settled_at or r.due_at, r.reason)
                for r in outbox.list_deliveries(session, state=chosen, email=email, limit=shown)
            ),
            shrinkable=["reason", "to"],
            empty="No deliveries.",
        )
        found = outbox.count_deliveries(session, state=chosen, email=email)
        terminal.print_rest(shown, found, " Narrow with --state or --email.")


@app.command()
def stop(
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="The reason; shown until you resume.")
    ] = "stopped by the operator",
    everything: Annotated[bool, typer.Option("--all", help="Stop all mail except alarms to you.")] = False,
    now: Now = None,
    as_json: AsJson = False,
) -> None:
    """Stop sending digests until `digest deliveries resume`.

    Examples:
        digest deliveries stop --reason 'wrong template'
        digest deliveries stop --all --reason 'moving the server'
    """
    from digest.delivery import limits, stop_and_resume

    scope = limits.ALL if everything else limits.BULK
    with command_context.open_context() as context, command_context.open_write_session(context) as session:
        is_new = stop_and_resume.stop_mail(session, reason, scope=scope, now=current_time(now))
    already = f"{limits.STOPPED_MAIL[scope]} already stopped."
    sentence = "Stopped. To resume: digest deliveries resume" if is_new else already
    terminal.print_result({"stopped": is_new, "scope": scope}, sentence, as_json=as_json)


@app.command()
def resume(
    deferred: Annotated[
        bool,
        typer.Option(
            "--deferred", help="Also send deferred letters now; --now without a time does the same."
        ),
    ] = False,
    dry_run: DryRun = False,
    now: Now = None,
    as_json: AsJson = False,
) -> None:
    """Resume mail after a stop; waiting letters become due at once.

    Examples:
        digest deliveries resume --dry-run
        digest deliveries resume
    """
    from digest.delivery import stop_and_resume

    with command_context.open_context() as context, command_context.open_write_session(context) as session:
        lifted, due = stop_and_resume.resume_mail(
            session, now=current_time(now), with_deferred=deferred, is_dry_run=dry_run
        )
    letters = plurals.count(due, "letter")
    resumed = f"Mail is resumed; {letters} due now." if lifted else f"Nothing is stopped; {letters} due now."
    if dry_run:
        resumed = f"{DRY_RUN}mail would be resumed, with {letters} due at once."
    terminal.print_result(
        {"lifted": lifted, "due": due},
        resumed if lifted or deferred else "Nothing is stopped.",
        as_json=as_json,
    )


def with_bare_now(arguments: Sequence[str]) -> list[str]:
    """Return the arguments of a command; for `deliveries resume`, `--now` without a time becomes `--deferred`."""
    given = list(arguments)
    if "deliveries" in given and "resume" in given and "--now" in given:
        place = given.index("--now")
        if not given[place + 1 : place + 2] or given[place + 1].startswith("-"):
            given[place] = "--deferred"
    return given


Ids = Annotated[
    list[int] | None,
    typer.Argument(
        metavar="ID...", parser=positive_number, help="Ids in `digest deliveries`.", show_default=False
    ),
]
All = Annotated[bool, typer.Option("--all", help="Choose all stuck letters.")]


@app.command()
def retry(
    ids: Ids = None,
    everything: All = False,
    dry_run: DryRun = False,
    now: Now = None,
    as_json: AsJson = False,
) -> None:
    """Send stuck letters once more.

    A stuck letter may have arrived already, so the reader may get it a second time.

    Examples:
        digest deliveries retry 1042 --dry-run
        digest deliveries retry --all
    """
    from digest.delivery import outbox

    decide_stuck(outbox.retry_stuck, "due again", ids, everything, dry_run, now, as_json)


@app.command("give-up")
def give_up(
    ids: Ids = None,
    everything: All = False,
    dry_run: DryRun = False,
    now: Now = None,
    as_json: AsJson = False,
) -> None:
    """Give up stuck letters: they are not sent again. Their papers count as shown, because the letters may have arrived.

    Examples:
        digest deliveries give-up 1042
        digest deliveries give-up --all --dry-run
    """
    from digest.delivery import outbox

    decide_stuck(outbox.give_up_stuck, "given up", ids, everything, dry_run, now, as_json)


def decide_stuck(
    change: Callable[..., set[int]],
    outcome: str,
    ids: list[int] | None,
    everything: bool,
    dry_run: bool,
    now: datetime | None,
    as_json: bool,
) -> None:
    """Apply the operator's decision to the named letters or to all stuck letters."""
    from digest.delivery import outbox, stop_and_resume

    if bool(ids) == everything:
        raise BadField("ID", "name the letters, or give --all. See: digest deliveries --state stuck")
    with command_context.open_context() as context, command_context.open_write_session(context) as session:
        chosen = outbox.stuck_ids(session) if everything else ids or []
        changed = stop_and_resume.change_stuck_letters(
            session, chosen, change, now=current_time(now), is_dry_run=dry_run
        )
    sentence = f"{DRY_RUN * dry_run}{plurals.count(len(changed), 'letter is', 'letters are')} {outcome}."
    terminal.print_result({"letters": sorted(changed)}, sentence, as_json=as_json)


def as_report(row: Delivery) -> dict[str, Any]:
    """Return a delivery's fields for JSON."""
    names = (
        "id", "letter", "edition", "email", "state", "reason", "lane", "in_doubt", "dated_at", "due_at",
        "expires_at", "settled_at", "message_id", "provider_id",
    )  # fmt: skip
    return {name: getattr(row, name) for name in names} | {"attempt_count": row.attempts}


def trace(
    delivery: Annotated[
        str, typer.Argument(metavar="DELIVERY", help="The id in `digest deliveries`, or the Message-ID.")
    ],
    as_json: AsJson = False,
) -> None:
    """Show one letter: its state, every attempt, and its bounces.

    Examples:
        digest trace 1042
        digest trace '<d-1042@papers.example.org>' --json
    """
    from digest import bounces
    from digest.delivery import outbox

    with command_context.open_context() as context, context.read_session() as session:
        row = outbox.find_delivery(session, delivery)
        attempts = [attempt_report(attempt) for attempt in outbox.list_attempts(session, row.id)]
        returned = [
            bounces.failure_report(bounce) for bounce, _ in bounces.list_failures(session, delivery_id=row.id)
        ]
        report = as_report(row) | {"press": row.press, "content_hash": row.content_hash}
    if as_json:
        terminal.print_json(report | {"attempts": attempts, "bounces": returned})
        return
    terminal.print_facts(
        [
            (name.replace("_", " "), str(value) if name == "id" else value)
            for name, value in report.items()
            if value not in {None, ""}
        ]
    )
    terminal.print_line()
    for at, event in sorted([*map(attempt_event, attempts), *map(bounce_event, returned)]):
        terminal.print_paragraph(f"{terminal.format_cell(at)}  ", event)
    if not attempts:
        is_open = report["state"] == "sending"
        terminal.print_note("An attempt began; its result is unknown." if is_open else "No attempt yet.")


def attempt_event(attempt: dict[str, Any]) -> tuple[datetime, str]:
    """Return when an attempt began, and its result with the server's reply."""
    reply = " ".join(str(part) for part in (attempt["code"], attempt["reply"]) if part)
    verdict = attempt["verdict"] or "in progress, or the worker died"
    where = f" at {attempt['phase']}" if attempt["phase"] else ""
    return attempt["began_at"], f"{verdict}{where}{': ' if reply else ''}{reply}"


def bounce_event(bounce: dict[str, Any]) -> tuple[datetime, str]:
    """Return when a bounce arrived, and its kind, status and diagnostic."""
    return bounce["at"], " ".join(
        part for part in ("bounced:", bounce["kind"], bounce["status"], bounce["diagnostic"]) if part
    )


def attempt_report(row: Attempt) -> dict[str, Any]:
    """Return an attempt's fields for JSON."""
    names = ("began_at", "ended_at", "verdict", "phase", "code", "reply", "lease")
    return {name: getattr(row, name) for name in names}


def why(
    email: Annotated[
        str,
        typer.Argument(metavar="EMAIL", help="A subscriber's address.", autocompletion=completion.emails),
    ],
    paper: Annotated[
        str | None,
        typer.Argument(
            metavar="PAPER",
            help="A catalog id, an arXiv id, a DOI, a URL, or the exact title.",
            show_default=False,
        ),
    ] = None,
    edition: Annotated[
        str | None,
        typer.Option(
            "--edition",
            metavar="EDITION",
            help="Instead of a paper: a day, today, yesterday, or a name such as weekly-2026-W47.",
            show_default=False,
        ),
    ] = None,
    now: Now = None,
    as_json: AsJson = False,
) -> None:
    """Explain why a subscriber did or did not get a paper, or an edition.

    Without PAPER and --edition, explain the latest edition that was due.

    Examples:
        digest why ada@example.org 2411.00001
        digest why ada@example.org 'Tide Tables for Gradient Descent'
        digest why ada@example.org --edition 2026-11-20
    """
    from digest.publishing import why as explanation

    if paper is not None and edition is not None:
        raise BadField("--edition", "name a paper or an edition, not both.")
    with command_context.open_context() as context, context.read_session() as session:
        asked: dict[str, Any] = {"site": context.site, "email": email, "now": current_time(now)}
        if paper is None:
            answer = explanation.why_edition(session, edition=edition, **asked)
        else:
            parts: dict[str, Any] = {
                "templates": context.templates,
                "caches": context.caches,
                "reference": paper,
            }
            answer = explanation.why(session, **parts, **asked)
    if as_json:
        terminal.print_json(answer.json)
        return
    terminal.print_line(answer.verdict)
    for line in answer.lines:
        terminal.print_line(f"  {line}")


def history(
    email: Annotated[
        str, typer.Argument(metavar="EMAIL", help="A subscriber's address.", autocompletion=completion.emails)
    ],
    limit: Limit = None,
    as_json: AsJson = False,
) -> None:
    """List a subscriber's consents, letters, bounces and changes of state, latest first.

    Examples:
        digest history ada@example.org
        digest history ada@example.org --json
    """
    from dataclasses import asdict

    from digest.publishing.reader_history import reader_history

    with command_context.open_context() as context, context.read_session() as session:
        events = reader_history(session, context.site, email)
    if as_json:
        terminal.lines(asdict(one) | {"delivery_id": one.delivery_id or None} for one in events[:limit])
        return
    shown = events[: limit or terminal.LIMIT]
    terminal.print_table(
        ("when", "event", "letter#", "detail"),
        ((one.at, one.event, str(one.delivery_id or ""), one.detail) for one in shown),
        shrinkable=["detail"],
    )
    terminal.print_rest(len(shown), len(events), " One letter: digest trace ID.")
