"""What a provider's notice says: SES tells of bounces and complaints as JSON. Pure.

A notice is believed because its signature was checked before it came here; see `digest.inbox.notices`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from digest.bounces.reading import Complaint, Failure, Kind, Meaning, Nothing, kind_of, spoken

#: What Amazon calls a bounce that says nothing of the address, but of what we sent.
OURS = frozenset({"ContentRejected", "AttachmentRejected"})
FULL = frozenset({"MailboxFull", "MessageTooLarge"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Told:
    """What a notice tells, and of which letter."""

    meaning: Meaning
    provider_id: str = ""  #: what the provider calls the letter
    sender: str = ""  #: the envelope sender we had given it
    recipient: str = ""


def read_notice(content: bytes) -> Told | None:
    """Return what a notice of SES tells, or None where it cannot be understood."""
    try:
        said = json.loads(content)
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict):
        return None
    mail = block(said, "mail")
    meaning, recipient = meaning_of(said)
    if meaning is None:
        return None
    return Told(
        meaning=meaning,
        provider_id=word(mail, "messageId"),
        sender=word(mail, "source"),
        recipient=recipient or first(mail.get("destination")),
    )


def meaning_of(said: dict[str, Any]) -> tuple[Meaning | None, str]:
    """Return what a notice means and whom it names: of an identity (`notificationType`) or a configuration set."""
    kind = word(said, "notificationType") or word(said, "eventType")
    match kind:
        case "Bounce":
            return bounce(block(said, "bounce"))
        case "Complaint":
            return complaint(block(said, "complaint"))
        case "Reject":
            reason = word(block(said, "reject"), "reason")
            return Failure(kind=Kind.POLICY, said=spoken(f"SES rejected it: {reason}"), told_by="notice"), ""
        case "Delivery" | "Send" | "DeliveryDelay" | "Open" | "Click" | "AmazonSnsSubscriptionSucceeded":
            return Nothing(because=f"a notice of {kind}"), ""
    return None, ""


def bounce(told: dict[str, Any]) -> tuple[Meaning, str]:
    """Return what a bounce says of the address."""
    people = told.get("bouncedRecipients")
    person = people[0] if isinstance(people, list) and people and isinstance(people[0], dict) else {}
    recipient = word(person, "emailAddress")
    kind, sort = word(told, "bounceType"), word(told, "bounceSubType")
    status = word(person, "status")
    _, _, words = word(person, "diagnosticCode").rpartition("; ")
    if kind == "Transient" and sort == "General" and not (status or words):
        return Nothing(because="an automatic answer"), recipient  # SES tells of people on leave like this
    failure = Failure(
        kind=kind_of_bounce(kind, sort, status, words),
        status=status[:12],
        said=spoken(words or f"{kind} {sort}"),
        told_by="notice",
        recipients=(recipient,) if recipient else (),
    )
    return failure, recipient


def kind_of_bounce(kind: str, sort: str, status: str, words: str) -> Kind:
    """Return what Amazon's types and the server's own words say of the address; the words know better."""
    if sort in OURS:
        return Kind.POLICY
    if kind != "Permanent" or sort in FULL:
        said = kind_of(status, words) if status or words else Kind.SOFT
        return Kind.POLICY if said is Kind.POLICY else Kind.SOFT
    return kind_of(status, words) if status or words else Kind.HARD


def complaint(told: dict[str, Any]) -> tuple[Meaning, str]:
    """Return what a complaint says."""
    recipient = ""
    people = told.get("complainedRecipients")
    if isinstance(people, list) and len(people) == 1 and isinstance(people[0], dict):
        recipient = word(people[0], "emailAddress")  # several: whoever it may have been
    kind = word(told, "complaintFeedbackType") or "abuse"
    if kind == "not-spam":
        return Nothing(because="a reader called a letter no spam"), recipient
    return Complaint(said=spoken(f"{kind} {word(told, 'userAgent')}")), recipient


# ── as little as we believe of its shape ────────────────────────────────────────────────────────


def block(said: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a block of a notice, empty where there is none."""
    found = said.get(name)
    return found if isinstance(found, dict) else {}


def word(said: dict[str, Any], name: str) -> str:
    """Return a text of a block, empty where there is none."""
    found = said.get(name)
    return found if isinstance(found, str) else ""


def first(found: object) -> str:
    """Return the only text of a list, else nothing."""
    return found[0] if isinstance(found, list) and len(found) == 1 and isinstance(found[0], str) else ""
