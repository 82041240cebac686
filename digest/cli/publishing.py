"""`digest preview`, `publish`, `deliver` and `run`: compose and send due digests."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from time import sleep
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from digest import plurals
from digest.cli import command_context, completion, dry_run, error_sentences, sources, terminal
from digest.cli.common_options import AsJson, Now, OutDir, current_time, number_option
from digest.errors import BadField

if TYPE_CHECKING:
    from digest.app_context import AppContext

STOPPED_READING = (
    "Stopped while reading dumps. Those that were read completely are kept, and the next run reads the others."
    " Nothing was published or delivered."
)
#: The message after a second Ctrl-C.
IN_DOUBT = (
    "Stopped at once. Letters that the server accepted are sent; letters without a reply are in doubt, and are retried"
    " after at most 15 minutes. To list them: digest deliveries --state sending. To continue: digest deliver."
)

Email = Annotated[
    str,
    typer.Argument(metavar="EMAIL", help="A subscriber's address.", autocompletion=completion.emails),
]


def preview(email: Email, out: OutDir, now: Now = None, as_json: AsJson = False) -> None:
    """Write a subscriber's next digest to files.

    Writes the letter as it would be sent (digest.html, digest.txt, digest.eml) and its data (digest.json). Nothing is sent or stored.
    If the next digest has no papers yet, the digest that was published today is written, if there is one.

    Examples:
        digest preview ada@example.org --out preview
        digest preview ada@example.org --out preview --now 2026-11-21T08:00+01:00
    """
    from digest import publishing

    with command_context.open_context() as context, context.read_session() as session:
        made = publishing.preview(
            session,
            site=context.site,
            templates=context.templates,
            caches=context.caches,
            signers=context.signers,
            email=email,
            now=current_time(now),
        )
    out.mkdir(mode=0o700, parents=True, exist_ok=True)
    (out / "digest.html").write_text(made.letter.html, encoding="utf-8")
    (out / "digest.txt").write_text(made.letter.text, encoding="utf-8")
    (out / "digest.eml").write_bytes(made.message)
    text = json.dumps(made.json, ensure_ascii=False, indent=2, default=terminal.json_value)
    (out / "digest.json").write_text(text + "\n", encoding="utf-8")
    if as_json:
        terminal.print_json(made.json)
        return
    if made.is_published:
        terminal.print_note(f"There are no new papers since {made.edition.name}, so this is that digest.")
    terminal.print_line(f"{made.letter.subject}")
    terminal.print_line(f"Open it: {out / 'digest.html'}")


def publish(
    is_dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Write the letters to --out; send and store nothing.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", file_okay=False, help="The folder for --dry-run."),
    ] = None,
    now: Now = None,
    as_json: AsJson = False,
) -> None:
    """Compose every due digest into the outbox; send nothing yet.

    With --dry-run, each letter is written as ID.html, ID.txt and ID.eml, and dry-run.json lists the recipients.

    Examples:
        digest publish
        digest publish --dry-run --out tomorrow --now 2026-11-21T08:00Z
    """
    if is_dry_run != (out is not None):
        raise BadField("--out", "give --dry-run and --out DIR together.")
    if out is not None:
        dry_run.write_dry_run(out, current_time(now), as_json)
        return
    with command_context.open_context() as context:
        report = publish_due(context, current_time(now))
    terminal.print_result(report, figures_in_words(report), as_json=as_json)


def deliver(
    now: Now = None,
    limit: Annotated[
        int | None,
        number_option("--limit", "N", "Deliver at most N letters."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Deliver the letters in the outbox, in this process.

    Examples:
        digest deliver
        digest deliver --limit 100
    """
    with command_context.open_context() as context:
        report, stop = deliver_due(context, now, limit)
    terminal.print_result(report, figures_in_words(report), as_json=as_json)
    if stop:
        raise error_sentences.Stopped(stop)


def run(now: Now = None, as_json: AsJson = False) -> None:
    """Do all due work once, in this process; for cron.

    Polls the sources, reads the dumps folder, publishes and delivers.

    Examples:
        digest run
        digest run --json
    """
    with command_context.open_context() as context:
        with error_sentences.on_ctrl_c(lambda: STOPPED_READING):
            loads = poll_due_sources(context, current_time(now))
            loads += load_dumps_folder(context, current_time(now))
        made = publish_due(context, current_time(now))
        report_problems(context, current_time(now), is_expired=bool(made["expired"]))
        sent, stop = deliver_due(context, now, None)
        if not stop:
            delete_old_data(context, current_time(now))
    if as_json:
        terminal.print_json({"dumps": loads, "published": made, "delivered": sent})
    else:
        show_round(loads, made, sent)
    if stop:
        raise error_sentences.Stopped(stop)


def show_round(loads: list[dict[str, Any]], made: dict[str, int], sent: dict[str, int]) -> None:
    """Print the results of `digest run`."""
    for loaded in loads:
        counted = plurals.count(loaded["papers"], "paper")
        terminal.print_line(f"read       {loaded['path']}: {counted}, {loaded['new']} new")
    terminal.print_line(f"published  {figures_in_words(made)}")
    terminal.print_line(f"delivered  {figures_in_words(sent)}")


def poll_due_sources(context: AppContext, now: datetime) -> list[dict[str, Any]]:
    """Poll the due sources, and return the result of each dump for JSON; note each failed poll on stderr."""
    found = sources.poll_with_progress(context, now)
    for one in found:
        if not one.is_fine:
            terminal.print_note(f"{one.source}: {terminal.visible_text(one.result)}")
    return [loaded.to_json() for one in found for loaded in one.dumps]


def load_dumps_folder(context: AppContext, now: datetime) -> list[dict[str, Any]]:
    """Load the dumps in the dumps folder, and return the result of each for JSON."""
    from digest.dumps import intake

    with command_context.open_write_session(context) as session:
        loads = intake.load_folder(
            session,
            context.settings.dumps,
            now=now,
            incomplete_ok=context.settings.sends_short_dumps,
        )
    return [loaded.to_json() for loaded in loads]


def publish_due(context: AppContext, now: datetime) -> dict[str, int]:
    """Publish every due digest and return the counts."""
    from digest import publishing
    from digest.publishing import due_readers
    from digest.subscribers import use_cases

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

        use_cases.answer_sign_ups(session, context.site, now=now)
        use_cases.remind_unconfirmed(session, context.site, now=now)
        use_cases.ask_still_reading(session, context.site, after=context.settings.still_reading, now=now)
        report = publishing.publish(
            session,
            site=context.site,
            templates=context.templates,
            caches=context.caches,
            now=now,
            progress=show_published,
        )
    return asdict(report)


def report_problems(context: AppContext, now: datetime, *, is_expired: bool) -> None:
    """Record this run, queue letters to the operator about problems, and note why digests expired."""
    from digest import heartbeats
    from digest.monitoring import alarm_letters, problems
    from digest.monitoring.supervisor import find_supervisor

    settings = context.settings
    with command_context.open_write_session(context, renders=True) as session:
        heartbeats.record_run(session, now)
        found = problems.find_problems(session, now=now, supervisor=find_supervisor(settings.data_dir))
        alarm_letters.queue_alarm_letters(
            session, found, site=context.site, operator=settings.operator_email, now=now
        )
    for problem in found if is_expired else ():
        if problem.cause == "expired-digests":
            terminal.print_note(f"{problem.message}: {'; '.join(problem.facts[:3])}. {problem.fix}")


def delete_old_data(context: AppContext, now: datetime) -> None:
    """Delete data older than its retention period, unless this was done within the last day."""
    from digest import publishing
    from digest.dumps import intake

    kept = context.settings.keep
    with command_context.open_write_session(context) as session:
        if publishing.is_cleanup_overdue(session, now):
            publishing.delete_old_rows(session, kept=kept, now=now)
            publishing.delete_old_shown(session, now=now)
            intake.prune_done(context.settings.dumps, before=now - kept.dumps)


def stopped_publishing(done: int, due: int) -> str:
    """Return the message for Ctrl-C while publishing."""
    return (
        f"Stopped. Digests for {done:,} of {plurals.count(due, 'subscriber')} were composed; the others stay due."
        " Nothing was sent. To continue: digest publish. Nobody gets a digest twice."
    )


def deliver_due(context: AppContext, now: datetime | None, limit: int | None) -> tuple[dict[str, int], str]:
    """Deliver letters as if it were `now`; return the counts, and a message if Ctrl-C stopped the run."""
    from digest import db
    from digest.db.tables import DeliveryState
    from digest.delivery import delivery_run, outbox, stop_and_resume

    with command_context.open_write_session(context, renders=True) as session:
        stop_and_resume.requeue_dead_claims(session, now=current_time(now))
    with context.read_session() as session:
        waiting = outbox.count_by_state(session)[DeliveryState.QUEUED]
    with (
        error_sentences.on_ctrl_c(lambda: IN_DOUBT),
        command_context.open_write_session(context, renders=True) as session,
        context.open_transport() as transport,
        terminal.show_progress("Delivering", total=min(waiting, limit or waiting)) as done,
        stop_after_window() as is_stopping,
    ):
        report = delivery_run.deliver(
            session,
            site=context.site,
            templates=context.templates,
            caches=context.caches,
            transport=transport,
            clock=(lambda: now) if now else db.common_clock(session, context.clock),
            signers=context.signers,
            limits=context.settings.limits,
            window=context.settings.window,
            limit=limit,
            is_stopping=is_stopping,
            progress=done.update_to,
            sleep=None if now else sleep,
        )
        left = outbox.count_by_state(session)[DeliveryState.QUEUED]
        stop = stopped_delivering(report.sent, left) if is_stopping() else ""
    return asdict(report), stop


def stopped_delivering(sent: int, left: int) -> str:
    """Return the message for Ctrl-C while delivering."""
    return (
        f"Stopped. {plurals.count(sent, 'letter was', 'letters were')} sent, {plurals.count(left, 'waits', 'wait')} in the outbox."
        " To continue: digest deliver. Nobody gets a letter twice."
    )


@contextmanager
def stop_after_window() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether Ctrl-C or SIGTERM was received.

    After the first signal, delivery finishes the current batch of letters (a window) and then stops, so that
    no letter is in doubt. A second signal stops delivery at once.
    """
    received: list[int] = []

    def note_signal(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        signal.signal(number, before[signal.Signals(number)])

    before = {number: signal.signal(number, note_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def figures_in_words(report: dict[str, int]) -> str:
    """Return counts such as `3 due, 2 queued`; omit zeros, except for the first count."""
    first = next(iter(report))
    return ", ".join(
        f"{number:,} {name.replace('_', ' ')}" for name, number in report.items() if number or name == first
    )
