"""`digest up`, `web`, `worker`, `scheduler` and `inbound`: run all roles or a single role."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from digest.cli import command_context
from digest.cli.options import option
from digest.process import child_processes

if TYPE_CHECKING:
    from digest.settings import Settings

Listen = Annotated[
    str | None, option("--listen HOST:PORT", "Where the web server listens (DIGEST_LISTEN).", ...)
]


def up(listen: Listen = None) -> None:
    """Start the whole service on this machine; Ctrl-C stops it.

    Starts web, worker and scheduler, an embedded broker if none is set, and inbound if DIGEST_INBOUND is set.

    Examples:
        digest up
        digest up --listen 127.0.0.1:8080
    """
    from digest.cli import up

    raise typer.Exit(up.run(command_context.read_settings(makes_service=True, listen=listen)))


def web(listen: Listen = None) -> None:
    """Serve the web pages.

    Examples:
        digest web
        digest web --listen 0.0.0.0:8080
    """
    from digest.web.app import serve

    settings = command_context.read_settings(listen=listen)
    log_as_role(settings)
    serve(settings)


def worker() -> None:
    """Run the worker, which polls sources, publishes digests and delivers mail.

    Examples:
        digest worker
        digest --data-dir /srv/digest worker
    """
    exec_role("worker")


def scheduler() -> None:
    """Run the scheduler, which enqueues the tasks of the workers.

    The scheduler finds new dumps, due digests and unfinished deliveries. Run one scheduler, on one machine.

    Examples:
        digest scheduler
        digest --data-dir /srv/digest scheduler
    """
    exec_role("scheduler")


def inbound() -> None:
    """Receive incoming mail (LMTP, or SMTP on this machine): bounces, complaints, commands.

    Listens on the addresses in DIGEST_INBOUND; without that setting it receives no mail. Mail that an earlier version
    could not read is read again.

    Examples:
        digest inbound
        digest --data-dir /srv/digest inbound
    """
    from digest import app_context
    from digest.inbound import server, stored_mail

    settings = command_context.read_settings()
    log_as_role(settings)
    context = app_context.open_context(settings)
    context.check_setup(renders=False)
    with context.write_session() as session:
        stored_mail.read_again(session)
    server.serve(context)


def log_as_role(settings: Settings) -> None:
    """Log as much as the settings say, in the form that systemd's journal reads if it collects the logs."""
    from digest.process import logs

    journal = os.environ.get("JOURNAL_STREAM", "")
    logs.set_up_logging(settings.log_format, level=settings.log_level.upper(), journal_stream=journal)


def exec_role(role: str) -> None:
    """Replace this process with the role's process, so that a supervisor's signals reach it directly."""
    command_context.read_settings()  # reports an invalid setting in one line
    sys.stdout.flush()
    sys.stderr.flush()
    command = child_processes.python_command("workers", role)
    os.execve(command[0], command, child_processes.python_environment(os.environ))  # noqa: S606  (no shell needed)
