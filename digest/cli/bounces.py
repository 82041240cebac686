"""`digest bounces`: list bounces and complaints, and forgive or accept the bounces of a broken domain."""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from digest import plurals
from digest.cli import command_context, terminal
from digest.cli.command_tree import group
from digest.cli.common_options import AsJson, Limit, Now, current_time, day, moment, parse_choice
from digest.cli.confirmation_prompt import DRY_RUN, DryRun

if TYPE_CHECKING:
    from digest.db.tables import BounceRow

app = group("Bounces and complaints.")

A_DAY = timedelta(days=1)


def parse_since(text: str) -> datetime:
    """Parse a time with an offset, or a day, which means the start of that day in UTC."""
    return (
        datetime.combine(day(text), time.min, UTC) if len(text.strip()) == len("2026-11-20") else moment(text)
    )


Domain = Annotated[
    str, typer.Option("--domain", metavar="DOMAIN", help="The domain of the failed addresses.")
]
Since = Annotated[
    datetime | None,
    typer.Option(
        "--since",
        parser=parse_since,
        metavar="TIME",
        help="Failures since this day or time. Default: the last 24 hours.",
        show_default=False,
    ),
]


@app.command("list")
def show_list(
    domain: Annotated[
        str | None, typer.Option("--domain", metavar="DOMAIN", help="Only this domain.", show_default=False)
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            "--kind", metavar="KIND", help="The kind: hard, soft, policy or complaint.", show_default=False
        ),
    ] = None,
    limit: Limit = None,
    as_json: AsJson = False,
) -> None:
    """List bounces and complaints, newest first, with the server's reply.

    Examples:
        digest bounces list
        digest bounces list --domain example.org --kind hard
    """
    from digest import bounces

    failure_kind = parse_choice("--kind", kind, bounces.FailureKind)
    with command_context.open_context() as context, context.read_session() as session:
        shown = limit if limit or as_json else terminal.LIMIT
        found = bounces.list_failures(session, domain=domain, kind=failure_kind, limit=shown)
        if as_json:
            terminal.lines(bounces.failure_report(row) | {"email": email} for row, email in found)
            return
        terminal.print_table(
            ("when", "kind", "status", "to", "letter#", "reply"),
            (
                (
                    r.at,
                    kind_of(r),
                    r.status,
                    email or f"…@{r.domain}",
                    str(r.delivery_id or ""),
                    diagnostic_text(r),
                )
                for r, email in found
            ),
            shrinkable=["reply", "to"],
            empty="No bounces.",
        )
        count = bounces.count_failures(session, domain=domain, kind=failure_kind)
        terminal.print_rest(len(found), count, " Narrow with --domain or --kind.")


def kind_of(row: BounceRow) -> str:
    """Return the kind of a failure, with `forgiven` or `frozen` appended where it applies."""
    if row.forgiven_at:
        return f"{row.kind}, forgiven"
    return f"{row.kind}, frozen" if row.frozen_at else row.kind


def diagnostic_text(row: BounceRow) -> str:
    """Return the server's reply without its leading codes, which have their own column."""
    reply = re.sub(r"^[245]\d\d[ -]?", "", row.diagnostic)
    return reply.removeprefix(row.status).strip() if row.status else reply


@app.command()
def forgive(
    domain: Domain, start: Since = None, dry_run: DryRun = False, now: Now = None, as_json: AsJson = False
) -> None:
    """Ignore failures at a domain that was broken, and send to its readers again.

    Examples:
        digest bounces forgive --domain example.org
        digest bounces forgive --domain example.org --since 2026-11-19
    """
    from digest import bounces

    at = current_time(now)
    with command_context.open_context() as context, command_context.open_write_session(context) as session:
        failures, freed = bounces.forgive_domain(
            session, domain=domain, since=start or at - A_DAY, now=at, is_dry_run=dry_run
        )
    again = plurals.count(freed, "address", "addresses")
    terminal.print_result(
        {"domain": domain, "forgiven": failures, "lifted": freed},
        f"{DRY_RUN * dry_run}{plurals.count(failures, 'failure')} forgiven; {again} no longer suppressed.",
        as_json=as_json,
    )


@app.command()
def accept(
    domain: Domain, start: Since = None, dry_run: DryRun = False, now: Now = None, as_json: AsJson = False
) -> None:
    """Suppress the addresses that failed at a domain that is considered broken.

    Examples:
        digest bounces accept --domain example.org --dry-run
        digest bounces accept --domain example.org --since 2026-11-19
    """
    from digest import bounces

    at = current_time(now)
    with command_context.open_context() as context, command_context.open_write_session(context) as session:
        number = bounces.accept_failures(
            session, domain=domain, since=start or at - A_DAY, now=at, is_dry_run=dry_run
        )
    sentence = f"{DRY_RUN * dry_run}{plurals.count(number, 'address', 'addresses')} of {domain} suppressed."
    terminal.print_result({"domain": domain, "suppressed": number}, sentence, as_json=as_json)
