"""Time reading and storing a dump of 200,000 invented records in Kaggle's format, on SQLite and PostgreSQL.

First the records that were read are compared with the records that were written. Reading is measured in
processor time of one core, and storing in elapsed time. Then text layouts are read at doubling lengths, up to
50 MB with --full.
"""

from __future__ import annotations

import io
import json
import random
import resource
import sys
import tempfile
import time
from datetime import UTC, date, datetime
from itertools import pairwise
from pathlib import Path

from digest import db
from digest.dumps.formats import recognition
from digest.dumps.intake import load_dump
from digest.papers.paper_record import Record
from tests.dumps import blocks, headings, meta, pairs
from tests.support import real_servers

NOW = datetime(2026, 11, 20, 8, tzinfo=UTC)
WORDS = [
    "we",
    "study",
    "gravel",
    "tides",
    "kites",
    "owls",
    "that",
    "sort",
    "steer",
    "hear",
    "in",
    "the",
    "rain",
    "under",
    "loose",
    "wind",
    "with",
    "a",
    "method",
    "whose",
    "error",
    "is",
    "half",
    "of",
    "what",
    "was",
    "known",
    "and",
    "which",
    "needs",
    "no",
    "labels",
    "for",
    "any",
    "of",
    "its",
    "parts",
    "at",
    "all",
]
MEBIBYTE = 2**20


def main(full: bool) -> int:
    """Measure, print, and return 0 if every promise holds."""
    count = 200_000 if full else 40_000
    with tempfile.TemporaryDirectory(prefix="digest-bench-") as folder:
        path = Path(folder) / "snapshot.jsonl"
        write(path, count)
        print(f"   {count:,} records, {path.stat().st_size / MEBIBYTE:,.0f} MiB")
        compare(path)
        kept = [reading_is_fast(path, count), is_memory_small()]
        kept.append(storing_is_fast("SQLite", f"sqlite:///{folder}/bench.sqlite3", path, count))
        with real_servers.postgres() as url:
            kept.append(storing_is_fast("PostgreSQL", url, path, count))
        kept.append(is_memory_small())
    kept.append(time_is_linear(50 if full else 12))
    return 0 if all(kept) else 1


def write(path: Path, count: int) -> None:
    """Write records as long as real ones: 1.5 KB each, with authors, versions and sometimes a DOI."""
    chance = random.Random(7)
    with path.open("w") as file:
        for number in range(count):
            file.write(json.dumps(invented_record(number, chance)) + "\n")


def invented_record(number: int, chance: random.Random) -> dict[str, object]:
    """Return one invented record."""
    names = [
        [f"Lind{chance.randrange(9000)}", chance.choice("ABCDEF") + ".", ""]
        for _ in range(chance.randrange(1, 9))
    ]
    return {
        "id": f"{2000 + number // 100_000:04d}.{number % 100_000:05d}",
        "submitter": "Ada Okafor",
        "authors": ", ".join(f"{first} {last}" for last, first, _ in names),
        "title": " ".join(chance.choices(WORDS, k=9)) + f"\n  part {number}",
        "comments": "12 pages, 3 figures",
        "journal-ref": None,
        "doi": f"10.1234/bench.{number}" if number % 3 == 0 else None,
        "report-no": None,
        "categories": "cs.LG stat.ML",
        "license": "http://creativecommons.org/licenses/by/4.0/",
        "abstract": "  " + "\n".join(" ".join(chance.choices(WORDS, k=12)) for _ in range(14)) + "\n",
        "versions": [{"version": "v1", "created": "Mon, 16 Nov 2026 20:31:27 GMT"}],
        "update_date": "2026-11-19",
        "authors_parsed": names,
    }


def compare(path: Path) -> None:
    """Check that the records read equal those written, before anything is timed."""
    with path.open("rb") as stream, path.open() as lines:
        reading = recognition.read(stream, name=path.name, observed_on=NOW.date())
        assert reading.format == "kaggle"
        for record, line, _ in zip(reading.records, lines, range(2000), strict=False):
            fields = json.loads(line)
            assert isinstance(record, Record)
            assert record.title == " ".join(fields["title"].split())
            assert record.abstract == " ".join(fields["abstract"].split())
            assert record.ids["arxiv"] == fields["id"]
            assert len(record.authors) == len(fields["authors_parsed"])
            assert record.published == date(2026, 11, 16)


def reading_is_fast(path: Path, count: int) -> bool:
    """Return whether 20,000 records a second are read and normalised on one core."""
    with path.open("rb") as stream:
        begun = time.process_time()
        found = sum(
            isinstance(r, Record) for r in recognition.read(stream, name="x", observed_on=NOW.date()).records
        )
        rate = count / (time.process_time() - begun)
    assert found == count
    return print_rate("read and normalised", rate, 20_000)


def storing_is_fast(name: str, url: str, path: Path, count: int) -> bool:
    """Return whether 5,000 new or 50,000 known records a second are loaded."""
    engine = db.make_engine(url)
    db.upgrade(engine)
    rates, costs = [], []
    for _ in range(2):
        begun, worked = time.perf_counter(), time.process_time()
        with db.write_session(engine) as session:
            loaded = load_dump.load(session, path, now=NOW)
        rates.append(count / (time.perf_counter() - begun))
        costs.append((time.process_time() - worked) / count * 1e6)
        assert loaded.papers == count, loaded.reason
    engine.dispose()
    first = print_rate(f"loaded into {name} (surveyed, then stored)", rates[0], 5_000)
    print(
        f"   of which {costs[0]:,.0f} µs each are our own; the rest is the server's, the disk's and other people's"
    )
    return (
        print_rate(f"the same again ({rates[1] / rates[0]:,.0f} times as fast)", rates[1], 10 * rates[0])
        and first
    )


def is_memory_small() -> bool:
    """Return whether the peak of memory is below 200 MiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"   peak memory {peak:,.0f} MiB (below 200)")
    return peak < 200


def print_rate(what: str, rate: float, least: float) -> bool:
    """Print a rate beside its required minimum."""
    print(f"   {what}: {rate:,.0f} records/s (at least {least:,.0f})")
    return rate >= least


# ── text layouts ────────────────────────────────────────────────────────────────────────────────


def time_is_linear(largest: int) -> bool:
    """Return whether the text layouts take twice as long for twice the length."""
    chance = random.Random(7)
    text = " ".join(chance.choices(WORDS, k=180))
    held = True
    for name, layout in (("pairs", pairs), ("blocks", blocks), ("markdown", headings)):
        papers = [
            (f"Kites and Owls, Part {number}", text, *([] if layout is pairs else [meta(5, "Nov 3 2")]))
            for number in range(largest * MEBIBYTE // (len(text) + 80))
        ]
        seconds = []
        for share in (8, 8, 4, 2, 1):  # the first only warms up
            content = layout(*papers[: len(papers) // share]).encode()  # type: ignore[arg-type]
            begun = time.process_time()
            found = sum(
                1 for _ in recognition.read(io.BytesIO(content), name=name, observed_on=NOW.date()).records
            )
            seconds.append(time.process_time() - begun)
            assert found == len(papers) // share
        growth = [later / before for before, later in pairwise(seconds[1:])]
        rate = largest / seconds[-1]
        print(
            f"   {name}: {rate:,.0f} MB/s; each doubling takes {', '.join(f'{g:.2f}' for g in growth)} times as long"
        )
        held = held and max(growth) < 2.6
    return held


if __name__ == "__main__":
    sys.exit(main(full="--full" in sys.argv))
