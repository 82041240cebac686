"""Make a bare Debian system in a folder, and boot it with its own systemd and a network of its own.

Packages are installed while the system still shares this machine's network, with this machine's package sources.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.judge.installed_programs import program
from tests.support.waiting import wait_until

BOOTABLE = "systemd,systemd-sysv,dbus,ca-certificates"  #: the packages of a system that can be booted
SOURCES = ("/etc/apt", "/usr/share/keyrings", "/etc/ssl/certs/ca-certificates.crt", "/etc/resolv.conf")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
MINUTES = 60


@dataclass(frozen=True, kw_only=True)
class Debian:
    """A Debian system in a folder."""

    root: Path

    def install(self, script: str) -> str:
        """Run a script with this machine's network, while no service is started."""
        policy = self.root / "usr" / "sbin" / "policy-rc.d"
        policy.write_text("#!/bin/sh\nexit 101\n")
        policy.chmod(0o755)
        try:
            return output_of(
                [*self.container("--resolv-conf=off"), "/bin/bash", "-exc", script], environment()
            )
        finally:
            policy.unlink()

    def container(self, *options: str) -> list[str]:
        """Return the command that runs a program in the system."""
        nspawn = program("systemd-nspawn", package="systemd-container")
        common = (
            "--quiet",
            "--register=no",
            "--keep-unit",
            "--machine=digest-walk",
            f"--directory={self.root}",
        )
        passed = (f"--setenv={name}={value}" for name, value in environment().items())
        return [nspawn, *common, *passed, *options]

    @contextmanager
    def booted(self) -> Iterator[Booted]:
        """Boot the system, and power it off afterwards."""
        command = self.container("--boot", "--private-network", "--console=pipe")
        with (self.root.parent / "console").open("wb") as console:
            machine = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=console, stderr=console, start_new_session=True
            )
        try:
            booted = Booted(nspawn=machine.pid)
            wait_until("a booted system", booted.is_up)
            yield booted
        finally:
            os.killpg(machine.pid, signal.SIGTERM)
            try:
                machine.wait(timeout=60)
            except subprocess.TimeoutExpired:
                os.killpg(machine.pid, signal.SIGKILL)
                machine.wait()


@dataclass(frozen=True, kw_only=True)
class Booted:
    """A booted system."""

    nspawn: int

    @property
    def init(self) -> int:
        """Return the process number of its systemd, or 0."""
        found = subprocess.run(["pgrep", "-P", str(self.nspawn)], capture_output=True, text=True, check=False)
        return int((found.stdout.split() or ["0"])[0])

    def is_up(self) -> bool:
        """Return whether systemd has started the system, or as much of it as it can."""
        if not self.init:
            return False
        state = subprocess.run(
            [*self.entering(), "systemctl", "is-system-running"], capture_output=True, text=True, check=False
        )
        return state.stdout.strip() in {"running", "degraded"}

    def entering(self) -> list[str]:
        """Return the command that runs a program in the booted system."""
        inside = [
            "nsenter",
            f"--target={self.init}",
            "--mount",
            "--uts",
            "--ipc",
            "--net",
            "--pid",
            "--cgroup",
        ]
        variables = [f"{name}={value}" for name, value in environment().items()]
        return [*inside, f"--root=/proc/{self.init}/root", "--wd=/", "env", "-i", *variables]

    def run(self, script: str) -> str:
        """Run a script in the booted system, and return its output; raise AssertionError if a command fails."""
        return output_of([*self.entering(), "/bin/bash", "-exc", script], None)


def output_of(command: list[str], variables: Mapping[str, str] | None) -> str:
    """Run a command, and return its output; raise AssertionError with the end of its output if it fails."""
    done = subprocess.run(
        command, env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, errors="replace", timeout=20 * MINUTES, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:]
    return done.stdout


def environment() -> dict[str, str]:
    """Return the variables of a root shell, with this machine's settings of pip."""
    pip = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    return {"PATH": PATH, "HOME": "/root", "LANG": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive", **pip}


def made_in(root: Path, packages: str = BOOTABLE) -> Debian:
    """Make a bare system of this machine's Debian release, with these packages."""
    release = dict(re.findall(r'(?m)^(\w+)="?([^"\n]*)', Path("/etc/os-release").read_text()))[
        "VERSION_CODENAME"
    ]
    targets = ["apt-get", "indextargets", "--format", "$(RELEASE) $(SITE)", "Created-By: Packages"]
    listed = subprocess.run(targets, capture_output=True, text=True, check=True).stdout.splitlines()
    site = next(line.partition(" ")[2] for line in listed if line.partition(" ")[0] == release)
    debootstrap = program("debootstrap", package="debootstrap")
    output_of([debootstrap, "--variant=minbase", f"--include={packages}", release, str(root), site], None)
    found = [source for source in SOURCES if Path(source).exists()]
    output_of(["cp", "--recursive", "--dereference", "--force", "--parents", *found, str(root)], None)
    return Debian(root=root)
