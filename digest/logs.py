"""Write logs to stderr, one line for each event, as text or JSON (`DIGEST_LOG_FORMAT`).

Log messages name deliveries and subscribers by id. Addresses in a server's reply or in an error are
masked here.
"""

from __future__ import annotations

import json
import logging
import re
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

TEXT_FORMAT = "%(asctime)s %(levelname).1s %(name)s: %(message)s"
MINUTE = 60.0
QUIETED_LOGGERS = (
    "alembic",
    "apscheduler",
    "celery.app.trace",
    "celery.worker.strategy",
    "kombu",
    "mail.log",
    "uvicorn.access",
    "uvicorn.error",
)

#: It logs every mail that a bounce reader cannot parse; we keep such mail for a person to read.
NOISY_LOGGER = "flufl.bounce"

#: Anything that looks like an address, or like a password in a URL; only its domain remains. The pattern takes
#: too much before the `@` rather than too little, since `o'brien` and `a/b` are valid. In a URL the `@` may be `%40`.
#: The limit of 320 characters, the longest address, keeps the search fast on any line.
ADDRESS = re.compile(
    r"""(?:(?<=://)[^\s@/]{0,320}|"[^"\n]{1,320}"|[^\s@<>"(),;:\[\]]{1,320})(?:@|%40)(?=[\w-]+(?:\.[\w-]+)*)"""
)


def set_up_logging(log_format: str, *, level: int | str = logging.INFO) -> None:
    """Log to stderr from `level` upwards, as `text` or `json`."""
    logging.basicConfig(level=level, format=TEXT_FORMAT, force=True)
    for handler in logging.getLogger().handlers:
        handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter(TEXT_FORMAT))
    for name in QUIETED_LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.getLogger(NOISY_LOGGER).setLevel(logging.CRITICAL)


def limit_warnings(*names: str) -> None:
    """Limit these loggers and their children to one warning of a kind a minute, since strangers can cause them."""
    for handler in logging.getLogger().handlers:
        handler.addFilter(OnceAMinute(names))


class OnceAMinute(logging.Filter):
    """Pass the first warning of a kind in a minute; the next one says how many were left out."""

    def __init__(self, names: Sequence[str]):
        super().__init__()
        self.prefixes = tuple(f"{name}." for name in names)
        self.passed_at: dict[tuple[object, ...], float] = {}
        self.left_out: Counter[tuple[object, ...]] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to write the record."""
        if record.levelno < logging.WARNING or not f"{record.name}.".startswith(self.prefixes):
            return True
        kind = record.name, record.msg, record.exc_info and record.exc_info[0]
        if record.created - self.passed_at.get(kind, 0.0) < MINUTE:
            self.left_out[kind] += 1
            return False
        self.passed_at[kind] = record.created
        if more := self.left_out.pop(kind, 0):
            record.msg, record.args = f"{record.getMessage()} ({more:,} more like it were left out)", ()
        return True


def without_addresses(text: str) -> str:
    """Return the text with the local part of every address replaced by `…`."""
    return ADDRESS.sub("…@", text) if "@" in text or "%40" in text else text


class TextFormatter(logging.Formatter):
    """Write one line for each record, with the traceback below it."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as a line."""
        return without_addresses(super().format(record))


class JsonFormatter(logging.Formatter):
    """Write one JSON object for each record."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as JSON, with any traceback in `error`."""
        entry = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": without_addresses(record.getMessage()),
        }
        if record.exc_info:
            entry["error"] = without_addresses(self.formatException(record.exc_info))
        return json.dumps(entry, ensure_ascii=False)
