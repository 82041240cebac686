"""Wait in tests. No test fails because a machine is slow: the only limit catches what hangs."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime

HANG_SECONDS = 300.0  #: after which nothing will happen any more, however busy the machine is
LOOK_EVERY = 0.05


def wait_until(what: str, condition: Callable[[], object]) -> None:
    """Wait until the condition holds, or raise AssertionError naming it."""
    ends_at = time.monotonic() + HANG_SECONDS
    while not condition():
        if time.monotonic() > ends_at:
            raise AssertionError(f"waited {HANG_SECONDS:.0f} s in vain for: {what}")
        time.sleep(LOOK_EVERY)


def pause(seconds: float, why: str) -> None:
    """Let time pass where a real process must see it pass; `why` is for the reader of the test."""
    assert why
    time.sleep(seconds)


def current_time() -> datetime:
    """Return the real time, which a real process sees, too."""
    return datetime.now(UTC)


def moment_after(seconds: float) -> float:
    """Return a moment of the monotonic clock, as code takes it that limits its own time."""
    return time.monotonic() + seconds
