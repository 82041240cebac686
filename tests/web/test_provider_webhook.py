"""Amazon's notices at our webhook, signed with test keys."""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from sqlalchemy import delete, select

from digest.bounces import ses_notices, suppressions
from digest.bounces.failure_kinds import FailureKind
from digest.bounces.report_parser import Complaint, Failure, NoActionNeeded
from digest.bounces.suppressions import SuppressionReason
from digest.db.tables.deliveries import Delivery
from digest.db.tables.inbound_mail import BounceRow, InboundMail, ReceivedNotice
from digest.db.tables.subscribers import SubscriberState
from digest.errors import BadField
from digest.settings import load_settings
from digest.site import links
from digest.web import provider_webhook
from digest.web.provider_webhook import CertificateCache, CertificateUnavailable
from tests.dumps.sources.paper_server import says, sends_on, serving
from tests.support.certificates import make
from tests.support.clock import Clock
from tests.web.conftest import ServedSite, opened, settings_for

TOPIC = "arn:aws:sns:eu-west-1:123456789012:digest-bounces"
HOST = "https://sns.eu-west-1.amazonaws.com"
CERTIFICATE = f"{HOST}/SimpleNotificationService-0123456789abcdef.pem"
DAY = timedelta(days=1)


# ── Amazon, as far as we need it ────────────────────────────────────────────────────────────────


@cache
def key(size: int = 2048) -> RSAPrivateKey:
    return generate_private_key(65537, size)


def certificate(now: datetime, *, name: str = "sns.amazonaws.com", days: int = 30, size: int = 2048) -> bytes:
    who = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    made = x509.CertificateBuilder().subject_name(who).issuer_name(who).public_key(key(size).public_key())
    made = made.serial_number(x509.random_serial_number())
    made = made.not_valid_before(now - 30 * DAY).not_valid_after(now + days * DAY)
    return made.sign(key(size), hashes.SHA256()).public_bytes(Encoding.PEM)


@dataclass
class Amazon:
    """A fake Amazon that signs messages, serves its certificate and records requests."""

    now: datetime
    pem: bytes
    asked: list[str] = field(default_factory=list)
    is_away: bool = False
    count: int = 0

    def fetch(self, url: str) -> bytes:
        self.asked.append(url)
        if self.is_away:
            raise CertificateUnavailable("away")
        return self.pem if url.endswith(".pem") else b"<ConfirmSubscriptionResponse/>"

    def message(
        self, content: Any = "", *, version: str = "2", size: int = 2048, **changed: str
    ) -> dict[str, str]:
        """Return a signed message; what is `changed` is changed before it is signed."""
        self.count += 1
        message = {
            "Type": "Notification",
            "MessageId": f"message-{self.count}",
            "TopicArn": TOPIC,
            "Message": content if isinstance(content, str) else json.dumps(content),
            "Timestamp": self.now.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "SignatureVersion": version,
            "SigningCertURL": CERTIFICATE,
            "UnsubscribeURL": f"{HOST}/?Action=Unsubscribe",
        } | changed
        names = ["Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"]
        if message["Type"] != "Notification":
            names = ["Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"]
        text = "".join(f"{name}\n{message[name]}\n" for name in names if name in message)
        algorithm = hashes.SHA1() if version == "1" else hashes.SHA256()  # noqa: S303
        message["Signature"] = base64.b64encode(key(size).sign(text.encode(), PKCS1v15(), algorithm)).decode()
        return message


@pytest.fixture
def served(sqlite_url: str, tmp_path: Path, clock: Clock) -> Iterator[ServedSite]:
    """The site with a configured SNS topic and a bounce domain."""
    changed = {
        "sns_topics": TOPIC,
        "inbound": "lmtp://127.0.0.1:8024",
        "inbound_domain": "back.example.org",
    }
    yield from opened(settings_for(sqlite_url, tmp_path, **changed), clock)


@pytest.fixture
def amazon(served: ServedSite, now: datetime) -> Amazon:
    """The fake Amazon of this site."""
    ours = Amazon(now=now, pem=certificate(now))
    served.app.state.certificates = CertificateCache(fetch=ours.fetch)
    return ours


@pytest.fixture
def post(served: ServedSite) -> Callable[[Any], int]:
    """Post a message as SNS does, and return the response."""

    def posted(message: Any) -> int:
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        return served.client.post("/sns", content=body, headers={"content-type": "text/plain"}).status_code

    return posted


def bounce(delivery: Delivery, **changed: Any) -> dict[str, Any]:
    person = {
        "emailAddress": delivery.email, "action": "failed", "status": "5.1.1",
        "diagnosticCode": "smtp; 550 5.1.1 <dora@uni.edu>: nobody here",
    }  # fmt: skip
    bounce = {
        "bounceType": "Permanent",
        "bounceSubType": "General",
        "bouncedRecipients": [person | changed.pop("person", {})],
    }
    mail = {"messageId": "0102-abc-000000", "source": "papers@example.org", "destination": [delivery.email]}
    return {
        "notificationType": "Bounce",
        "bounce": bounce | changed.pop("bounce", {}),
        "mail": mail | changed,
    }


def counted(served: ServedSite) -> list[tuple[str, str, int | None]]:
    with served.writing() as session:
        rows = select(BounceRow.kind, BounceRow.status, BounceRow.delivery_id).order_by(BounceRow.id)
        return [(kind, status, number) for kind, status, number in session.execute(rows)]


# ── what is believed ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("version", ["1", "2"])
def test_a_bounce_that_amazon_signed_counts_against_its_address(
    served: ServedSite, amazon: Amazon, post, digest_sent: Delivery, version: str
) -> None:
    sender = links.bounce_address(served.site, digest_sent.id)

    assert post(amazon.message(bounce(digest_sent, source=sender), version=version)) == 200

    assert counted(served) == [("hard", "5.1.1", digest_sent.id)]
    assert amazon.asked == [CERTIFICATE]
    with served.writing() as session:
        assert session.scalars(select(InboundMail)).all() == []


def test_amazon_is_asked_for_its_certificate_once(
    served: ServedSite, amazon: Amazon, post, digest_sent: Delivery
) -> None:
    assert [post(amazon.message(bounce(digest_sent), Subject="Amazon SES")) for _ in range(3)] == [200] * 3

    assert amazon.asked == [CERTIFICATE]


def test_a_repeated_notice_counts_once(
    served: ServedSite, amazon: Amazon, post, digest_sent: Delivery
) -> None:
    message = amazon.message(bounce(digest_sent))

    assert [post(message) for _ in range(3)] == [200] * 3

    assert len(counted(served)) == 1


def test_an_old_notice_is_refused_and_old_notice_ids_are_deleted(
    served: ServedSite, amazon: Amazon, post, digest_sent: Delivery
) -> None:
    message = amazon.message(bounce(digest_sent))
    post(message)
    served.clock.now += 2 * DAY
    assert post(message) == 403

    served.clock.now += 2 * DAY
    amazon.now = served.clock.now
    assert post(amazon.message(bounce(digest_sent))) == 200
    with served.writing() as session:
        assert session.scalars(select(ReceivedNotice.id)).all() == ["message-2"]


def without(name: str) -> Callable[[dict[str, str]], dict[str, str]]:
    return lambda message: {key: value for key, value in message.items() if key != name}


@pytest.mark.parametrize(
    "spoil",
    [
        lambda message: message | {"Message": message["Message"].replace("5.1.1", "5.1.2")},
        lambda message: message | {"Subject": "added"},
        lambda message: message | {"Signature": base64.b64encode(b"x" * 256).decode()},
        lambda message: message | {"Signature": "no base64!"},
        lambda message: message | {"SignatureVersion": "1"},
        lambda message: message | {"SignatureVersion": "3"},
        lambda message: message | {"TopicArn": TOPIC + "x"},
        lambda message: message | {"Timestamp": "yesterday"},
        lambda message: message | {"Timestamp": "2026-11-20T08:01:00"},
        lambda message: message | {"MessageId": 5},
        *[
            without(name)
            for name in ("Type", "MessageId", "Message", "Signature", "SigningCertURL", "Timestamp")
        ],
        lambda message: [message],
        lambda _said: b"\xff\xfe",
        lambda _said: b"[" * 50_000,
    ],
)
def test_a_notice_not_signed_by_amazon_for_our_topic_is_refused(
    served: ServedSite, amazon: Amazon, post, digest_sent: Delivery, spoil: Callable[[Any], Any]
) -> None:
    before = served.everything()

    assert post(spoil(amazon.message(bounce(digest_sent)))) == 403

    assert served.everything() == before


@pytest.mark.parametrize(
    "url",
    [
        "https://evil.example/SimpleNotificationService-0123456789abcdef.pem",
        "http://sns.eu-west-1.amazonaws.com/SimpleNotificationService-0123456789abcdef.pem",
        "https://sns.eu-west-1.amazonaws.com.evil.example/SimpleNotificationService-01.pem",
        "https://evil.example#sns.eu-west-1.amazonaws.com/SimpleNotificationService-01.pem",
        "https://sns.eu-west-1.amazonaws.com@evil.example/SimpleNotificationService-01.pem",
        "https://sns.eu-west-1.amazonaws.com:8443/SimpleNotificationService-01.pem",
        "https://sns.us-east-1.amazonaws.com/SimpleNotificationService-01.pem",
        "https://sns.eu-west-1.amazonaws.com/bucket/../evil.pem",
        "https://s3.amazonaws.com/evil/SimpleNotificationService-01.pem",
        "//[",
    ],
)
def test_a_certificate_from_another_host_is_not_fetched(amazon: Amazon, post, url: str) -> None:
    assert post(amazon.message({}, SigningCertURL=url)) == 403

    assert amazon.asked == []


@pytest.mark.parametrize(
    "changed",
    [{"name": "evil.example"}, {"name": "sns.amazonaws.com.evil.example"}, {"days": -1}, {"size": 1024}],
)
def test_a_certificate_that_is_expired_or_not_of_sns_is_refused(
    amazon: Amazon, post, now: datetime, changed: dict[str, Any]
) -> None:
    amazon.pem = certificate(now, **changed)

    assert post(amazon.message({}, size=changed.get("size", 2048))) == 403


def test_a_notice_is_retried_if_its_certificate_cannot_be_fetched(amazon: Amazon, post) -> None:
    amazon.is_away = True
    assert post(amazon.message({})) == 503

    amazon.is_away = False
    assert post(amazon.message({})) == 200


def test_forged_notices_cause_few_requests_to_amazon(amazon: Amazon, post) -> None:
    amazon.is_away = True

    for number in range(30):
        post(amazon.message({}, SigningCertURL=f"{HOST}/SimpleNotificationService-{number:x}.pem"))

    assert len(amazon.asked) == provider_webhook.MAX_FETCHES


def test_without_a_configured_topic_the_webhook_gives_404(
    sqlite_url: str, tmp_path: Path, clock: Clock
) -> None:
    for served in opened(settings_for(sqlite_url, tmp_path), clock):
        assert served.client.post("/sns", content=b"{}").status_code == 404


def test_only_a_valid_topic_arn_is_accepted() -> None:
    for wrong in ("bounces", "arn:aws:sns:eu-west-1:12:bounces", "arn:aws:sns:evil.example/:123456789012:x"):
        with pytest.raises(BadField, match="DIGEST_SNS_TOPICS"):
            load_settings({"sns_topics": wrong})


# ── subscribing ─────────────────────────────────────────────────────────────────────────────────


def test_a_subscription_is_confirmed_at_amazon_whatever_address_the_message_names(
    served: ServedSite, amazon: Amazon, post
) -> None:
    asking: dict[str, Any] = {
        "Type": "SubscriptionConfirmation",
        "Token": "t&o=k",
        "SubscribeURL": "https://evil.example/?Token=1",
    }

    assert post(amazon.message("You have chosen to subscribe", **asking)) == 200

    arn = "arn%3Aaws%3Asns%3Aeu-west-1%3A123456789012%3Adigest-bounces"
    assert amazon.asked[1:] == [f"{HOST}/?Action=ConfirmSubscription&TopicArn={arn}&Token=t%26o%3Dk"]


def test_a_subscription_that_amazon_did_not_sign_is_not_confirmed(amazon: Amazon, post) -> None:
    asking: dict[str, Any] = {
        "Type": "SubscriptionConfirmation",
        "Token": "token",
        "SubscribeURL": f"{HOST}/?Token=token",
    }

    assert post(amazon.message("", **asking) | {"Token": "another"}) == 403

    assert amazon.asked == [CERTIFICATE]


def test_no_redirect_leads_us_away_from_amazon(served: ServedSite) -> None:
    with serving() as elsewhere:
        elsewhere.answers["/moved"] = sends_on(f"{elsewhere.url}/evil")
        elsewhere.answers["/evil"] = elsewhere.answers["/there"] = says(b"content")
        fetch = provider_webhook.make_fetch(served.context, loopback=True)

        assert fetch(f"{elsewhere.url}/there") == b"content"
        with pytest.raises(CertificateUnavailable, match="302"):
            fetch(f"{elsewhere.url}/moved")
        assert elsewhere.paths == ["/there", "/moved"]

    with pytest.raises(CertificateUnavailable, match="not on the open internet"):
        provider_webhook.make_fetch(served.context, resolve=lambda _host, _port: ["10.0.0.1"])(
            f"{HOST}/x.pem"
        )


def test_the_host_of_the_certificate_must_have_amazons_tls_certificate(
    served: ServedSite, tmp_path: Path
) -> None:
    """The signing certificate comes without its chain, so only the TLS connection proves where it is from."""
    ours = make(tmp_path, "localhost")
    trusted, everyone = ssl.create_default_context(cafile=str(ours[0])), ssl.create_default_context()
    with serving(ours) as elsewhere:
        elsewhere.answers["/it.pem"] = says(b"a certificate")

        def fetched(host: str, trust: ssl.SSLContext) -> bytes:
            fetch = provider_webhook.make_fetch(
                served.context, trust=trust, loopback=True, resolve=lambda _host, _port: ["127.0.0.1"]
            )
            return fetch(f"https://{host}:{elsewhere.url.rpartition(':')[2]}/it.pem")

        assert fetched("localhost", trusted) == b"a certificate"
        for host, trust in (("localhost", everyone), ("sns.eu-west-1.amazonaws.com", trusted)):
            with pytest.raises(CertificateUnavailable, match=r"(?i)certificate"):
                fetched(host, trust)
        assert elsewhere.paths == ["/it.pem"]


# ── what it means ───────────────────────────────────────────────────────────────────────────────


def test_a_letter_is_found_by_amazons_id_by_our_message_id_or_by_address(
    served: ServedSite, amazon: Amazon, post, digest_sent: Delivery
) -> None:
    with served.writing() as session:
        session.get_one(Delivery, digest_sent.id).provider_id = "0102-abc-000000"
        session.commit()

    ours = links.bounce_address(served.site, digest_sent.id)
    for notice in (
        bounce(digest_sent, destination=[], person={"emailAddress": ""}),
        bounce(digest_sent, messageId="", source=ours),
        bounce(digest_sent, messageId="other"),
    ):
        with served.writing() as session:
            session.execute(delete(BounceRow))
            session.commit()
        post(amazon.message(notice))
        assert [number for _, _, number in counted(served)] == [digest_sent.id]


def test_a_complaint_suppresses_the_address_at_once(
    served: ServedSite, amazon: Amazon, post, digest_sent: Delivery
) -> None:
    complaint = {"complainedRecipients": [{"emailAddress": "dora@uni.edu"}], "complaintFeedbackType": "abuse"}
    mail = {"messageId": "x", "source": "papers@example.org", "destination": ["dora@uni.edu"]}

    assert (
        post(amazon.message({"notificationType": "Complaint", "complaint": complaint, "mail": mail})) == 200
    )

    assert served.subscriber("dora@uni.edu").state == SubscriberState.UNSUBSCRIBED
    with served.writing() as session:
        assert [line.reason for line in suppressions.list_suppressions(session)] == [
            SuppressionReason.COMPLAINT
        ]


def test_an_unclassified_notice_is_kept_for_a_person(
    served: ServedSite, amazon: Amazon, post, digest_sent
) -> None:
    unknown = bounce(
        digest_sent, messageId="x", destination=[], person={"emailAddress": "nobody@else.example"}
    )

    assert [post(amazon.message(message)) for message in ({"a": 1}, "no JSON", unknown)] == [200] * 3

    with served.writing() as session:
        assert [(row.state, row.recipient, row.reason) for row in session.scalars(select(InboundMail))] == [
            ("shunted", TOPIC, "the mail is not a known SES notice"),
            ("shunted", TOPIC, "the mail is not a known SES notice"),
            ("shunted", TOPIC, "the report is about an unknown letter"),
        ]


def read(kind: str, sort: str, status: str = "", diagnostic: str = "") -> Any:
    person = {"emailAddress": "ada@uni.example", "status": status, "diagnosticCode": diagnostic}
    bounce = {"bounceType": kind, "bounceSubType": sort, "bouncedRecipients": [person]}
    found = ses_notices.read_notice(
        json.dumps({"eventType": "Bounce", "bounce": bounce, "mail": {}}).encode()
    )
    assert found
    return found.report


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        (("Permanent", "General", "5.1.1", "smtp; 550 5.1.1 user unknown"), FailureKind.HARD),
        (("Permanent", "NoEmail"), FailureKind.HARD),
        (("Permanent", "OnAccountSuppressionList"), FailureKind.HARD),
        (("Permanent", "General", "5.7.26", "smtp; 550-5.7.26 unauthenticated"), FailureKind.POLICY),
        (("Permanent", "General", "5.7.1", "smtp; 554 5.7.1 blocked"), FailureKind.POLICY),
        (("Transient", "MailboxFull", "5.2.2", "smtp; 552 5.2.2 full"), FailureKind.SOFT),
        (("Transient", "MailboxFull"), FailureKind.SOFT),
        (("Transient", "General", "4.4.7", "smtp; 554 4.4.7 expired"), FailureKind.SOFT),
        (("Transient", "ContentRejected"), FailureKind.POLICY),
        (("Undetermined", "Undetermined"), FailureKind.SOFT),
    ],
)
def test_amazons_bounce_types_map_to_failure_kinds(arguments: tuple[str, ...], kind: FailureKind) -> None:
    meaning = read(*arguments)

    assert isinstance(meaning, Failure)
    assert (meaning.kind, meaning.reported_by) == (kind, "notice")
    assert "@" not in meaning.diagnostic


def test_an_out_of_office_reply_from_amazon_is_not_a_bounce() -> None:
    assert read("Transient", "General") == NoActionNeeded(reason="an automatic reply")


@pytest.mark.parametrize("kind", ["Delivery", "Send", "DeliveryDelay", "AmazonSnsSubscriptionSucceeded"])
def test_a_delivery_notice_needs_no_action(kind: str) -> None:
    found = ses_notices.read_notice(json.dumps({"notificationType": kind}).encode())

    assert found
    assert isinstance(found.report, NoActionNeeded)


def test_a_not_spam_complaint_is_not_counted() -> None:
    def report_of(kind: str) -> Any:
        message = {"notificationType": "Complaint", "complaint": {"complaintFeedbackType": kind}}
        found = ses_notices.read_notice(json.dumps(message).encode())
        assert found
        return found.report

    assert isinstance(report_of("abuse"), Complaint)
    assert isinstance(report_of("not-spam"), NoActionNeeded)


@pytest.mark.parametrize(
    "content",
    [
        b"", b"null", b"[]", b"5", b'"text"', b"{}", b"[" * 60_000, b'{"notificationType": 5}',
        b'{"notificationType": "Bounce", "bounce": [], "mail": 1}',
        b'{"notificationType": "Bounce", "bounce": {"bouncedRecipients": [null]}}',
        b'{"notificationType": "Complaint", "complaint": {"complainedRecipients": {"a": 1}}}',
        b'{"notificationType": "Bounce", "mail": {"destination": [[]], "source": {}}}',
    ],
)  # fmt: skip
def test_any_notice_is_parsed_without_an_exception(content: bytes) -> None:
    found = ses_notices.read_notice(content)

    assert found is None or isinstance(found.report, (Failure, Complaint))


def test_a_mail_that_imitates_a_notice_is_not_one(served: ServedSite) -> None:
    from digest.inbound import classification

    assert not classification.is_accepted_recipient(served.site, TOPIC)
    assert not classification.is_accepted_recipient(replace(served.site, inbound_domain=TOPIC), f"x@{TOPIC}")
