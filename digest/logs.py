"""Logs: what happened, one line each on stderr, for people or for machines (`DIGEST_LOG_FORMAT`)."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

FOR_PEOPLE = "%(asctime)s %(levelname).1s %(name)s: %(message)s"
CHATTY = ("apscheduler", "celery.app.trace", "celery.worker.strategy", "kombu", "uvicorn.access")


def set_up(log_format: str, *, level: int = logging.INFO) -> None:
    """Send what this process logs from `level` upwards to stderr, as `text` or as `json`."""
    logging.basicConfig(level=level, format=FOR_PEOPLE, force=True)
    if log_format == "json":
        for handler in logging.getLogger().handlers:
            handler.setFormatter(ForMachines())
    for name in CHATTY:
        logging.getLogger(name).setLevel(logging.WARNING)


class ForMachines(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as JSON, with the traceback, if it has one, in `error`."""
        told = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
        }
        if record.exc_info:
            told["error"] = self.formatException(record.exc_info)
        return json.dumps(told, ensure_ascii=False)
