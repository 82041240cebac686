"""`digest preview`, `publish`, `deliver` and `run`: compose and send due digests."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from signal import SIGINT, SIGTERM
from time import sleep
from typing import TYPE_CHECKING, Annotated, Any

from digest import plurals
from digest.cli import command_context, completion, dumps, error_sentences, terminal
from digest.cli.frame import Opened, Workspace, command, opened, reading
from digest.cli.options import CLOCK, GivenNow, Now, argument, current_time, number_option, option
from digest.cli.results import CommandResult, note
from digest.errors import BadField

if TYPE_CHECKING:
    from digest.app_context import AppContext
    from digest.publishing.digest_preview import Preview

DRY_RUN_INDEX = "dry-run.json"
STOPPED_READING = (
    "Stopped while reading dumps. Those that were read completely are kept, and the next run reads the others."
    " Nothing was published or delivered."
)
#: The message after a second Ctrl-C.
IN_DOUBT = (
    "Stopped at once. Letters that the server accepted are sent; letters without a reply are in doubt, and are retried"
    " after at most 15 minutes. To list them: digest deliveries --state sending. To continue: digest deliver."
)

Email = Annotated[str, argument("EMAIL", "A subscriber's address.", autocompletion=completion.emails)]


@command(reading)
def preview(
    work: Workspace,
    email: Email,
    out: Path = option(
        "--out DIR", "The folder to write into; created if it is missing.", ..., file_okay=False
    ),
    now: Now = CLOCK,
) -> CommandResult:
    """Write a subscriber's next digest to files.

    Writes the letter as it would be sent (digest.html, digest.txt, digest.eml) and its data (digest.json). Nothing is sent or stored.
    If the next digest has no papers yet, the digest that was published today is written, if there is one.

    Examples:
        digest preview ada@example.org --out preview
        digest preview ada@example.org --out preview --now 2026-11-21T08:00+01:00
    """
    from digest.publishing import digest_preview

    made = digest_preview.preview(work.context.publication(work.session, now), email, work.context.signers)
    write_letter(out, "digest", made)
    (out / "digest.json").write_text(terminal.json_text(made.json, indent=2) + "\n", encoding="utf-8")
    published = note(f"There are no new papers since {made.edition.name}, so this is that digest.")
    return CommandResult(
        made.json,
        (published if made.is_published else (), made.letter.subject, f"Open it: {out / 'digest.html'}"),
    )


def write_letter(out: Path, name: str, made: Preview) -> None:
    """Write the three forms of a letter into a folder."""
    out.mkdir(mode=0o700, parents=True, exist_ok=True)
    (out / f"{name}.html").write_text(made.letter.html, encoding="utf-8")
    (out / f"{name}.txt").write_text(made.letter.text, encoding="utf-8")
    (out / f"{name}.eml").write_bytes(made.message)


@command(opened)
def publish(
    work: Opened,
    is_dry_run: bool = option("--dry-run", "Write the letters to --out; send and store nothing."),
    out: Path | None = option("--out DIR", "The folder for --dry-run.", file_okay=False),
    now: Now = CLOCK,
) -> CommandResult:
    """Compose every due digest into the outbox; send nothing yet.

    With --dry-run, each letter is written as ID.html, ID.txt and ID.eml, and dry-run.json lists the recipients.

    Examples:
        digest publish
        digest publish --dry-run --out tomorrow --now 2026-11-21T08:00Z
    """
    if is_dry_run != (out is not None):
        raise BadField("--out", "give --dry-run and --out DIR together.")
    if out is not None:
        return write_dry_run(work, out, now)
    report = publish_due(work.context, now)
    return CommandResult(report, figures_in_words(report))


def write_dry_run(work: Opened, out: Path, now: datetime) -> CommandResult:
    """Compose every due digest and write it into a folder; send nothing, and store nothing in the database."""
    from digest.publishing import dry_run

    context, letters = work.context, list[dict[str, Any]]()
    with work.reading() as session:
        for result, made in dry_run.dry_run(context.publication(session, now), context.signers):
            letters.append(asdict(result))
            if result.file:
                write_letter(out, result.file, made)
    index = {"now": now, "letters": letters}
    out.mkdir(mode=0o700, parents=True, exist_ok=True)
    (out / DRY_RUN_INDEX).write_text(terminal.json_text(index, indent=2) + "\n", encoding="utf-8")
    mails = plurals.count(sum(bool(letter["letter"]) for letter in letters), "letter")
    due = plurals.count(len(letters), "due subscriber")
    return CommandResult(index, f"Dry run: {mails} for {due}, written to {out}. Nothing was sent.")


@command(opened)
def deliver(
    work: Opened,
    now: GivenNow = None,
    limit: int | None = number_option("--limit N", "Deliver at most N letters."),
) -> CommandResult:
    """Deliver the letters in the outbox, in this process.

    Examples:
        digest deliver
        digest deliver --limit 100
    """
    report, stop = deliver_due(work.context, now, limit)
    return CommandResult(report, figures_in_words(report), stop=stop)


@command(opened)
def run(work: Opened, now: GivenNow = None) -> CommandResult:
    """Do all due work once, in this process; for cron.

    Polls the sources, reads the dumps folder, publishes and delivers.

    Examples:
        digest run
        digest run --json
    """
    context = work.context
    with error_sentences.on_ctrl_c(lambda: STOPPED_READING):
        polls = dumps.poll_with_progress(context, current_time(now))
        for one in polls:
            if not one.is_fine:
                terminal.print_note(f"{one.source}: {terminal.visible_text(one.result)}")
        loads = [loaded.to_json() for one in polls for loaded in one.dumps]
        loads += load_dumps_folder(context, current_time(now))
    made = publish_due(context, current_time(now))
    report_problems(context, current_time(now), is_expired=bool(made["expired"]))
    sent, stop = deliver_due(context, now, None)
    if not stop:
        delete_old_data(context, current_time(now))
    return CommandResult(
        {"dumps": loads, "published": made, "delivered": sent},
        (
            [
                f"read       {loaded['path']}: {plurals.count(loaded['papers'], 'paper')}, {loaded['new']} new"
                for loaded in loads
            ],
            f"published  {figures_in_words(made)}",
            f"delivered  {figures_in_words(sent)}",
        ),
        stop=stop,
    )


def load_dumps_folder(context: AppContext, now: datetime) -> list[dict[str, Any]]:
    """Load the dumps in the dumps folder, and return the result of each for JSON."""
    from digest.dumps.intake import dumps_folder

    with command_context.open_write_session(context) as session:
        loads = dumps_folder.load_folder(
            session,
            context.settings.dumps,
            now=now,
            incomplete_ok=context.settings.sends_short_dumps,
        )
    return [loaded.to_json() for loaded in loads]


def publish_due(context: AppContext, now: datetime) -> dict[str, int]:
    """Publish every due digest and return the counts."""
    from digest.publishing import due_readers
    from digest.publishing.publish_due import publish as compose_due
    from digest.subscribers import sign_up_queue, still_reading

    count = 0
    with context.read_session() as session:
        due, _ = due_readers.count_due(session, now)
    with (
        error_sentences.on_ctrl_c(lambda: stopped_publishing(count, due)),
        command_context.open_write_session(context, renders=True) as session,
        terminal.show_progress("Publishing", total=due) as done,
    ):

        def show_published(more: int) -> None:
            nonlocal count
            count += more
            done.advance(more)

        sign_up_queue.send_confirmations(session, context.site, now)
        sign_up_queue.remind_unconfirmed(session, context.site, now)
        still_reading.take_steps(session, context.site, after=context.settings.keep.inactive, now=now)
        report = compose_due(context.publication(session, now), show_published)
    return asdict(report)


def report_problems(context: AppContext, now: datetime, *, is_expired: bool) -> None:
    """Record this run, queue letters to the operator about problems, and note why digests expired."""
    from digest.monitoring import operator_letters, problems
    from digest.monitoring.supervisor import find_supervisor
    from digest.process import heartbeats

    settings = context.settings
    with command_context.open_write_session(context, renders=True) as session:
        heartbeats.record_run(session, now)
        found = problems.find_problems(session, now=now, supervisor=find_supervisor(settings.data_dir))
        operator_letters.queue_alarm_letters(
            session, found, site=context.site, operator=settings.operator_email, now=now
        )
    for problem in found if is_expired else ():
        if problem.cause == "expired-digests":
            terminal.print_note(f"{problem.message}: {'; '.join(problem.facts[:3])}. {problem.fix}")


def delete_old_data(context: AppContext, now: datetime) -> None:
    """Delete data older than its retention period, unless this was done within the last day."""
    from digest.dumps.intake import dumps_folder
    from digest.publishing import cleanup

    kept = context.settings.keep
    with command_context.open_write_session(context) as session:
        if cleanup.is_cleanup_overdue(session, now):
            cleanup.delete_old_rows(session, kept=kept, now=now)
            cleanup.delete_old_shown(session, now=now)
            dumps_folder.prune_done(context.settings.dumps, before=now - kept.dumps)


def stopped_publishing(done: int, due: int) -> str:
    """Return the message for Ctrl-C while publishing."""
    return (
        f"Stopped. Digests for {done:,} of {plurals.count(due, 'subscriber')} were composed; the others stay due."
        " Nothing was sent. To continue: digest publish. Nobody gets a digest twice."
    )


def deliver_due(context: AppContext, now: datetime | None, limit: int | None) -> tuple[dict[str, int], str]:
    """Deliver letters as if it were `now`; return the counts, and a message if Ctrl-C stopped the run."""
    from digest import db
    from digest.db.tables.deliveries import DeliveryState
    from digest.delivery import stop_and_resume
    from digest.delivery.outbox import delivery_listing

    with command_context.open_write_session(context, renders=True) as session:
        stop_and_resume.requeue_dead_claims(session, now=current_time(now))
    with context.read_session() as session:
        waiting = delivery_listing.count_by_state(session)[DeliveryState.QUEUED]
    with (
        error_sentences.on_ctrl_c(lambda: IN_DOUBT),
        command_context.open_write_session(context, renders=True) as session,
        terminal.show_progress("Delivering", total=min(waiting, limit or waiting)) as done,
        # After the first signal, delivery finishes the current window of letters, so that none is in doubt.
        error_sentences.stop_signals(SIGINT, SIGTERM, second_stops=True) as received,
    ):
        report = context.deliver(
            session,
            clock=(lambda: now) if now else db.common_clock(session, context.clock),
            limit=limit,
            is_stopping=lambda: bool(received),
            progress=done.update_to,
            sleep=None if now else sleep,
        )
        left = delivery_listing.count_by_state(session)[DeliveryState.QUEUED]
        stop = stopped_delivering(report.sent, left) if received else ""
    return asdict(report), stop


def stopped_delivering(sent: int, left: int) -> str:
    """Return the message for Ctrl-C while delivering."""
    return (
        f"Stopped. {plurals.count(sent, 'letter was', 'letters were')} sent, {plurals.count(left, 'waits', 'wait')} in the outbox."
        " To continue: digest deliver. Nobody gets a letter twice."
    )


def figures_in_words(report: dict[str, int]) -> str:
    """Return counts such as `3 due, 2 queued`; omit zeros, except for the first count."""
    first = next(iter(report))
    return ", ".join(
        f"{number:,} {name.replace('_', ' ')}" for name, number in report.items() if number or name == first
    )
