"""How fast mail may go: limits that hold across all workers, pauses, and stops.

Everything is counted in rows of the database, and drawn in the transaction that keeps a window's
intents: what goes out has been paid for, whoever dies. Nothing here commits.
"""

from digest.rates.holding import STOPPED, Held, Wait, held, pauses, waiting_editions
from digest.rates.pausing import (
    AWAY_PAUSE,
    domain_of,
    is_slow_down,
    leave,
    pause,
    pause_server,
    standing,
    throttled_for,
    tidy,
)
from digest.rates.refunds import refund
from digest.rates.rules import (
    WARM_UP,
    Canary,
    Hours,
    Rate,
    Rules,
    ServerShare,
    WarmUp,
    at_once_in,
    brakes_in,
    canary_in,
    hours_in,
    parse,
    servers_in,
    warm_up_in,
)
from digest.rates.stops import ALL, BULK, Surge, brake, resume, stop, stopped, surges

__all__ = [
    "ALL",
    "AWAY_PAUSE",
    "BULK",
    "STOPPED",
    "WARM_UP",
    "Canary",
    "Held",
    "Hours",
    "Rate",
    "Rules",
    "ServerShare",
    "Surge",
    "Wait",
    "WarmUp",
    "at_once_in",
    "brake",
    "brakes_in",
    "canary_in",
    "domain_of",
    "held",
    "hours_in",
    "is_slow_down",
    "leave",
    "parse",
    "pause",
    "pause_server",
    "pauses",
    "refund",
    "resume",
    "servers_in",
    "standing",
    "stop",
    "stopped",
    "surges",
    "throttled_for",
    "tidy",
    "waiting_editions",
    "warm_up_in",
]
