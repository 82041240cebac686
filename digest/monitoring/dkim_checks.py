"""Check the one-click headers and DKIM signatures of a letter, as sent or as received.

A signature is verified with the key that is in the DNS now, as receivers do (RFC 6376).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from email import message_from_bytes, policy
from email.message import Message
from typing import TYPE_CHECKING

from digest.errors import BadField
from digest.letters.dkim_verification import Lookup, key_name, signature_fault, signatures_in

if TYPE_CHECKING:
    from digest.site.site_profile import Site

CheckOutcome = tuple[bool, str, str]  #: whether the check passed, the message, and the fix

PASS_RESULTS = frozenset({"pass", "bestguesspass"})
RESULT = re.compile(r"\b(spf|dkim|dmarc)\s*=\s*(\w+)", re.IGNORECASE)


def parsed_letter(content: bytes) -> Message:
    """Parse a letter; raise BadField if it has no From line."""
    letter = message_from_bytes(content, policy=policy.compat32)
    if "From" not in letter:
        raise BadField("--received", "this file is not a letter: it has no From line.")
    return letter


def check_headers(content: bytes, site: Site, *, is_signed: bool) -> Iterator[CheckOutcome]:
    """Check for the one-click headers, and for signatures of the From domain that cover these headers."""
    letter = parsed_letter(content)
    if not site.is_local and site.is_https:
        is_pair = letter["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
        is_ok = is_pair and str(letter["List-Unsubscribe"]).count("<https://") == 1
        message = "has the one-click headers" if is_ok else "The letter has no one-click headers (RFC 8058)."
        yield is_ok, message, ""
    found = signatures_in(letter)
    aligned = [tags for tags in found if is_aligned(tags.get("d", ""), site.domain)]
    for tags in aligned:
        yield check_signature_coverage(tags, site)
    if is_signed and not aligned:
        others = " and ".join(tags.get("d", "?") for tags in found)
        yield (
            False,
            f"The letter is signed for {others or 'no domain'}, but comes from {site.domain}.",
            "Use the same domain for both.",
        )


def is_aligned(domain: str, sender: str) -> bool:
    """Return whether a signature's domain is aligned with the sender's (RFC 7489, relaxed)."""
    domain, sender = domain.lower(), sender.lower()
    return bool(domain) and (
        domain == sender or sender.endswith(f".{domain}") or domain.endswith(f".{sender}")
    )


def check_signature_coverage(tags: dict[str, str], site: Site) -> CheckOutcome:
    """Check that a signature covers the headers that mailbox providers act on."""
    covered = {name.strip().lower() for name in tags.get("h", "").split(":")}
    required = {"from", "subject", "list-unsubscribe"} | (
        {"list-unsubscribe-post"} if site.is_https else set()
    )
    if missing := required - covered:
        return False, f"The signature does not cover {', '.join(sorted(missing))}.", ""
    return True, f"signed for {tags['d']} ({tags.get('a', '?')}), including the list headers", ""


def verify_signatures(content: bytes, site: Site, lookup: Lookup) -> Iterator[CheckOutcome]:
    """Verify every aligned signature with the key that is in the DNS."""
    for place, tags in enumerate(signatures_in(parsed_letter(content))):
        if not is_aligned(tags.get("d", ""), site.domain):
            continue  # the signature of a relay
        name = key_name(tags)
        if reason := signature_fault(content, place, name, lookup):
            message = f"The signature for {tags['d']} ({tags.get('a', '?')}) does not verify: {reason}."
            yield False, message, "Compare the DNS with: digest dkim keygen --list"
        else:
            yield True, f"the signature verifies with the key at {name}", ""


def check_receiver_verdict(content: bytes) -> Iterator[CheckOutcome]:
    """Report the SPF, DKIM and DMARC results that the receiver recorded in the letter."""
    found = parsed_letter(content).get_all("Authentication-Results", [])
    results: dict[str, str] = {}
    for name, result in RESULT.findall(str(found[0])) if found else ():  # the last receiver's header is first
        results.setdefault(name.lower(), result.lower())
    if not results:
        return
    summary = ", ".join(f"{name} {results[name]}" for name in sorted(results))
    if set(results.values()) <= PASS_RESULTS:
        yield True, f"the receiver reports: {summary}", ""
    else:
        yield (
            False,
            f"The receiver reports: {summary}.",
            "Check the failing DNS record, and which servers may send mail for your domain.",
        )
