"""Start child processes that run our code from any folder, and end them with their parent."""

from __future__ import annotations

import ctypes
import signal
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

LIBC = ctypes.CDLL(None, use_errno=True)  # loaded at import, to minimise the code that runs after a fork
PR_SET_PDEATHSIG = 1


def python_command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs one of our modules; no file in the current folder can shadow an import."""
    return [sys.executable, "-P", "-m", module, *arguments]


def python_environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for `python_command`: it names the checkout, if we run from one."""
    root = str(Path(__file__).parents[2])
    is_installed = root in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    return dict(inherited) if is_installed else {**inherited, "PYTHONPATH": root}


def end_with_parent(how: signal.Signals = signal.SIGTERM) -> None:
    """Ask the kernel to send this process a signal when its parent thread ends (Linux only)."""
    if sys.platform == "linux":
        LIBC.prctl(PR_SET_PDEATHSIG, how)
