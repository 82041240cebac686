"""Limit the sending of mail across all workers: rates, quotas, domain pauses and emergency stops.

`limiter` decides which letters of a batch (a window) may be sent now, without reading the database.
`shared_limits` loads the limits from rows shared by all workers, and writes the changes in the transaction
that commits the intents to send letters. Callers commit.
"""

from typing import TYPE_CHECKING

from digest.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from digest.delivery.limits.canary import Canary, parse_canary
    from digest.delivery.limits.daily_counts import count_today
    from digest.delivery.limits.decisions import ALL, BULK, Allowed, Refill, Wait
    from digest.delivery.limits.domain_pauses import (
        NO_REPLY_PAUSE,
        LetterReply,
        TroubledDomains,
        blocking_scopes,
        domain_of,
        is_slow_down,
        may_be_greylisting,
        throttle_pause,
    )
    from digest.delivery.limits.emergency_stops import (
        STOPPED_MAIL,
        active_stops,
        check_thresholds,
        emergency_stop,
        lift_stops,
        threshold_readings,
        threshold_warnings,
    )
    from digest.delivery.limits.limit_rules import (
        SendLimits,
        parse_conversation_limits,
        parse_rates,
        parse_shared_limits,
        parse_stop_thresholds,
        thresholds_text,
    )
    from digest.delivery.limits.limiter import STOPPED_PREFIX, Limiter, Reservation, Window
    from digest.delivery.limits.rates import MAX_TOKEN_WAIT
    from digest.delivery.limits.send_hours import SendHours, parse_send_hours
    from digest.delivery.limits.shared_limits import (
        active_pauses,
        canary_waits,
        delete_old_limits,
        end_conversations,
        end_pauses,
        load_troubled_domains,
        pause_server,
        record_replies,
        release,
        reserve,
    )
    from digest.delivery.limits.warm_up import WarmUp, parse_warm_up
else:
    __getattr__ = lazy_exports(__name__, __file__)

__all__ = [
    "ALL", "BULK", "MAX_TOKEN_WAIT", "NO_REPLY_PAUSE", "STOPPED_MAIL", "STOPPED_PREFIX", "Allowed", "Canary", "LetterReply",
    "Limiter", "Refill", "Reservation", "SendHours", "SendLimits", "TroubledDomains", "Wait", "WarmUp",
    "Window", "active_pauses", "active_stops", "blocking_scopes", "canary_waits", "check_thresholds", "count_today", "delete_old_limits",
    "domain_of", "emergency_stop", "end_conversations", "end_pauses", "is_slow_down", "lift_stops", "load_troubled_domains",
    "may_be_greylisting", "parse_canary", "parse_conversation_limits", "parse_rates", "parse_send_hours",
    "parse_shared_limits", "parse_stop_thresholds", "parse_warm_up", "pause_server",
    "record_replies", "release", "reserve", "threshold_readings", "threshold_warnings", "thresholds_text",
    "throttle_pause",
]  # fmt: skip
