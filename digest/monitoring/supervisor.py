"""Find out how the roles are started on this machine, so that the fixes of problems name its commands."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

#: The units that systemd starts with the machine.
ENABLED_UNITS = Path("/etc/systemd/system/multi-user.target.wants")


@dataclass(frozen=True, kw_only=True, slots=True)
class Supervisor:
    """What starts the roles of this machine."""

    units: frozenset[str] = frozenset()  #: the roles that systemd starts as `digest@ROLE`
    uses_up: bool = False  #: whether `digest up` was used, which starts all roles
    data_dir: Path | None = None

    def restart(self, *roles: str) -> str:
        """Return the command that starts these roles again."""
        if self.units:
            return f"systemctl restart {' '.join(self.names(roles))}"
        return "digest up" if self.uses_up else " and ".join(f"digest {role}" for role in roles)

    def restart_hung(self, role: str, pids: str) -> str:
        """Return the commands that end the hung processes of a role and start it again."""
        if self.units:
            return self.restart(role)
        return f"kill -9 {pids}" + (
            "; digest up then starts it" if self.uses_up else f", then {self.restart(role)}"
        )

    def start_server(self, unit: str) -> str:
        """Return how to start a server that we use, such as Redis."""
        return f"Start it (systemctl start {unit})" if self.units else "Start it"

    def log(self, role: str) -> str:
        """Return the command, or the place, that shows the log of a role."""
        if self.units:
            return f"journalctl -u {self.names([role])[0]} -n 50"
        return "what digest up prints" if self.uses_up else f"what digest {role} prints"

    @property
    def hourly_run(self) -> str:
        """Return the line of a crontab, whose commands have neither our folder nor our PATH."""
        program = Path(sys.executable).with_name("digest")
        words = [str(program)] if program.exists() else [sys.executable, "-m", "digest"]
        words += ["--data-dir", str(self.data_dir.absolute())] if self.data_dir else []
        return f"5 * * * * {shlex.join([*words, 'run'])}".replace("%", r"\%")  # cron would end the line at %

    def names(self, roles: tuple[str, ...] | list[str]) -> list[str]:
        """Return the names of the units that run these roles."""
        is_small = "up" in self.units
        return ["digest@up"] if is_small else [f"digest@{role}" for role in roles]


def find_supervisor(data_dir: Path) -> Supervisor:
    """Return what starts the roles that use this data directory on this machine."""
    found = {path.name for path in ENABLED_UNITS.glob("digest@*.service")}
    units = frozenset(name.removeprefix("digest@").removesuffix(".service") for name in found)
    return Supervisor(units=units, uses_up=(data_dir / "up.lock").exists(), data_dir=data_dir)
