"""`digest deliveries`, `digest trace` and `digest why`: every letter, its state and the reason."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from digest import plurals
from digest.cli import command_context, terminal
from digest.cli.common_options import MAX_NUMBER, AsJson, Limit, Now, current_time

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy import ColumnElement
    from sqlalchemy.orm import Session

    from digest.db.tables import Attempt, Delivery

BATCH_ROWS = 500  #: rows read at once
app = typer.Typer(help="List the deliveries; stop and resume mail.")
STATES = "queued, claimed, sending, sent, failed, expired, suppressed, stuck or empty"


@app.callback(invoke_without_command=True)
def deliveries(
    context: typer.Context,
    state: Annotated[
        str | None,
        typer.Option("--state", metavar="STATE", help=f"Only {STATES}.", show_default=False),
    ] = None,
    email: Annotated[
        str | None, typer.Option("--email", metavar="EMAIL", help="Only to this address.", show_default=False)
    ] = None,
    limit: Limit = None,
    as_json: AsJson = False,
) -> None:
    """List every letter, its state and the reason, newest first; stop and resume mail."""
    if context.invoked_subcommand is not None:
        return
    with command_context.open_context() as app_context, app_context.read_session() as session:
        conditions = filter_conditions(state, email)
        if as_json:
            terminal.lines(as_report(row) for row in list_deliveries(session, conditions, limit))
            return
        shown = limit or terminal.LIMIT
        terminal.print_table(
            ("id#", "letter", "to", "state", "when", "reason"),
            (
                (str(r.id), r.edition or r.letter, r.email, r.state, r.settled_at or r.due_at, r.reason)
                for r in list_deliveries(session, conditions, shown)
            ),
            shrinkable=["reason", "to"],
            empty="No deliveries.",
        )
        if (left := count_deliveries(session, conditions) - shown) > 0:
            terminal.print_note(
                f"{left:,} more; --limit {left + shown} shows them all. Narrow with --state or --email."
            )


@app.command()
def stop(
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Why; shown until you resume.")
    ] = "stopped by the operator",
    everything: Annotated[
        bool, typer.Option("--all", help="Stop all mail, also confirmations and replies.")
    ] = False,
    now: Now = None,
    as_json: AsJson = False,
) -> None:
    """Stop sending digests until `digest deliveries resume`."""
    from digest.delivery import limits

    scope = limits.ALL if everything else limits.BULK
    with command_context.open_context() as context, command_context.open_write_session(context) as session:
        is_new = limits.emergency_stop(session, reason, scope=scope, now=current_time(now))
        session.commit()
    if as_json:
        terminal.print_json({"stopped": is_new, "scope": scope})
    else:
        terminal.print_line(
            "Stopped. To resume: digest deliveries resume" if is_new else "Mail is already stopped."
        )


@app.command()
def resume(now: Now = None, as_json: AsJson = False) -> None:
    """Resume mail after a stop; letters that waited are due at once."""
    from digest.delivery import limits, outbox

    moment = current_time(now)
    with command_context.open_context() as context, command_context.open_write_session(context) as session:
        lifted = limits.lift_stops(session, now=moment)
        due = outbox.make_due(session, reason=limits.STOPPED_PREFIX, now=moment) if lifted else 0
        session.commit()
    if as_json:
        terminal.print_json({"lifted": lifted, "due": due})
    elif lifted:
        terminal.print_line(f"Mail is resumed; {plurals.count(due, 'letter')} due now.")
    else:
        terminal.print_line("Nothing is stopped.")


def filter_conditions(state: str | None, email: str | None) -> list[ColumnElement[bool]]:
    """Return the WHERE conditions for a state and an address."""
    from sqlalchemy import func, select

    from digest import addresses
    from digest.db.tables import Delivery, DeliveryState, Subscriber
    from digest.errors import BadField

    conditions: list[ColumnElement[bool]] = []
    if state is not None:
        if state not in set(DeliveryState):
            raise BadField("--state", f"{state!r} is not one of {STATES}.")
        conditions.append(Delivery.state == DeliveryState(state))
    if email is not None:
        ids = select(Subscriber.id).where(Subscriber.email_key == addresses.fold_address(email))
        conditions.append(
            Delivery.subscriber_id.in_(ids) | (func.lower(Delivery.email) == email.strip().lower())
        )
    return conditions


def list_deliveries(
    session: Session, conditions: list[ColumnElement[bool]], limit: int | None
) -> Iterable[Delivery]:
    """Return the deliveries that meet the conditions, newest first, read in batches."""
    from sqlalchemy import select

    from digest.db.tables import Delivery

    query = select(Delivery).where(*conditions).order_by(Delivery.id.desc()).limit(limit)
    return session.scalars(query.execution_options(yield_per=BATCH_ROWS))


def count_deliveries(session: Session, conditions: list[ColumnElement[bool]]) -> int:
    """Return how many deliveries meet the conditions."""
    from sqlalchemy import func, select

    from digest.db.tables import Delivery

    return session.scalar(select(func.count()).select_from(Delivery).where(*conditions)) or 0


def as_report(row: Delivery) -> dict[str, Any]:
    """Return a delivery's fields for JSON."""
    names = (
        "id", "letter", "edition", "email", "state", "reason", "lane", "in_doubt", "dated_at", "due_at",
        "expires_at", "settled_at", "message_id", "provider_id",
    )  # fmt: skip
    return {name: getattr(row, name) for name in names} | {"attempt_count": row.attempts}


def trace(
    delivery: Annotated[
        str, typer.Argument(metavar="DELIVERY", help="Its id in `digest deliveries`, or its Message-ID.")
    ],
    as_json: AsJson = False,
) -> None:
    """Show one letter: its state, every attempt, and its bounces."""
    from digest import bounces
    from digest.delivery import outbox

    with command_context.open_context() as context, context.read_session() as session:
        row = find_delivery(session, delivery)
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
        terminal.print_note("No attempt yet.")


def attempt_event(attempt: dict[str, Any]) -> tuple[datetime, str]:
    """Return when an attempt began, and its result with the server's reply."""
    reply = " ".join(str(part) for part in (attempt["code"], attempt["reply"]) if part)
    verdict = attempt["verdict"] or "in progress, or the worker died"
    where = f" at {attempt['phase']}" if attempt["phase"] else ""
    return attempt["began_at"], f"{verdict}{where}{': ' if reply else ''}{reply}"


def bounce_event(bounce: dict[str, Any]) -> tuple[datetime, str]:
    """Return when a bounce arrived, and why."""
    return bounce["at"], " ".join(
        part for part in ("bounced:", bounce["kind"], bounce["status"], bounce["diagnostic"]) if part
    )


def find_delivery(session: Session, name: str) -> Delivery:
    """Return the delivery with this id or Message-ID, ours or the provider's, or raise NotFound."""
    from sqlalchemy import or_, select

    from digest.db.tables import Delivery
    from digest.errors import NotFound

    message_id = name.strip("<>")
    condition = (
        Delivery.id == int(name)
        if name.isascii() and name.isdigit() and len(name) < 20 and int(name) <= MAX_NUMBER
        else or_(
            Delivery.message_id == f"<{message_id}>", Delivery.provider_id == message_id.partition("@")[0]
        )
    )
    row = session.scalars(select(Delivery).where(condition).limit(1)).first()
    if row is None:
        raise NotFound(f"There is no delivery {name}. See: digest deliveries")
    return row


def attempt_report(row: Attempt) -> dict[str, Any]:
    """Return an attempt's fields for JSON."""
    names = ("began_at", "ended_at", "verdict", "phase", "code", "reply", "lease")
    return {name: getattr(row, name) for name in names}


def why(
    email: Annotated[str, typer.Argument(metavar="EMAIL", help="A subscriber's address.")],
    paper: Annotated[
        str,
        typer.Argument(metavar="PAPER", help="Its id here, an arXiv id, a DOI, a URL, or the exact title."),
    ],
    now: Now = None,
    as_json: AsJson = False,
) -> None:
    """Explain why a subscriber did or did not get a paper."""
    from digest.publishing import why as explanation

    with command_context.open_context() as context, context.read_session() as session:
        answer = explanation.why(
            session,
            site=context.site,
            templates=context.templates,
            email=email,
            reference=paper,
            now=current_time(now),
        )
    if as_json:
        terminal.print_json(answer.json)
        return
    terminal.print_line(answer.verdict)
    for line in answer.lines:
        terminal.print_line(f"  {line}")
