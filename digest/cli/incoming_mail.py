"""`digest bounces`, `suppressions` and `inbox`: mail that came back, addresses that get none, and mail that nothing read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, time, timedelta
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

from digest import plurals
from digest.cli import terminal
from digest.cli.command_tree import group
from digest.cli.frame import Opened, Workspace, command, opened, reading, writing
from digest.cli.options import (
    CLOCK,
    DryRun,
    Limit,
    Now,
    Yes,
    argument,
    day,
    moment,
    option,
    parse_choice,
    positive_number,
)
from digest.cli.results import CommandResult, fields_of, listing
from digest.errors import NotFound, UsageError
from digest.mail import mail_parsing

if TYPE_CHECKING:
    from digest.db.tables.inbound_mail import InboundMail


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
    """List the addresses that must not get mail. Suppressed addresses are stored as hashes, so no address is shown.

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


# ── the inbox ──


inbox = group("Handle mail that could not be processed automatically.")

MAX_SUBJECT = 200  #: maximum number of characters of a subject, which a stranger may have written, in a table
HEAD_BYTES = 50_000  #: number of bytes at the start of a message that are searched for the subject

Number = Annotated[int, argument("ID", "The id in `digest inbox list`.", parser=positive_number)]


@command(reading, inbox, "list")
def list_mail(work: Workspace, limit: Limit = None) -> CommandResult:
    """List incoming mail that was not recognised or is not processed yet.

    Examples:
        digest inbox list
        digest inbox list --limit 100 --json
    """
    from digest.inbound import stored_mail

    return listing(
        lambda limit: map(mail_report, stored_mail.list_mails(work.session, limit=limit)),
        "id# received=received_at state from subject reason",
        shrinks="subject reason from",
        empty="The inbox is empty.",
        limit=limit,
        total=partial(stored_mail.count_mails, work.session),
    )


@command(reading, inbox, "show")
def show_mail(work: Workspace, number: Number) -> CommandResult:
    """Show one message as it arrived.

    Examples:
        digest inbox show 7
        digest inbox show 7 --json
    """
    from digest.inbound import stored_mail

    row = stored_mail.get_mail(work.session, number)
    report, content = mail_report(row), row.content.decode("utf-8", "replace")
    fields = (f"{name}: {value}" for name, value in report.items())
    return CommandResult(report | {"content": content}, chain(fields, [""], content.splitlines()))


@command(opened, inbox)
def delete(
    work: Opened,
    number: int | None = argument("[ID]", "The id in `digest inbox list`.", None, parser=positive_number),
    every: bool = option("--all", "Delete every message."),
    sender: str | None = option(
        "--from SENDER", "Delete all messages from an address, a domain (`@spam.example`) or a network."
    ),
    yes: Yes = False,
) -> CommandResult:
    """Delete messages.

    Examples:
        digest inbox delete 7
        digest inbox delete --from @spam.example --yes
        digest inbox delete --all
    """
    from digest.inbound import stored_mail

    if [number is not None, every, sender is not None].count(True) != 1:
        raise UsageError("Give one of ID, --all and --from.")
    with work.reading() as session:
        if number is None:
            numbers = stored_mail.find_mails(session, sender=sender)
        else:
            numbers = [stored_mail.get_mail(session, number).id]
    count = plurals.count(len(numbers), "message")
    terminal.require_yes(f"{count} will be deleted.", yes=yes)
    with work.writing() as session:
        stored_mail.delete_mails(session, numbers)
    return CommandResult({"deleted": numbers}, f"{count} deleted.")


def mail_report(row: InboundMail) -> dict[str, Any]:
    """Return a message's fields for JSON, without its content."""
    header = mail_parsing.parse_header(row.content[:HEAD_BYTES])
    subject = " ".join(mail_parsing.header_text(header, "Subject").split())[:MAX_SUBJECT]
    return {
        "id": row.id, "received_at": row.received_at, "state": row.state, "from": row.sender or "<>",
        "network": row.network, "to": row.recipient, "subject": subject, "reason": row.reason, "bytes": len(row.content),
    }  # fmt: skip
