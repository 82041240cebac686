"""The Celery application. It carries "there is work", and the database says which."""

from __future__ import annotations

import os
import select
from typing import Any

from celery import Celery
from celery.signals import setup_logging, worker_shutting_down
from kombu import Exchange, Queue

from digest.settings import load

PROMPT, BULK = "prompt", "bulk"  #: the queues, by how long their letters may wait
TIME_LIMIT = 780  #: seconds: longer than a server may think (600), shorter than a lease (900)


def make(broker_url: str) -> Celery:
    """Return an application on that broker.

    Messages are acknowledged when they are taken: a task that dies is not run again by the broker but
    found again in the ledger, once its lease is over. So nothing is kept in Redis that could be lost.
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
            "queue_order_strategy": "priority",  # the first queue first, whatever waits in the second
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
        task_publish_retry=False,  # who enqueues tries again at the next tick
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


app = make(load().broker)


@setup_logging.connect
def leave_logs_alone(**_details: Any) -> None:
    """Keep Celery from raising the level of all logs to its own: where a signal is heard, it sets nothing up."""


# ── stopping ────────────────────────────────────────────────────────────────────────────────────

# A pipe that the pool's processes inherit: it becomes readable, for all of them and for good, when the
# worker is told to stop. The signal itself reaches only the worker's first process.
HEARING, TELLING = os.pipe()


@worker_shutting_down.connect
def tell_the_pool(**_details: Any) -> None:
    """Tell the tasks that are running to end at the next window."""
    os.write(TELLING, b".")


def is_stopping() -> bool:
    """Return whether this worker was told to stop."""
    return bool(select.select([HEARING], [], [], 0)[0])
