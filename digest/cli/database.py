"""`digest db`: create, migrate and copy the database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from digest.cli import command_context, error_sentences, terminal
from digest.cli.command_tree import group
from digest.cli.common_options import AsJson, current_time
from digest.errors import UsageError

if TYPE_CHECKING:
    from digest.app_context import AppContext
    from digest.db import Engine
    from digest.settings import Settings

app = group("Create, migrate or copy the database.")


@app.command()
def upgrade(as_json: AsJson = False) -> None:
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
    report = {"from": before, "to": after, "changed": before != after}
    now = f"now at {after} (before: {before or 'nothing'})"
    sentence = f"The schema is {now if report['changed'] else f'already at {after}'}."
    terminal.print_result(report, sentence, as_json=as_json)


@app.command()
def copy(
    url: Annotated[
        str, typer.Argument(metavar="URL", help="An empty database, such as postgresql:///digest.")
    ],
    as_json: AsJson = False,
) -> None:
    """Copy everything to another, empty database, and verify the counts.

    Stop every role first: the command refuses to copy while a process runs. Afterwards set DIGEST_DATABASE_URL to the new database; the old database is not changed.

    Examples:
        digest db copy postgresql:///digest
        digest db copy postgresql://digest@db.example.org/digest --json
    """
    from digest import db
    from digest.db import database_copy

    target = db.make_engine(url)
    with (
        command_context.open_context() as context,
        command_context.explain_database_errors(target),
        db.report_unreachable(target),
        terminal.show_progress("Copying", total=database_copy.count_rows(context.engine)) as done,
        error_sentences.on_ctrl_c(lambda: "Stopped. Nothing was copied; the new database is empty."),
    ):
        require_stopped(context)
        counts = database_copy.copy(context.engine, target, done.advance)
    if as_json:
        terminal.print_json(counts)
        return
    terminal.print_table(("table", "rows#"), counts.items())
    terminal.print_note("Everything was copied. Set DIGEST_DATABASE_URL to the new database.")


def require_stopped(context: AppContext) -> None:
    """Raise UsageError if a process has a recent heartbeat, because its writes during a copy would be lost."""
    from digest import heartbeats

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
    from digest import db, key_fingerprints
    from digest.letters import Templates
    from digest.settings import templates_dir

    fingerprint = Templates(templates_dir(), settings.template_overrides).fingerprint
    with db.write_session(engine) as session:
        key_fingerprints.adopt_templates(session, fingerprint, now=current_time(None))
