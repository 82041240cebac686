"""Kill this process at named points, as a power cut would, for the chaos tests.

Outside those tests, no failpoint is armed, and reaching a failpoint costs one lookup in an empty dict.
"""

from __future__ import annotations

import os
import signal

#: The armed failpoints, with the number of passes before each kills this process.
armed_failpoints: dict[str, int] = {}


def reach(name: str) -> None:
    """Kill this process immediately if this failpoint is armed and its passes are used up."""
    if name in armed_failpoints:
        armed_failpoints[name] -= 1
        if armed_failpoints[name] < 0:
            os.kill(os.getpid(), signal.SIGKILL)
