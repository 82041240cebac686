"""A lifeline: a child process that ends when its parent does, however that died."""

from __future__ import annotations

import ctypes
import signal
import sys

LIBC = ctypes.CDLL(None, use_errno=True)  # looked up here, since after a fork there is no time for it
PR_SET_PDEATHSIG = 1


def tie(how: signal.Signals = signal.SIGTERM) -> None:
    """Ask the kernel to send us this signal when the thread that started us ends (Linux only)."""
    if sys.platform == "linux":
        LIBC.prctl(PR_SET_PDEATHSIG, how)
