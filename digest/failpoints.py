"""Failpoints: named instants at which the chaos suite ends this process, as a power cut would.

Unarmed, which is always outside those tests, reaching one costs a look into an empty dict.
"""

from __future__ import annotations

import os
import signal

armed: dict[str, int] = {}  #: the failpoints that end this process, and how often each is passed first


def reach(name: str) -> None:
    """End this process at once if the failpoint of that name is armed and its turn has come."""
    if name in armed:
        armed[name] -= 1
        if armed[name] < 0:
            os.kill(os.getpid(), signal.SIGKILL)
