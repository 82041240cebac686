"""A clock that always shows the same moment."""

from collections.abc import Callable
from datetime import datetime


def fixed_clock(moment: datetime) -> Callable[[], datetime]:
    """Return a clock that always shows `moment`."""
    return lambda: moment
