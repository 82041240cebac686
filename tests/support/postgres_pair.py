"""Run a PostgreSQL primary with a synchronous standby, and let it fail over."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy import make_url

from tests.support import real_servers
from tests.support.real_servers import Server
from tests.support.waiting import wait_until

#: A commit is confirmed when any standby has it on disk; without a standby it waits.
SYNCHRONOUS = ("synchronous_standby_names=*", "hot_standby=on", "wal_keep_size=64MB")


@dataclass(kw_only=True)
class Pair:
    """Two servers, of which one is the primary and the other its synchronous standby."""

    primary: Server
    standby: Server

    @property
    def url(self) -> str:
        """Return the URL with both hosts."""
        first, second = sorted(make_url(each.url).port or 0 for each in (self.primary, self.standby))
        return f"postgresql+psycopg://postgres@127.0.0.1:{first},127.0.0.1:{second}/postgres"

    def fail_over(self) -> None:
        """Crash the primary, promote the standby, and make the crashed server the standby of the new primary."""
        self.primary.end(signal.SIGQUIT)
        execute(self.standby, "SELECT pg_promote(true, 30)")
        self.primary, self.standby = self.standby, self.primary
        self.follow()

    def follow(self) -> None:
        """Copy the primary to the standby's folder and start it there; return when it is synchronous."""
        data = data_folder(self.standby)
        shutil.rmtree(data, ignore_errors=True)
        data.mkdir(mode=0o700)
        owner = real_servers.unprivileged()
        if owner:
            shutil.chown(data, owner.pw_uid, owner.pw_gid)
        program, port = (
            Path(self.primary.command[0]).parent / "pg_basebackup",
            make_url(self.primary.url).port,
        )
        copy = [
            program,
            "-h",
            "127.0.0.1",
            "-p",
            port,
            "-U",
            "postgres",
            "-D",
            data,
            "-R",
            "-c",
            "fast",
            "--no-sync",
        ]
        subprocess.run(list(map(str, copy)), check=True, capture_output=True, cwd="/", **self.standby.options)
        self.standby.start()
        following = "SELECT sync_state FROM pg_stat_replication"
        wait_until("the standby to follow", lambda: execute(self.primary, following) == [("sync",)])


@contextmanager
def synchronous_pair(*settings: str, where: Path) -> Iterator[Pair]:
    """Run a primary and its standby with their files below `where`."""
    settings = (*settings, *SYNCHRONOUS)
    with (
        real_servers.cluster(*settings, where=where, wal_segment=1) as primary,
        real_servers.cluster(*settings, where=where, wal_segment=1) as standby,
    ):
        standby.end(signal.SIGINT)
        pair = Pair(primary=primary, standby=standby)
        pair.follow()
        yield pair


def data_folder(server: Server) -> Path:
    """Return the folder with a server's data."""
    return Path(server.command[list(server.command).index("-D") + 1])


def execute(server: Server, statement: str) -> list[Any]:
    """Execute a statement on a server, and return its rows."""
    url = make_url(server.url).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(statement).fetchall()
