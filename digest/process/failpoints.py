"""Kill this process at named points for the chaos tests, as a power cut would.

Outside the chaos tests no failpoint is armed, and passing a failpoint costs one lookup in an empty dict.
"""

from __future__ import annotations

import os
import signal

#: The armed failpoints, each with the number of passes that this process survives before it is killed.
armed_failpoints: dict[str, int] = {}


def reach(name: str) -> None:
    """Kill this process if this failpoint is armed and was passed as often as `armed_failpoints` allows."""
    if name in armed_failpoints:
        armed_failpoints[name] -= 1
        if armed_failpoints[name] < 0:
            os.kill(os.getpid(), signal.SIGKILL)
