"""`digest db`: create, migrate and copy the database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from digest.cli import command_context, error_sentences, terminal
from digest.cli.command_tree import group
from digest.cli.frame import Opened, command, opened
from digest.cli.options import argument, current_time
from digest.cli.results import CommandResult, note, table
from digest.errors import UsageError

if TYPE_CHECKING:
    from digest.app_context import AppContext
    from digest.db import Engine
    from digest.settings import Settings

app = group("Create, migrate or copy the database.")


@command(app=app)
def upgrade() -> CommandResult:
    """Create the schema, or migrate it to this version.

    Running the command again changes nothing. Afterwards every machine must have the same templates as this machine.

    Examples:
        digest db upgrade
        digest db upgrade --json
    """
    from digest import db

    settings = command_context.read_settings(makes_database=True)
    engine = db.make_engine(settings.database)
    with command_context.explain_database_errors(engine):
        before = db.revision(engine)
        db.upgrade(engine)
        after = db.revision(engine)
        adopt_templates(engine, settings)
    changed = f"now at {after} (before: {before or 'nothing'})"
    return CommandResult(
        {"from": before, "to": after, "changed": before != after},
        f"The schema is {changed if before != after else f'already at {after}'}.",
    )


@command(opened, app)
def copy(
    work: Opened, url: str = argument("URL", "An empty database, such as postgresql:///digest.")
) -> CommandResult:
    """Copy everything to another, empty database, and verify the counts.

    Stop every role first: the command refuses to copy while a process runs. Afterwards set DIGEST_DATABASE_URL to the new database; the old database is not changed.

    Examples:
        digest db copy postgresql:///digest
        digest db copy postgresql://digest@db.example.org/digest --json
    """
    from digest import db
    from digest.db import database_copy

    target, engine = db.make_engine(url), work.context.engine
    with (
        command_context.explain_database_errors(target),
        db.report_unreachable(target),
        terminal.show_progress("Copying", total=database_copy.count_rows(engine)) as done,
        error_sentences.on_ctrl_c(lambda: "Stopped. Nothing was copied; the new database is empty."),
    ):
        require_stopped(work.context)
        counts = database_copy.copy(engine, target, done.advance)
    rows = [{"table": name, "rows": number} for name, number in counts.items()]
    return CommandResult(
        counts,
        (
            table(rows=rows, columns="table rows#"),
            note("Everything was copied. Set DIGEST_DATABASE_URL to the new database."),
        ),
    )


def require_stopped(context: AppContext) -> None:
    """Raise UsageError if a process has a recent heartbeat, because its writes during a copy would be lost."""
    from digest.process import heartbeats

    now = current_time(None)
    with context.read_session() as session:
        running = heartbeats.live_processes(session, now)
    if running:
        names = ", ".join(f"{one.role} {one.pid} on {one.host}" for one in running)
        raise UsageError(
            f"Processes are running: {names}. Stop them first. If they were killed, wait until their last heartbeat"
            f" is {heartbeats.SILENT_AFTER.seconds} seconds old."
        )


def adopt_templates(engine: Engine, settings: Settings) -> None:
    """Record this machine's templates as the templates that every machine must have."""
    from digest import db
    from digest.letters.templates import Templates
    from digest.settings import templates_dir
    from digest.site import key_fingerprints

    fingerprint = Templates(templates_dir(), settings.template_overrides).fingerprint
    with db.write_session(engine) as session:
        key_fingerprints.adopt_templates(session, fingerprint, now=current_time(None))
