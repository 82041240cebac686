"""The house of this process, opened once and only after the fork."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from typing import Any

from celery.signals import worker_process_init
from sqlalchemy.exc import DBAPIError

from digest import garbage
from digest.errors import DigestError
from digest.house import House, opened
from digest.settings import load


@cache
def house() -> House:
    """Return the house of this process."""
    return opened(load())


@worker_process_init.connect
def open_early(**_details: Any) -> None:
    """Open it before the first task; a database that is away is told of by that task."""
    with suppress(DigestError, DBAPIError):
        house()
    garbage.settle()
