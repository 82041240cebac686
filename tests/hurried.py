"""A role of the house with its waits made short, for tests: `python -m tests.hurried worker|scheduler|web`."""

from __future__ import annotations

import sys
from datetime import timedelta

from digest import probes, watching
from digest.delivery import settling
from digest.web import health, watch

SILENCE = timedelta(seconds=6)


def hurry() -> None:
    """Make what is minutes seconds; the order of the waits stays what it is."""
    from workers import scheduler

    watching.SILENCE, settling.PAUSE = SILENCE, timedelta(seconds=2)
    watch.SECONDS, health.REMEMBERED, probes.PATIENCE = 1.0, 1, 1.0
    scheduler.TICKS |= {scheduler.beat: 1.0, scheduler.watch: 1.0, scheduler.sweep: 1.0}


def main(role: str) -> int:
    """Become that role."""
    hurry()
    if role == "web":
        from digest import logs
        from digest.settings import load
        from digest.web import serve

        settings = load()
        logs.set_up(settings.log_format)
        serve(settings)
        return 0
    from workers.__main__ import main as work

    return work([role])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
