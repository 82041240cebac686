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

from digest.inbound.mail_text import ReceivedMail
from digest.letters.dkim_verification import Lookup, key_name, signature_fault, signatures_in, tags_of
from digest.letters.headers import one_line
from digest.mail import mail_parsing
from digest.mail.dns_records import DnsUnavailable

#: Maximum size in bytes of a message, and of its header, since a message may be crafted to make verification slow.
MAX_BYTES, MAX_HEADER_BYTES = 256 * 1024, 32 * 1024
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
    mail: ReceivedMail, email: str, *, to: str, authserv_id: str, lookup: Lookup, now: datetime
) -> SenderProof | None:
    """Return the proof that `email` sent this message to `to`: our server's result or a DKIM signature."""
    return trusted_result(mail, email, to=to, authserv_id=authserv_id) or prove_sender(
        mail, email, to=to, lookup=lookup, now=now
    )


def prove_sender(
    mail: ReceivedMail, email: str, *, to: str, lookup: Lookup, now: datetime
) -> SenderProof | None:
    """Return the DKIM proof that the owner of `email` sent this message to `to`; None if there is none."""

    def keys_in_use(name: str) -> list[str]:  # those that are not in test mode (RFC 6376, 3.6.1)
        return [text for text in lookup(name) if "y" not in tags_of(text).get("t", "").split(":")]

    for place, tags in usable_signatures(mail, email, to=to, now=now):
        try:
            fault = signature_fault(mail.content, place, key_name(tags), keys_in_use)
        except DnsUnavailable:
            continue
        if not fault:
            return proof_by(tags["d"].lower(), mail)
    return None


def trusted_result(mail: ReceivedMail, email: str, *, to: str, authserv_id: str) -> SenderProof | None:
    """Return the proof from our mail server's Authentication-Results header, or None if there is none.

    DMARC must have passed for the From line's domain, or DKIM or SPF for that domain or a parent of it.
    """
    if not authserv_id or not is_unambiguous(mail, email, to=to):
        return None
    # The header stays undecoded, because a decoded address could look like a result.
    topmost = next(iter(mail_parsing.raw_headers(mail.message, "Authentication-Results")), "")
    server, *results = without_quotes(topmost[:MAX_SIGNATURE_LENGTH]).split(";")
    if server.lower().split()[:1] != [authserv_id.lower()]:
        return None
    domain = email.rpartition("@")[2].lower()
    checked = (checked_domain(RESULT.findall(each)) for each in results)
    found = next((each for each in checked if each and is_own_or_above(each, domain)), None)
    return proof_by(found, mail) if found else None


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


def proof_by(domain: str, mail: ReceivedMail) -> SenderProof:
    """Return the proof of a message's sender; `domain` is the domain that confirmed the sender."""
    return SenderProof(
        domain=domain,
        message_id=one_line(mail_parsing.header_text(mail.message, "Message-ID"))[:MAX_QUOTED],
        date=one_line(mail_parsing.header_text(mail.message, "Date"))[:MAX_QUOTED],
    )


def usable_signatures(
    mail: ReceivedMail, email: str, *, to: str, now: datetime
) -> list[tuple[int, dict[str, str]]]:
    """Return the first signatures that would prove the sender if they are valid, each with its index."""
    if not is_unambiguous(mail, email, to=to):
        return []
    numbered = enumerate(signatures_in(mail.message))
    return [(place, tags) for place, tags in numbered if is_usable(tags, email, now)][:MAX_SIGNATURES]


def is_unambiguous(mail: ReceivedMail, email: str, *, to: str) -> bool:
    """Return whether From, To and Subject have only one reading, and name `email` and `to`.

    In a header that was cut before it was parsed, a second From line may be missing.
    """
    if len(mail.content) > MAX_BYTES or BARE_CR.search(mail.content) or mail_parsing.is_cut(mail.message):
        return False
    if not END_OF_HEADER.search(mail.content, 0, MAX_HEADER_BYTES):
        return False
    values = {name: mail_parsing.raw_headers(mail.message, name) for name in COVERED}
    if any(len(found) != 1 for found in values.values()):
        return False
    recipients = {address.lower() for _, address in mail_parsing.addresses_in(values["to"])}
    # The From line stays undecoded, because a decoded name could look like an address.
    line, email = "".join(values["from"][0].split()).lower(), email.lower()
    is_only = line == email or (line.endswith(f"<{email}>") and line.count("<") == 1)
    return to.lower() in recipients and is_only


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
