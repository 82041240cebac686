"""Read mutations of dumps in every format for a minute, ten with --full, and print how many and the slowest of each.

Each is read by every reader that recognises it and by the reader of its format; both yield papers or a reason.
"""

from __future__ import annotations

import random
import time
import traceback
from itertools import count

from tests.dumps.test_hostile import GOOD, read_whatever
from tests.dumps.test_mutations import MAX_GROWTH, mutated, peak_memory

SECONDS = 60
MAX_SLOWEST = 5.0  #: seconds of processor time for one mutation of at most 200,000 bytes


def main(full: bool) -> int:
    """Measure, print, and return 0 if every mutation is read or refused, quickly and in little memory."""
    end = time.monotonic() + SECONDS * (10 if full else 1)
    slowest = dict.fromkeys(sorted(GOOD), (0.0, 0))
    chance, failures, first_peak = random.Random(), 0, 0.0
    seed = chance.randrange(1_000_000)
    for number in count(seed):
        format = sorted(GOOD)[number % len(GOOD)]
        content = mutated(format, random.Random(f"{format} {number}"))
        begun = time.process_time()
        try:
            read_whatever(content, None)
            read_whatever(content, format)
        except Exception:  # noqa: BLE001  (each failure is printed and counted)
            failures += 1
            print(f"   mutation {number} of {format}:\n{traceback.format_exc()}")
        slowest[format] = max(slowest[format], (time.process_time() - begun, number))
        first_peak = first_peak or (peak_memory() if number > seed + 10 * len(GOOD) else 0.0)
        if time.monotonic() > end:
            break
    growth = peak_memory() - first_peak
    print(
        f"   {number - seed + 1:,} mutations of {len(GOOD)} formats, {failures} failed; memory grew by {growth:,.0f} MiB"
    )
    for format, (seconds, at) in slowest.items():
        print(f"   {format:18} slowest {seconds:6.2f} s (mutation {at})")
    is_fast = max(slowest.values())[0] < MAX_SLOWEST
    return int(bool(failures) or not is_fast or growth > MAX_GROWTH)
