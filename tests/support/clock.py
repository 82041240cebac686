"""A clock that tests set."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta


@dataclass
class Clock:
    """A clock that changes only when a test sets it, or when something waits."""

    now: datetime
    waits: list[float] = field(default_factory=list)  #: in seconds

    def __call__(self) -> datetime:
        return self.now

    def wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += timedelta(seconds=seconds)
