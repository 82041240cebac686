"""The rows we keep: the schema of the whole product, a module for each part of it.

What must never happen twice is a key here, not an `if` elsewhere. Times are UTC (`*_at`), days are
dates. Migrations are append-only; `tests/test_schema.py` compares them with these classes.
"""

from digest.db import Base
from digest.model.dumps import DumpRow, DumpState, HostRow, ProblemRow, SourceRow
from digest.model.house import Fingerprint, Heartbeat, Pace, Stop
from digest.model.incoming import BounceRow, MailIn, MailState, Notice, Suppression
from digest.model.outgoing import Attempt, Delivery, DeliveryState, Lane, PressRow, Shown, Told
from digest.model.papers import Alias, Appearance, ChangeKind, ChangeRow, PaperRow, SignalRow
from digest.model.people import (
    Confirmation,
    Consent,
    FilterRow,
    Meaning,
    PackRow,
    Subscriber,
    SubscriberState,
    Subscription,
)

__all__ = [
    "Alias",
    "Appearance",
    "Attempt",
    "Base",
    "BounceRow",
    "ChangeKind",
    "ChangeRow",
    "Confirmation",
    "Consent",
    "Delivery",
    "DeliveryState",
    "DumpRow",
    "DumpState",
    "FilterRow",
    "Fingerprint",
    "Heartbeat",
    "HostRow",
    "Lane",
    "MailIn",
    "MailState",
    "Meaning",
    "Notice",
    "Pace",
    "PackRow",
    "PaperRow",
    "PressRow",
    "ProblemRow",
    "Shown",
    "SignalRow",
    "SourceRow",
    "Stop",
    "Subscriber",
    "SubscriberState",
    "Subscription",
    "Suppression",
    "Told",
]
