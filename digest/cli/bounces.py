"""`digest bounces`: list bounces and complaints, and forgive or accept the bounces of a broken domain."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, time, timedelta
from functools import partial
from typing import Annotated, Any

from digest import plurals
from digest.cli.command_tree import group
from digest.cli.confirmation_prompt import DRY_RUN, DryRun
from digest.cli.frame import Workspace, command, reading, writing
from digest.cli.options import CLOCK, Limit, Now, day, moment, option, parse_choice
from digest.cli.results import CommandResult, listing

app = group("Bounces and complaints.")

A_DAY = timedelta(days=1)


def parse_since(text: str) -> datetime:
    """Parse a time with an offset, or a day, which means the start of that day in UTC."""
    is_day = len(text.strip()) == len("2026-11-20")
    return datetime.combine(day(text), time.min, UTC) if is_day else moment(text)


Domain = Annotated[str, option("--domain DOMAIN", "The domain of the failed addresses.")]
Since = Annotated[
    datetime | None,
    option(
        "--since TIME", "Failures since this day or time. Default: the last 24 hours.", parser=parse_since
    ),
]


@app.command("list")
@command(reading)
def show_list(
    work: Workspace,
    domain: Annotated[str | None, option("--domain DOMAIN", "Only this domain.")] = None,
    kind: Annotated[str | None, option("--kind KIND", "The kind: hard, soft, policy or complaint.")] = None,
    limit: Limit = None,
) -> CommandResult:
    """List bounces and complaints, newest first, with the server's reply.

    Examples:
        digest bounces list
        digest bounces list --domain example.org --kind hard
    """
    from digest.bounces import bounce_score
    from digest.bounces.failure_kinds import FailureKind

    chosen: dict[str, Any] = {
        "domain": domain,
        "kind": parse_choice("--kind", kind, FailureKind),
    }

    def rows(limit: int | None) -> Iterator[dict[str, Any]]:
        for row, email in bounce_score.list_failures(work.session, **chosen, limit=limit):
            yield bounce_score.failure_report(row) | {"email": email}

    return listing(
        rows,
        {
            "when": "at", "kind": kind_of, "status": "status", "to": lambda row: row["email"] or f"…@{row['domain']}",
            "letter#": lambda row: str(row["delivery_id"] or ""), "reply": diagnostic_text,
        },
        shrinks="reply to",
        empty="No bounces.",
        limit=limit,
        total=partial(bounce_score.count_failures, work.session, **chosen),
        hint=" Narrow with --domain or --kind.",
    )  # fmt: skip


def kind_of(row: Mapping[str, Any]) -> str:
    """Return the kind of a failure, with `forgiven` or `frozen` appended where it applies."""
    if row["forgiven_at"]:
        return f"{row['kind']}, forgiven"
    return f"{row['kind']}, frozen" if row["frozen_at"] else row["kind"]


def diagnostic_text(row: Mapping[str, Any]) -> str:
    """Return the server's reply without its leading codes, which have their own column."""
    reply = re.sub(r"^[245]\d\d[ -]?", "", row["diagnostic"])
    return reply.removeprefix(row["status"]).strip() if row["status"] else reply


@app.command()
@command(writing)
def forgive(
    work: Workspace, domain: Domain, start: Since = None, dry_run: DryRun = False, now: Now = CLOCK
) -> CommandResult:
    """Ignore failures at a domain that was broken, and send to its readers again.

    Examples:
        digest bounces forgive --domain example.org
        digest bounces forgive --domain example.org --since 2026-11-19
    """
    from digest.bounces import broken_domains

    failures, freed = broken_domains.forgive_domain(
        work.session, domain=domain, since=start or now - A_DAY, now=now, is_dry_run=dry_run
    )
    again = plurals.count(freed, "address", "addresses")
    return CommandResult(
        {"domain": domain, "forgiven": failures, "lifted": freed},
        f"{DRY_RUN * dry_run}{plurals.count(failures, 'failure')} forgiven; {again} no longer suppressed.",
    )


@app.command()
@command(writing)
def accept(
    work: Workspace, domain: Domain, start: Since = None, dry_run: DryRun = False, now: Now = CLOCK
) -> CommandResult:
    """Suppress the addresses that failed at a domain that is considered broken.

    Examples:
        digest bounces accept --domain example.org --dry-run
        digest bounces accept --domain example.org --since 2026-11-19
    """
    from digest.bounces import broken_domains

    number = broken_domains.accept_failures(
        work.session, domain=domain, since=start or now - A_DAY, now=now, is_dry_run=dry_run
    )
    addresses = plurals.count(number, "address", "addresses")
    return CommandResult(
        {"domain": domain, "suppressed": number}, f"{DRY_RUN * dry_run}{addresses} of {domain} suppressed."
    )
