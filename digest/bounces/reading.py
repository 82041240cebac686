"""What a mail that came back says. Pure: a report is read, nothing is looked up and nothing changes.

Reports made for machines come first (RFC 3464 on deliveries, RFC 5965 on complaints); the prose of
older servers is left to flufl.bounce, which has learnt from thirty years of it.
"""

from __future__ import annotations

import base64
import email
import quopri
import re
from collections.abc import Iterator
from dataclasses import dataclass
from email.message import Message
from enum import StrEnum

#: Parts that tell of a delivery: in ASCII (RFC 3464), and where addresses are not (RFC 6533).
STATUS_REPORTS = frozenset({"message/delivery-status", "message/global-delivery-status"})
QUOTED = frozenset({"message/rfc822", "message/global"})  #: a letter that is shown; what stands in it is ours
ACTIONS = frozenset({"failed", "delayed", "delivered", "relayed", "expanded"})

#: Reports in the abuse format that no reader has made: our signature failed, or our letter looked infected.
ABOUT_US = frozenset({"auth-failure", "dmarc", "virus"})

#: An enhanced status (RFC 3463) among words.
STATUS = re.compile(r"(?<![\d.])([45])\.(\d{1,3})\.(\d{1,3})(?![\d.]*\d)")
ADDRESS = re.compile(r"[^\s<>\"'(),:;]{1,320}@[^\s<>\"'(),:;]{1,320}")
MOST_BYTES = 256 * 1024  #: looked at: mail that was made to be slow to read is no quicker to send
LONGEST = 300  #: characters kept of what a server said
MOST_READ = 2000  #: characters of it that are looked at: who says more does not say it shorter
NEAR = 400  #: characters in which a reason follows an address


class Kind(StrEnum):
    """What a failure says of the address."""

    HARD = "hard"  #: nobody is there
    SOFT = "soft"  #: somebody is there, and could not be given it now
    POLICY = "policy"  #: they do not want it from us: our problem, never the reader's
    COMPLAINT = "complaint"  #: the reader called it spam


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """A letter of ours did not arrive."""

    kind: Kind
    status: str = ""  #: `5.1.1`
    said: str = ""  #: the server's words, addresses taken out
    told_by: str = "dsn"  #: dsn, words, or smtp
    recipients: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Complaint:
    """A reader called a letter of ours spam."""

    said: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Nothing:
    """A mail that asks for nothing to be done, and why."""

    because: str


Meaning = Failure | Complaint | Nothing

AUTOMATIC = Nothing(because="an automatic answer")


def read(content: bytes) -> Meaning | None:
    """Return what a mail tells of a letter of ours, or None where it cannot be understood.

    Reports come first and quote the letter after: of a long mail the beginning is looked at.
    """
    message = email.message_from_bytes(content[:MOST_BYTES])
    complaint = abuse_report_in(message)
    if complaint is not None:
        return complaint
    report = report_in(message)
    if report is not None:
        return report
    failure = failure_in_words(message)
    if failure is not None:
        return failure
    if is_automatic(message):
        return AUTOMATIC
    return None


def is_automatic(message: Message) -> bool:
    """Return whether a machine wrote it: such mail is never answered (RFC 3834)."""
    submitted = str(message.get("Auto-Submitted", "no")).split(";")[0].strip().lower()
    precedence = str(message.get("Precedence", "")).strip().lower()
    return (
        submitted != "no"
        or precedence in {"bulk", "list", "junk", "auto_reply"}
        or any(name in message for name in ("X-Autoreply", "X-Autorespond", "X-Auto-Response-Suppress"))
        or any(name.lower().startswith("list-") for name in message)
    )


# ── reports made for machines ───────────────────────────────────────────────────────────────────


def abuse_report_in(message: Message) -> Complaint | Failure | Nothing | None:
    """Return what a report in the abuse format says: that a reader complains, or that the trouble is ours."""
    for part in parts(message, frozenset({"message/feedback-report"})):
        said = fields(part)
        kind = said.get("feedback-type", "").lower()
        if kind == "not-spam":
            return Nothing(because="a reader called a letter no spam")
        if kind in ABOUT_US:
            why = f"{kind}: {said.get('auth-failure', '')} {said.get('authentication-results', '')}"
            return Failure(kind=Kind.POLICY, said=spoken(why), told_by="report")
        return Complaint(said=spoken(f"{kind or 'abuse'} {said.get('user-agent', '')}"))
    return None


def report_in(message: Message) -> Failure | Nothing | None:
    """Return what a delivery status report says of the recipients it names."""
    blocks = [block for part in parts(message, STATUS_REPORTS) for block in groups(part)]
    told = [block for block in blocks if "Final-Recipient" in block or "Action" in block]
    failed = [block for block in told if is_failure(block)]
    if failed:
        return failure_of(failed, prose(message))
    if told:
        actions = ACTIONS & {str(block.get("Action", "")).strip().lower() for block in told}
        return Nothing(because=f"a report of {', '.join(sorted(actions)) or 'no failure'}")
    return None


def is_failure(block: Message) -> bool:
    """Return whether the recipient of this block will not get the letter."""
    action = str(block.get("Action", "")).strip().lower()
    if action.startswith(("delay", "deliver", "relay", "expand")):
        return False
    return action.startswith("fail") or str(block.get("Status", "")).strip().startswith(("4", "5"))


def failure_of(blocks: list[Message], whole: str) -> Failure:
    """Return the failure that the first of these blocks tells of; `whole` is what people are told."""
    diagnosis = " ".join(str(blocks[0].get("Diagnostic-Code", ""))[:MOST_READ].split())
    _, _, words = diagnosis.partition(";")
    status = precise(str(blocks[0].get("Status", "")), diagnosis)
    return Failure(
        kind=kind_within(status, words or diagnosis, whole),
        status=status,
        said=spoken(words or diagnosis),
        told_by="dsn",
        recipients=tuple(recipient for block in blocks for recipient in recipients_of(block)),
    )


def precise(status: str, diagnosis: str) -> str:
    """Return the status that says most: reports put 5.0.0 beside words that know better."""
    told, spoken_of = STATUS.search(status), STATUS.search(diagnosis)
    if told and not (told[2] == told[3] == "0" and spoken_of):
        return told[0]
    return spoken_of[0] if spoken_of else ""


def recipients_of(block: Message) -> Iterator[str]:
    """Yield the address a block is about, as we had written it, if that is told."""
    for name in ("Original-Recipient", "Final-Recipient"):
        _, _, address = str(block.get(name, "")).rpartition(";")
        if "@" in address:
            yield address.strip().strip("<>")
            return


def parts(message: Message, types: frozenset[str]) -> Iterator[Message]:
    """Yield the parts of these types, but not those of a letter that is quoted."""
    if message.get_content_type() in types:
        yield message
    elif message.is_multipart() and message.get_content_type() not in QUOTED:
        for part in message.get_payload():
            if isinstance(part, Message):
                yield from parts(part, types)


def groups(part: Message) -> list[Message]:
    """Return the groups of fields of a report: for one on deliveries one of its own, and one for each recipient."""
    text = decoded(part).replace(b"\r\n", b"\n")
    return [email.message_from_bytes(block) for block in re.split(rb"(?:\n[ \t]*)+\n", text) if block.strip()]


def decoded(part: Message) -> bytes:
    """Return the text of a report as it was before it was encoded to travel.

    The parser has taken it for a mail in a mail, or several, so it is put together again.
    """
    payload = part.get_payload()
    inside = payload if isinstance(payload, list) else [payload]
    text = b"\n".join(
        each.as_bytes().lstrip(b"\n") if isinstance(each, Message) else str(each).encode("utf-8", "replace")
        for each in inside
    )
    match str(part.get("Content-Transfer-Encoding", "")).strip().lower():
        case "base64":
            return base64.b64decode(re.sub(rb"[^A-Za-z0-9+/]", b"", text) + b"==")
        case "quoted-printable":
            return quopri.decodestring(text)
    return text


def fields(part: Message) -> dict[str, str]:
    """Return the fields of a report by their small names."""
    return {name.lower(): str(value).strip() for block in groups(part) for name, value in block.items()}


# ── reports made for people ─────────────────────────────────────────────────────────────────────


def failure_in_words(message: Message) -> Failure | Nothing | None:
    """Return the failure that a server tells of in prose, as flufl.bounce finds it."""
    from flufl.bounce import all_failures

    try:
        passing, lasting = all_failures(message)
    except Exception:  # noqa: BLE001  (it stumbles over mail that lacks what every mail should have)
        return None
    if not lasting:
        return Nothing(because="a warning: they go on trying") if passing else None
    recipients = sorted(address.decode("ascii", "replace") for address in lasting)
    whole = prose(message)
    words = near(whole, recipients[0])
    found = STATUS.search(words)
    status = found[0] if found else ""
    return Failure(
        kind=kind_within(status, words, whole),
        status=status,
        said=spoken(words),
        told_by="words",
        recipients=tuple(recipients),
    )


def near(text: str, address: str) -> str:
    """Return what is said right after an address is named: servers speak politely before and long after."""
    place = text.lower().find(address.lower())
    return text[place + len(address) : place + len(address) + NEAR] if place >= 0 else text[: 2 * NEAR]


def prose(message: Message) -> str:
    """Return the text of a mail, at most some pages of it."""
    for part in message.walk():
        if part.get_content_maintype() == "text":
            payload = part.get_payload(decode=True)
            return payload[:8000].decode("utf-8", "replace") if isinstance(payload, bytes) else ""
    return ""


# ── what it means ───────────────────────────────────────────────────────────────────────────────

NOBODY = re.compile(
    r"(?:user|recipient|mailbox|account|address|addressee)s?\b.{0,40}\b(?:unknown|not found|not exist|n.t exist|"
    r"invalid|unavailable|disabled|inactive|deleted|closed|rejected)|(?:unknown|invalid|no such|no valid|bad|"
    r"non-?existent) (?:local )?(?:user|recipient|mailbox|account|address|domain)|no mailbox|not a known|"
    r"does ?n.t have an? \S+ account|host (?:or domain name )?not found",
    re.IGNORECASE | re.DOTALL,
)  # fmt: skip
FULL = re.compile(
    r"quota|mailbox (?:is )?full|over ?(?:its|their)? ?(?:storage|quota)|too large", re.IGNORECASE
)
UNWANTED = re.compile(
    r"\bspam|\bblocked?\b|block ?list|black ?list|blacklist|reputation|\bdmarc\b|\bdkim\b|\bspf\b|polic(?:y|ies)|"
    r"authenticat|relay(?:ing)? (?:access )?denied|not allowed|virus|content reject|unsolicited|dnsbl|rbl\b",
    re.IGNORECASE,
)

#: What Gmail says with 5.2.1 of a mailbox that gets too much just now.
BUSY = re.compile(r"receiving mail (?:at a rate|too quickly)", re.IGNORECASE)

#: Given up after days of "not from you, for now": no more the reader's fault than if they had said never.
DISTRUST = re.compile(r"(?<![\d.])4\.7\.\d")

#: What of class 5 is not hard, by subject and detail (RFC 3463, RFC 7505, and what servers do).
SOFT = frozenset({"2.2", "2.3", "2.4", "3.1", "3.2", "3.3", "3.4", "4.5", "4.6", "4.7"})
OURS = frozenset({"1.7", "1.8", "5.1", "5.2", "5.3", "5.4", "5.5", "5.6"})


def kind_of(status: str, words: str, *, code: int | None = None, phase: str = "") -> Kind:
    """Return what a failure says of the address, from its enhanced status, else from the words.

    `phase` is where in a conversation it was said: what is refused before the recipient was named is
    about us.
    """
    match = STATUS.search(status) or STATUS.search(words)
    if match and match[1] == "4":
        return Kind.POLICY if DISTRUST.search(f"{status} {words}") else Kind.SOFT
    if match and (match[2], match[3]) != ("0", "0"):
        return kind_of_status(match[2], match[3], words)
    if phase in {"connect", "mail", "data"}:
        return Kind.POLICY
    return kind_of_words(words, code, phase)


def kind_within(status: str, words: str, whole: str) -> Kind:
    """Return the kind of a failure; where neither status nor words say why, the mail around them may."""
    kind = kind_of(status, words)
    is_vague = status in {"", "5.0.0"} and not NOBODY.search(words)
    return Kind.SOFT if kind is Kind.HARD and is_vague and FULL.search(whole) else kind


def kind_of_status(subject: str, detail: str, words: str) -> Kind:
    """Return the kind of `5.SUBJECT.DETAIL`."""
    status = f"{subject}.{detail}"
    if subject in {"6", "7"} or status in OURS:
        return Kind.POLICY
    if status in SOFT or BUSY.search(words):
        return Kind.SOFT
    if subject == "5" or detail == "0":  # some say 5.5.0 or 5.1.0 of everything
        return kind_of_words(words, 550, "rcpt")
    return Kind.HARD


def kind_of_words(words: str, code: int | None, phase: str) -> Kind:
    """Return what a server seems to mean."""
    if UNWANTED.search(words):
        return Kind.POLICY
    if NOBODY.search(words):
        return Kind.HARD
    if FULL.search(words) or code in {452, 552} or (code or 500) < 500:
        return Kind.SOFT
    return Kind.POLICY if phase == "dot" else Kind.HARD


def refused(code: int | None, reply: str, *, phase: str) -> Failure:
    """Return the failure that a server told us of to our face."""
    found = STATUS.search(reply)
    return Failure(
        kind=kind_of(found[0] if found else "", reply, code=code, phase=phase),
        status=found[0] if found else "",
        said=spoken(f"{code or ''} {reply}"),
        told_by="smtp",
    )


def spoken(words: str) -> str:
    """Return what a server said on one line that can be shown and kept, with the addresses taken out.

    PostgreSQL keeps no NUL, nothing keeps half a surrogate, and a terminal would obey the rest.
    """
    shown = "".join(char if char.isprintable() else " " for char in words[:MOST_READ])
    return ADDRESS.sub("…", " ".join(shown.split()))[:LONGEST]
