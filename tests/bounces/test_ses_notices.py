"""Notices from SES are read as the bounces and complaints they report; anything else is not a report."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from digest.bounces.failure_kinds import FailureKind
from digest.bounces.report_parser import Complaint, Failure, NoActionNeeded
from digest.bounces.ses_notices import NoticeReport, read_notice

ADA = "ada@uni.example"
MAIL = {"messageId": "0100-ab", "source": "bounce+7@example.org", "destination": [ADA]}


def read(kind: str, *, name: str = "notificationType", **blocks: Any) -> NoticeReport | None:
    return read_notice(json.dumps({name: kind, "mail": MAIL, **blocks}).encode())


def bounce(sort: str, subtype: str, **person: Any) -> NoticeReport:
    """Return what is read of a bounce of one recipient."""
    recipients = [{"emailAddress": ADA, **person}]
    block = {"bounceType": sort, "bounceSubType": subtype, "bouncedRecipients": recipients}
    found = read("Bounce", bounce=block)
    assert found is not None
    return found


def test_a_bounce_names_its_letter_its_recipient_and_the_reason() -> None:
    found = bounce(
        "Permanent", "General", status="5.1.1", diagnosticCode=f"smtp; 550 5.1.1 <{ADA}>: User unknown"
    )

    assert found == NoticeReport(
        report=Failure(
            kind=FailureKind.HARD,
            status="5.1.1",
            diagnostic="550 5.1.1 <…>: User unknown",
            reported_by="notice",
            recipients=(ADA,),
        ),
        provider_id="0100-ab",
        sender="bounce+7@example.org",
        recipient=ADA,
    )


@pytest.mark.parametrize(
    ("sort", "subtype", "person", "kind"),
    [
        ("Permanent", "General", {}, FailureKind.HARD),
        ("Permanent", "ContentRejected", {"status": "5.1.1"}, FailureKind.POLICY),
        ("Permanent", "General", {"diagnosticCode": "smtp; 554 blocked as spam"}, FailureKind.POLICY),
        ("Permanent", "MailboxFull", {"status": "5.2.2"}, FailureKind.SOFT),
        ("Transient", "MailboxFull", {}, FailureKind.SOFT),
        ("Transient", "General", {"status": "5.1.1"}, FailureKind.SOFT),
        ("Transient", "General", {"status": "4.7.1"}, FailureKind.POLICY),
        ("Undetermined", "Undetermined", {}, FailureKind.SOFT),
    ],
)
def test_the_kind_of_a_bounce_is_read_from_its_types_and_the_servers_text(
    sort: str, subtype: str, person: dict[str, str], kind: FailureKind
) -> None:
    report = bounce(sort, subtype, **person).report

    assert isinstance(report, Failure)
    assert report.kind is kind


def test_a_transient_bounce_without_any_detail_is_an_automatic_reply() -> None:
    assert bounce("Transient", "General").report == NoActionNeeded(reason="an automatic reply")


@pytest.mark.parametrize("people", [None, [], "ada", ["ada"], [{"emailAddress": 7}]])
def test_a_bounce_without_a_readable_recipient_is_of_the_letters_own(people: Any) -> None:
    found = read("Bounce", bounce={"bounceType": "Permanent", "bouncedRecipients": people})

    assert found is not None
    assert isinstance(found.report, Failure)
    assert found.report.recipients == ()
    assert found.recipient == ADA


@pytest.mark.parametrize("name", ["notificationType", "eventType"])
def test_a_complaint_is_read_from_an_identity_and_from_a_configuration_set(name: str) -> None:
    found = read(
        "Complaint", name=name,
        complaint={"complainedRecipients": [{"emailAddress": ADA}], "userAgent": "Inbox/1"},
    )  # fmt: skip

    assert found is not None
    assert (found.report, found.recipient) == (Complaint(diagnostic="abuse Inbox/1"), ADA)


def test_of_several_recipients_of_a_complaint_none_is_blamed() -> None:
    others = [{"emailAddress": ADA}, {"emailAddress": "bo@uni.example"}]
    notice = {
        "eventType": "Complaint",
        "mail": MAIL | {"destination": [ADA, "bo@uni.example"]},
        "complaint": {"complainedRecipients": others},
    }

    found = read_notice(json.dumps(notice).encode())

    assert found is not None
    assert found.recipient == ""


def test_a_letter_marked_as_not_spam_needs_no_action() -> None:
    found = read("Complaint", complaint={"complaintFeedbackType": "not-spam"})

    assert found is not None
    assert isinstance(found.report, NoActionNeeded)


def test_a_letter_that_amazon_rejects_is_our_fault() -> None:
    found = read("Reject", reject={"reason": "Bad content"})

    assert found is not None
    assert isinstance(found.report, Failure)
    assert (found.report.kind, found.report.diagnostic) == (
        FailureKind.POLICY,
        "SES rejected the letter: Bad content",
    )


@pytest.mark.parametrize("kind", ["Delivery", "Send", "DeliveryDelay", "Open", "Click"])
def test_a_notice_of_anything_else_that_amazon_sends_needs_no_action(kind: str) -> None:
    found = read(kind)

    assert found is not None
    assert found.report == NoActionNeeded(reason=f"a notice of {kind}")


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'"Bounce"', b"\xff", b"[" * 100_000, b"{}", b'{"eventType": "Rendering Failure"}'],
    ids=["empty", "cut", "list", "text", "no text", "deep", "no kind", "unknown kind"],
)
def test_content_that_is_not_a_notice_is_ignored(content: bytes) -> None:
    assert read_notice(content) is None


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["emailAddress", "status", "diagnosticCode", "bounceType", "bouncedRecipients"])
            | st.sampled_from(["bounceSubType", "complainedRecipients", "complaintFeedbackType", "reason"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(kind=st.sampled_from(["Bounce", "Complaint", "Reject"]), mail=ANYTHING, block=ANYTHING)
def test_a_notice_of_any_shape_is_a_report_of_its_kind(kind: str, mail: Any, block: Any) -> None:
    found = read_notice(json.dumps({"eventType": kind, "mail": mail, kind.lower(): block}).encode())

    assert found is not None
    assert isinstance(
        found.report, Failure | NoActionNeeded if kind == "Bounce" else Failure | Complaint | NoActionNeeded
    )
