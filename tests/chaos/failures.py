"""Define the chaos cases: each causes one kind of failure, waits until all letters are settled, and reports."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import create_engine, func, make_url, select

from digest import db
from digest.db.tables.deliveries import Delivery
from tests.chaos import broker, clock_changes, crash_points
from tests.chaos.worker import LEASE
from tests.chaos.world import (
    CALLED_SENT,
    COPIED,
    FORKSERVER,
    LOST,
    ChaosWorld,
    Exhaustive,
    Plan,
    SlowPlan,
    Unruly,
    attempts_of,
    storm,
    subscribe,
    world,
)
from tests.support import postgres_pair, real_servers
from tests.support.faulty_smtp_server import Fault, faulty_server
from tests.support.waiting import wait_until

FAILPOINTS = ("claimed", "written", "intending", "intended", "answered", "settling", "settled")
PAST_A_LEASE = LEASE.total_seconds() + 0.5
HOUR = 3600.0  #: seconds
DRAIN_SECONDS = 240.0  #: time for settling the letters that are open after hundreds of kills
KILLS_PER_SECOND, FAILOVERS_PER_SECOND = 500 / 30, 10 / 30  #: for each second of `--seconds`


class Unavailable(Exception):
    """A requirement of a case is not available on this machine."""


@dataclass(frozen=True, kw_only=True)
class Ground:
    """The database of a world, with its server, pair of servers or disk."""

    url: str
    server: real_servers.Server | None = None
    disk: Path | None = None
    pair: postgres_pair.Pair | None = None

    @property
    def kind(self) -> str:
        """Return sqlite or postgresql."""
        return make_url(self.url).get_backend_name()


@dataclass(frozen=True, kw_only=True)
class Result:
    """The result of one case."""

    summary: str
    letters: int
    copies: int
    doubts: int
    broken: list[str]


Run = Callable[[Ground, int, float], Result]  #: gets the ground, the seed and the number of seconds


@dataclass(frozen=True, kw_only=True)
class FailureCase:
    """One kind of failure."""

    title: str  #: the failure in words
    run: Run
    on: tuple[str, ...] = ("sqlite", "postgresql")
    short: tuple[str, ...] = ()  #: databases on which the case is part of every test run
    needs: str = ""  #: "server", "standby" (a server with a standby) or "disk" (a small disk)
    starts_servers: bool = False


def in_world(
    act: Callable[[ChaosWorld, Ground, int, float], str],
    *,
    plan: Callable[[], Plan | None] = lambda: None,
    readers: int = 120,
    window: int = 5,
    rate: float = 0.1,
    uses_tls: bool = False,
) -> Run:
    """Return the run that causes this failure in a world and then checks the promises."""

    def run(ground: Ground, seed: int, seconds: float) -> Result:
        details = {"seed": seed, "plan": plan(), "uses_tls": uses_tls}
        with world(ground.url, readers=readers, window=window, rate=rate, **details) as made:  # type: ignore[arg-type]
            return judged(made, act(made, ground, seed, seconds))

    return run


def judged(made: ChaosWorld, summary: str) -> Result:
    """Count copies and doubts, and name every promise that was broken."""
    with db.read_session(made.engine) as session:
        letters, doubts = session.execute(select(func.count(), func.sum(Delivery.in_doubt))).one()
    return Result(
        summary=summary, letters=letters, copies=len(made.server.taken), doubts=doubts, broken=made.broken()
    )


# ── processes ───────────────────────────────────────────────────────────────────────────────────


def die_everywhere(made: ChaosWorld, _ground: Ground, seed: int, _seconds: float) -> str:
    """Kill a worker at every failpoint, after some letters."""
    chance, hit = random.Random(seed), 0
    for failpoint in FAILPOINTS:
        worker = made.start(failpoint=failpoint, spared=0 if failpoint == "claimed" else chance.randint(0, 2))
        hit += made.ends(worker) == -signal.SIGKILL
    made.kills += hit
    made.drain()
    return f"{hit} of {len(FAILPOINTS)} instants hit"


def weather(made: ChaosWorld, _ground: Ground, seed: int, seconds: float) -> str:
    """Kill, freeze and restart workers at random."""
    storm(made, seed=seed, seconds=seconds, workers=3)
    made.drain()
    return (
        f"{made.kills} kills, {made.freezes} freezes, {sum(made.plan.met.values())} failures of the server, "
        f"{len(made.left)} unsubscribes"
    )


def die_often(made: ChaosWorld, _ground: Ground, seed: int, seconds: float) -> str:
    """Kill one of three workers at random instants, 500 times in a long run."""
    chance, kills = random.Random(seed), max(20, round(seconds * KILLS_PER_SECOND))
    while made.kills < kills:
        made.start_until(3)
        time.sleep(chance.uniform(0.02, 0.25))
        made.kill(chance.choice(made.workers))
    left = unsettled(made)
    made.drain(seconds=DRAIN_SECONDS)
    return f"{kills} kills, {sum(made.plan.met.values())} failures of the server, {left} letters open at the last kill"


def unsettled(made: ChaosWorld) -> int:
    """Return how many letters are open."""
    states = attempts_of(made.engine)
    return sum(states.get(each, 0) for each in ("queued", "claimed", "sending"))


def misunderstand_time(made: ChaosWorld, _ground: Ground, _seed: int, seconds: float) -> str:
    """Let the workers' clocks disagree, and set one forward and back by an hour."""
    made.start(steps=[(0, -15)])
    made.start(steps=[(0, 15)])
    made.start(steps=[(0.2, HOUR), (0.6, 0), (1, -HOUR), (2, 0)])
    time.sleep(min(seconds, 4.5))
    made.drain(steps=[(0, 2 * HOUR)])  # for letters postponed by a clock that was ahead
    return "3 clocks, 4 steps of an hour"


def die_on_errands(ground: Ground, _seed: int, _seconds: float) -> Result:
    """Kill a process at every failpoint of intake, publishing and inbound mail; the next one continues."""
    readers, hit = 12, 0
    with faulty_server() as mail:
        made = ChaosWorld(
            engine=db.make_engine(ground.url), server=mail, plan=Unruly(random.Random(0), 0), window=5
        )
        now = datetime.now(UTC)
        with db.write_session(made.engine) as session:
            for number in range(readers):
                subscribe(session, number, now)
            session.commit()
        for failpoint in (*crash_points.FAILPOINTS, ""):
            errand = crash_points.Errand(database=ground.url, failpoint=failpoint)
            process = FORKSERVER.Process(target=crash_points.run, args=(errand,), daemon=True)
            process.start()
            made.workers.append(process)
            hit += made.ends(process) == -signal.SIGKILL
        made.drain()
        result = judged(made, f"{hit} of {len(crash_points.FAILPOINTS)} instants hit")
        # The sender repeats its message, whose reply was lost, and the report counts once.
        wrong = crash_points.faults(made.engine, readers=readers, mails=1)
        made.engine.dispose()
    return replace(result, broken=[*result.broken, *wrong])


# ── the mail server ─────────────────────────────────────────────────────────────────────────────


def meet_every_failure(made: ChaosWorld, _ground: Ground, _seed: int, _seconds: float) -> str:
    """Run until the mail server has failed in every known way."""

    def has_met_all() -> bool:
        made.start_until(1)
        return len(made.plan.met) == len(Fault)

    wait_until("every failure", has_met_all)
    made.drain()
    return f"{len(made.plan.met)} of {len(Fault)} failures met"


# ── the database ────────────────────────────────────────────────────────────────────────────────


def cut_off(made: ChaosWorld, _ground: Ground, _seed: int, seconds: float) -> str:
    """End every connection to the database, again and again."""
    return harass(made, made.cut_off, seconds, "times cut off")


def crash(made: ChaosWorld, ground: Ground, _seed: int, seconds: float) -> str:
    """Crash the database server, as `pg_ctl restart -m immediate` does, again and again."""

    def fall() -> None:
        assert ground.server
        ground.server.end(signal.SIGQUIT)
        ground.server.start()
        made.engine.dispose()

    return harass(made, fall, seconds, "crashes")


def fail_over(made: ChaosWorld, ground: Ground, _seed: int, seconds: float) -> str:
    """Crash the primary and promote its synchronous standby, ten times in a long run."""
    assert ground.pair
    failovers = max(2, round(seconds * FAILOVERS_PER_SECOND))
    for _failover in range(failovers):
        made.start_until(2)
        time.sleep(0.8)
        ground.pair.fail_over()
        made.engine.dispose()
    left = unsettled(made)
    made.drain(seconds=DRAIN_SECONDS)
    return f"{failovers} failovers, {made.saved.value} letters saved from doubt, {left} letters open after the last one"


def harass(made: ChaosWorld, harm: Callable[[], None], seconds: float, what: str) -> str:
    """Repeat a failure while two workers run."""
    deadline, count = time.monotonic() + seconds, 0
    while time.monotonic() < deadline:
        made.start_until(2)
        time.sleep(0.4)
        harm()
        count += 1
    made.drain()
    return f"{count} {what}, {made.saved.value} letters saved from doubt"


def lock(made: ChaosWorld, _ground: Ground, _seed: int, seconds: float) -> str:
    """Hold SQLite's write lock for longer than a lease, again and again."""
    made.start_until(2)
    rounds = max(1, int(seconds / (PAST_A_LEASE + 0.4)))
    for _round in range(rounds):
        time.sleep(0.4)
        made.lock(PAST_A_LEASE)
    made.drain()
    return f"{rounds} locks of {PAST_A_LEASE:.0f} s"


def fill_disk(made: ChaosWorld, ground: Ground, _seed: int, seconds: float) -> str:
    """Fill the disk under the database and free it, again and again."""
    assert ground.disk
    ballast, rounds = ground.disk / "ballast", 0
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        made.start_until(2)
        time.sleep(0.3)  # longer than between two retries of a worker
        fill(ballast)
        time.sleep(0.5)
        ballast.unlink()
        made.engine.dispose()
        if ground.server and ground.server.process and ground.server.process.poll() is not None:
            ground.server.start()
        rounds += 1
    made.drain()
    return f"{rounds} times full, {made.saved.value} letters saved from doubt"


def fill(path: Path) -> None:
    """Fill the disk."""
    with path.open("wb", buffering=0) as file:
        for size in (1 << 20, 1 << 12):
            with suppress(OSError):
                while True:
                    file.write(b"x" * size)


def forbid_growth(made: ChaosWorld, _ground: Ground, _seed: int, seconds: float) -> str:
    """Limit the size of the database files with a resource limit, which any user may set."""
    deadline, limits, halts = time.monotonic() + seconds, 0, 0
    while time.monotonic() < deadline:
        worker = made.start(largest_file=(4_000, 60_000, 200_000)[limits % 3])
        time.sleep(0.6)
        before = len(made.server.taken)
        time.sleep(0.2)
        halts += len(made.server.taken) == before
        limits += 1
        made.kill(worker)
    made.drain()
    return f"{limits} limits, {halts} standstills"


# ── the broker and the clock ────────────────────────────────────────────────────────────────────


def lose_the_broker(ground: Ground, _seed: int, _seconds: float) -> Result:
    """Freeze, kill and empty the broker, with two schedulers."""
    made, summary = broker.lose_the_broker(ground.url)
    try:
        return judged(made, summary)
    finally:
        made.engine.dispose()


def live_through_nights(ground: Ground, seed: int, _seconds: float) -> Result:
    """Run through nights with clock changes, with two publishers whose own clocks are wrong."""
    wrong, letters = clock_changes.live_through(ground.url, seed=seed)
    summary = (
        f"{len(clock_changes.NIGHTS)} nights in {len({zone for zone, _, _ in clock_changes.NIGHTS})} zones"
    )
    return Result(summary=summary, letters=letters, copies=letters, doubts=0, broken=wrong)


# ── all cases ─────────────────────────────────────────────────────────────────────────────────

BOTH = ("sqlite", "postgresql")

CASES = (
    FailureCase(
        title=f"kill -9 at each of {len(FAILPOINTS)} failpoints of a delivery",
        run=in_world(die_everywhere, rate=0),
        short=BOTH,
    ),
    FailureCase(
        title=f"kill -9 at each of {len(crash_points.FAILPOINTS)} other failpoints (dumps, digests, bounces)",
        run=die_on_errands,
        short=BOTH,
    ),
    FailureCase(
        title="kill -9 at random, SIGSTOP beyond the lease, a failing mail server, unsubscribes",
        run=in_world(weather, rate=0.15),
        short=("postgresql",),
    ),
    FailureCase(
        title="the same with windows of 50", run=in_world(weather, rate=0.15, readers=400, window=50)
    ),
    FailureCase(title="the same with windows of one letter", run=in_world(weather, rate=0.15, window=1)),
    FailureCase(
        title="kill -9 at random, hundreds of times, while the mail server defers, hangs, accepts and drops",
        run=in_world(die_often, plan=SlowPlan, readers=600),
    ),
    FailureCase(
        title="every kind of failure of the mail server once, from the greeting to QUIT, including TLS",
        run=in_world(meet_every_failure, plan=Exhaustive, uses_tls=True),
        short=("sqlite",),
    ),
    FailureCase(
        title="every connection to the database is closed repeatedly",
        run=in_world(cut_off),
        on=("postgresql",),
        short=("postgresql",),
    ),
    FailureCase(
        title="the database crashes and recovers (`-m immediate`) repeatedly",
        run=in_world(crash),
        on=("postgresql",),
        short=("postgresql",),
        needs="server",
        starts_servers=True,
    ),
    FailureCase(
        title="the primary crashes and its synchronous standby takes over, repeatedly",
        run=in_world(fail_over, plan=SlowPlan, readers=300),
        on=("postgresql",),
        short=("postgresql",),
        needs="standby",
        starts_servers=True,
    ),
    FailureCase(
        title="another process locks the file for longer than a lease",
        run=in_world(lock),
        on=("sqlite",),
        short=("sqlite",),
    ),
    FailureCase(
        title="the disk under the database is repeatedly full",
        run=in_world(fill_disk),
        short=("sqlite",),
        needs="disk",
    ),
    FailureCase(title="the database files may not grow", run=in_world(forbid_growth), on=("sqlite",)),
    FailureCase(
        title="clocks that disagree, and are set forward and back by an hour",
        run=in_world(misunderstand_time, readers=150),
        short=("postgresql",),
    ),
    FailureCase(
        title="nights with clock changes, two publishers with wrong clocks",
        run=live_through_nights,
        short=("sqlite",),
    ),
    FailureCase(
        title="Redis freezes, is killed, restarts without data and is emptied; two schedulers run",
        run=lose_the_broker,
        short=("postgresql",),
        starts_servers=True,
    ),
)


# ── broken designs ──────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A broken design, and the promises that it breaks."""

    title: str
    breaks: set[str]
    on: tuple[str, ...] = BOTH


MUTANTS = {
    "mark first": Mutant(
        title="a worker that marks letters as sent before it sends them", breaks={LOST, CALLED_SENT}
    ),
    "no intent": Mutant(title="a worker that does not commit its intent", breaks={COPIED}),
}


def caught(ground: Ground, mutant: str) -> set[str]:
    """Return which promises a broken design breaks when its worker dies in the second window, replies
    unrecorded.
    """
    with world(ground.url, seed=3, readers=12, window=5, mutant=mutant) as made:
        assert made.ends(made.start(failpoint="answered", spared=6)) == -signal.SIGKILL
        made.drain()
        return {fault.partition(":")[0] for fault in made.broken()}


# ── databases ────────────────────────────────────────────────────────────────────────────

#: As on an operator's server, a synchronous commit survives a crash.
CAREFUL = ("fsync=off", "synchronous_commit=on", "full_page_writes=on")
DISK_BYTES = {"sqlite": 24 << 20, "postgresql": 160 << 20}


@contextmanager
def ground(kind: str, *, needs: str = "", server: str = "") -> Iterator[Ground]:
    """Yield a migrated database: on its own servers or a small disk if needed, else on `server`."""
    with tempfile.TemporaryDirectory(prefix="digest-chaos-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # PostgreSQL runs as another user
        if needs == "disk":
            with small_disk(folder / "disk", DISK_BYTES[kind]) as disk, standing(kind, disk) as made:
                yield Ground(url=made.url, server=made.server, disk=disk)
        elif needs == "standby":
            with postgres_pair.synchronous_pair(*CAREFUL, where=folder) as pair:
                yield Ground(url=migrated(pair.url), pair=pair)
        elif kind == "postgresql" and not needs and server:
            yield Ground(url=migrated(fresh(server, f"chaos_{os.getpid()}_{time.monotonic_ns()}")))
        else:
            with standing(kind, folder) as made:
                yield made


@contextmanager
def standing(kind: str, folder: Path) -> Iterator[Ground]:
    """Yield a migrated database with its files in this folder."""
    if kind == "sqlite":
        yield Ground(url=migrated(f"sqlite:///{folder / 'chaos.sqlite3'}"))
        return
    small = ("max_wal_size=4MB", "min_wal_size=2MB", "shared_buffers=16MB")
    with real_servers.cluster(*CAREFUL, *small, where=folder, wal_segment=1) as server:
        yield Ground(url=migrated(server.url), server=server)


def migrated(url: str) -> str:
    """Create the schema in the database at a URL, and return the URL."""
    engine = db.make_engine(url)
    db.upgrade(engine)
    engine.dispose()
    return url


def fresh(server: str, name: str) -> str:
    """Create an empty PostgreSQL database and return its URL."""
    maker = create_engine(server, isolation_level="AUTOCOMMIT")
    with maker.connect() as connection:
        connection.exec_driver_sql(f'CREATE DATABASE "{name}"')
    maker.dispose()
    return make_url(server).set(database=name).render_as_string(hide_password=False)


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[Path]:
    """Mount a disk of this size in memory, or raise Unavailable."""
    folder.mkdir()
    mount = shutil.which("mount")
    options = f"size={size},mode=755"
    if os.geteuid() != 0 or mount is None:
        raise Unavailable("a small disk needs root and mount")
    done = subprocess.run(
        [mount, "-t", "tmpfs", "-o", options, "none", str(folder)], check=False, capture_output=True
    )
    if done.returncode:
        raise Unavailable(f"a small disk cannot be mounted here: {done.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=False)
