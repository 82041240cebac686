"""Read the notices about our letters that Amazon SES posts through SNS: signatures, bounces, complaints. Pure.

Only messages that Amazon signed for one of our topics are accepted. The certificate's URL must be on the SNS
host of that topic's region.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar
from urllib.parse import urlencode

from digest.bounces.failure_kinds import FailureKind, failure_kind
from digest.bounces.report_parser import Complaint, Failure, MailReport, NoActionNeeded, redacted_line
from digest.errors import DigestError

TOPIC_ARN = re.compile(r"arn:aws(?:-cn|-us-gov)?:sns:(?P<region>[a-z0-9-]+):\d{12}:[\w-]{1,256}(?:\.fifo)?")
CERTIFICATE_PATH = re.compile(r"/SimpleNotificationService-[0-9a-f]{1,64}\.pem")
SIGNER_NAME = re.compile(r"sns[a-z0-9.-]*\.amazonaws\.com(?:\.cn)?")
SUBSCRIPTION_TYPES = frozenset({"SubscriptionConfirmation", "UnsubscribeConfirmation"})

MAX_AGE = timedelta(days=1)  #: maximum age of a notice; SNS stops retrying after a few hours
MAX_CLOCK_SKEW = timedelta(minutes=15)  #: maximum time by which Amazon's clock may be ahead of our clock
T = TypeVar("T", str, dict[str, Any], list[Any])
#: A function that returns the content at an https URL and does not follow redirects.
Fetch = Callable[[str], bytes]

#: Amazon's bounce types whose cause is our letter, not the address.
CONTENT_REJECTED_TYPES = frozenset({"ContentRejected", "AttachmentRejected"})
MAILBOX_FULL_TYPES = frozenset({"MailboxFull", "MessageTooLarge"})


class UntrustedNotice(DigestError):
    """The reason why a notice is rejected."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SnsMessage:
    """An SNS message whose signature was verified."""

    id: str
    kind: str  #: the kind of message: Notification, SubscriptionConfirmation or UnsubscribeConfirmation
    topic: str
    message: str
    token: str = ""


def is_topic_arn(arn: str) -> bool:
    """Return whether `arn` is the ARN of an SNS topic."""
    return TOPIC_ARN.fullmatch(arn) is not None


def host_of(topic: str) -> str:
    """Return the SNS host of the region in a topic's ARN."""
    match = TOPIC_ARN.fullmatch(topic)
    if match is None:
        raise UntrustedNotice("the notice does not name a topic")
    return f"sns.{match['region']}.amazonaws.com" + (".cn" if topic.startswith("arn:aws-cn:") else "")


def confirmation_url(message: SnsMessage) -> str:
    """Return the URL that confirms a subscription to our topic, built from the topic and the token."""
    query = {"Action": "ConfirmSubscription", "TopicArn": message.topic, "Token": message.token}
    return f"https://{host_of(message.topic)}/?{urlencode(query)}"


# ── signatures ──────────────────────────────────────────────────────────────────────────────────


def verify_message(body: bytes, *, topics: frozenset[str], certificate: Fetch, now: datetime) -> SnsMessage:
    """Return the message that Amazon signed for one of our topics, or raise UntrustedNotice.

    The checks that need no certificate are made first, before the certificate is fetched.
    """
    found = message_fields(body)
    topic = found.get("TopicArn", "")
    if topic not in topics:
        raise UntrustedNotice("the topic is not in DIGEST_SNS_TOPICS")
    check_timestamp(found.get("Timestamp", ""), now)
    url = certificate_url(found.get("SigningCertURL", ""), host_of(topic))
    check_signature(found, certificate(url), now)
    return SnsMessage(
        id=found["MessageId"],
        kind=found["Type"],
        topic=topic,
        message=found["Message"],
        token=found.get("Token", ""),
    )


def message_fields(body: bytes) -> dict[str, str]:
    """Return the text fields of a message; raise UntrustedNotice if it is not a complete SNS message."""
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):
        raise UntrustedNotice("it is not JSON") from None
    items = parsed.items() if isinstance(parsed, dict) else ()
    found = {name: value for name, value in items if isinstance(value, str)}
    required = {"Type", "MessageId", "Message", "Timestamp", "TopicArn", "Signature", "SigningCertURL"}
    if found.get("Type") in SUBSCRIPTION_TYPES:
        required |= {"Token", "SubscribeURL"}
    elif found.get("Type") != "Notification":
        raise UntrustedNotice("the content is not an SNS message; is raw delivery on?")
    if missing := required - found.keys():
        raise UntrustedNotice(f"it has no {min(missing)}")
    return found


def check_timestamp(text: str, now: datetime) -> None:
    """Raise UntrustedNotice unless a message was signed in the last 24 hours, since it may be a replay."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None or not now - MAX_AGE <= at <= now + MAX_CLOCK_SKEW:
        raise UntrustedNotice("the timestamp is too old or in the future")


def certificate_url(url: str, host: str) -> str:
    """Return the certificate's URL; raise UntrustedNotice if it is malformed or not on Amazon's host."""
    at_host = f"https://{host}"
    if not url.startswith(at_host) or not CERTIFICATE_PATH.fullmatch(url.removeprefix(at_host)):
        raise UntrustedNotice("the certificate is not on Amazon's host")
    return url


def check_signature(message: dict[str, str], pem: bytes, now: datetime) -> None:
    """Raise UntrustedNotice unless the key of a currently valid SNS certificate signed the message."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

    versions: dict[str, hashes.HashAlgorithm] = {
        "1": hashes.SHA1(),  # noqa: S303  (Amazon's default, unless the topic is set to 2)
        "2": hashes.SHA256(),
    }
    algorithm = versions.get(message.get("SignatureVersion", ""))
    if algorithm is None:
        raise UntrustedNotice("the signature version is unknown")
    key = load_certificate(pem, now).public_key()
    if not isinstance(key, RSAPublicKey) or key.key_size < 2048:
        raise UntrustedNotice("the certificate has no RSA key of at least 2048 bits")
    try:
        signature = base64.b64decode(message["Signature"], validate=True)
        key.verify(signature, signed_text(message), PKCS1v15(), algorithm)
    except (InvalidSignature, binascii.Error):
        raise UntrustedNotice("the signature is wrong") from None


def load_certificate(pem: bytes, now: datetime) -> Any:
    """Return the certificate if it is currently valid and names SNS, or raise UntrustedNotice.

    The certificate comes without its chain; the TLS connection to Amazon's host proves its origin.
    """
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    try:
        found = x509.load_pem_x509_certificates(pem)[0]
        names = [str(each.value) for each in found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
        names += alternative_names(found)
    except ValueError:
        raise UntrustedNotice("the certificate cannot be read") from None
    if not found.not_valid_before_utc <= now <= found.not_valid_after_utc:
        raise UntrustedNotice("the certificate is not valid now")
    if not any(SIGNER_NAME.fullmatch(name) for name in names):
        raise UntrustedNotice("the certificate is not from SNS")
    return found


def alternative_names(certificate: Any) -> list[str]:
    """Return the DNS names among the alternative names of a certificate."""
    from cryptography import x509

    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return []
    names: list[str] = found.value.get_values_for_type(x509.DNSName)
    return names


def signed_text(message: dict[str, str]) -> bytes:
    """Return the signed text, with names and values on alternating lines, ordered by name."""
    names = ["Message", "MessageId", "Subject", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"]
    unsigned = {"Subject"} if message["Type"] in SUBSCRIPTION_TYPES else {"SubscribeURL", "Token"}
    signed = [name for name in names if name in message and name not in unsigned]
    return "".join(f"{name}\n{message[name]}\n" for name in signed).encode()


# ── reports ─────────────────────────────────────────────────────────────────────────────────────


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
    report, recipient = report_in_notice(notice)
    if report is None:
        return None
    mail = field(notice, "mail", dict)
    people = field(mail, "destination", list)
    return NoticeReport(
        report=report,
        provider_id=field(mail, "messageId", str),
        sender=field(mail, "source", str),
        recipient=recipient or (people[0] if len(people) == 1 and isinstance(people[0], str) else ""),
    )


def report_in_notice(notice: object) -> tuple[MailReport | None, str]:
    """Return the report in a notice and its recipient.

    The kind is in `notificationType` if an identity sends the notice, in `eventType` if a configuration set does.
    """
    kind = field(notice, "notificationType", str) or field(notice, "eventType", str)
    match kind:
        case "Bounce":
            return read_bounce(field(notice, "bounce", dict))
        case "Complaint":
            return read_complaint(field(notice, "complaint", dict))
        case "Reject":
            reason = field(field(notice, "reject", dict), "reason", str)
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
    person = first(field(block, "bouncedRecipients", list))
    recipient = field(person, "emailAddress", str)
    kind, sort = field(block, "bounceType", str), field(block, "bounceSubType", str)
    status = field(person, "status", str)
    _, _, words = field(person, "diagnosticCode", str).rpartition("; ")
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
    people = field(block, "complainedRecipients", list)
    # With several, SES does not know who complained.
    recipient = field(first(people), "emailAddress", str) if len(people) == 1 else ""
    kind = field(block, "complaintFeedbackType", str) or "abuse"
    if kind == "not-spam":
        return NoActionNeeded(reason="a reader marked a letter as not spam"), recipient
    return Complaint(diagnostic=redacted_line(f"{kind} {field(block, 'userAgent', str)}")), recipient


# ── fields of any type ─────────────────────────────────────────────────────────


def field(fields: object, name: str, kind: type[T]) -> T:
    """Return a field of a notice, or an empty value if it is absent or has another type."""
    found = fields.get(name) if isinstance(fields, dict) else None
    return found if isinstance(found, kind) else kind()


def first(people: list[Any]) -> object:
    """Return the first of a list, or None."""
    return people[0] if people else None
