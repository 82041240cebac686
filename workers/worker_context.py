"""Open the app context of this process once, after the fork."""

from __future__ import annotations

import logging
from contextlib import suppress
from functools import lru_cache
from typing import Any

from celery.signals import worker_process_init

from digest.app_context import AppContext, open_context
from digest.db import DBAPIError
from digest.delivery import stop_and_resume
from digest.errors import DigestError
from digest.process import gc_control
from digest.process.caches import Caches
from digest.settings import load_settings

log = logging.getLogger(__name__)


@lru_cache(maxsize=1)  # a process has one context
def app_context() -> AppContext:
    """Return the app context of this process."""
    return open_context(load_settings(), caches=caches())


@lru_cache(maxsize=1)  # a process has one set of caches
def caches() -> Caches:
    """Return the caches of this process, with the values that the parent cached before the fork."""
    return Caches()


def requeue_dead_claims() -> None:
    """Requeue the letters that dead processes had claimed, such as the process that this one replaces."""
    context = app_context()
    with context.write_session() as session:
        if released := stop_and_resume.requeue_dead_claims(session, now=context.clock()):
            log.info("requeued %d letters that a dead process had claimed", released)


@worker_process_init.connect
def open_before_first_task(**_details: Any) -> None:
    """Open the context before the first task; if that fails, the first task reports the error."""
    with suppress(DigestError, DBAPIError):
        requeue_dead_claims()
    gc_control.freeze_startup_objects()
