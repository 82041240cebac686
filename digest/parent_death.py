"""End a child process when its parent process ends for any reason."""

from __future__ import annotations

import ctypes
import signal
import sys

LIBC = ctypes.CDLL(None, use_errno=True)  # loaded at import, to minimise the code that runs after a fork
PR_SET_PDEATHSIG = 1


def end_with_parent(how: signal.Signals = signal.SIGTERM) -> None:
    """Ask the kernel to send this process a signal when its parent thread ends (Linux only)."""
    if sys.platform == "linux":
        LIBC.prctl(PR_SET_PDEATHSIG, how)
