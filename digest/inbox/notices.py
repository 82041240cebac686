"""Notices: what a provider posts to our web door about letters of ours (Amazon's SNS, for SES).

 signature checked ─▶ kept like a mail, once for each id ─▶ understood, or shunted and shown

Nothing is believed but what Amazon has signed for a topic of ours. Where its certificate is fetched and
a subscription confirmed follows from the name of our own topic, and never from an address in the message.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from sqlalchemy import delete
from sqlalchemy.orm import Session

from digest import db
from digest.errors import DigestError
from digest.inbox.keeping import keep
from digest.model import Notice

TOPIC = re.compile(r"arn:aws(?:-cn|-us-gov)?:sns:(?P<region>[a-z0-9-]+):\d{12}:[\w-]{1,256}(?:\.fifo)?")
CERTIFICATE = re.compile(r"/SimpleNotificationService-[0-9a-f]{1,64}\.pem")
SIGNER = re.compile(r"sns[a-z0-9.-]*\.amazonaws\.com(?:\.cn)?")
ASKING = frozenset({"SubscriptionConfirmation", "UnsubscribeConfirmation"})

OLDEST = timedelta(days=1)  #: SNS gives up trying after some hours
AHEAD = timedelta(minutes=15)  #: by which its clock may be before ours
REMEMBERED = timedelta(days=3)  #: longer than a notice is believed: none counts twice

SENDER = "sns"  #: stands where a mail has its envelope sender

Fetch = Callable[[str], bytes]  #: returns what lies at an https address, and goes nowhere else


class NotBelieved(DigestError):
    """Why a notice is turned away."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Posted:
    """A message of SNS, its signature checked."""

    id: str
    kind: str  #: Notification, SubscriptionConfirmation or UnsubscribeConfirmation
    topic: str
    message: str
    token: str = ""


def is_topic(arn: str) -> bool:
    """Return whether this is the name of a topic."""
    return TOPIC.fullmatch(arn) is not None


def host_of(topic: str) -> str:
    """Return the only host that speaks for a topic."""
    match = TOPIC.fullmatch(topic)
    if match is None:
        raise NotBelieved("it is of no topic")
    return f"sns.{match['region']}.amazonaws.com" + (".cn" if topic.startswith("arn:aws-cn:") else "")


# ── believing ───────────────────────────────────────────────────────────────────────────────────


def checked(body: bytes, *, topics: frozenset[str], certificate: Fetch, now: datetime) -> Posted:
    """Return the message that Amazon has signed for one of our topics, or raise NotBelieved.

    What is wrong with it is found before anything is fetched, as far as it can be.
    """
    said = fields(body)
    topic = said.get("TopicArn", "")
    if topic not in topics:
        raise NotBelieved("it is of no topic in DIGEST_SNS_TOPICS")
    check_moment(said.get("Timestamp", ""), now)
    url = certificate_url(said.get("SigningCertURL", ""), host_of(topic))
    check_signature(said, certificate(url), now)
    return Posted(
        id=said["MessageId"],
        kind=said["Type"],
        topic=topic,
        message=said["Message"],
        token=said.get("Token", ""),
    )


def fields(body: bytes) -> dict[str, str]:
    """Return the texts of a message, or raise NotBelieved where one is missing that must be there."""
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        raise NotBelieved("it is no JSON") from None
    found = (
        {name: value for name, value in said.items() if isinstance(value, str)}
        if isinstance(said, dict)
        else {}
    )
    wanted = {"Type", "MessageId", "Message", "Timestamp", "TopicArn", "Signature", "SigningCertURL"}
    if found.get("Type") in ASKING:
        wanted |= {"Token", "SubscribeURL"}
    elif found.get("Type") != "Notification":
        raise NotBelieved("it is no message of SNS; is raw delivery on?")
    if missing := wanted - found.keys():
        raise NotBelieved(f"it has no {min(missing)}")
    return found


def check_moment(told: str, now: datetime) -> None:
    """Refuse what was signed long ago: somebody has kept it."""
    try:
        at = datetime.fromisoformat(told)
    except ValueError:
        at = None
    if at is None or at.tzinfo is None or not now - OLDEST <= at <= now + AHEAD:
        raise NotBelieved("it is not of now")


def certificate_url(told: str, host: str) -> str:
    """Return where the certificate lies: at the topic's own host, under a name such as Amazon gives it."""
    at_host = f"https://{host}"
    if not told.startswith(at_host) or not CERTIFICATE.fullmatch(told.removeprefix(at_host)):
        raise NotBelieved("its certificate is not at Amazon's")
    return told


def check_signature(said: dict[str, str], pem: bytes, now: datetime) -> None:
    """Refuse what was not signed with the key of a certificate that is valid now and of SNS."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

    versions: dict[str, hashes.HashAlgorithm] = {
        "1": hashes.SHA1(),  # noqa: S303  (what Amazon signs with unless the topic says 2)
        "2": hashes.SHA256(),
    }
    algorithm = versions.get(said.get("SignatureVersion", ""))
    if algorithm is None:
        raise NotBelieved("its signature is of a version that we do not know")
    key = certified(pem, now).public_key()
    if not isinstance(key, RSAPublicKey) or key.key_size < 2048:
        raise NotBelieved("its certificate holds no RSA key of 2048 bits")
    try:
        signature = base64.b64decode(said["Signature"], validate=True)
        key.verify(signature, signed_text(said), PKCS1v15(), algorithm)
    except (InvalidSignature, binascii.Error):
        raise NotBelieved("its signature does not fit") from None


def certified(pem: bytes, now: datetime) -> Any:
    """Return the certificate, if it is valid now and names SNS.

    That it is Amazon's, and no one else's with that name, is vouched for by the TLS connection it came
    over: its own chain does not come with it.
    """
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    try:
        found = x509.load_pem_x509_certificates(pem)[0]
        names = [str(each.value) for each in found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
        names += alternatives(found)
    except ValueError:
        raise NotBelieved("its certificate cannot be read") from None
    if not found.not_valid_before_utc <= now <= found.not_valid_after_utc:
        raise NotBelieved("its certificate is not valid now")
    if not any(SIGNER.fullmatch(name) for name in names):
        raise NotBelieved("its certificate is not of SNS")
    return found


def alternatives(certificate: Any) -> list[str]:
    """Return the other names of a certificate."""
    from cryptography import x509

    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return []
    names: list[str] = found.value.get_values_for_type(x509.DNSName)
    return names


def signed_text(said: dict[str, str]) -> bytes:
    """Return what was signed: each name and value on a line of its own, in the order of the alphabet."""
    names = ["Message", "MessageId", "Subject", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"]
    asking = {"SubscribeURL", "Token"}
    left_out = {"Subject"} if said["Type"] in ASKING else asking
    told = [name for name in names if name in said and name not in left_out]
    return "".join(f"{name}\n{said[name]}\n" for name in told).encode()


# ── doing ───────────────────────────────────────────────────────────────────────────────────────


def confirmation_url(posted: Posted) -> str:
    """Return the address that confirms a subscription: of our topic and the token, whatever the message says."""
    asked = {"Action": "ConfirmSubscription", "TopicArn": posted.topic, "Token": posted.token}
    return f"https://{host_of(posted.topic)}/?{urlencode(asked)}"


def take_in(session: Session, posted: Posted, *, now: datetime) -> list[int]:
    """Keep what was posted like a mail that arrived, and return its number; none where it had come before.

    Commits: whoever posted it may now forget it.
    """
    new = db.upsert(session, Notice).values(id=posted.id[:100], at=now).on_conflict_do_nothing()
    if session.execute(new.returning(Notice.id)).first() is None:
        session.rollback()
        return []
    session.execute(delete(Notice).where(Notice.at < now - REMEMBERED))
    return keep(session, sender=SENDER, recipients=[posted.topic], content=posted.message.encode(), now=now)
