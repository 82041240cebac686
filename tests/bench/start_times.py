"""Compare the processor time of commands with that of importing Typer and SQLAlchemy alone.

Both run in turn, as processes of their own, on a small service. User and system time are compared, because a busy machine
changes them less than the time on the clock.
"""

from __future__ import annotations

import os
import resource
import shlex
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.conftest import ROOT

BARE = (sys.executable, "-c", "import typer, sqlalchemy")
HELP_GATE, GATE = 1.5, 2.5  #: maximum processor time relative to the bare imports
#: How often each pair runs; its ratio is the median.
FEW, MANY = 5, 15
#: Commands that an operator waits for; those that send, load or check servers do far more than start.
COMMANDS = (
    "topics check 'diffusion AND video'", "topics test diffusion", "papers", "papers --order newest", "dumps list", "sources list",
    "subscribers list", "subscribers show ada@example.org", "subscribers list ada",
    "subscribers edit ada@example.org --max-papers 5", "suppressions list", "deliveries", "bounces list", "inbox list",
    "why ada@example.org 1", "subscribers show ada@example.org --history", "status --since 7d", "status", "keys retire", "topics stats", "publish",
    "deliver",
)  # fmt: skip


def main(full: bool) -> int:
    """Measure, print the ratios, and return 0 if every gate holds."""
    with tempfile.TemporaryDirectory(prefix="digest-bench-") as name:
        environment = service(Path(name))
        ratios = {line: measure(line, environment, MANY if full else FEW) for line in ("--help", *COMMANDS)}
    for line, ratio in ratios.items():
        print(f"   digest {line}: {ratio:.2f} (gate {gate(line)})")
    return 0 if all(ratio <= gate(line) for line, ratio in ratios.items()) else 1


def gate(line: str) -> float:
    """Return the highest accepted ratio of a command."""
    return HELP_GATE if line == "--help" else GATE


def service(folder: Path) -> Mapping[str, str]:
    """Set up a small service, and return the environment of its commands: bytecode is cached, as after an installation."""
    dropped = ("DIGEST_", "PYTHONDONTWRITEBYTECODE")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    environment = kept | {"DIGEST_DATA_DIR": str(folder / "data")}
    for line in (
        f"intake {ROOT}/docs/examples/today.txt",
        "subscribers add ada@example.org --topic Pictures=diffusion --confirmed --consent benchmark",
        "run",
    ):
        seconds(command(line), environment)
    return environment


def command(line: str) -> Sequence[str]:
    """Return the process of a command line."""
    return (sys.executable, "-m", "digest", *shlex.split(line))


def measure(line: str, environment: Mapping[str, str], pairs: int) -> float:
    """Return the median ratio of a command to the bare imports."""
    return statistics.median(
        seconds(command(line), environment) / seconds(BARE, environment) for _ in range(pairs)
    )


def seconds(process: Sequence[str], environment: Mapping[str, str]) -> float:
    """Run a process and return its user and system time; raise CalledProcessError if it fails."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(process, cwd=ROOT, env=dict(environment), stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    sys.exit(main(full="--full" in sys.argv))
