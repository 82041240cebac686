"""The `digest` command: one module per noun, each a door to a room and nothing more.

A command opens the house, calls one story or room, and shows what came of it. What a command needs
it imports when it runs, so that `digest --help` answers at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from digest import __version__
from digest.cli import (
    bounces,
    database,
    deliveries,
    dkim,
    doctor,
    dumps,
    inbox,
    init,
    mail,
    papers,
    rehearsals,
    roles,
    sources,
    status,
    subscribers,
    suppressions,
    topics,
)
from digest.errors import BadFilter, DigestError, UsageError

HOUSE, PAPERS, PEOPLE, MAIL, CARE = "The house", "Papers", "People", "Mail", "Care"

app = typer.Typer(
    name="digest",
    help="Trending papers in your email inbox once a day.",
    epilog="Settings: the environment (DIGEST_...) or digest.toml; docs/cli.md tells of every command.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.command(rich_help_panel=HOUSE)(roles.up)
app.command(rich_help_panel=HOUSE)(init.init)
app.command(rich_help_panel=HOUSE)(roles.web)
app.command(rich_help_panel=HOUSE)(roles.worker)
app.command(rich_help_panel=HOUSE)(roles.scheduler)
app.command(rich_help_panel=HOUSE)(roles.inbound)
app.add_typer(database.app, name="db", rich_help_panel=HOUSE)

app.command(rich_help_panel=PAPERS)(dumps.intake)
app.add_typer(dumps.app, name="dumps", rich_help_panel=PAPERS)
app.add_typer(sources.app, name="sources", rich_help_panel=PAPERS)
app.command(rich_help_panel=PAPERS)(papers.papers)
app.command(rich_help_panel=PAPERS)(papers.trending)
app.add_typer(topics.app, name="topics", rich_help_panel=PAPERS)

app.add_typer(subscribers.app, name="subscribers", rich_help_panel=PEOPLE)
app.add_typer(suppressions.app, name="suppressions", rich_help_panel=PEOPLE)

app.command(rich_help_panel=MAIL)(mail.preview)
app.command(rich_help_panel=MAIL)(rehearsals.rehearse)
app.command(rich_help_panel=MAIL)(rehearsals.diff)
app.command(rich_help_panel=MAIL)(mail.publish)
app.command(rich_help_panel=MAIL)(mail.deliver)
app.command(rich_help_panel=MAIL)(mail.run)
app.add_typer(deliveries.app, name="deliveries", rich_help_panel=MAIL)
app.command(rich_help_panel=MAIL)(deliveries.why)
app.command(rich_help_panel=MAIL)(deliveries.trace)
app.add_typer(bounces.app, name="bounces", rich_help_panel=MAIL)
app.add_typer(inbox.app, name="inbox", rich_help_panel=MAIL)
app.add_typer(dkim.app, name="dkim", rich_help_panel=MAIL)

app.command(rich_help_panel=CARE)(status.status)
app.command(rich_help_panel=CARE)(doctor.doctor)


def show_version(wanted: bool) -> None:
    """Print the version and leave."""
    if wanted:
        print(f"digest {__version__}")
        raise typer.Exit


@app.callback()
def root(
    data_dir: Annotated[
        Path | None,
        typer.Option("--data-dir", metavar="DIR", help="Where everything local lives (DIGEST_DATA_DIR)."),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Take what holds for every command. Processes we start inherit it, so it goes into the environment."""
    del version
    if data_dir is not None:
        os.environ["DIGEST_DATA_DIR"] = str(data_dir)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 1 it failed, 2 it was asked wrongly."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        return app(args=arguments, prog_name="digest", standalone_mode=False) or 0
    except BadFilter as error:
        return complain(pointed(error), 2)
    except UsageError as error:
        return complain(str(error), 2)
    except DigestError as error:
        return complain(str(error), 1)
    except typer.TyperException as error:
        return complain(error.format_message(), error.exit_code)
    except typer.Abort:
        return complain("stopped", 1)


def pointed(error: BadFilter) -> str:
    """Return what is wrong with a filter, and below it the filter with carets under the mistake."""
    text, carets, *_ = error.pointed().splitlines()
    return f"{error}\n  {text}\n  {carets}"


def complain(message: str, code: int) -> int:
    """Say on stderr what is wrong, and return the exit code."""
    if message:
        print(f"digest: {message}", file=sys.stderr)
    return code
