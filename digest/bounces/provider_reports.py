"""Read bounces and complaints from SES notices, which are JSON. Pure.

Notices are trusted because their signatures are verified first; see `digest.inbound.provider_signatures`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from digest.bounces.failure_kinds import FailureKind, failure_kind
from digest.bounces.report_parser import Complaint, Failure, MailReport, NoActionNeeded, redacted_line

#: Amazon's bounce types whose cause is our letter, not the address.
CONTENT_REJECTED_TYPES = frozenset({"ContentRejected", "AttachmentRejected"})
MAILBOX_FULL_TYPES = frozenset({"MailboxFull", "MessageTooLarge"})


@dataclass(frozen=True, kw_only=True, slots=True)
class NoticeReport:
    """The report in a notice, and the letter that it concerns."""

    report: MailReport
    provider_id: str = ""  #: the provider's id of the letter
    sender: str = ""  #: the letter's envelope sender
    recipient: str = ""


def read_notice(content: bytes) -> NoticeReport | None:
    """Return the report in a notice from SES, or None if the notice contains no report that we know."""
    try:
        notice = json.loads(content)
    except (ValueError, RecursionError):
        return None
    if not isinstance(notice, dict):
        return None
    mail = dict_field(notice, "mail")
    report, recipient = report_in_notice(notice)
    if report is None:
        return None
    return NoticeReport(
        report=report,
        provider_id=text_field(mail, "messageId"),
        sender=text_field(mail, "source"),
        recipient=recipient or only_text(mail.get("destination")),
    )


def report_in_notice(notice: dict[str, Any]) -> tuple[MailReport | None, str]:
    """Return the report in a notice and its recipient.

    The kind is in `notificationType` if an identity sends the notice, in `eventType` if a configuration set does.
    """
    kind = text_field(notice, "notificationType") or text_field(notice, "eventType")
    match kind:
        case "Bounce":
            return read_bounce(dict_field(notice, "bounce"))
        case "Complaint":
            return read_complaint(dict_field(notice, "complaint"))
        case "Reject":
            reason = text_field(dict_field(notice, "reject"), "reason")
            return Failure(
                kind=FailureKind.POLICY,
                diagnostic=redacted_line(f"SES rejected the letter: {reason}"),
                reported_by="notice",
            ), ""
        case "Delivery" | "Send" | "DeliveryDelay" | "Open" | "Click" | "AmazonSnsSubscriptionSucceeded":
            return NoActionNeeded(reason=f"a notice of {kind}"), ""
    return None, ""


def read_bounce(block: dict[str, Any]) -> tuple[MailReport, str]:
    """Return the report in a bounce, and its recipient."""
    people = block.get("bouncedRecipients")
    person = people[0] if isinstance(people, list) and people and isinstance(people[0], dict) else {}
    recipient = text_field(person, "emailAddress")
    kind, sort = text_field(block, "bounceType"), text_field(block, "bounceSubType")
    status = text_field(person, "status")
    _, _, words = text_field(person, "diagnosticCode").rpartition("; ")
    if kind == "Transient" and sort == "General" and not (status or words):
        # This is how SES reports out-of-office replies.
        return NoActionNeeded(reason="an automatic reply"), recipient
    failure = Failure(
        kind=failure_kind_of_bounce(kind, sort, status, words),
        status=status[:12],
        diagnostic=redacted_line(words or f"{kind} {sort}"),
        reported_by="notice",
        recipients=(recipient,) if recipient else (),
    )
    return failure, recipient


def failure_kind_of_bounce(kind: str, sort: str, status: str, words: str) -> FailureKind:
    """Return the kind of a failure, from Amazon's bounce types and the server's status and reply."""
    if sort in CONTENT_REJECTED_TYPES:
        return FailureKind.POLICY
    if kind != "Permanent" or sort in MAILBOX_FULL_TYPES:
        found = failure_kind(status, words) if status or words else FailureKind.SOFT
        return FailureKind.POLICY if found is FailureKind.POLICY else FailureKind.SOFT
    return failure_kind(status, words) if status or words else FailureKind.HARD


def read_complaint(block: dict[str, Any]) -> tuple[MailReport, str]:
    """Return the report in a complaint, and its recipient."""
    recipient = ""
    people = block.get("complainedRecipients")
    if isinstance(people, list) and len(people) == 1 and isinstance(people[0], dict):
        recipient = text_field(people[0], "emailAddress")  # with several, SES does not know who complained
    kind = text_field(block, "complaintFeedbackType") or "abuse"
    if kind == "not-spam":
        return NoActionNeeded(reason="a reader marked a letter as not spam"), recipient
    return Complaint(diagnostic=redacted_line(f"{kind} {text_field(block, 'userAgent')}")), recipient


# ── fields of any type ─────────────────────────────────────────────────────────


def dict_field(fields: dict[str, Any], name: str) -> dict[str, Any]:
    """Return an object field of a notice, or {} if it has another type."""
    found = fields.get(name)
    return found if isinstance(found, dict) else {}


def text_field(fields: dict[str, Any], name: str) -> str:
    """Return a text field of a notice, or "" if it has another type."""
    found = fields.get(name)
    return found if isinstance(found, str) else ""


def only_text(found: object) -> str:
    """Return the string if `found` is a list of exactly one string, else ""."""
    return found[0] if isinstance(found, list) and len(found) == 1 and isinstance(found[0], str) else ""
