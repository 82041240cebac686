"""Where the microseconds of a worker go: its stack, looked at a hundred times a second while a task runs.

`python -m tests.bench.breakdown worker` is the product's own worker with a timer beside it; the product
knows nothing of it. Each look counts the time since the last one for the step that the worker was in, by
the clock and by the processor: what lies between the two is waiting.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

from celery.signals import task_postrun, task_prerun

COMMAND = (sys.executable, "-m", "tests.bench.breakdown")
BETWEEN = 0.01  #: seconds from look to look: some thousandths of the worker's time
KEPT_EVERY = 0.2  #: seconds
OTHER, IDLE = "other", "between tasks"

#: What a function does, by module: the innermost of them on the stack says where the worker is.
STEPS: dict[str, dict[str, str]] = {
    "digest.publishing": {"prepare": "press"},
    "digest.presses": {"load": "press"},
    "workers.tasks": {"chunk_starts": "gather"},
    "digest.publishing.gathering": {"readers": "gather", "gather": "gather", "learn": "filters"},
    "digest.publishing.deciding": {"decide": "decide"},
    "digest.publishing.chunks": {"apply": "apply", "publish_chunk": "commit"},
    "digest.delivery.runs": {
        "claim": "claim",
        "give_back": "claim",
        "desk": "lay out",
        "intend": "intend",
        "settle": "settle",
        "tell": "settle",
    },
    "digest.delivery.writing": {"write": "set letters"},
    "digest.transport.smtp": {"send": "talk SMTP"},
    "digest.transport.wire": {
        "write": "write to the server",
        "write_on": "write to the server",
        "wait": "wait for the server",
        "read": "wait for the server",
    },
}
SQL = ("sqlalchemy", "psycopg", "digest.db")
TASKS = {"publish": "publishing", "publish_chunk": "publishing", "deliver": "delivering"}


# ── in the worker ───────────────────────────────────────────────────────────────────────────────


class Watch:
    """The time of this process, by task, step, and whether it was spent on SQL."""

    def __init__(self) -> None:
        self.task = ""
        self.clock: Counter[str] = Counter()
        self.processor: Counter[str] = Counter()
        self.looked = self.worked = self.kept_at = 0.0

    def begin(self, task: Any = None, **_details: Any) -> None:
        """Look from now on."""
        self.task = task.name.rpartition(".")[2]
        self.looked, self.worked = time.perf_counter(), time.process_time()
        signal.signal(signal.SIGALRM, self.look)
        signal.setitimer(signal.ITIMER_REAL, BETWEEN, BETWEEN)

    def look(self, _signal: int, frame: FrameType | None) -> None:
        """Count the time since the last look for where the worker is."""
        now, worked = time.perf_counter(), time.process_time()
        key = "|".join((self.task, *place_of(frame)))
        self.clock[key] += now - self.looked
        self.processor[key] += worked - self.worked
        self.looked, self.worked = now, worked
        if now - self.kept_at > KEPT_EVERY:  # whoever measures ends us once all is delivered, task or no task
            self.keep()

    def end(self, **_details: Any) -> None:
        """Look no more, and keep what was seen."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        self.look(signal.SIGALRM, None)
        self.keep()

    def keep(self) -> None:
        """Write down what was seen until now."""
        self.kept_at = self.looked
        seen = {"clock": self.clock, "processor": self.processor}
        (Path(os.environ["DIGEST_DATA_DIR"]) / f"seen-{os.getpid()}.json").write_text(json.dumps(seen))


def place_of(frame: FrameType | None) -> tuple[str, str]:
    """Return the step that a stack is in, and whether it is at SQL."""
    at = ""
    while frame is not None:
        module, function = frame.f_globals.get("__name__", ""), frame.f_code.co_name
        if step := STEPS.get(module, {}).get(function):
            return step, at
        if module.startswith(SQL):
            at = "SQL"
        frame = frame.f_back
    return OTHER, at


def main() -> int:
    """Be a worker that is looked at."""
    from workers.__main__ import main as work

    watch = Watch()
    task_prerun.connect(watch.begin, weak=False)
    task_postrun.connect(watch.end, weak=False)
    return work(sys.argv[1:])


# ── afterwards ──────────────────────────────────────────────────────────────────────────────────


def tell(folder: Path, mails: int, spans: Mapping[str, float]) -> None:
    """Print what the workers of a data directory did for one digest, in microseconds.

    `spans` are the seconds that all workers together had for publishing and for delivering.
    """
    clock, processor = seen(folder, "clock"), seen(folder, "processor")
    for what, span in spans.items():
        rows = sorted(steps(clock, what).items(), key=lambda row: -row[1])
        rows.append((IDLE, max(span - sum(took for _, took in rows), 0.0)))
        print(f"   {what}: {span / mails * 1e6:,.1f} µs of a worker for one digest")
        print(f"      {'':20} {'by the clock':>12} {'working':>8} {'at SQL':>8}")
        for step, took in rows:
            worked, at_sql = steps(processor, what)[step], steps(clock, what, "SQL")[step]
            told = [f"{each / mails * 1e6:,.1f}" for each in (took, worked, at_sql)]
            print(f"      {step:20} {told[0]:>12} {told[1]:>8} {told[2]:>8}")


def seen(folder: Path, what: str) -> Counter[str]:
    """Return what all workers counted."""
    total: Counter[str] = Counter()
    for path in folder.glob("seen-*.json"):
        total.update(json.loads(path.read_text())[what])
    return total


def steps(counted: Counter[str], what: str, at: str = "") -> Counter[str]:
    """Return the seconds of each step of publishing or delivering; all, or only those `at` something."""
    found: Counter[str] = Counter()
    for task, step, place, took in parted(counted):
        if TASKS.get(task) == what and at in {"", place}:
            found[step] += took
    return found


def parted(counted: Counter[str]) -> Iterator[tuple[str, str, str, float]]:
    for key, took in counted.items():
        task, step, place = key.split("|")
        yield task, step, place, took


if __name__ == "__main__":
    sys.exit(main())
