"""`digest up` and its parts: `web`, `worker`, `scheduler`, `inbound`, one role each."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from digest.cli import rooms

Host = Annotated[
    str | None, typer.Option("--host", metavar="ADDRESS", help="Where the web door listens (DIGEST_HOST).")
]
Port = Annotated[int | None, typer.Option("--port", metavar="PORT", help="And on which port (DIGEST_PORT).")]


def up(host: Host = None, port: Port = None) -> None:
    """Start the whole house on this machine; Ctrl-C stops it.

    Web, worker and scheduler, and an embedded broker if none is set.
    """
    from digest.cli import up as house

    raise typer.Exit(house.run(rooms.read_settings(host=host, port=port)))


def web(host: Host = None, port: Port = None) -> None:
    """Serve the pages."""
    from digest import logs
    from digest.web import serve

    settings = rooms.read_settings(host=host, port=port)
    logs.set_up(settings.log_format)
    serve(settings)


def worker() -> None:
    """Run the workers, which compose and deliver."""
    become("worker")


def scheduler() -> None:
    """Run the clock, which notices what is to be done.

    It sees new dumps, due digests and deliveries left behind. One is enough.
    """
    become("scheduler")


def inbound() -> None:
    """Take in mail for us: what bounced, complaints, and who leaves by mail.

    Listens where DIGEST_INBOUND says; off unless that is set.
    """
    from digest import house, logs
    from digest import inbound as door

    settings = rooms.read_settings()
    logs.set_up(settings.log_format)
    opened = house.opened(settings)
    opened.check(renders=False)
    door.serve(opened)


def become(role: str) -> None:
    """Turn this very process into the role, so that a supervisor's signals reach it directly."""
    rooms.read_settings()  # a wrong setting is told here, in one line
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, "-m", "workers", role])  # noqa: S606  (no shell is wanted)
