"""Compare how fast this checkout reads dumps with another checkout, which READING_BASE names.

Both read the seeds and a Kaggle snapshot of invented records, by turns, each in its own environment. The best
processor time of each file counts. Without READING_BASE, only the times of this checkout are printed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.bench.intake import write
from tests.dumps import SHARED
from tests.lint.sentences import ROOT

MIN_RATIO = 0.9
ROUNDS = 4
#: Reads each file completely, in whatever way the checkout in the working directory reads dumps.
READ_ALL = """
import io, json, sys, time
from datetime import date
from digest.dumps.formats import recognition
try:
    from digest.dumps.laws import checked
except ImportError:
    def checked(reading): return reading.records
seconds = []
for name in sys.argv[1:]:
    content, best = open(name, "rb").read(), 1e9
    for _ in range(4):
        begun = time.process_time()
        for _ in checked(recognition.read(io.BytesIO(content), name="dump", observed_on=date(2026, 11, 20))):
            pass
        best = min(best, time.process_time() - begun)
    seconds.append(best)
print(json.dumps(seconds))
"""


def main(full: bool) -> int:
    """Measure, print, and return 0 if no file takes much longer than in the other checkout."""
    base = os.environ.get("READING_BASE")
    checkouts = [ROOT, *([Path(base)] if base else [])]
    with tempfile.TemporaryDirectory(prefix="digest-bench-") as folder:
        snapshot = Path(folder) / "kaggle.jsonl"
        write(snapshot, 40_000 if full else 4_000)
        files = [*sorted((SHARED / "seeds").glob("*.txt")), snapshot]
        rounds = [[times(checkout, files) for checkout in checkouts] for _ in range(ROUNDS)]
    best = [[min(values) for values in zip(*runs, strict=True)] for runs in zip(*rounds, strict=True)]
    for number, file in enumerate(files):
        ratio = f", {best[1][number] / best[0][number]:.2f} of the other's speed" if base else ""
        print(f"   {file.name}: {best[0][number] * 1e3:,.1f} ms{ratio}")
    return int(bool(base) and min(b / a for a, b in zip(*best, strict=True)) < MIN_RATIO)


def times(checkout: Path, files: list[Path]) -> list[float]:
    """Return the processor time that a checkout needs for each file."""
    python = checkout / ".venv" / "bin" / "python"
    command = [str(python if python.exists() else sys.executable), "-c", READ_ALL, *map(str, files)]
    done = subprocess.run(command, cwd=checkout, capture_output=True, check=True)
    return list(json.loads(done.stdout))


if __name__ == "__main__":
    sys.exit(main(full="--full" in sys.argv))
