"""`digest bounces` and `digest suppressions`: what came back, what a broken domain causes, and who gets no mail."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, time, timedelta
from functools import partial
from typing import Annotated, Any

from digest import plurals
from digest.cli import terminal
from digest.cli.command_tree import group
from digest.cli.frame import Opened, Workspace, command, opened, reading, writing
from digest.cli.options import CLOCK, DryRun, Limit, Now, Yes, argument, day, moment, option, parse_choice
from digest.cli.results import CommandResult, fields_of, listing
from digest.errors import NotFound

app = group("Bounces and complaints.")
suppressions = group("Manage the suppression list.")

A_DAY = timedelta(days=1)
#: The fields of a bounce that are reported.
FIELDS = "id at kind status diagnostic reported_by domain delivery_id frozen_at forgiven_at"


def parse_since(text: str) -> datetime:
    """Parse a time with an offset, or a day, which means the start of that day in UTC."""
    is_day = len(text.strip()) == len("2026-11-20")
    return datetime.combine(day(text), time.min, UTC) if is_day else moment(text)


Domain = Annotated[str, option("--domain DOMAIN", "The domain of the failed addresses.", ...)]
Email = Annotated[str, argument("EMAIL", "The address.")]
Since = Annotated[
    datetime | None,
    option("--since TIME", "Failures since then. Default: the last 24 hours.", ..., parser=parse_since),
]


@command(reading, app, "list")
def show_list(
    work: Workspace,
    domain: str | None = option("--domain DOMAIN", "Only this domain."),
    kind: str | None = option("--kind KIND", "The kind: hard, soft, policy or complaint."),
    limit: Limit = None,
) -> CommandResult:
    """List bounces and complaints, newest first, with the server's reply.

    Examples:
        digest bounces list
        digest bounces list --domain example.org --kind hard
    """
    from digest.bounces import bounce_score
    from digest.bounces.failure_kinds import FailureKind

    chosen: dict[str, Any] = {"domain": domain, "kind": parse_choice("--kind", kind, FailureKind)}

    def rows(limit: int | None) -> Iterator[dict[str, Any]]:
        for row, email in bounce_score.list_failures(work.session, **chosen, limit=limit):
            yield fields_of(row, FIELDS) | {"email": email}

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


@command(writing, app)
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
        f"{terminal.DRY_RUN * dry_run}{plurals.count(failures, 'failure')} forgiven; {again} no longer suppressed.",
    )


@command(writing, app)
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
        {"domain": domain, "suppressed": number},
        f"{terminal.DRY_RUN * dry_run}{addresses} of {domain} suppressed.",
    )


# ── suppressions ────────────────────────────────────────────────────────────────────────────────


@command(reading, suppressions, "list")
def list_suppressions(work: Workspace) -> CommandResult:
    """List the suppression_list. Suppressed addresses are stored as hashes, so no address is shown.

    Examples:
        digest suppressions list
        digest suppressions list --json
    """
    from digest.bounces import suppressions as suppression_list

    return listing(
        [
            fields_of(entry, "hmac reason note since")
            for entry in suppression_list.list_suppressions(work.session)
        ],
        {"since": "since", "reason": "reason", "hash": lambda row: row["hmac"][:12], "note": "note"},
        shrinks="note",
        empty="No address is suppressed.",
    )


@command(writing, suppressions)
def add(
    work: Workspace,
    email: Email,
    note: str = option("--note TEXT", "The reason, in your words.", ""),
    now: Now = CLOCK,
) -> CommandResult:
    """Suppress an address: it gets no mail and cannot subscribe until you remove the suppression.

    Examples:
        digest suppressions add ada@example.org
        digest suppressions add ada@example.org --note 'asked by phone'
    """
    from digest.bounces import suppressions as suppression_list
    from digest.bounces.suppressions import SuppressionReason
    from digest.mail import addresses

    address = addresses.parse_address(email).email
    is_new = suppression_list.suppress(
        work.session, work.site, address, SuppressionReason.OPERATOR, note, now
    )
    report = {"email": address, "suppressed": True, "new": is_new}
    return CommandResult(report, f"{address} is {'' if is_new else 'already '}suppressed.")


@command(opened, suppressions)
def remove(work: Opened, email: Email, yes: Yes = False, now: Now = CLOCK) -> CommandResult:
    """Allow mail to this address again.

    Examples:
        digest suppressions remove ada@example.org
        digest suppressions remove ada@example.org --yes
    """
    from digest.bounces import suppressions as suppression_list

    with work.reading() as session:
        if (entry := suppression_list.find_suppression(session, work.site, email)) is None:
            raise NotFound(f"{email} is not suppressed.")
    why = f"{entry.reason}: {entry.note}" if entry.note else entry.reason
    since = terminal.format_cell(entry.since)
    plan = f"{email} has been suppressed since {since} ({why}). Mail to it will be allowed again."
    terminal.require_yes(plan, yes=yes)
    with work.writing() as session:
        suppression_list.unsuppress_by_operator(session, work.site, email, now=now)
    return CommandResult({"email": email, "suppressed": False}, f"{email} is no longer suppressed.")
