"""Prove that a message comes from the address in its From line: by DKIM or a trusted server's result. Pure.

The signing domain must be the address's domain or a parent of it, since a domain controls its subdomains. The
signature must cover From, To and Subject, each present exactly once, and the whole body. A signed message to
another address, or with another subject, therefore proves nothing.

The operator's mail server may have checked DKIM, SPF and DMARC itself, and added the results to the message
(Authentication-Results, RFC 8601). Of these headers, only the topmost counts, and only if it names the
configured server, because that server adds its header above those of the sender.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from email import message_from_bytes, policy
from email.message import EmailMessage
from email.utils import getaddresses

from digest.dns_records import DnsUnavailable
from digest.inbound import mail_text
from digest.inbound.mail_text import MAX_BYTES as MAX_HEADER_BYTES
from digest.letters.dkim_verification import Lookup, key_name, signature_fault, signatures_in, tags_of
from digest.letters.headers import one_line

#: Maximum size of a message in bytes, since a message may be crafted to make verification slow.
MAX_BYTES = 256 * 1024
MAX_SIGNATURE_LENGTH = 4096
#: Maximum number of signatures tried per message; each needs a query to the sender's DNS server.
MAX_SIGNATURES = 2
MAX_QUOTED = 200  #: maximum number of characters kept of the Message-ID and of the date
#: The accepted signature algorithms; SHA-1 is insecure and left out (RFC 8301).
ALGORITHMS = frozenset({"rsa-sha256", "ed25519-sha256"})
COVERED = frozenset({"from", "to", "subject"})
BARE_CR = re.compile(rb"\r(?!\n)")
QUOTED_OR_COMMENT = re.compile(r'"(?:\\.|[^"\\])*"|\((?:\\.|[^()\\])*\)')
MAX_NESTED = 5  #: maximum depth of nested comments in a header field
RESULT = re.compile(r"([\w.-]+)\s*=\s*([^\s;]+)")
END_OF_HEADER = re.compile(rb"\n\r?\n")


@dataclass(frozen=True, kw_only=True, slots=True)
class SenderProof:
    """What proves the sender of a message."""

    domain: str  #: the domain that signed the message, or that our mail server confirmed
    message_id: str
    date: str  #: the Date header as written in the message

    def __str__(self) -> str:
        return f"by mail {self.message_id or 'without an id'} of {self.date or 'no date'}, confirmed by {self.domain}"


def proof_of_sender(
    content: bytes, email: str, *, to: str, authserv_id: str, lookup: Lookup, now: datetime
) -> SenderProof | None:
    """Return the proof that `email` sent this message to `to`: our server's result or a DKIM signature."""
    return trusted_result(content, email, to=to, authserv_id=authserv_id) or prove_sender(
        content, email, to=to, lookup=lookup, now=now
    )


def prove_sender(content: bytes, email: str, *, to: str, lookup: Lookup, now: datetime) -> SenderProof | None:
    """Return the DKIM proof that the owner of `email` sent this message to `to`; None if there is none."""
    for place, tags in usable_signatures(content, email, to=to, now=now):
        try:
            fault = signature_fault(content, place, key_name(tags), lambda name: keys_in_use(lookup(name)))
        except DnsUnavailable:
            continue
        if not fault:
            return proof_by(tags["d"].lower(), parsed_header(content))
    return None


def trusted_result(content: bytes, email: str, *, to: str, authserv_id: str) -> SenderProof | None:
    """Return the proof from our mail server's Authentication-Results header, or None if there is none.

    DMARC must have passed for the From line's domain, or DKIM or SPF for that domain or a parent of it.
    """
    if not authserv_id or not is_unambiguous(content, email, to=to):
        return None
    message = parsed_header(content)
    topmost = next(
        (str(value) for name, value in message.raw_items() if name.lower() == "authentication-results"), ""
    )  # the header stays undecoded, because a decoded address could look like a result
    server, *results = without_quotes(topmost[:MAX_SIGNATURE_LENGTH]).split(";")
    if server.lower().split()[:1] != [authserv_id.lower()]:
        return None
    domain = email.rpartition("@")[2].lower()
    checked = (checked_domain(RESULT.findall(each)) for each in results)
    found = next((each for each in checked if each and is_own_or_above(each, domain)), None)
    return proof_by(found, message) if found else None


def without_quotes(field: str) -> str:
    """Return a header field without quoted strings and comments, whose text the sender may have chosen.

    The result is empty if a quote or parenthesis is left over, since the field is then ambiguous.
    """
    for _ in range(MAX_NESTED):
        field = QUOTED_OR_COMMENT.sub(lambda found: "quoted" if found[0][0] == '"' else " ", field)
    return "" if set('"()\\') & set(field) else field


def checked_domain(result: Sequence[tuple[str, str]]) -> str:
    """Return the domain confirmed by one result of an Authentication-Results header, or ""."""
    if not result or result[0][1].lower() != "pass":
        return ""
    values = {name.lower(): value.lower() for name, value in result}
    match result[0][0].lower():
        case "dmarc":
            return values.get("header.from", "")
        case "dkim":
            return values.get("header.d", "") or values.get("header.i", "").rpartition("@")[2]
        case "spf":
            return values.get("smtp.mailfrom", "").rpartition("@")[2]
        case _:
            return ""


def proof_by(domain: str, message: EmailMessage) -> SenderProof:
    """Return the proof of a message's sender; `domain` is the domain that confirmed the sender."""
    return SenderProof(
        domain=domain,
        message_id=one_line(mail_text.header_value(message, "Message-ID"))[:MAX_QUOTED],
        date=one_line(mail_text.header_value(message, "Date"))[:MAX_QUOTED],
    )


def keys_in_use(records: Sequence[str]) -> list[str]:
    """Return the DKIM key records that are not in test mode (RFC 6376, 3.6.1)."""
    return [text for text in records if "y" not in tags_of(text).get("t", "").split(":")]


def usable_signatures(
    content: bytes, email: str, *, to: str, now: datetime
) -> list[tuple[int, dict[str, str]]]:
    """Return the first signatures that would prove the sender if they are valid, each with its index."""
    if not is_unambiguous(content, email, to=to):
        return []
    numbered = enumerate(signatures_in(parsed_header(content)))
    return [(place, tags) for place, tags in numbered if is_usable(tags, email, now)][:MAX_SIGNATURES]


def parsed_header(content: bytes) -> EmailMessage:
    """Return the header of a message, parsed as a message without a body."""
    end = END_OF_HEADER.search(content, 0, MAX_HEADER_BYTES)
    return message_from_bytes(content[: end.end() if end else MAX_HEADER_BYTES], policy=policy.default)


def is_unambiguous(content: bytes, email: str, *, to: str) -> bool:
    """Return whether From, To and Subject have only one reading, and name `email` and `to`."""
    if len(content) > MAX_BYTES or BARE_CR.search(content):
        return False
    if not END_OF_HEADER.search(content, 0, MAX_HEADER_BYTES):
        return False
    message = parsed_header(content)
    if any(len(mail_text.header_values(message, name)) != 1 for name in COVERED):
        return False
    recipients = {address.lower() for _, address in getaddresses(mail_text.header_values(message, "To"))}
    return to.lower() in recipients and is_written_as(raw_from(message), email)


def raw_from(message: EmailMessage) -> str:
    """Return the From line undecoded, because a decoded name could look like an address."""
    return next("".join(str(value).split()) for name, value in message.raw_items() if name.lower() == "from")


def is_written_as(line: str, email: str) -> bool:
    """Return whether this address is the only one in a From line."""
    line, email = line.lower(), email.lower()
    return line == email or (line.endswith(f"<{email}>") and line.count("<") == 1)


def is_usable(tags: dict[str, str], email: str, now: datetime) -> bool:
    """Return whether a signature is by the sender's domain, covers the message and has not expired."""
    covered = {name.strip().lower() for name in tags.get("h", "").split(":")}
    expiry = tags.get("x", "")
    return (
        sum(map(len, tags.values())) <= MAX_SIGNATURE_LENGTH
        and is_own_or_above(tags.get("d", "").lower(), email.rpartition("@")[2].lower())
        and tags.get("a") in ALGORITHMS
        and covered >= COVERED
        and "l" not in tags
        and (not expiry or (expiry.isdecimal() and len(expiry) < 13 and int(expiry) > now.timestamp()))
    )


def is_own_or_above(signer: str, domain: str) -> bool:
    """Return whether `signer` is `domain` or one of its parents, but not a top-level domain."""
    return "." in signer and (domain == signer or domain.endswith(f".{signer}"))
