"""Time a morning of the whole service, and compare it with a naive and a competent implementation.

All run with real Celery workers. The product publishes, renders, delivers and settles letters to all readers;
the rivals write to a sample of the same readers. The mornings alternate, and the best of each implementation
counts. First all three write to the same hundred readers, and their letters are compared. `python -m
tests.bench.workers READERS FILTERS PAPERS` runs a morning of the product alone, of any size, and prints the
time of each step, and its rate beside that of Postfix's `smtp-source` (`make bench-million`: a million readers).
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from tests.bench import celery_mornings, sampling_profile, sending, sink
from tests.bench.celery_mornings import MorningCost, SharedServers
from tests.bench.compare_letters import compare
from tests.bench.world import World

GATE = 3_000  #: minimum number of digests per second in the full size; the goal is 10,000
RATIOS = {"naive": (600, 1_000), "middle": (40, 60)}  #: speed-ups: gate and goal
MEMORY_GATE = 300  #: MB of a worker process at its peak
GOAL = 90e-6  #: goal for the seconds per digest: a million digests in 90 seconds
#: Shares of the rate of `smtp-source` processes that send one constant message: the gate and the goal.
SHARES = {"delivering": (0.6, 1.0), "in all": (0.4, 0.7)}
SAMPLE = 50_000  #: maximum number of messages that each `smtp-source` sends
TOPICS = (1, 10)  #: minimum and maximum number of topics of a reader
FLAT = 1.05  #: maximum memory at the end, relative to halfway


def main(full: bool) -> int:
    readers, filters = (100_000, 10_000) if full else (5_000, 1_000)
    samples = {"naive": 200, "middle": 5_000} if full else {"naive": 40, "middle": 500}
    print(
        f"   {celery_mornings.PROCESSES} worker processes for each way, PostgreSQL with synchronous_commit=on;"
        " the rivals are warm before their clock starts"
    )
    world = World(readers=readers, topics=TOPICS, filters=filters, kept=0, now=datetime.now(UTC), at="00:00")
    with celery_mornings.servers() as place, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        compare_all(place, world, folder, celery_mornings.WAYS)
        with celery_mornings.built_world(place, world) as template:
            figures = celery_mornings.best(place, template, folder, celery_mornings.WAYS, samples)
    return 0 if holds(figures, full=full) else 1


def compare_all(place: SharedServers, world: World, folder: Path, ways: tuple[str, ...]) -> None:
    """Raise AssertionError unless all implementations write the same letters to the same hundred readers."""
    letters = {}
    with celery_mornings.built_world(place, replace(world, readers=100, kept=100)) as template:
        for way in ways:
            kept = folder / f"letters-{way}"
            kept.mkdir()
            celery_mornings.run_morning(way, place, template, folder / f"compared-{way}", kept=kept)
            letters[way] = {path.name: path.read_bytes() for path in kept.iterdir()}
    for way in ways[1:]:
        compare(letters[ways[0]], letters[way])
    print(f"   letters compared: {len(letters['ours'])} by each way, all the same", flush=True)


def holds(figures: dict[str, MorningCost], *, full: bool) -> bool:
    """Print the ratios beside their gates, and return whether these hold; all but memory only in full size."""
    ours = figures["ours"]
    lines, held = [f"{ours.rate:,.0f} digests/s (gate {GATE:,})"], ours.rate >= GATE
    for way, (gate, goal) in RATIOS.items():
        ratio, cost = ours.rate / figures[way].rate, figures[way].cost / ours.cost
        lines.append(f"{ratio:,.0f} times {way} (gate {gate}, goal {goal:,}; by processor time {cost:,.0f})")
        held &= ratio >= gate
    growth = ours.memory / (ours.halfway or ours.memory)
    held &= growth < FLAT
    lines.append(f"memory {ours.memory:.0f} MB (gate {MEMORY_GATE}), {growth:.2f} times that halfway")
    print(
        "   "
        + "\n   ".join(lines)
        + ("" if full else "\n   (the gates of speed and flatness are for the full size)")
    )
    return ours.memory < MEMORY_GATE and (held or not full)


def alone(readers: int, filters: int, papers: int) -> None:
    """Run one morning of our own workers under the profiler, and print where the time went."""
    now = datetime.now(UTC)
    world = World(papers=papers, readers=readers, topics=TOPICS, filters=filters, kept=0, now=now, at="00:00")
    with celery_mornings.servers() as place, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with celery_mornings.built_world(place, world) as template:
            ours = celery_mornings.run_morning(
                "ours", place, template, folder / "ours", command=sampling_profile.COMMAND
            )
        ours.print_figures()
        delivering = ours.seconds - ours.published
        print(
            f"   published in {ours.published:.1f} s: {ours.readers / ours.published:,.0f} readers/s; then"
            f" delivered in {delivering:.1f} s (goal {GOAL * ours.mails:.1f}): {ours.mails / delivering:,.0f} digests/s"
        )
        if sending.SMTP_SOURCE:
            print_shares(ours, delivering, constant_message_rate(folder, ours))
        print(f"   the largest worker had {ours.halfway:.0f} MB halfway, {ours.memory:.0f} at the end")
        spans = {"publishing": ours.published, "delivering": delivering}
        together = {what: took * celery_mornings.PROCESSES for what, took in spans.items()}
        sampling_profile.print_steps(folder / "ours" / "data", ours.mails, together)


def constant_message_rate(folder: Path, ours: MorningCost) -> float:
    """Return the messages per second of one `smtp-source` process per worker, with messages as large as ours."""
    count, size = min(ours.mails // celery_mornings.PROCESSES, SAMPLE), ours.sent_bytes // ours.mails
    options = ["-4", "-d", "-s", "8", "-m", str(count), "-l", str(size)]
    with sink.fastest(folder) as taker:
        command = [sending.SMTP_SOURCE, *options, f"127.0.0.1:{taker.port}"]
        began = time.perf_counter()
        running = [subprocess.Popen(command) for _ in range(celery_mornings.PROCESSES)]
        assert [process.wait() for process in running] == [0] * len(running)
        return count * len(running) / (time.perf_counter() - began)


def print_shares(ours: MorningCost, delivering: float, constant: float) -> None:
    """Print the rates of the morning as shares of that of a constant message."""
    rates = {"delivering": ours.mails / delivering, "in all": ours.rate}
    shares = [
        f"{what} {rates[what] / constant:.2f} (gate {gate}, goal {goal})"
        for what, (gate, goal) in SHARES.items()
    ]
    print(f"   of {celery_mornings.PROCESSES} x smtp-source, {constant:,.0f} messages/s: {', '.join(shares)}")


if __name__ == "__main__":
    alone(*map(int, sys.argv[1:]))
