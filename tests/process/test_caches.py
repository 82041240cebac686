"""The caches of a process are bounded, and its memory does not grow over a month of mornings."""

from __future__ import annotations

import functools
import gc
import random
import tracemalloc
from datetime import UTC, datetime, timedelta
from itertools import count
from statistics import mean
from threading import Barrier, Thread

import pytest
from sqlalchemy import Engine

from digest.letters.templates import Templates
from digest.papers.paper_record import Record
from digest.process.caches import Caches
from digest.site.site_profile import Site
from tests.lint.process_state import problems_in
from tests.support.publishing_world import PublishingWorld

MORNINGS, READERS, PAPERS = 30, 8, 12
WORDS = [first + second for first in ("bri", "cal", "dor", "fen", "gol", "hul", "kam", "lor") for second in ("den", "fit", "gar", "mos", "nak", "pel", "rut", "tis", "vok", "zim")]  # fmt: skip


# ── one value ───────────────────────────────────────────────────────────────────────────────────


def test_a_value_is_made_once_until_its_key_changes():
    caches, numbers = Caches(), count(1)

    found = [caches.get_or_make("page", key, lambda: next(numbers)) for key in "aabba"]

    assert found == [1, 1, 2, 2, 3]
    assert caches.sizes() == {"page": 1}


def test_a_full_cache_drops_the_least_recently_used_value():
    caches = Caches()
    for key in ("a", "b", "a", "c"):
        caches.get_or_make("press", key, key.upper, bound=2)

    assert caches.get_or_make("press", "a", lambda: "made again", bound=2) == "A"
    assert caches.get_or_make("press", "b", lambda: "made again", bound=2) == "made again"
    assert caches.sizes() == {"press": 2}


def test_a_failed_value_is_not_cached():
    caches = Caches()
    with pytest.raises(ZeroDivisionError):
        caches.get_or_make("figure", 1, lambda: 1 / 0)

    assert caches.get_or_make("figure", 1, lambda: 5) == 5


def test_the_values_of_one_name_or_of_all_names_can_be_cleared():
    caches = Caches()
    for name in ("a", "b", "c"):
        caches.get_or_make(name, 1, lambda: 1)

    caches.clear("b")
    assert caches.sizes() == {"a": 1, "c": 1}
    caches.clear()
    assert caches.sizes() == {}


def test_one_thread_makes_a_value_while_the_others_wait():
    caches, made, together = Caches(), list[int](), Barrier(8)

    def make() -> int:
        made.append(sum(range(100_000)))
        return made[-1]

    def use() -> None:
        together.wait()
        caches.get_or_make("slow", 1, make)

    threads = [Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(made) == 1


# ── nothing beside it ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "written",
    [
        "KEPT = {}",
        "KEPT: dict[str, int] = dict()",
        "KEPT = defaultdict(list)",
        "def put(one): one.__dict__['kept'] = 1",
        "def put(one): vars(one)['kept'] = 1",
        "@cache\ndef read(name): return name",
        "@lru_cache\ndef read(name): return name",
        "@lru_cache(maxsize=None)  # few\ndef read(name): return name",
        "@lru_cache(maxsize=64)\ndef read(name): return name",
        "MANY = 64\nread = lru_cache(MANY)(str)",
    ],
)
def test_lint_finds_state_that_is_kept_elsewhere(written):
    assert len(list(problems_in(written))) == 1


@pytest.mark.parametrize(
    "written",
    [
        "CODES = {'a': 1}",
        "def read():\n    found = {}\n    return found",
        "@lru_cache(maxsize=64)  # a site has a few keys\ndef read(name): return name",
        "MANY = 64  #: of each press\nread = lru_cache(MANY)(str)",
    ],
)
def test_lint_accepts_constants_and_explained_bounds(written):
    assert list(problems_in(written)) == []


# ── a month ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.whole
@pytest.mark.slow
def test_memory_stays_flat_over_a_month_of_mornings(sqlite_engine: Engine, site: Site, templates: Templates):
    world = PublishingWorld(engine=sqlite_engine, site=site, templates=templates, caches=Caches())
    chance = random.Random(7)
    for number in range(READERS):
        topics = {word: f"{word} OR {chance.choice(WORDS)}" for word in chance.sample(WORDS, 3)}
        world.subscribe(f"reader{number}@example.org", topics, now="2026-11-01T00:00")

    tracemalloc.start()
    try:
        held = [held_after_morning(world, chance, day) for day in range(MORNINGS)]
    finally:
        tracemalloc.stop()

    middle, last = mean(held[MORNINGS // 3 : 2 * MORNINGS // 3]), mean(held[2 * MORNINGS // 3 :])
    assert last < 1.1 * middle, [size // 1000 for size in held]
    assert max(world.caches.sizes().values()) <= 4


def held_after_morning(world: PublishingWorld, chance: random.Random, day: int) -> int:
    """Load, publish and deliver one morning; return the bytes that are held besides bounded caches of functions."""
    now = datetime(2026, 11, 2, 8, tzinfo=UTC) + timedelta(days=day)
    world.dump(f"{now:%Y-%m-%dT00:00}", [invented(chance, day, number) for number in range(PAPERS)])
    assert world.publish(f"{now:%Y-%m-%dT%H:%M}").queued > 0
    assert world.deliver(now).sent > 0
    for kept in gc.get_objects():
        if isinstance(kept, functools._lru_cache_wrapper):
            kept.cache_clear()  # it would be full after some years of mornings of this size
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def invented(chance: random.Random, day: int, number: int) -> Record:
    """Return a paper of invented words."""
    title = " ".join(chance.choices(WORDS, k=6))
    abstract = ". ".join(" ".join(chance.choices(WORDS, k=15)).capitalize() for _ in range(6))
    return Record(title=f"{title} {day} {number}", abstract=f"{abstract}.")
