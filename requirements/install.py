"""Make .venv and fill it with exactly what a lock file names. Standard library only.

    python3 requirements/install.py base|dev

Works where a Python >= 3.11 is all there is: a distribution that ships Python without pip is asked
for the missing piece. A second run reads one stamp and takes a moment.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).resolve().parent
VENV = HERE.parent / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "installed"
COMMAND = VENV / "bin" / "digest"
TRIES = 3
LOCKS = ("base", "dev")  #: each holds all of those before it


def main() -> int:  # noqa: PLR0911  (one return for each outcome)
    if sys.version_info < (3, 11):  # noqa: UP036  (whoever runs this has not met pyproject.toml)
        return fail(f"Python 3.11 or newer is needed, and this is {sys.version.split()[0]}.")
    if len(sys.argv) != 2 or sys.argv[1] not in LOCKS:
        return fail(f"usage: install.py {'|'.join(LOCKS)}")
    name = sys.argv[1]
    if is_installed(name):
        return 0
    began = time.monotonic()
    if not make_venv():
        return fail(
            "Python's venv module cannot make an environment here and we may not install it.\n"
            "Debian and Ubuntu: apt-get install python3-venv. Then run the same command again."
        )
    if not install(name):
        return fail("pip could not install the locked packages; its own words are above.")
    write_command()
    STAMP.write_text(f"{name} {fingerprint(name)}\n")
    say(f"Installed in {time.monotonic() - began:.0f} s.")
    return 0


# ── the environment ─────────────────────────────────────────────────────────────────────────────


def make_venv() -> bool:
    """Make .venv by the first rung that holds; one that already works is kept."""
    if works():
        return True
    say(f"Making {VENV.name} with Python {sys.version.split()[0]} ...")
    rungs: tuple[Callable[[], bool], ...] = (with_ensurepip, with_the_pip_at_hand, with_the_system_package)
    return any(rung() and works() for rung in rungs)


def works() -> bool:
    """Return whether .venv has a Python of our version with a pip that starts."""
    check = f"import pip, sys; sys.exit(sys.version_info[:2] != {sys.version_info[:2]})"
    return PYTHON.exists() and run([PYTHON, "-c", check], quiet=True)


def with_ensurepip() -> bool:
    return find_spec("ensurepip") is not None and venv()


def with_the_pip_at_hand() -> bool:
    """A pip without ensurepip: let it install itself into the new environment."""
    if find_spec("pip") is None or not venv("--without-pip"):
        return False
    return run([sys.executable, "-m", "pip", "--python", PYTHON, "install", "-q", "pip"])


def with_the_system_package() -> bool:
    """Debian cuts ensurepip out of its python3: fetch the package that has it, where we may."""
    may = os.geteuid() == 0 or (shutil.which("sudo") is not None and run(["sudo", "-n", "true"], quiet=True))
    if shutil.which("apt-get") is None or not may:
        return False
    package = f"python{sys.version_info[0]}.{sys.version_info[1]}-venv"
    say(f"This Python has no pip: installing {package} with apt-get ...")
    as_root = [] if os.geteuid() == 0 else ["sudo", "-n"]
    quietly = [*as_root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq"]
    run([*quietly, "update"])
    installing = [*quietly, "install", "-y", "--no-install-recommends", package]
    return subprocess.run(installing, stdout=subprocess.DEVNULL, check=False).returncode == 0 and venv()


def venv(*options: str) -> bool:
    return run([sys.executable, "-m", "venv", "--clear", *options, VENV])


# ── the packages ────────────────────────────────────────────────────────────────────────────────


def install(name: str) -> bool:
    """Install the lock: every file must have one of its hashes, and no package but dkimpy runs code.

    dkimpy alone is published without a wheel, so it is built here.
    """
    say(f"Installing what requirements/{name}.txt names ...")
    command: list[str | Path] = [PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--require-hashes", "--only-binary", ":all:", "--no-binary", "dkimpy"]
    command += ["--requirement", HERE / f"{name}.txt"]
    return any(run(command) for _ in range(TRIES))


def write_command() -> None:
    """Make `.venv/bin/digest`, which runs this checkout from any folder."""
    root = VENV.parent
    COMMAND.write_text(f'#!/bin/sh\nPYTHONPATH="{root}" exec "{PYTHON}" -P -m digest "$@"\n')
    COMMAND.chmod(0o755)


def is_installed(name: str) -> bool:
    """Return whether the stamp says that this lock, or one that holds it, is already installed."""
    if not (STAMP.exists() and PYTHON.exists() and COMMAND.exists()):
        return False
    found, _, stamped = STAMP.read_text().strip().partition(" ")
    return found in LOCKS[LOCKS.index(name) :] and stamped == fingerprint(found)


def fingerprint(name: str) -> str:
    """Return what the stamp must hold: the locks up to this one, and the Python they were installed for."""
    content = b"".join((HERE / f"{lock}.txt").read_bytes() for lock in LOCKS[: LOCKS.index(name) + 1])
    return hashlib.sha256(content + sys.version.encode()).hexdigest()


# ── words ───────────────────────────────────────────────────────────────────────────────────────


def run(command: Sequence[str | Path], *, quiet: bool = False) -> bool:
    """Run a command and return whether it went well."""
    output = subprocess.DEVNULL if quiet else None
    return subprocess.run(command, stdout=output, stderr=output, check=False).returncode == 0


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def fail(text: str) -> int:
    say(text)
    return 1


if __name__ == "__main__":
    sys.exit(main())
