"""Kill this process at named points, as a power cut would, for the chaos tests.

Outside those tests no failpoint is armed, and reaching one costs a lookup in an empty dict.
"""

from __future__ import annotations

import os
import signal

#: The failpoints that kill this process, and how often each is passed first.
armed_failpoints: dict[str, int] = {}


def reach(name: str) -> None:
    """Kill this process at once if that failpoint is armed and has been passed often enough."""
    if name in armed_failpoints:
        armed_failpoints[name] -= 1
        if armed_failpoints[name] < 0:
            os.kill(os.getpid(), signal.SIGKILL)
