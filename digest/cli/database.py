"""`digest db`, `backup` and `restore`: create, migrate and copy the database, save it to a file, and restore it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from digest import plurals
from digest.cli import command_context, error_sentences, terminal
from digest.cli.command_tree import group
from digest.cli.frame import Opened, command, opened
from digest.cli.options import CLOCK, Now, argument, current_time, option
from digest.cli.results import CommandResult, facts, note, table
from digest.errors import UsageError

if TYPE_CHECKING:
    from digest.app_context import AppContext
    from digest.backups.backup_file import BackupFile
    from digest.settings import Settings

app = group("Create, migrate or copy the database.")

NO_KEYS = "The keys are not in this file. Back up {} too: without them a restore is not possible."
NO_OPT_OUTS = (
    "{} is missing, so unsubscribes and erasures made after the backup are not known."
    " If the scheduler ran on another machine, copy the file from there, empty the database and restore again."
)


@command(app=app)
def upgrade() -> CommandResult:
    """Create the schema, or migrate it to this version.

    Running the command again changes nothing. Afterwards every machine must have the same templates as this machine.

    Examples:
        digest db upgrade
        digest db upgrade --json
    """
    from digest import db
    from digest.process import key_fingerprints

    settings = command_context.read_settings(makes_database=True)
    engine = db.make_engine(settings.database)
    with command_context.explain_database_errors(engine):
        before = db.revision(engine)
        db.upgrade(engine)
        after = db.revision(engine)
        with db.write_session(engine) as session:
            fingerprint = settings.templates().fingerprint
            key_fingerprints.adopt_templates(session, fingerprint, now=current_time())
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
        terminal.show_progress("Copying", total=database_copy.count_rows(engine)) as done,
        error_sentences.on_ctrl_c(lambda: "Stopped. Nothing was copied; the new database is empty."),
    ):
        require_stopped(work.context)
        counts = database_copy.copy(engine, target, done.advance)
    rows = [{"table": name, "rows": number} for name, number in counts.items()]
    return CommandResult(
        counts,
        (
            table(rows, "table rows#"),
            note("Everything was copied. Set DIGEST_DATABASE_URL to the new database."),
        ),
    )


def require_stopped(context: AppContext) -> None:
    """Raise UsageError if a process has a recent heartbeat, because its writes during a copy would be lost."""
    from digest.process import heartbeats

    now = current_time()
    with context.read_session() as session:
        running = heartbeats.live_processes(session, now)
    if running:
        names = ", ".join(f"{one.role} {one.pid} on {one.host}" for one in running)
        raise UsageError(
            f"Processes are running: {names}. Stop them first. If they were killed, wait until their last heartbeat"
            f" is {heartbeats.SILENT_AFTER.seconds} seconds old."
        )


# ── backups ─────────────────────────────────────────────────────────────────────────────────────


@command(opened)
def backup(
    work: Opened,
    path: Path = argument("FILE", "The file to write, such as digest.backup."),
    with_keys: bool = option("--with-keys", "Include the keys. Anybody with the file can then sign links."),
    overwrite: bool = option("--overwrite", "Replace an existing file."),
    now: Now = CLOCK,
) -> CommandResult:
    """Back up the database to one SQLite file, while all processes run.

    Only you can read the file, because it contains addresses. The keys are included only with --with-keys.

    Examples:
        digest backup digest.backup
        digest backup /var/backups/digest.backup --with-keys --overwrite
    """
    from digest.backups import backup_file
    from digest.db import database_copy
    from digest.settings import SECRETS

    settings, engine = work.context.settings, work.context.engine
    with (
        error_sentences.on_ctrl_c(lambda: "Stopped. No backup was written. Run the command again."),
        terminal.show_progress("Backing up", total=database_copy.count_rows(engine)) as done,
    ):
        check_target(settings, path)
        keys = {name: settings.secret(name) for name in SECRETS} if with_keys else {}
        counts = backup_file.write_backup(
            engine, path, keys=keys, replaces=overwrite, now=now, progress=done.advance
        )
    size, rows = path.stat().st_size, sum(counts.values())
    return CommandResult(
        {"path": str(path), "bytes": size, "rows": rows, "keys": with_keys},
        (
            f"{path}: {rows:,} rows, {size / 1e6:,.1f} MB. To restore it: digest restore {path}",
            () if with_keys else note(NO_KEYS.format(places_of_keys(settings))),
        ),
    )


def check_target(settings: Settings, path: Path) -> None:
    """Raise UsageError if the backup would replace the database, or if its folder does not exist."""
    from digest import db

    own = db.database_file(settings.database)
    if own is not None and path.absolute() == own.absolute():
        raise UsageError(f"{path} is the database. Name another file.")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"{path.absolute().parent} does not exist. Create the folder, or name another file.")


def places_of_keys(settings: Settings) -> str:
    """Return where the keys are stored: in files or in settings."""
    from digest.settings import SECRETS

    return " and ".join(
        f"DIGEST_{name.upper()}" if getattr(settings, name) else str(settings.data_dir.absolute() / name)
        for name in SECRETS
    )


@command()
def restore(
    path: Path = argument("FILE", "A file made by `digest backup`."), now: Now = CLOCK
) -> CommandResult:
    """Restore a backup into an empty database, with all mail stopped.

    Unsent letters, and editions due before the restore, are recorded as expired. Later digests contain only papers found from now on, so nobody gets mail or a paper twice. Suppressions, unsubscribes and erasures made after the backup are applied again from the file opt-outs.jsonl in the data directory. Afterwards check with `digest status`, and run `digest deliveries resume`.

    Examples:
        digest restore digest.backup
        digest restore /var/backups/digest.backup --json
    """
    from digest import db
    from digest.backups import backup_file, opt_out_file
    from digest.backups.opt_out_file import OPT_OUT_FILE
    from digest.backups.restore import restore as copy_backup

    settings = command_context.read_settings(makes_database=True)
    opt_outs = settings.data_dir.absolute() / OPT_OUT_FILE
    with (
        error_sentences.on_ctrl_c(lambda: "Stopped. Nothing was restored; the database is still empty."),
        backup_file.open_backup(path) as found,
    ):
        store_keys(settings, found)
        engine = db.make_engine(settings.database)
        with (
            command_context.explain_database_errors(engine),
            terminal.show_progress("Restoring", total=found.rows) as done,
        ):
            report = copy_backup(
                found,
                engine,
                settings.site(),
                saved=opt_out_file.read_opt_outs(opt_outs),
                templates_fingerprint=settings.templates().fingerprint,
                now=now,
                progress=done.advance,
            )
    expired = f"{plurals.count(report.letters, 'open letter')}, {plurals.count(report.editions, 'edition')}"
    return CommandResult(
        asdict(report),
        (
            f"{path} is restored: {report.rows:,} rows of {report.made_at:%Y-%m-%d %H:%M} UTC.",
            facts([
                ("Expired", expired),
                ("Repeated", f"{plurals.count(report.opt_outs, 'opt-out')} made after the backup"),
                ("Mail", "stopped; to send again: digest deliveries resume"),
            ]),
            () if opt_outs.exists() else note(NO_OPT_OUTS.format(opt_outs)),
            note(f"{opt_outs}: {plurals.count(report.damaged, 'line')} could not be read.") if report.damaged else (),
        ),
    )  # fmt: skip


def store_keys(settings: Settings, found: BackupFile) -> None:
    """Store the backup's keys in the data directory, except keys that the settings contain."""
    for name, value in found.keys.items():
        if getattr(settings, name) is None:
            settings.store_secret(name, value)
