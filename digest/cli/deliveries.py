"""`digest deliveries` and `digest why`: show letters, their states and the reasons; stop and resume mail."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from digest import plurals
from digest.cli import completion, incoming_mail, terminal
from digest.cli.command_tree import CommandGroup
from digest.cli.frame import Workspace, command, reading, writing
from digest.cli.options import CLOCK, DryRun, Limit, Now, argument, option, parse_choice, positive_number
from digest.cli.results import CommandResult, Text, facts, fields_of, listing, note, paragraph
from digest.cli.terminal import format_cell
from digest.errors import BadField

if TYPE_CHECKING:
    from datetime import datetime

    from digest.db.tables.deliveries import Delivery

app = typer.Typer(cls=CommandGroup)

STATES = "The state: queued, claimed, sending, sent, failed, expired, suppressed, stuck or empty."

BY_OPERATOR = "stopped by the operator"
EDITION = "Instead of a paper: a day, today, yesterday, or a name such as weekly-2026-W47."


@app.callback(invoke_without_command=True)
@command(reading)
def deliveries(
    called: typer.Context,
    work: Workspace,
    state: str | None = option("--state STATE", STATES),
    email: str | None = option("--email EMAIL", "Only letters to this address."),
    limit: Limit = None,
) -> CommandResult:
    """List every letter, its state and the reason, newest first; stop and resume mail; decide about stuck letters.

    Examples:
        digest deliveries --state failed
        digest deliveries --email ada@example.org --json
    """
    from digest.db.tables.deliveries import DeliveryState
    from digest.delivery.outbox import delivery_listing

    del called
    chosen: dict[str, Any] = {"state": parse_choice("--state", state, DeliveryState), "email": email}
    return listing(
        lambda limit: map(as_report, delivery_listing.list_deliveries(work.session, **chosen, limit=limit)),
        {
            "id#": lambda row: str(row["id"]),
            "letter": lambda row: row["edition"] or row["letter"],
            "to": "email",
            "state": "state",
            "when": lambda row: row["settled_at"] or row["due_at"],
            "reason": "reason",
        },
        shrinks="reason to",
        empty="No deliveries.",
        limit=limit,
        total=partial(delivery_listing.count_deliveries, work.session, **chosen),
        hint=" Narrow with --state or --email.",
    )


@command(writing, app)
def stop(
    work: Workspace,
    reason: str = option("--reason TEXT", "The reason; shown until you resume.", BY_OPERATOR),
    everything: bool = option("--all", "Stop all mail except alarms to you."),
    now: Now = CLOCK,
) -> CommandResult:
    """Stop sending digests until `digest deliveries resume`.

    Examples:
        digest deliveries stop --reason 'wrong template'
        digest deliveries stop --all --reason 'moving the server'
    """
    from digest.delivery import stop_and_resume
    from digest.delivery.limits.decisions import ALL, BULK
    from digest.delivery.limits.emergency_stops import STOPPED_MAIL

    scope = ALL if everything else BULK
    is_new = stop_and_resume.stop_mail(work.session, reason, scope=scope, now=now)
    already = f"{STOPPED_MAIL[scope]} already stopped."
    return CommandResult(
        {"stopped": is_new, "scope": scope},
        "Stopped. To resume: digest deliveries resume" if is_new else already,
    )


@command(writing, app)
def resume(
    work: Workspace,
    deferred: bool = option("--deferred", "Also send deferred letters now."),
    dry_run: DryRun = False,
    now: Now = CLOCK,
) -> CommandResult:
    """Resume mail after a stop; waiting letters become due at once.

    Examples:
        digest deliveries resume --dry-run
        digest deliveries resume
    """
    from digest.delivery import stop_and_resume

    lifted, due = stop_and_resume.resume_mail(
        work.session, now=now, with_deferred=deferred, is_dry_run=dry_run
    )
    letters = plurals.count(due, "letter")
    resumed = f"Mail is resumed; {letters} due now." if lifted else f"Nothing is stopped; {letters} due now."
    if dry_run:
        resumed = f"{terminal.DRY_RUN}mail would be resumed, with {letters} due at once."
    nothing = "Nothing is stopped. To send deferred letters now: digest deliveries resume --deferred"
    return CommandResult({"lifted": lifted, "due": due}, resumed if lifted or deferred else nothing)


@command(writing, app)
def settle(
    work: Workspace,
    ids: list[int] | None = argument(
        "ID...", "Stuck letters, by their ids in `digest deliveries`.", None, parser=positive_number
    ),
    everything: bool = option("--all", "Settle all stuck letters."),
    again: bool = option("--send-again", "Send them once more."),
    gives_up: bool = option("--give-up", "Send them no more."),
    dry_run: DryRun = False,
    now: Now = CLOCK,
) -> CommandResult:
    """Decide about stuck letters, which may have arrived: send them again, or give them up.

    With --send-again, a reader may get a letter a second time. With --give-up, the papers of the letters count as shown.

    Examples:
        digest deliveries settle 1042 --send-again
        digest deliveries settle --all --give-up --dry-run
    """
    from digest.delivery import stop_and_resume
    from digest.delivery.outbox import stuck_deliveries

    if bool(ids) == everything:
        raise BadField("ID", "name the letters, or give --all. See: digest deliveries --state stuck")
    if again == gives_up:
        raise BadField("--send-again", "give either --send-again or --give-up.")
    changed = stop_and_resume.change_stuck_letters(
        work.session,
        stuck_deliveries.stuck_ids(work.session) if everything else ids or [],
        stuck_deliveries.retry_stuck if again else stuck_deliveries.give_up_stuck,
        now=now,
        is_dry_run=dry_run,
    )
    settled = "due again" if again else "given up"
    return CommandResult(
        {"letters": sorted(changed)},
        f"{terminal.DRY_RUN * dry_run}{plurals.count(len(changed), 'letter is', 'letters are')} {settled}.",
    )


@command(reading, app)
def show(
    work: Workspace,
    delivery: str = argument("DELIVERY", "The id in `digest deliveries`, or the Message-ID."),
) -> CommandResult:
    """Show one letter: its state, every attempt, and its bounces.

    Examples:
        digest deliveries show 1042
        digest deliveries show '<d-1042@papers.example.org>' --json
    """
    from digest.bounces import bounce_score
    from digest.delivery.outbox import delivery_listing
    from digest.delivery.outbox.attempts import list_attempts

    row = delivery_listing.find_delivery(work.session, delivery)
    report = as_report(row) | {"press": row.press, "content_hash": row.content_hash}
    failures = bounce_score.list_failures(work.session, delivery_id=row.id)
    attempts = list_attempts(work.session, row.id)
    report |= {
        "attempts": [fields_of(one, "began_at ended_at verdict phase code reply lease") for one in attempts],
        "bounces": [fields_of(bounce, incoming_mail.FIELDS) for bounce, _ in failures],
    }
    return CommandResult(report, letter_text(report))


def letter_text(report: dict[str, Any]) -> Iterator[Text]:
    """Yield the fields of a letter, and what happened to it in the order of time."""
    yield facts(
        (name.replace("_", " "), str(value) if name == "id" else value)
        for name, value in report.items()
        if name not in {"attempts", "bounces"} and value not in {None, ""}
    )
    yield ""
    events = [*map(attempt_event, report["attempts"]), *map(bounce_event, report["bounces"])]
    for at, event in sorted(events):
        yield paragraph(f"{format_cell(at)}  ", event)
    if not report["attempts"]:
        is_open = report["state"] == "sending"
        yield note("An attempt began; its result is unknown." if is_open else "No attempt yet.")


def attempt_event(attempt: dict[str, Any]) -> tuple[datetime, str]:
    """Return when an attempt began, and its result with the server's reply."""
    reply = " ".join(str(part) for part in (attempt["code"], attempt["reply"]) if part)
    verdict = attempt["verdict"] or "in progress, or the worker died"
    where = f" at {attempt['phase']}" if attempt["phase"] else ""
    return attempt["began_at"], f"{verdict}{where}{': ' if reply else ''}{reply}"


def bounce_event(bounce: dict[str, Any]) -> tuple[datetime, str]:
    """Return when a bounce arrived, and its kind, status and diagnostic."""
    parts = ("bounced:", bounce["kind"], bounce["status"], bounce["diagnostic"])
    return bounce["at"], " ".join(filter(None, parts))


def as_report(row: Delivery) -> dict[str, Any]:
    """Return a delivery's fields for JSON."""
    names = "id letter edition email state reason lane in_doubt dated_at due_at expires_at settled_at message_id provider_id"
    return fields_of(row, names) | {"attempt_count": row.attempts}


@command(reading)
def why(
    work: Workspace,
    email: str = argument("EMAIL", "A subscriber's address.", autocompletion=completion.emails),
    paper: str | None = argument(
        "PAPER", "A catalog id, an arXiv id, a DOI, a URL, or the exact title.", None
    ),
    edition: str | None = option("--edition EDITION", EDITION),
    now: Now = CLOCK,
) -> CommandResult:
    """Explain why a subscriber did or did not get a paper, or an edition.

    Without PAPER and --edition, explain the latest edition that was due.

    Examples:
        digest why ada@example.org 2411.00001
        digest why ada@example.org 'Tide Tables for Gradient Descent'
        digest why ada@example.org --edition 2026-11-20
    """
    from digest.publishing.why import explain_paper, missing_edition

    if paper is not None and edition is not None:
        raise BadField("--edition", "name a paper or an edition, not both.")
    if paper is None:
        answer = missing_edition.why_edition(
            work.session, site=work.site, email=email, edition=edition, now=now
        )
    else:
        answer = explain_paper.why(work.context.publication(work.session, now), email, paper)
    return CommandResult(answer.json, (answer.verdict, [f"  {line}" for line in answer.lines]))
