"""Define the `digest` command, with one module for each group of subcommands.

A command opens the app context, calls one use case, and shows the result. A command's dependencies are
imported only when it runs, so that `digest --help` is fast.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.main

from digest import __version__
from digest.cli import (
    backups,
    bounces,
    chosen_service,
    database,
    deliveries,
    dkim_keys,
    doctor,
    dry_run,
    dumps,
    error_sentences,
    inbound_mail,
    init,
    keys,
    named_command,
    papers,
    processes,
    publishing,
    report,
    sources,
    status,
    subscribers,
    suppressions,
    terminal,
    topics,
)
from digest.cli.command_help import complete_help
from digest.errors import BadFilter, DigestError, UsageError

PANELS = SERVICE, PAPERS, SUBSCRIBERS, MAIL, MONITORING = (
    "Service",
    "Papers",
    "Subscribers",
    "Mail",
    "Monitoring",
)

app = typer.Typer(
    name="digest",
    help="Trending papers in your email inbox once a day.",
    epilog="Settings: the environment (DIGEST_...) or digest.toml; docs/cli.md describes every command.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.command(rich_help_panel=SERVICE)(processes.up)
app.command(rich_help_panel=SERVICE)(init.init)
app.command(rich_help_panel=SERVICE)(processes.web)
app.command(rich_help_panel=SERVICE)(processes.worker)
app.command(rich_help_panel=SERVICE)(processes.scheduler)
app.command(rich_help_panel=SERVICE)(processes.inbound)
app.add_typer(keys.app, name="keys", rich_help_panel=SERVICE)
app.add_typer(database.app, name="db", rich_help_panel=SERVICE)
app.command(rich_help_panel=SERVICE)(backups.backup)
app.command(rich_help_panel=SERVICE)(backups.restore)

app.command(rich_help_panel=PAPERS)(dumps.intake)
app.command(rich_help_panel=PAPERS)(dumps.capture)
app.add_typer(dumps.app, name="dumps", rich_help_panel=PAPERS)
app.add_typer(sources.app, name="sources", rich_help_panel=PAPERS)
app.command(rich_help_panel=PAPERS)(papers.papers)
app.command(rich_help_panel=PAPERS)(papers.trending)
app.command(rich_help_panel=PAPERS)(papers.hide)
app.command(rich_help_panel=PAPERS)(papers.unhide)
app.add_typer(topics.app, name="topics", rich_help_panel=PAPERS)

app.add_typer(subscribers.app, name="subscribers", rich_help_panel=SUBSCRIBERS)
app.add_typer(suppressions.app, name="suppressions", rich_help_panel=SUBSCRIBERS)

app.command(rich_help_panel=MAIL)(publishing.preview)
app.command(rich_help_panel=MAIL)(dry_run.diff)
app.command(rich_help_panel=MAIL)(publishing.publish)
app.command(rich_help_panel=MAIL)(publishing.deliver)
app.command(rich_help_panel=MAIL)(publishing.run)
app.add_typer(deliveries.app, name="deliveries", rich_help_panel=MAIL)
app.command(rich_help_panel=MAIL)(deliveries.why)
app.command(rich_help_panel=MAIL)(deliveries.history)
app.command(rich_help_panel=MAIL)(deliveries.trace)
app.add_typer(bounces.app, name="bounces", rich_help_panel=MAIL)
app.add_typer(inbound_mail.app, name="inbox", rich_help_panel=MAIL)
app.add_typer(dkim_keys.app, name="dkim", rich_help_panel=MAIL)

app.command(rich_help_panel=MONITORING)(status.status)
app.command(rich_help_panel=MONITORING)(doctor.doctor)
app.command(rich_help_panel=MONITORING)(report.report)


def show_version(requested: bool) -> None:
    """Print the version and exit."""
    if requested:
        commit = checked_out_commit(Path(__file__).parents[2])
        print(f"digest {__version__}" + (f" (commit {commit})" if commit else ""))
        raise typer.Exit


def checked_out_commit(folder: Path) -> str:
    """Return the short id of the commit checked out in this folder, or "" without a checkout or git."""
    command = ("git", "-C", str(folder), "rev-parse", "--short", "HEAD")
    if not (folder / ".git").exists():
        return ""
    with suppress(OSError):
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()  # noqa: S603
    return ""


@app.callback()
def root(
    data_dir: Annotated[
        Path | None,
        typer.Option("--data-dir", metavar="DIR", help="The data directory (DIGEST_DATA_DIR)."),
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print results and errors only: no notes, no progress.")
    ] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Apply the global options by setting environment variables, which child processes inherit."""
    del version
    if quiet:
        os.environ[terminal.QUIET] = "1"
    if data_dir is not None:
        chosen_service.name_data_dir(data_dir)


def main(arguments: Sequence[str] | None = None) -> int:  # noqa: PLR0911, PLR0912  (one return for each kind of failure)
    """Run one command and return its exit code: 0 success, 1 failure, 2 usage error, 130 stopped by Ctrl-C."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    given = deliveries.with_bare_now(sys.argv[1:] if arguments is None else arguments)
    try:
        check_text(given)
        code = build_command(given)(args=given, prog_name="digest", standalone_mode=False) or 0
        return report_error("Stopped." if code == error_sentences.STOPPED else "", code)
    except BadFilter as error:
        return report_error(describe_filter_error(error), 2)
    except UsageError as error:
        return report_error(str(error), 2)
    except error_sentences.Stopped as error:
        return report_error(str(error), error_sentences.STOPPED)
    except DigestError as error:
        return report_error(str(error), 1)
    except typer.TyperException as error:
        return report_error(error.format_message(), error.exit_code)
    except typer.Abort:
        return report_error("Stopped.", 1)  # a prompt was cancelled
    except KeyboardInterrupt:
        return report_error("Stopped.", error_sentences.STOPPED)
    except Exception as error:
        message = error_sentences.describe_error(error)
        if message is None:
            raise  # a bug: developers need the traceback
        return report_error(message, 1)


def build_command(arguments: Sequence[str] = ()) -> Any:
    """Build the command from `app`, with examples in its help and the panels in a fixed order.

    If the arguments name a command, all other commands are left out.
    """
    command: Any = complete_help(typer.main.get_command(named_command.narrow(app, arguments)))
    command.commands = dict(
        sorted(command.commands.items(), key=lambda item: PANELS.index(item[1].rich_help_panel))
    )
    return command


def check_text(arguments: Sequence[str]) -> None:
    """Raise UsageError if an argument is not valid UTF-8, because it could not be stored or shown."""
    for number, argument in enumerate(arguments, start=1):
        if not argument.isascii() and any("\ud800" <= char <= "\udfff" for char in argument):
            shown = argument.encode(errors="backslashreplace").decode()
            raise UsageError(
                f"Argument {number} ({shown}) is not valid UTF-8. Write it in UTF-8, or rename the file."
            )


def describe_filter_error(error: BadFilter) -> str:
    """Return the error followed by the filter, with carets under the mistake."""
    text, carets, *_ = error.with_carets().splitlines()
    return f"{error}\n  {text}\n  {carets}"


def report_error(message: str, code: int) -> int:
    """Print the message to stderr unless it is empty, and return `code`."""
    if message:
        first, *others = f"digest: {message}".split("\n")
        print("\n".join([terminal.wrap_lines(first, sys.stderr), *others]), file=sys.stderr)
    return code
