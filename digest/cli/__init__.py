"""Define the `digest` command, with one module for each group of subcommands.

A command opens the app context, calls one use case, and shows the result. A command's dependencies are
imported only when it runs, so that `digest --help` is fast.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import typer
import typer.main

from digest import __version__
from digest.cli import command_context, error_sentences, terminal
from digest.cli.command_tree import RootGroup, complete_help
from digest.cli.options import option
from digest.errors import BadFilter, DigestError, UsageError

app = typer.Typer(
    name="digest",
    help="Trending papers in your email inbox once a day.",
    epilog="Settings: the environment (DIGEST_...) or digest.toml; docs/cli.md describes every command.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    cls=RootGroup,
)


def show_version(requested: bool) -> None:
    """Print the version and exit."""
    if requested:
        commit = checked_out_commit(Path(__file__).parents[2])
        print(f"digest {__version__}" + (f" (commit {commit})" if commit else ""))
        raise typer.Exit


def checked_out_commit(folder: Path) -> str:
    """Return the short id of the commit checked out in this folder, or "" without a checkout or git."""
    import subprocess

    command = ("git", "-C", str(folder), "rev-parse", "--short", "HEAD")
    if not (folder / ".git").exists():
        return ""
    with suppress(OSError):
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()  # noqa: S603
    return ""


@app.callback()
def root(
    data_dir: Path | None = option("--data-dir DIR", "The data directory (DIGEST_DATA_DIR)."),
    quiet: bool = option("--quiet -q", "Print results and errors only: no notes, no progress."),
    version: bool = option("--version", "Print the version.", callback=show_version, is_eager=True),
) -> None:
    """Apply the global options by setting environment variables, which child processes inherit."""
    del version
    if quiet:
        os.environ[terminal.QUIET] = "1"
    if data_dir is not None:
        command_context.name_data_dir(data_dir)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 success, 1 failure, 2 usage error, 130 stopped by Ctrl-C."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    given = sys.argv[1:] if arguments is None else arguments
    try:
        check_text(given)
        code = command()(args=given, prog_name="digest", standalone_mode=False) or 0
        return report_error("Stopped." if code == error_sentences.STOPPED else "", code)
    except (Exception, KeyboardInterrupt) as error:
        message, code = describe(error)
        if not message:
            raise  # a bug: developers need the traceback
        return report_error(message, code)


def describe(error: BaseException) -> tuple[str, int]:  # noqa: PLR0911  (one return for each kind of failure)
    """Return the message for an error, and the exit code; the message is empty for a bug."""
    match error:
        case BadFilter():
            text, carets, *_ = error.with_carets().splitlines()
            return f"{error}\n  {text}\n  {carets}", 2  # the mistake is under the carets
        case UsageError():
            return str(error), 2
        case error_sentences.Stopped():
            return str(error), error_sentences.STOPPED
        case DigestError():
            return str(error), 1
        case typer.TyperException():
            return error.format_message(), error.exit_code
        case typer.Abort():
            return "Stopped.", 1  # a prompt was cancelled
        case KeyboardInterrupt():
            return "Stopped.", error_sentences.STOPPED
    return error_sentences.describe_error(error), 1


def command() -> Any:
    """Return the command `digest`, which builds what the arguments name."""
    return complete_help(typer.main.get_command(app))


def check_text(arguments: Sequence[str]) -> None:
    """Raise UsageError if an argument is not valid UTF-8, because it could not be stored or shown."""
    for number, argument in enumerate(arguments, start=1):
        if not argument.isascii() and any("\ud800" <= char <= "\udfff" for char in argument):
            shown = argument.encode(errors="backslashreplace").decode()
            raise UsageError(
                f"Argument {number} ({shown}) is not valid UTF-8. Write it in UTF-8, or rename the file."
            )


def report_error(message: str, code: int) -> int:
    """Print the message to stderr unless it is empty, and return `code`."""
    if message:
        first, *others = f"digest: {message}".split("\n")
        print("\n".join([terminal.wrap_lines(first, sys.stderr), *others]), file=sys.stderr)
    return code
