"""Read bounce and complaint reports in mail. Pure.

Machine-readable reports are tried first (RFC 3464 for deliveries, RFC 5965 for complaints).
The reports of older servers are prose and are read with flufl.bounce.
"""

from __future__ import annotations

import base64
import quopri
import re
from dataclasses import dataclass
from email.message import Message

from digest.bounces.failure_kinds import STATUS, FailureKind, failure_kind, failure_kind_in_context
from digest.mail import mail_parsing

#: Delivery reports: in ASCII (RFC 3464), and with internationalised addresses (RFC 6533).
STATUS_REPORTS = frozenset({"message/delivery-status", "message/global-delivery-status"})
KNOWN_ACTIONS = frozenset({"failed", "delayed", "delivered", "relayed", "expanded"})

MICROSOFT_HEADER = "X-HmXmrOriginalRecipient"  #: in the complaints of Outlook.com that are no abuse reports
#: Parts that mail programs add by themselves, which need no answer.
NOTICES = (
    (frozenset({"message/disposition-notification"}), "a receipt"),
    (frozenset({"text/calendar"}), "an invitation"),
)

#: Types of abuse reports made by machines: our signature failed, or our letter looked infected.
SENDER_FAULT_TYPES = frozenset({"auth-failure", "dmarc", "virus"})

ADDRESS = re.compile(r"[^\s<>\"'(),:;]{1,320}@[^\s<>\"'(),:;]{1,320}")
MAX_DIAGNOSTIC_LENGTH = 300  #: maximum number of characters of a server's reply that are stored
MAX_READ = 2000  #: maximum number of characters of a server's reply that are parsed
NEARBY_CHARS = 400  #: number of characters after an address that are searched for the reason


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """A report that a letter did not arrive."""

    kind: FailureKind
    status: str = ""  #: the enhanced status, such as `5.1.1`
    diagnostic: str = ""  #: the server's reply, without addresses
    reported_by: str = "dsn"  #: how the failure was reported: dsn, words, report, notice or smtp
    recipients: tuple[str, ...] = ()
    #: the mailboxes where delivery failed, such as those of a group's members; empty if the report names none
    failed_mailboxes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Complaint:
    """A report that a reader marked a letter as spam."""

    diagnostic: str = ""
    kind: FailureKind = FailureKind.COMPLAINT
    status: str = ""
    reported_by: str = "report"


@dataclass(frozen=True, kw_only=True, slots=True)
class NoActionNeeded:
    """The result for a message that needs no action, with the reason why it needs none."""

    reason: str


MailReport = Failure | Complaint | NoActionNeeded

AUTOMATIC_REPLY = NoActionNeeded(reason="an automatic reply")


def read_report(message: Message) -> MailReport | None:
    """Return the report in a message about one of our letters, or None if no report can be parsed.

    The report precedes the quoted letter, so it is in the parsed beginning of a long message.
    """
    complaint = abuse_report_in(message) or complaint_of_microsoft(message)
    if complaint is not None:
        return complaint
    report = delivery_report_in(message)
    if report is not None:
        return report
    failure = failure_in_prose(message)
    if failure is not None:
        return failure
    for kinds, reason in NOTICES:
        if any(mail_parsing.parts_of_type(message, kinds)):
            return NoActionNeeded(reason=reason)
    return AUTOMATIC_REPLY if is_automatic(message) else None


def is_automatic(message: Message) -> bool:
    """Return whether a message was sent automatically, so that it must not be answered (RFC 3834)."""
    submitted = str(message.get("Auto-Submitted", "no")).split(";")[0].strip().lower()
    precedence = str(message.get("Precedence", "")).strip().lower()
    return (
        submitted != "no"
        or precedence in {"bulk", "list", "junk", "auto_reply"}
        or any(name in message for name in ("X-Autoreply", "X-Autorespond", "X-Auto-Response-Suppress"))
        or any(name.lower().startswith("list-") for name in message)
    )


# ── machine-readable reports ───────────────────────────────────────────────────────────────────


def abuse_report_in(message: Message) -> Complaint | Failure | NoActionNeeded | None:
    """Return the content of an abuse report: a reader's complaint, or a failure that we caused."""
    for part in mail_parsing.parts_of_type(message, frozenset({"message/feedback-report"})):
        values = report_fields(part)
        kind = values.get("feedback-type", "").lower()
        if kind == "not-spam":
            return NoActionNeeded(reason="a reader marked a letter as not spam")
        if kind in SENDER_FAULT_TYPES:
            why = f"{kind}: {values.get('auth-failure', '')} {values.get('authentication-results', '')}"
            return Failure(kind=FailureKind.POLICY, diagnostic=redacted_line(why), reported_by="report")
        return Complaint(diagnostic=redacted_line(f"{kind or 'abuse'} {values.get('user-agent', '')}"))
    return None


def complaint_of_microsoft(message: Message) -> Complaint | None:
    """Return the complaint in a message that quotes our letter with Microsoft's header, or None.

    The header names the reader. It is in the header of the message itself, or of a letter that is a part of it.
    """
    quoting = mail_parsing.parts_of_type(message, mail_parsing.QUOTED_TYPES)
    quoted = [part.get_payload() for part in quoting]
    letters = [message, *(letter for inside in quoted if isinstance(inside, list) for letter in inside)]
    is_complaint = any(isinstance(letter, Message) and MICROSOFT_HEADER in letter for letter in letters)
    return Complaint(diagnostic="abuse Microsoft") if is_complaint else None


def delivery_report_in(message: Message) -> Failure | NoActionNeeded | None:
    """Return the failure in a delivery status report, or NoActionNeeded if the report contains none.

    Returns None if the message contains no such report.
    """
    blocks = [
        block for part in mail_parsing.parts_of_type(message, STATUS_REPORTS) for block in field_groups(part)
    ]
    reported = [block for block in blocks if "Final-Recipient" in block or "Action" in block]
    failed = [block for block in reported if is_failure(block)]
    if failed:
        return failure_in_blocks(failed, plain_text_of(message))
    if reported:
        actions = KNOWN_ACTIONS & {str(block.get("Action", "")).strip().lower() for block in reported}
        return NoActionNeeded(reason=f"a report of {', '.join(sorted(actions)) or 'no failure'}")
    return None


def is_failure(block: Message) -> bool:
    """Return whether this block reports a failure, rather than a delay or a success."""
    action = str(block.get("Action", "")).strip().lower()
    if action.startswith(("delay", "deliver", "relay", "expand")):
        return False
    return action.startswith("fail") or str(block.get("Status", "")).strip().startswith(("4", "5"))


def failure_in_blocks(blocks: list[Message], whole: str) -> Failure:
    """Return the failure reported by the first of these blocks; `whole` is the human-readable text."""
    diagnosis = " ".join(str(blocks[0].get("Diagnostic-Code", ""))[:MAX_READ].split())
    named = (
        recipient_in(one, "Original-Recipient") or recipient_in(one, "Final-Recipient") for one in blocks
    )
    return failure_in_words(
        diagnosis.partition(";")[2] or diagnosis,
        whole,
        status=most_precise_status(str(blocks[0].get("Status", "")), diagnosis),
        reported_by="dsn",
        recipients=tuple(filter(None, named)),
        failed_mailboxes=tuple(filter(None, (recipient_in(one, "Final-Recipient") for one in blocks))),
    )


def failure_in_words(
    words: str,
    whole: str,
    *,
    status: str | None = None,
    reported_by: str = "words",
    **addresses: tuple[str, ...],
) -> Failure:
    """Return the failure that these words report, in the context of the whole text; the status may be among them."""
    if status is None:
        status = found[0] if (found := STATUS.search(words)) else ""
    kind = failure_kind_in_context(status, words, whole)
    return Failure(
        kind=kind, status=status, diagnostic=redacted_line(words), reported_by=reported_by, **addresses
    )


def most_precise_status(status: str, diagnosis: str) -> str:
    """Return `status`, or the status in the server's text if `status` is missing or vague (`5.0.0`)."""
    given, in_text = STATUS.search(status), STATUS.search(diagnosis)
    if given and not (given[2] == given[3] == "0" and in_text):
        return given[0]
    return in_text[0] if in_text else ""


def recipient_in(block: Message, name: str) -> str:
    """Return the address in one field of a block, or ""."""
    _, _, address = str(block.get(name, "")).rpartition(";")
    return address.strip().strip("<>") if "@" in address else ""


def field_groups(part: Message) -> list[Message]:
    """Return the field groups of a report.

    A delivery report has one group for the message and one for each recipient.
    """
    text = decoded_report(part).replace(b"\r\n", b"\n")
    blocks = re.split(rb"\n(?:[ \t]*\n)+", text)
    return [mail_parsing.parse_header(block) for block in blocks if block.strip()]


def decoded_report(part: Message) -> bytes:
    """Return the text of a report with its transfer encoding removed.

    The parser splits the text into embedded messages; this function joins them again.
    """
    payload = part.get_payload()
    inside = payload if isinstance(payload, list) else [payload]
    written = (as_written(each) if isinstance(each, Message) else str(each) for each in inside)
    text = "\n".join(written).encode("utf-8", "surrogateescape")
    match str(part.get("Content-Transfer-Encoding", "")).strip().lower():
        case "base64":
            return base64.b64decode(re.sub(rb"[^A-Za-z0-9+/]", b"", text) + b"==")
        case "quoted-printable":
            return quopri.decodestring(text)
    return text


def as_written(message: Message) -> str:
    """Return a message without parts as it was written; Python's own method raises errors on odd headers."""
    headers = [f"{name}: {value}" for name, value in message.raw_items()]
    return "\n".join([*headers, "", str(message.get_payload())]).lstrip("\n")


def report_fields(part: Message) -> dict[str, str]:
    """Return the fields of a report, keyed by lower-case name."""
    return {name.lower(): str(value).strip() for block in field_groups(part) for name, value in block.items()}


# ── reports in prose ─────────────────────────────────────────────────────────────────────


def failure_in_prose(message: Message) -> Failure | NoActionNeeded | None:
    """Return the failure that flufl.bounce finds in a server's prose, else a mere warning, else None."""
    from flufl.bounce import all_failures

    try:
        passing, lasting = all_failures(message)
    except Exception:  # noqa: BLE001 - flufl.bounce raises many kinds of errors on malformed mail
        return None
    if not lasting:
        return NoActionNeeded(reason="a warning: the server keeps trying") if passing else None
    recipients = sorted(address.decode("ascii", "replace") for address in lasting)
    whole = plain_text_of(message)
    addresses = tuple(recipients)
    words = text_after_address(whole, recipients[0])
    return failure_in_words(words, whole, recipients=addresses, failed_mailboxes=addresses)


def failure_of_text(text: str) -> Failure | None:
    """Return the failure that a text reports by its status, such as `550 5.1.10`; None without a status.

    Such a text counts only in mail from a mail server to a signed address.
    """
    found = STATUS.search(text[:MAX_READ])
    if found is None or not found[0].startswith(("4", "5")):
        return None
    return failure_in_words(
        text[found.start() : found.start() + NEARBY_CHARS], text[:MAX_READ], status=found[0]
    )


def text_after_address(text: str, address: str) -> str:
    """Return the text directly after an address, which usually contains the reason."""
    place = text.lower().find(address.lower())
    return (
        text[place + len(address) : place + len(address) + NEARBY_CHARS]
        if place >= 0
        else text[: 2 * NEARBY_CHARS]
    )


def plain_text_of(message: Message) -> str:
    """Return the first 8,000 bytes of a message's first text part."""
    for part in message.walk():
        if part.get_content_maintype() == "text":
            payload = part.get_payload(decode=True)
            return payload[:8000].decode("utf-8", "replace") if isinstance(payload, bytes) else ""
    return ""


def failure_of_reply(code: int | None, reply: str, *, phase: str) -> Failure:
    """Return the failure reported in an SMTP reply."""
    found = STATUS.search(reply)
    return Failure(
        kind=failure_kind(found[0] if found else "", reply, code=code, phase=phase),
        status=found[0] if found else "",
        diagnostic=redacted_line(f"{code or ''} {reply}"),
        reported_by="smtp",
    )


def redacted_line(words: str) -> str:
    """Return a server's reply as one printable line without addresses.

    PostgreSQL cannot store NUL, lone surrogates cannot be encoded, and terminals interpret control
    characters.
    """
    shown = "".join(char if char.isprintable() else " " for char in words[:MAX_READ])
    return ADDRESS.sub("…", " ".join(shown.split()))[:MAX_DIAGNOSTIC_LENGTH]
