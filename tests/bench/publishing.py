"""Measure how many digests per second are composed and published on one core, on SQLite and PostgreSQL.

    make bench ARGS="publishing --full"

First a slow and simple composer, written from the rules alone, composes digests for a sample of readers; they
must be the same. Then the function that the workers call publishes the digests of all due readers. Gates:
composing 30,000 a second, publishing 8,000 a second, and no more memory for twice the readers. The last
morning is one on which some hundred papers have changed: finding their readers may take at most twice the
time of publishing.
"""

from __future__ import annotations

import resource
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter, process_time

from sqlalchemy import Engine, func, select

from digest import db, settings
from digest.db.tables.deliveries import Delivery, Shown
from digest.editions import compose
from digest.editions.compose import Digest
from digest.letters.press.press_value import Press
from digest.letters.templates import Templates
from digest.publishing import chunk_of_digests, decide_digest, due_readers, publish_due
from digest.publishing.publication import Publication, gather_inputs
from digest.publishing.publish_due import CHUNK_SUBSCRIBERS
from tests.bench.updates import CHANGED, time_updates
from tests.bench.world import NOW, SITE, World
from tests.conftest import connected
from tests.support import real_servers
from tests.support.ranked_matches import order_of, relevance_of
from tests.support.shared_caches import CACHES

COMPOSED_A_SECOND = 30_000
PUBLISHED_A_SECOND = 8_000
SAMPLE = 300
MORNING = NOW  # the readers' hour, six in the morning, has passed


def main(full: bool) -> int:
    world = World(papers=500, readers=100_000 if full else 20_000, filters=10_000 if full else 2_000)
    print(f"{world.readers:,} readers with {world.topics[0]} topics each, {world.papers} papers")
    holds = True
    with (
        tempfile.TemporaryDirectory() as folder,
        connected(f"sqlite:///{Path(folder) / 'digest.sqlite3'}") as engine,
    ):
        holds &= measured("SQLite", world, engine, and_composing=True)
    with real_servers.postgres("fsync=on") as url, connected(url) as engine:
        holds &= measured("PostgreSQL", world, engine)
    return 0 if holds else 1


def measured(name: str, world: World, engine: Engine, *, and_composing: bool = False) -> bool:
    """Measure one database; print the figures and return whether they reach their limits."""
    world.build(engine)
    templates = Templates(settings.templates_dir())
    with db.write_session(engine) as session:
        began = perf_counter()
        publication = Publication(session, site=SITE, templates=templates, caches=CACHES, now=MORNING)
        press = publish_due.prepare_press(publication)
        assert press is not None
        publication = replace(publication, fixed_press=press)
        print(f"{name}: the press took {perf_counter() - began:.2f} s")
        holds = compare_composing(publication) if and_composing else True
        rate, ours, growth = published(publication)
        queued = session.scalar(select(func.count()).select_from(Delivery).where(Delivery.press.is_not(None)))
        shown = session.scalar(select(func.count()).select_from(Shown))
        clock, worked = time_updates(session, world.readers // 20, MORNING)
    print(f"{name}: {rate:,.0f} readers a second into the outbox ({queued:,} digests, {shown:,} showings)")
    print(
        f"{name}: {ours:,.0f} a second of our own processor time, {world.filters:,} filters evaluated included"
    )
    print(f"{name}: the second half of the readers added {growth / 1024:,.1f} MB")
    print(
        f"{name}: who was sent one of {CHANGED} papers that changed is found in {clock * 1e6:.0f} µs a reader, "
        f"{worked * 1e6:.0f} of them our own"
    )
    return holds and rate >= PUBLISHED_A_SECOND and worked <= 2 / PUBLISHED_A_SECOND


def published(publication: Publication) -> tuple[float, float, float]:
    """Publish everybody, starting with an empty match index.

    Returns the rate by the clock, that by our processor time, and by how many KB the second half of the
    readers raised the peak of memory.
    """
    CACHES.clear("match index")
    count, peaks = 0, []
    last_id: int | None = 0
    began, worked = perf_counter(), process_time()
    while last_id is not None:
        result, last_id = chunk_of_digests.publish_chunk(
            publication, after_id=last_id, limit=CHUNK_SUBSCRIBERS
        )
        count += result.due
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    growth = peaks[-1] - peaks[len(peaks) // 2]
    return count / (perf_counter() - began), count / (process_time() - worked), growth


def compare_composing(publication: Publication) -> bool:
    """Compare with the plain composer, then measure composing alone."""
    session, index = publication.session, publication.match_index
    rows = due_readers.lock_due_readers(session, after_id=0, limit=5_000, now=MORNING)
    gathered = gather_inputs(publication, rows)
    edition = decide_digest.schedule_status_of(rows[0], MORNING).due
    assert edition is not None
    for reader in rows[:SAMPLE]:
        ours = decide_digest.decide_digest(gathered, reader, edition).digest
        plain = compose_plainly(
            publication.press, index.choices, gathered.topics[reader.id], reader.max_papers
        )
        assert listed(ours) == plain, (listed(ours), plain)
    print(f"{SAMPLE} digests are what the plain composer says")
    session.rollback()
    best = 0.0
    for _ in range(3):
        began = process_time()
        for reader in rows:
            decide_digest.decide_digest(gathered, reader, edition).digest.to_json()
        best = max(best, len(rows) / (process_time() - began))
    print(f"composing: {best:,.0f} digests a second on one core")
    return best >= COMPOSED_A_SECOND


def listed(digest: Digest) -> list[tuple[str, list[int]]]:
    """A digest as topics and paper ids."""
    return [(section.topic, list(section.papers)) for section in digest.sections]


def compose_plainly(
    press: Press, choices: Mapping[int, compose.RankedMatches], topics: Sequence[tuple[str, int]], budget: int
) -> list[tuple[str, list[int]]]:
    """Compose a digest by the rules, in the slowest and simplest way."""
    found = {name: (choices[number], order_of(choices[number])) for name, number in topics}
    worth = {name: {n: chosen.worth(n) for n in matched} for name, (chosen, matched) in found.items()}
    fit = {name: {n: relevance_of(chosen, n) for n in matched} for name, (chosen, matched) in found.items()}
    order = [name for name, _ in topics]
    best = {name: sorted(worth[name], key=lambda n: (-worth[name][n], n)) for name in order}
    picked: dict[int, str] = {}
    while len(picked) < budget:
        offers: dict[int, str] = {}
        for name in order:
            left = [n for n in best[name] if n not in picked and n not in offers]
            if left:
                offers[left[0]] = name
        if not offers:
            break
        worthiest = sorted(offers, key=lambda n: (-worth[offers[n]][n], order.index(offers[n]), n))
        picked |= {n: offers[n] for n in worthiest[: budget - len(picked)]}
    homes: dict[str, list[int]] = {name: [] for name in order}
    for number in picked:
        fits = [name for name in order if number in fit[name]]
        homes[max(fits, key=lambda name: (fit[name][number], -order.index(name)))].append(number)
    return [
        (name, [press.papers[n].id for n in sorted(homes[name], key=best[name].index)])
        for name in order
        if homes[name]
    ]
