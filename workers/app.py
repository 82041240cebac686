"""Configure the Celery application; its messages only announce work, which is stored in the database."""

from __future__ import annotations

import os
import select
from typing import Any

from celery import Celery
from celery.signals import setup_logging, worker_shutting_down
from kombu import Exchange, Queue

from digest.settings import load_settings

PROMPT, BULK = "prompt", "bulk"  #: the queues: letters that people wait for, and digests
#: Time limit of a task in seconds: longer than a server's reply may take (600), shorter than a lease (900).
TIME_LIMIT = 780


def make_app(broker_url: str) -> Celery:
    """Return a Celery application for a broker.

    Messages are acknowledged when they are received, so the broker does not redeliver the task of a worker
    that died; a sweep finds the unfinished work in the database when the lease has expired. Losing Redis
    therefore loses no work.
    """
    app = Celery("digest", broker=broker_url, include=["workers.tasks"])
    app.conf.update(
        accept_content=["json"],
        broker_connection_max_retries=None,
        broker_connection_retry_on_startup=True,
        broker_connection_timeout=5,
        broker_transport_options={
            "global_keyprefix": "digest:",
            "health_check_interval": 25,
            "queue_order_strategy": "priority",  # the first queue has priority
            "socket_connect_timeout": 5,
            "socket_keepalive": True,
            "socket_timeout": 30,
            "unacked_restore_interval": 10,
            "unacked_restore_throttle": 1,
            "visibility_timeout": 2 * TIME_LIMIT,
        },
        enable_utc=True,
        task_acks_late=False,
        task_default_queue=PROMPT,
        task_ignore_result=True,
        task_publish_retry=False,  # the scheduler enqueues the task again at its next tick
        task_queues=[Queue(name, Exchange(name), routing_key=name) for name in (PROMPT, BULK)],
        task_soft_time_limit=TIME_LIMIT - 30,
        task_time_limit=TIME_LIMIT,
        timezone="UTC",
        worker_cancel_long_running_tasks_on_connection_loss=False,
        worker_hijack_root_logger=False,
        worker_max_tasks_per_child=500,
        worker_prefetch_multiplier=1,
        worker_proc_alive_timeout=30,
        worker_send_task_events=False,
        worker_soft_shutdown_timeout=30,
    )
    return app


app = make_app(load_settings().broker)


@setup_logging.connect
def keep_log_level(**_details: Any) -> None:
    """Prevent Celery from changing the log level: it sets up no logging if this signal has a receiver."""


# ── stopping ────────────────────────────────────────────────────────────────────────────────────

# A pipe that the pool's processes inherit. When the worker is stopped, the pipe becomes permanently readable
# in all these processes, because the signal reaches only the worker's main process.
STOP_PIPE_READ, STOP_PIPE_WRITE = os.pipe()


@worker_shutting_down.connect
def signal_running_tasks(**_details: Any) -> None:
    """Make running tasks stop before the next window."""
    os.write(STOP_PIPE_WRITE, b".")


def is_stopping() -> bool:
    """Return whether this worker is stopping."""
    return bool(select.select([STOP_PIPE_READ], [], [], 0)[0])
