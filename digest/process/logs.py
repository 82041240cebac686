"""Write logs to stderr, one line per event, as text or JSON (`DIGEST_LOG_FORMAT`).

If stderr is systemd's journal, each line begins with its level, so that `journalctl -p warning` works. Log
messages identify deliveries and subscribers by id. Addresses in server replies or errors are masked.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from digest.errors import DigestError

#: The errors of libraries that mean that a server is down, or refuses what we send for now.
OUTAGE_ERRORS = frozenset(
    {
        "BusyLoadingError", "ConnectionError", "ExecAbortError", "InterfaceError", "OperationalError",
        "OutOfMemoryError", "ReadOnlyError", "ResponseError", "TimeoutError",
    }
)  # fmt: skip
TEXT_FORMAT = "%(asctime)s %(levelname).1s %(name)s: %(message)s"
MINUTE = 60.0
#: Matches control characters, line separators, direction marks and unpaired surrogates.
CONTROL = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
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

#: This logger reports every message that flufl.bounce cannot parse; such messages are stored for the operator.
NOISY_LOGGER = "flufl.bounce"

#: Matches the part of an address before its domain, or a password in a URL. Since `o'brien` and `a/b` are valid
#: local parts, the pattern may match too much before the `@`, but never too little. In a URL, the `@` may be
#: written as `%40`. The limit of 320 characters, the maximum length of an address, makes the search fast on
#: any line.
ADDRESS = re.compile(
    r"""(?:(?<=://)[^\s@/]{0,320}|"[^"\n]{1,320}"|[^\s@<>"(),;:\[\]]{1,320})(?:@|%40)(?=[\w-]+(?:\.[\w-]+)*)"""
)

#: The journal's levels; the journal removes the level from the start of a line and stores it separately.
JOURNAL_LEVELS = {
    logging.DEBUG: 7,
    logging.INFO: 6,
    logging.WARNING: 4,
    logging.ERROR: 3,
    logging.CRITICAL: 2,
}


def set_up_logging(log_format: str, *, level: int | str = logging.INFO, journal_stream: str = "") -> None:
    """Log messages of `level` and above to stderr, as `text` or `json`.

    `journal_stream` is the value of systemd's JOURNAL_STREAM.
    """
    formatter = JsonFormatter() if log_format == "json" else TextFormatter(TEXT_FORMAT)
    logging.basicConfig(level=level, format=TEXT_FORMAT, force=True)
    for handler in logging.getLogger().handlers:
        handler.setFormatter(JournalFormatter(formatter) if is_stderr(journal_stream) else formatter)
        handler.addFilter(describe_outage)
    for name in QUIETED_LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.getLogger(NOISY_LOGGER).setLevel(logging.CRITICAL)


def is_stderr(stream: str) -> bool:
    """Return whether stderr is the file with this device and inode, such as `8:1234`."""
    stderr = os.fstat(2)
    return stream == f"{stderr.st_dev}:{stderr.st_ino}"


def describe_outage(record: logging.LogRecord) -> bool:
    """Replace the traceback of an error that only means that a server is down by the error's first line."""
    error = record.exc_info[1] if record.exc_info else None
    if error is not None and is_outage(error):
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        message = " ".join(record.getMessage().split())
        record.msg, record.args = (message if reason in message else f"{message}: {reason}"), ()
        record.exc_info = record.exc_text = None
    return True


def is_outage(error: BaseException) -> bool:
    """Return whether an error means that a server is down, or has a sentence for the operator, and is no bug."""
    kind = type(error)
    is_of_server = kind.__module__.startswith(("redis.", "kombu.", "sqlalchemy.exc", "psycopg"))
    return isinstance(error, DigestError | ConnectionError | TimeoutError) or (
        is_of_server and kind.__name__ in OUTAGE_ERRORS
    )


def limit_warnings(*names: str) -> None:
    """Limit these loggers to one warning of each kind per minute, because strangers can cause their warnings."""
    for handler in logging.getLogger().handlers:
        handler.addFilter(OnceAMinute(names))


class OnceAMinute(logging.Filter):
    """A filter that passes one warning of each kind per minute, with the number of omitted warnings."""

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


def escape_controls(text: str) -> str:
    """Return the text with its control characters and line breaks as escapes, so that it forges no lines."""
    return CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


class TextFormatter(logging.Formatter):
    """Write one line per record, followed by any traceback, whose lines are indented."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line, followed by any traceback; addresses are masked."""
        return without_addresses(super().format(record))

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  (logging's name)
        """Return the record as one line."""
        return escape_controls(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802  (logging's name)
        """Return the traceback; a line of an error's own text is indented, too."""
        return "\n".join(f"  {escape_controls(line)}" for line in super().formatException(ei).split("\n"))


class JsonFormatter(TextFormatter):
    """Write one JSON object per record."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as JSON, with any traceback in `error`; addresses are masked."""
        entry = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": escape_controls(without_addresses(record.getMessage())),
        }
        if record.exc_info:
            entry["error"] = without_addresses(self.formatException(record.exc_info))
        return json.dumps(entry, ensure_ascii=False)


class JournalFormatter(logging.Formatter):
    """Prefix every line of another formatter with the journal's level."""

    def __init__(self, formatter: logging.Formatter):
        super().__init__()
        self.formatter = formatter

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines of the record, each with its level."""
        level = JOURNAL_LEVELS.get(record.levelno, JOURNAL_LEVELS[logging.INFO])
        return "\n".join(f"<{level}>{line}" for line in self.formatter.format(record).splitlines())
