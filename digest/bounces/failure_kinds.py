"""Distinguish unknown recipients, full mailboxes and refusals by policy, by status code or by words. Pure."""

from __future__ import annotations

import re
from enum import StrEnum

#: An enhanced status (RFC 3463) in text.
STATUS = re.compile(r"(?<![\d.])([45])\.(\d{1,3})\.(\d{1,3})(?![\d.]*\d)")


class FailureKind(StrEnum):
    """The kinds of failures, which have different consequences for the address."""

    HARD = "hard"  #: unknown recipient
    SOFT = "soft"  #: a known recipient cannot receive mail now
    POLICY = "policy"  #: mail was refused because of its sender or content, not because of the recipient
    COMPLAINT = "complaint"  #: the reader marked the letter as spam


UNKNOWN_RECIPIENT = re.compile(
    r"(?:user|recipient|mailbox|account|address|addressee)s?\b.{0,40}\b(?:unknown|not found|not exist|n.t exist|"
    r"invalid|unavailable|disabled|inactive|deleted|closed|rejected)|(?:unknown|invalid|no such|no valid|bad|"
    r"non-?existent) (?:local )?(?:user|recipient|mailbox|account|address|domain)|no mailbox|not a known|"
    r"does ?n.t have an? \S+ account|host (?:or domain name )?not found",
    re.IGNORECASE | re.DOTALL,
)  # fmt: skip
MAILBOX_FULL = re.compile(
    r"quota|mailbox (?:is )?full|over ?(?:its|their)? ?(?:storage|quota)|too large", re.IGNORECASE
)
REFUSED_BY_POLICY = re.compile(
    r"\bspam|\bblocked?\b|block ?list|black ?list|blacklist|reputation|\bdmarc\b|\bdkim\b|\bspf\b|polic(?:y|ies)|"
    r"authenticat|relay(?:ing)? (?:access )?denied|not allowed|virus|content reject|unsolicited|dnsbl|rbl\b",
    re.IGNORECASE,
)
#: Gmail's text with 5.2.1 for a mailbox that is currently receiving too much mail.
RECEIVING_TOO_FAST = re.compile(r"receiving mail (?:at a rate|too quickly)", re.IGNORECASE)
#: The status of deferrals for policy reasons that lasted until the sending server gave up; no reader caused
#: them.
POLICY_DEFERRAL = re.compile(r"(?<![\d.])4\.7\.\d")
#: Statuses of class 5 that are not hard failures, as `subject.detail` (RFC 3463, RFC 7505, and practice).
SOFT_STATUSES = frozenset({"2.2", "2.3", "2.4", "3.1", "3.2", "3.3", "3.4", "4.5", "4.6", "4.7"})
POLICY_STATUSES = frozenset({"1.7", "1.8", "5.1", "5.2", "5.3", "5.4", "5.5", "5.6"})


def failure_kind(status: str, words: str, *, code: int | None = None, phase: str = "") -> FailureKind:
    """Return the kind of a failure from its enhanced status, or else from the server's text.

    `phase` is the step of the SMTP conversation that the server refused, such as `rcpt`. Without a specific
    status, a refusal of the connection, MAIL FROM or DATA is a policy failure: it is about us, not the
    recipient.
    """
    match = STATUS.search(status) or STATUS.search(words)
    if match and match[1] == "4":
        return FailureKind.POLICY if POLICY_DEFERRAL.search(f"{status} {words}") else FailureKind.SOFT
    if match and (match[2], match[3]) != ("0", "0"):
        return failure_kind_of_status(match[2], match[3], words)
    if phase in {"connect", "mail", "data"}:
        return FailureKind.POLICY
    return failure_kind_of_words(words, code, phase)


def failure_kind_in_context(status: str, words: str, whole: str) -> FailureKind:
    """Return the kind of a failure; if status and text give no reason, search the whole message."""
    kind = failure_kind(status, words)
    is_vague = status in {"", "5.0.0"} and not UNKNOWN_RECIPIENT.search(words)
    return FailureKind.SOFT if kind is FailureKind.HARD and is_vague and MAILBOX_FULL.search(whole) else kind


def failure_kind_of_status(subject: str, detail: str, words: str) -> FailureKind:
    """Return the kind of a failure with the status `5.SUBJECT.DETAIL`."""
    status = f"{subject}.{detail}"
    if subject in {"6", "7"} or status in POLICY_STATUSES:
        return FailureKind.POLICY
    if status in SOFT_STATUSES or RECEIVING_TOO_FAST.search(words):
        return FailureKind.SOFT
    if subject == "5" or detail == "0":  # some servers use 5.5.0 or 5.1.0 for everything
        return failure_kind_of_words(words, 550, "rcpt")
    return FailureKind.HARD


def failure_kind_of_words(words: str, code: int | None, phase: str) -> FailureKind:
    """Return the kind of failure suggested by a server's text."""
    if REFUSED_BY_POLICY.search(words):
        return FailureKind.POLICY
    if UNKNOWN_RECIPIENT.search(words):
        return FailureKind.HARD
    if MAILBOX_FULL.search(words) or code in {452, 552} or (code or 500) < 500:
        return FailureKind.SOFT
    return FailureKind.POLICY if phase == "dot" else FailureKind.HARD
