"""Measure the processor seconds and memory of processes, as Linux counts them."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

TICKS = os.sysconf("SC_CLK_TCK")


class ProcessUsage(NamedTuple):
    """One process: its parent, and the processor seconds of it and its ended children."""

    parent: int
    seconds: float


def seconds(root: int) -> float:
    """Return the processor seconds of a process and of all its descendants."""
    counted = processes()
    return sum(counted[number].seconds for number in process_tree(root, counted))


def peak(root: int) -> float:
    """Return the peak of memory, in MB, of the largest process among a process and its children."""
    return max(map(high_water, process_tree(root, processes())), default=0.0)


def parent(number: int) -> int:
    """Return the parent of a process."""
    return processes()[number].parent


def process_tree(root: int, counted: dict[int, ProcessUsage]) -> Iterator[int]:
    """Yield a process and its living descendants."""
    children: dict[int, list[int]] = defaultdict(list)
    for number, each in counted.items():
        children[each.parent].append(number)
    waiting = [root] if root in counted else []
    while waiting:
        number = waiting.pop()
        waiting += children[number]
        yield number


def processes() -> dict[int, ProcessUsage]:
    """Return all processes, keyed by process id."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # the process has ended
            continue
        found[int(folder.name)] = ProcessUsage(int(fields[1]), sum(map(int, fields[11:15])) / TICKS)
    return found


def high_water(number: int) -> float:
    """Return the peak memory of a process, in MB."""
    try:
        status = Path(f"/proc/{number}/status").read_text()
    except OSError:
        return 0.0
    return int((status.partition("VmHWM:")[2].split() or ["0"])[0]) / 1024
