"""Run a role with short waits, for tests: `python -m tests.support.short_waits worker|scheduler|web`."""

from __future__ import annotations

import sys
from datetime import timedelta

from digest.delivery.limits import domain_pauses
from digest.dumps.intake import dumps_folder
from digest.monitoring import probes
from digest.process import heartbeats
from digest.web import health, watchdog

SILENCE = timedelta(seconds=6)


def shorten_waits() -> None:
    """Turn minutes into seconds; the order of the waits stays the same."""
    from workers import scheduler

    heartbeats.SILENT_AFTER, heartbeats.BEAT_SECONDS = SILENCE, 1.0
    domain_pauses.NO_REPLY_PAUSE = timedelta(seconds=2)
    dumps_folder.UNREAD_AFTER = timedelta(seconds=3)
    watchdog.CHECK_SECONDS, health.CACHE_SECONDS, probes.TIMEOUT_SECONDS = 1.0, 1, 1.0
    scheduler.TICKS |= {scheduler.probe_queue: 1.0, scheduler.watch: 1.0, scheduler.sweep: 1.0}


def main(role: str) -> int:
    """Run the role."""
    shorten_waits()
    if role == "web":
        from digest.process import logs
        from digest.settings import load_settings
        from digest.web.app import serve

        settings = load_settings()
        logs.set_up_logging(settings.log_format)
        serve(settings)
        return 0
    from workers.__main__ import main as work

    return work([role])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
