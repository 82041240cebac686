"""Profile a worker by sampling its stack a hundred times a second while a task runs.

`python -m tests.bench.sampling_profile worker` is the unchanged worker of the product with two timers: one
runs with the clock, the other with the worker's processor time. Each sample adds the time since the last
sample of its timer to the worker's current step. The difference between the two is the time spent waiting.
With the clock alone, the work before a wait would count for the step that waits.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

from celery.signals import task_postrun, task_prerun

COMMAND = (sys.executable, "-m", "tests.bench.sampling_profile")
BETWEEN = 0.01  #: seconds between two samples, which take less than 1% of the worker's time
KEPT_EVERY = 0.2  #: seconds
OTHER, IDLE = "other", "between tasks"

#: The step of each function, by module; the innermost one on the stack is the worker's current step.
STEPS: dict[str, dict[str, str]] = {
    "digest.publishing.publish_due": {"prepare_press": "press"},
    "digest.delivery.press_store": {"load_press": "press"},
    "digest.publishing.due_readers": {
        "chunk_starts": "gather",
        "lock_due_readers": "gather",
    },
    "digest.publishing.publication": {"gather_inputs": "gather", "evaluate_filters": "filters"},
    "digest.publishing.decide_digest": {"decide_digest": "decide"},
    "digest.publishing.chunk_of_digests": {"decide_and_write": "write", "publish_chunk": "commit"},
    "digest.delivery.worker_loop": {
        "claim": "claim",
        "give_back": "claim",
        "check_and_intend": "intend",
        "settle": "settle",
    },
    "digest.delivery.next_window": {"load": "load context"},
    "digest.delivery.message_rendering": {"render_delivery": "render letters"},
    "digest.delivery.transports.smtp": {"send": "talk SMTP"},
    "digest.delivery.transports.smtp_socket": {
        "write": "write to the server",
        "write_on": "write to the server",
        "wait": "wait for the server",
        "read": "wait for the server",
    },
}
SQL = ("sqlalchemy", "psycopg", "digest.db")
TASKS = {"publish": "publishing", "publish_chunks": "publishing", "deliver": "delivering"}


# ── in the worker ───────────────────────────────────────────────────────────────────────────────


class Watch:
    """The time of this process, by task, step, and whether it was spent on SQL."""

    def __init__(self) -> None:
        self.task = ""
        self.clock: defaultdict[str, float] = defaultdict(float)
        self.processor: defaultdict[str, float] = defaultdict(float)
        self.looked = self.worked = self.kept_at = 0.0  #: the times of the last samples and of the last file

    def begin(self, task: Any = None, **_details: Any) -> None:
        """Start sampling."""
        self.task = task.name.rpartition(".")[2]
        self.looked, self.worked = time.perf_counter(), time.process_time()
        for timer, alarm, sample in (
            (signal.ITIMER_REAL, signal.SIGALRM, self.sample_clock),
            (signal.ITIMER_PROF, signal.SIGPROF, self.sample_processor),
        ):
            signal.signal(alarm, sample)
            signal.setitimer(timer, BETWEEN, BETWEEN)

    def sample_clock(self, _signal: int, frame: FrameType | None) -> None:
        """Count the elapsed time since the last sample for the current step."""
        now = time.perf_counter()
        self.clock[self.key(frame)] += now - self.looked
        self.looked = now
        if now - self.kept_at > KEPT_EVERY:  # this process is ended when all is delivered
            self.write_samples()

    def sample_processor(self, _signal: int, frame: FrameType | None) -> None:
        """Count the processor time since the last sample for the current step."""
        worked = time.process_time()
        self.processor[self.key(frame)] += worked - self.worked
        self.worked = worked

    def key(self, frame: FrameType | None) -> str:
        """Return the current task, step and place."""
        return "|".join((self.task, *place_of(frame)))

    def end(self, **_details: Any) -> None:
        """Stop sampling and store the result."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.setitimer(signal.ITIMER_PROF, 0)
        self.sample_clock(signal.SIGALRM, None)
        self.sample_processor(signal.SIGPROF, None)
        self.write_samples()

    def write_samples(self) -> None:
        """Write the samples taken so far to a file."""
        self.kept_at = self.looked
        load_samples = {"clock": self.clock, "processor": self.processor}
        (Path(os.environ["DIGEST_DATA_DIR"]) / f"seen-{os.getpid()}.json").write_text(
            json.dumps(load_samples)
        )


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
    """Run a worker under the profiler."""
    from workers.__main__ import main as work

    watch = Watch()
    task_prerun.connect(watch.begin, weak=False)
    task_postrun.connect(watch.end, weak=False)
    return work(sys.argv[1:])


# ── afterwards ──────────────────────────────────────────────────────────────────────────────────


def print_steps(folder: Path, mails: int, spans: Mapping[str, float]) -> None:
    """Print the microseconds that the workers of a data directory spent on one digest, by step.

    `spans` are the seconds that all workers together had for publishing and for delivering.
    """
    clock, processor = load_samples(folder, "clock"), load_samples(folder, "processor")
    for what, span in spans.items():
        rows = sorted(steps(clock, what).items(), key=lambda row: -row[1])
        rows.append((IDLE, max(span - sum(took for _, took in rows), 0.0)))
        print(f"   {what}: {span / mails * 1e6:,.1f} µs of a worker for one digest")
        print(f"      {'':20} {'by the clock':>12} {'working':>8} {'at SQL':>8}")
        for step, took in rows:
            worked, at_sql = steps(processor, what)[step], steps(clock, what, "SQL")[step]
            columns = [f"{each / mails * 1e6:,.1f}" for each in (took, worked, at_sql)]
            print(f"      {step:20} {columns[0]:>12} {columns[1]:>8} {columns[2]:>8}")


def load_samples(folder: Path, what: str) -> Mapping[str, float]:
    """Return the samples of all workers."""
    total: defaultdict[str, float] = defaultdict(float)
    for path in folder.glob("seen-*.json"):
        for key, took in json.loads(path.read_text())[what].items():
            total[key] += took
    return total


def steps(counted: Mapping[str, float], what: str, at: str = "") -> Mapping[str, float]:
    """Return the seconds of each step of publishing or delivering; all, or only those `at` something."""
    found: defaultdict[str, float] = defaultdict(float)
    for task, step, place, took in parted(counted):
        if TASKS.get(task) == what and at in {"", place}:
            found[step] += took
    return found


def parted(counted: Mapping[str, float]) -> Iterator[tuple[str, str, str, float]]:
    for key, took in counted.items():
        task, step, place = key.split("|")
        yield task, step, place, took


if __name__ == "__main__":
    sys.exit(main())
