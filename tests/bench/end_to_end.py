"""A whole morning, from what is due to what is delivered, beside the naive way in the same run.

10,000 readers with 3 topics each, 500 papers, PostgreSQL with every commit on disk, SMTP to a sink in
another process. First both ways write to the same hundred readers and their letters are compared; only
then is anything timed. The naive way is spared its task queue, which would make it slower still.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from email import message_from_bytes, policy
from operator import itemgetter
from pathlib import Path

from sqlalchemy import Engine

from digest import db, delivery, presses, publishing, settings, topics, transport
from digest.press import Press
from digest.rendering import Templates
from tests.bench import naive, sink
from tests.bench.world import NOW, SITE, World
from tests.conftest import connected, fresh_database
from tests.servers import postgres

GATE = 100  #: times faster than the naive way
ROUNDS = 2  #: the better of which counts: a busy machine only ever slows
COMPARED = ("Subject", "From", "To", "List-Unsubscribe", "List-Unsubscribe-Post", "List-Id")


def main(full: bool) -> int:
    world = World(readers=100_000 if full else 10_000)
    sample = World(readers=world.kept)
    with postgres("synchronous_commit=on") as server, tempfile.TemporaryDirectory() as folder:
        ours, theirs = (measured(way, sample, server, Path(folder)) for way in ("ours", "naive"))
        compare(ours["letters"], theirs["letters"])
        print(f"   letters compared: {len(ours['letters'])}, all the same")
        best, rival = (
            max((measured(way, size, server, Path(folder)) for _ in range(ROUNDS)), key=itemgetter("rate"))
            for way, size in (("ours", world), ("naive", sample))
        )
    ratio = best["rate"] / rival["rate"]
    for name, got in (("ours", best), ("naive", rival)):
        print(
            f"   {name:6} {got['readers']:>7,} readers  {got['mails']:>7,} digests in {got['seconds']:7.2f} s"
            f"  {got['rate']:>9,.1f} digests/s  {got['memory']:>4.0f} MB at the peak"
            f"  ({got['parts']}; {got['cpu']:.2f} s of one core)"
        )
    print(f"   ratio {ratio:,.0f} (gate: more than {GATE})")
    return 0 if ratio > GATE else 1


# ── one measurement, in a process of its own ────────────────────────────────────────────────────


def measured(way: str, world: World, server: str, folder: Path) -> dict:
    """Run one way over a world of its own, and return its figures and the letters that were kept."""
    kept = folder / f"{way}-{world.readers}"
    kept.mkdir(exist_ok=True)
    with sink.open_sink(kept) as port, fresh_database(server, template="template0") as url:
        with connected(url) as engine:
            world.build(engine)
        command = [sys.executable, "-m", "tests.bench.end_to_end", way, url, str(port)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        mails = sink.taken(port)
    figures = json.loads(done.stdout)
    letters = {path.name: path.read_bytes() for path in kept.iterdir()}
    rate = mails / figures["seconds"]
    return figures | {"mails": mails, "rate": rate, "readers": world.readers, "letters": letters}


def compare(ours: dict[str, bytes], theirs: dict[str, bytes]) -> None:
    """Raise AssertionError unless both ways told the same readers the same."""
    assert ours.keys() == theirs.keys(), ours.keys() ^ theirs.keys()
    assert len(ours) > 50
    for name, letter in ours.items():
        assert contents(letter) == contents(theirs[name]), name


def contents(message: bytes) -> list[str]:
    parsed = message_from_bytes(message, policy=policy.default)
    parts = [parsed.get_body((kind,)).get_content().rstrip() for kind in ("plain", "html")]
    return [str(parsed[name]).strip() for name in COMPARED] + parts


def run(way: str, url: str, port: int) -> None:
    """Be the process that is measured: everything from the first query to the last commit."""
    templates = Templates(settings.templates_dir())
    with connected(url) as engine:
        began = time.perf_counter()
        parts = (run_ours if way == "ours" else run_naive)(engine, templates, port)
        seconds = time.perf_counter() - began
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu, memory = used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
    print(json.dumps({"seconds": seconds, "cpu": cpu, "memory": memory, "parts": parts}))


def run_ours(engine: Engine, templates: Templates, port: int) -> str:
    """Publish, then deliver; return how the time was shared."""
    began = time.perf_counter()
    with db.writing(engine) as session:
        publishing.publish(session, site=SITE, templates=templates, now=NOW)
    published = time.perf_counter()
    with smtp(port) as opened, db.writing(engine) as session:
        delivery.deliver(session, site=SITE, templates=templates, transport=opened, clock=lambda: NOW)
    return f"publishing {published - began:.2f} s, delivering {time.perf_counter() - published:.2f} s"


@contextmanager
def smtp(port: int) -> Iterator[transport.Transport]:
    with closing(transport.open(f"smtp://127.0.0.1:{port}", site=SITE)) as opened:
        yield opened


def run_naive(engine: Engine, templates: Templates, port: int) -> str:
    """Write to one reader after the other."""
    with db.writing(engine) as session:
        press = press_of(engine, templates)
        index = topics.Index(press.papers)
        for email in [row["email"] for row in World(readers=World().kept).reader_rows()]:
            naive.send_to(session, press, index, templates, port, email)
    return "one reader after the other"


def press_of(engine: Engine, templates: Templates) -> Press:
    """Return the papers with their scores. The naive way is given them: it is not timed on ranking."""
    with db.writing(engine) as session:
        since = presses.since(NOW, None)
        return presses.current(session, site=SITE, templates=templates, now=NOW, since=since)


if __name__ == "__main__":
    run(sys.argv[1], sys.argv[2], int(sys.argv[3]))
