"""Bounces, complaints and suppressions: mail that came back, and addresses we must not write to."""

from digest.bounces.notices import Told, read_notice
from digest.bounces.reading import Complaint, Failure, Kind, Meaning, Nothing, kind_of, read, refused
from digest.bounces.scoring import (
    Counted,
    accept,
    as_report,
    count,
    forgive,
    frozen_domains,
    history,
    record,
    score,
)
from digest.bounces.suppressions import (
    Reason,
    Suppressed,
    hashed,
    is_suppressed,
    lift,
    listing,
    suppress,
    suppressed,
)

__all__ = [
    "Complaint",
    "Counted",
    "Failure",
    "Kind",
    "Meaning",
    "Nothing",
    "Reason",
    "Suppressed",
    "Told",
    "accept",
    "as_report",
    "count",
    "forgive",
    "frozen_domains",
    "hashed",
    "history",
    "is_suppressed",
    "kind_of",
    "lift",
    "listing",
    "read",
    "read_notice",
    "record",
    "refused",
    "score",
    "suppress",
    "suppressed",
]
