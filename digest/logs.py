"""Logs: what happened, one line each on stderr, for people or for machines (`DIGEST_LOG_FORMAT`).

They name deliveries and subscribers by their ids. Where a server's words or an error would bring an
address in, it is taken out here.
"""

from __future__ import annotations

import json
import logging
import re
from datetime import UTC, datetime

FOR_PEOPLE = "%(asctime)s %(levelname).1s %(name)s: %(message)s"
CHATTY = (
    "alembic",
    "apscheduler",
    "celery.app.trace",
    "celery.worker.strategy",
    "kombu",
    "mail.log",
    "uvicorn.access",
)

#: It tells of every mail that a reader of bounces stumbles over; we show such mail to a person.
CLUMSY = "flufl.bounce"

#: Anything that looks like an address, or like a password in a URL; what remains of it is its domain. Of what
#: stands before an address too much is taken rather than too little: `o'brien` and `a/b` are people, too.
#: As part of a URL its sign is `%40`. No address is longer than 320 characters, and no line takes long to look through.
ADDRESS = re.compile(
    r"""(?:(?<=://)[^\s@/]{0,320}|"[^"\n]{1,320}"|[^\s@<>"(),;:\[\]]{1,320})(?:@|%40)(?=[\w-]+(?:\.[\w-]+)*)"""
)


def set_up(log_format: str, *, level: int = logging.INFO) -> None:
    """Send what this process logs from `level` upwards to stderr, as `text` or as `json`."""
    logging.basicConfig(level=level, format=FOR_PEOPLE, force=True)
    for handler in logging.getLogger().handlers:
        handler.setFormatter(ForMachines() if log_format == "json" else ForPeople(FOR_PEOPLE))
    for name in CHATTY:
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.getLogger(CLUMSY).setLevel(logging.CRITICAL)


def without_addresses(text: str) -> str:
    """Return the text with `…@` in place of whoever it named."""
    return ADDRESS.sub("…@", text) if "@" in text or "%40" in text else text


class ForPeople(logging.Formatter):
    """One line each, with the traceback below it."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as a line."""
        return without_addresses(super().format(record))


class ForMachines(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as JSON, with the traceback, if it has one, in `error`."""
        told = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": without_addresses(record.getMessage()),
        }
        if record.exc_info:
            told["error"] = without_addresses(self.formatException(record.exc_info))
        return json.dumps(told, ensure_ascii=False)
