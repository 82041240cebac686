"""`python -m workers worker|scheduler`: one role in this process."""

from __future__ import annotations

import logging
import os
import sys
import warnings

from billiard import Semaphore
from celery.exceptions import SecurityWarning

from digest import logs, press
from digest.errors import DigestError, Misfit
from digest.house import House
from digest.settings import load

log = logging.getLogger(__name__)


def main(arguments: list[str]) -> int:
    """Run a role until it is told to stop, or say in one line why it cannot."""
    try:
        logs.set_up(load().log_format)
        for chatty in ("alembic", "celery"):
            logging.getLogger(chatty).setLevel(logging.WARNING)
        match arguments:
            case ["worker"]:
                return work()
            case ["scheduler"]:
                return keep_time()
    except DigestError as error:
        print(f"digest: {error}", file=sys.stderr)  # noqa: T201  (this is a door)
        return 1
    print("usage: python -m workers worker|scheduler", file=sys.stderr)  # noqa: T201
    return 2


def work() -> int:
    """Run the Celery worker."""
    from workers.app import BULK, PROMPT, app
    from workers.house import house

    house().check()
    lay_out(house())
    house().engine.dispose()  # the pool's processes connect for themselves
    house.cache_clear()
    warnings.filterwarnings("ignore", category=SecurityWarning)  # root is what unpickles; we take JSON only
    options = [f"--concurrency={max(2, os.cpu_count() or 2)}", f"--pool={pool()}"]
    options += [f"--queues={PROMPT},{BULK}", "--without-gossip", "--without-mingle", "--without-heartbeat"]
    app.worker_main(["--quiet", "worker", *options])
    return 0


def lay_out(ours: House) -> None:
    """Make what is the same for every press, before there are processes that would each make it."""
    try:
        press.stencils(ours.templates, ours.site)
    except Misfit as error:
        log.warning("No digest can be made, other letters can. %s", error)


def pool() -> str:
    """Return the kind of pool: processes, or threads where there is no shared memory for semaphores."""
    try:
        Semaphore()
    except OSError:
        return "threads"
    return "prefork"


def keep_time() -> int:
    """Run the clock."""
    from workers import scheduler
    from workers.house import house

    house().check()
    scheduler.run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
