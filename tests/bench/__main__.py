"""Run the benchmarks: `python -m tests.bench [--full] [NAME...]`. Without a name: all of them.

A benchmark is a file in this folder with `main(full: bool) -> int`, which returns 0 if all gates are reached.
Each benchmark runs in its own process, so that its memory can be measured.
"""

from __future__ import annotations

import argparse
import importlib
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def benchmarks() -> list[str]:
    """Return the names of the benchmarks."""
    return sorted(path.stem for path in HERE.glob("*.py") if "\ndef main(full: bool)" in path.read_text())


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench ARGS=", description=__doc__)
    parser.add_argument("--full", action="store_true", help="the large sizes")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(benchmarks()))
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(benchmarks())
    if unknown:
        parser.error(f"no benchmark is called {', '.join(sorted(unknown))}")
    if len(arguments.names) == 1:
        return int(importlib.import_module(f"tests.bench.{arguments.names[0]}").main(full=arguments.full))
    return max([run(name, full=arguments.full) for name in arguments.names or benchmarks()], default=0)


def run(name: str, *, full: bool) -> int:
    """Run one benchmark in a process of its own."""
    print(f"── {name}", flush=True)
    command = [sys.executable, "-m", "tests.bench", *(["--full"] if full else []), name]
    code = subprocess.run(command, check=False).returncode
    print(f"   {name}: {'holds' if code == 0 else 'does NOT hold'}\n", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
