"""Define the schema: all tables, in one module per subject.

Unique keys prevent duplicates, such as two digests of one edition for a subscriber. Columns named `*_at` are
times in UTC. `tests/db/test_schema.py` compares the migrations with these classes.
"""

from digest.db import Base
from digest.db.tables.deliveries import Attempt, Delivery, DeliveryState, FollowupSent, Lane, PressRow, Shown
from digest.db.tables.dumps import DumpRow, DumpState, HostRow, ProblemRow, SourceRow, UnreadDump
from digest.db.tables.inbound_mail import (
    BounceRow,
    InboundMail,
    MailPurpose,
    MailState,
    OptOut,
    ReceivedNotice,
    Suppression,
)
from digest.db.tables.limits import (
    CanaryWait,
    ConversationRow,
    DailyCount,
    DomainPause,
    RateCounter,
    WarmUpDay,
)
from digest.db.tables.papers import (
    AbstractShingle,
    Alias,
    AppearanceRow,
    ChangeKind,
    ChangeRow,
    EarlierVersion,
    PaperRow,
    SignalRow,
)
from digest.db.tables.service_state import EmergencyStop, Fingerprint, Heartbeat, Observation
from digest.db.tables.subscribers import (
    AbstractLength,
    Confirmation,
    Consent,
    FilterRow,
    OperatorAct,
    PackRow,
    ResolvedFilter,
    SavedPaper,
    SettingsChange,
    SignUp,
    StillReadingStep,
    Subscriber,
    SubscriberState,
    Subscription,
)

__all__ = [
    "AbstractLength",
    "AbstractShingle",
    "Alias",
    "AppearanceRow",
    "Attempt",
    "Base",
    "BounceRow",
    "CanaryWait",
    "ChangeKind",
    "ChangeRow",
    "Confirmation",
    "Consent",
    "ConversationRow",
    "DailyCount",
    "Delivery",
    "DeliveryState",
    "DomainPause",
    "DumpRow",
    "DumpState",
    "EarlierVersion",
    "EmergencyStop",
    "FilterRow",
    "Fingerprint",
    "FollowupSent",
    "Heartbeat",
    "HostRow",
    "InboundMail",
    "Lane",
    "MailPurpose",
    "MailState",
    "Observation",
    "OperatorAct",
    "OptOut",
    "PackRow",
    "PaperRow",
    "PressRow",
    "ProblemRow",
    "RateCounter",
    "ReceivedNotice",
    "ResolvedFilter",
    "SavedPaper",
    "SettingsChange",
    "Shown",
    "SignUp",
    "SignalRow",
    "SourceRow",
    "StillReadingStep",
    "Subscriber",
    "SubscriberState",
    "Subscription",
    "Suppression",
    "UnreadDump",
    "WarmUpDay",
]
