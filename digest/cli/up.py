"""`digest up`: the whole house in one process tree on one machine.

This process only watches. The broker, the web door, the worker and the scheduler are its children, each
in a session of its own so that Ctrl-C reaches us alone; we then stop them in the order in which they
need each other. The kernel ends them should we be killed.
"""

from __future__ import annotations

import fcntl
import http.client
import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from datetime import time as time_of_day
from pathlib import Path
from types import FrameType

from sqlalchemy import Engine, select

from digest import db, fingerprints, intake, lifeline, subscriptions
from digest.cli import broker, screen
from digest.editions import Schedule, zone_names
from digest.errors import BadField, DigestError, Misfit
from digest.links import LOCAL_URL, Site
from digest.model import Heartbeat, PaperRow, Subscriber, SubscriberState
from digest.rendering import Templates
from digest.settings import Settings, templates_dir

log = logging.getLogger(__name__)

WATCH_SECONDS = 0.25
READY_SECONDS = 60.0
STOP_SECONDS = 30.0  #: for a letter that is on its way
LONGEST_PAUSE = 30.0  #: between two starts of a child that keeps dying
STABLE_SECONDS = 60.0

SAMPLE = Path(__file__).parent.parent / "sample"
SAMPLE_READER = "you@localhost"
SAMPLE_TOPICS = {
    "Language models": '"language model*" OR "chain* of thought" OR retrieval',
    "Images": "diffusion OR image* OR video*",
}


def run(settings: Settings) -> int:
    """Run the house until Ctrl-C, and return the exit code."""
    settings = settings.model_copy(update={"data_dir": settings.data_dir.absolute()})
    settings = with_own_address(settings)
    with only_one(settings.data_dir):
        check_port(settings)
        engine = db.connect(settings.database)
        prepare(engine, settings)
        with stopping() as is_told, tree(settings) as children:
            started_at = datetime.now(UTC)
            watch(children, is_told, settings, engine, started_at)
        engine.dispose()
    return 0


# ── before ──────────────────────────────────────────────────────────────────────────────────────


def with_own_address(settings: Settings) -> Settings:
    """Return the settings with links that lead to the port we listen on."""
    if settings.base_url != LOCAL_URL:
        return settings
    return settings.model_copy(update={"base_url": f"http://127.0.0.1:{settings.port}"})


@contextmanager
def only_one(data_dir: Path) -> Iterator[None]:
    """Hold the data directory, or raise Misfit if another `digest up` does."""
    data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (data_dir / "up.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Misfit(f"Another digest up runs on {data_dir}. Stop it, or set DIGEST_DATA_DIR.") from None
        yield


def check_port(settings: Settings) -> None:
    """Raise BadField if somebody else listens where our pages should be."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.host, settings.port))
        except OSError as error:
            where = f"{settings.host}:{settings.port}"
            raise BadField("DIGEST_PORT", f"{where}: {error.strerror}; choose another with --port.") from None


def prepare(engine: Engine, settings: Settings) -> None:
    """Bring the schema up to date, check that keys and database fit, and see to the sample."""
    db.upgrade(engine)
    site, now, templates = settings.site(), datetime.now(UTC), Templates(templates_dir(), settings.overrides)
    settings.dumps.mkdir(parents=True, exist_ok=True)
    with db.writing(engine) as session:
        fingerprints.adopt_templates(session, templates.fingerprint, now=now)
        fingerprints.check(session, site, templates.fingerprint, now=now)
        session.commit()
    if settings.is_sample_allowed:
        load_sample(engine, site, now)
    else:
        with db.writing(engine) as session:
            intake.remove_samples(session)
            session.commit()


def load_sample(engine: Engine, site: Site, now: datetime) -> None:
    """Fill an empty house with invented papers and one reader, so that there is a digest to look at."""
    with db.writing(engine) as session:
        if session.scalar(select(PaperRow.id).limit(1)) or session.scalar(select(Subscriber.id).limit(1)):
            return
        for path in sorted(SAMPLE.glob("*.txt")):
            intake.load(session, path, now=now, is_sample=True)
        subscriptions.add(
            session,
            SAMPLE_READER,
            name="Sample reader",
            topics=SAMPLE_TOPICS,
            schedule=Schedule(at=time_of_day(0), timezone=local_zone()),
            state=SubscriberState.ACTIVE,
            consent="sample",
            now=now,
            site=site,
            is_sample=True,
        )
        session.commit()


def local_zone() -> str:
    """Return this machine's time zone by name, or UTC where it has none."""
    from tzlocal import get_localzone_name

    try:
        name = get_localzone_name()
    except (LookupError, OSError, ValueError):
        return "UTC"
    return name if name in zone_names() else "UTC"


# ── the process tree ────────────────────────────────────────────────────────────────────────────


@dataclass(kw_only=True)
class Child:
    """A role that we keep running."""

    name: str
    command: list[str]
    environment: Mapping[str, str]
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    pause: float = 0.0
    starts: int = 0

    def start(self) -> None:
        """Start it in a session of its own, tied to our life."""
        self.process = subprocess.Popen(  # noqa: S603  (a role of ours)
            self.command,
            env=dict(self.environment),
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=lifeline.tie,  # noqa: PLW1509  (one system call)
        )
        self.started = time.monotonic()
        self.starts += 1

    def look(self) -> None:
        """Start it again if it has died: at once the first time, then after longer and longer pauses."""
        if self.process is None or self.process.poll() is None:
            return
        if time.monotonic() - self.started > STABLE_SECONDS:
            self.pause = 0.0
        if time.monotonic() - self.started < self.pause:
            return
        screen.say(f"The {self.name} ended ({ending(self.process.returncode)}); starting it again.")
        self.pause = min(max(1.0, self.pause * 2), LONGEST_PAUSE)
        self.start()

    def stop(self) -> None:
        """Let it finish what it is doing, then make sure that nothing of it is left."""
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            log.warning("the %s did not stop in time and is killed", self.name)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@dataclass(kw_only=True)
class BrokerChild(Child):
    """The embedded broker, as one of our children."""

    settings: Settings
    url: str = field(default="")

    def start(self) -> None:
        """Start it and wait until it answers."""
        started = broker.start(self.settings)
        self.process, self.url = started.process, started.url
        self.started = time.monotonic()
        self.starts += 1


@contextmanager
def tree(settings: Settings) -> Iterator[list[Child]]:
    """Start the children in the order in which they need each other; stop them in the reverse order."""
    children: list[Child] = []
    environment = {**os.environ, **settings_of(settings)}
    try:
        if settings.broker_url is None:
            embedded = BrokerChild(name="broker", command=[], environment=environment, settings=settings)
            embedded.start()
            children.append(embedded)
            environment["DIGEST_BROKER_URL"] = embedded.url
        for name, arguments in (ROLES | (INBOUND if settings.inbound else {})).items():
            child = Child(name=name, command=[sys.executable, *arguments], environment=environment)
            child.start()
            children.append(child)
        yield children
    finally:
        for child in reversed(children):
            child.stop()


#: Who starts first is stopped last.
ROLES = {
    "worker": ["-m", "workers", "worker"],
    "web": ["-m", "digest", "web"],
    "scheduler": ["-m", "workers", "scheduler"],
}
INBOUND = {"inbound": ["-m", "digest", "inbound"]}  #: only where it is to listen


def settings_of(settings: Settings) -> dict[str, str]:
    """Return what was decided here, as the children's environment has it."""
    return {
        "DIGEST_DATA_DIR": str(settings.data_dir),
        "DIGEST_HOST": settings.host,
        "DIGEST_PORT": str(settings.port),
        "DIGEST_BASE_URL": settings.base_url,
    }


# ── while it runs ───────────────────────────────────────────────────────────────────────────────


@contextmanager
def stopping() -> Iterator[list[int]]:
    """Yield a list that is empty until somebody wants us to stop."""
    told: list[int] = []

    def tell(number: int, _frame: FrameType | None) -> None:
        told.append(number)

    before = {each: signal.signal(each, tell) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield told
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def watch(
    children: list[Child], is_told: list[int], settings: Settings, engine: Engine, started_at: datetime
) -> None:
    """Keep the children running until told to stop; say so when all of them are at work."""
    deadline, is_announced = time.monotonic() + READY_SECONDS, False
    while not is_told:
        for child in children:
            try:
                child.look()
            except DigestError as error:
                screen.say(str(error))
        if not is_announced and is_ready(settings, engine, started_at):
            announce(settings)
            is_announced = True
        elif not is_announced and time.monotonic() > deadline:
            screen.say("Not everything has come up yet; look above for the reason, or ask: digest doctor")
            is_announced = True
        time.sleep(WATCH_SECONDS)
    screen.say("Stopping ...")


def is_ready(settings: Settings, engine: Engine, started_at: datetime) -> bool:
    """Return whether the pages answer and a task has made its way through scheduler, broker and worker."""
    if not web_answers(settings):
        return False
    with db.reading(engine) as session:
        beaten_at = session.scalar(select(Heartbeat.at).where(Heartbeat.role == "worker"))
    return beaten_at is not None and beaten_at >= started_at


def web_answers(settings: Settings) -> bool:
    """Return whether the web door says that it is well."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)  # noqa: S104
    connection = http.client.HTTPConnection(host, settings.port, timeout=1)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def announce(settings: Settings) -> None:
    """Say where everything is; nothing is wrapped, so that it can be copied."""
    places = {
        "The page": settings.base_url,
        "The outbox": f"{settings.base_url}/outbox/" if settings.mail_url is None else "",
        "Drop dumps into": str(settings.dumps.absolute()),
        "Stop": "Ctrl-C",
    }
    console = screen.console(sys.stderr)
    console.print("\nDigest is up\n", style="bold green")
    for name, place in places.items():
        if place:
            console.print(f"  {name:<17}{place}", soft_wrap=True)
    console.print()


def ending(code: int) -> str:
    """Return how a process ended, in words."""
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"
