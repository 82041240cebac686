"""Run one role: `python -m workers worker|scheduler|folder`; `folder` ends after reading all dumps."""

from __future__ import annotations

import logging
import os
import signal
import sys
import warnings

from billiard import Semaphore
from celery.exceptions import SecurityWarning
from celery.signals import worker_ready

from digest.app_context import AppContext
from digest.db import DBAPIError
from digest.errors import DigestError, SetupMismatch
from digest.letters.press.load_templates import digest_templates
from digest.process import logs
from digest.process.heartbeats import HeartbeatThread
from digest.settings import load_settings

log = logging.getLogger(__name__)


def main(arguments: list[str]) -> int:
    """Run a role until it is stopped; if it cannot run, print the reason on one line."""
    try:
        settings = load_settings()
        logs.set_up_logging(
            settings.log_format,
            level=settings.log_level.upper(),
            journal_stream=os.environ.get("JOURNAL_STREAM", ""),
        )
        logs.limit_warnings("apscheduler", "celery", "kombu", "workers.scheduler")
        for chatty in ("alembic", "celery"):
            logging.getLogger(chatty).setLevel(logging.WARNING)
        logging.getLogger("py.warnings").setLevel(logging.ERROR)  # Celery warns of an option's future default
        match arguments:
            case ["worker"]:
                return run_worker()
            case ["scheduler"]:
                return run_scheduler()
            case ["folder"]:
                return read_folder()
    except DigestError as error:
        print(f"digest: {logs.escape_controls(str(error))}", file=sys.stderr)  # noqa: T201  (an entry point)
        return 1
    print("usage: python -m workers worker|scheduler", file=sys.stderr)  # noqa: T201
    return 2


def run_worker() -> int:
    """Run the Celery worker."""
    from celery.worker import state

    from workers.app import BULK, PROMPT, app
    from workers.worker_context import app_context, requeue_dead_claims

    app_context().check_setup()
    requeue_dead_claims()
    prepare_templates(app_context())
    heart = HeartbeatThread(role="worker", engine=app_context().engine, clock=app_context().clock)
    app_context().engine.dispose()  # the pool's processes open their own connections
    app_context.cache_clear()
    warnings.filterwarnings(
        "ignore", category=SecurityWarning
    )  # Celery warns root users about pickle, which we do not accept
    worker = app.Worker(
        concurrency=max(2, os.cpu_count() or 2), pool_cls=pool_kind(), queues=[PROMPT, BULK], quiet=True,
        without_gossip=True, without_mingle=True, without_heartbeat=True, loglevel="WARNING",
    )  # fmt: skip
    worker_ready.connect(lambda **_: heart.start(), weak=False)  # starts after connecting to the broker
    worker.start()
    was_asked = {state.should_stop, state.should_terminate} != {None}  # after Ctrl-C, too, the exitcode is 1
    is_broken = bool(worker.exitcode) and not was_asked
    heart.stop(is_broken=is_broken)
    return int(is_broken)


def prepare_templates(context: AppContext) -> None:
    """Prepare the templates of all presses before the fork, so that the child processes share them."""
    try:
        digest_templates(context.templates, context.site, context.caches)
    except SetupMismatch as error:
        log.warning("Digests cannot be rendered; other letters can. %s", error)


def pool_kind() -> str:
    """Return the kind of pool: processes, or threads if there is no shared memory for semaphores."""
    try:
        Semaphore()
    except OSError:
        return "threads"
    return "prefork"


def run_scheduler() -> int:
    """Run the scheduler."""
    from workers import scheduler
    from workers.worker_context import app_context

    app_context().check_setup()
    scheduler.run()
    return 0


def read_folder() -> int:
    """Read this machine's dumps folder on behalf of the scheduler."""
    from workers.folder_reader import load_dumps
    from workers.worker_context import app_context

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C also reaches the scheduler, which ends this process
    try:
        load_dumps(app_context())
    except (DBAPIError, OSError) as error:
        log.warning("The dumps folder could not be read: %s", str(error).splitlines()[0])
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
