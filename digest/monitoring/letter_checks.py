"""Send a test letter, and check the one-click headers and DKIM signatures of a letter as sent or as received.

A signature is verified with the key that is in the DNS now, as receivers do (RFC 6376).
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from email import message_from_bytes, policy
from email.message import Message
from pathlib import Path

from digest.app_context import AppContext
from digest.delivery.transports import transport
from digest.errors import BadField, DigestError
from digest.letters import headers, letter_rendering, mime
from digest.letters.dkim_verification import key_name, signature_fault, signatures_in
from digest.mail import addresses, dns_records
from digest.monitoring.check_results import Check, failed, passed
from digest.site import links
from digest.site.site_profile import Site

WAIT_SECONDS = 60.0  #: how long to wait for a letter to reach the Maildir
PAUSE_SECONDS = 0.5
HEAD_BYTES = 64 * 1024  #: number of bytes at the start of a file that are searched for the Message-ID
PASS_RESULTS = frozenset({"pass", "bestguesspass"})
RESULT = re.compile(r"\b(spf|dkim|dmarc)\s*=\s*(\w+)", re.IGNORECASE)
SUBJECT = "test"  #: the subject of these checks


# ── sending ─────────────────────────────────────────────────────────────────────────────────────


def send_and_check_test_letter(context: AppContext, email: str, received_at: Path | None) -> Iterator[Check]:
    """Send a test letter with a digest's headers, and check it as sent, or as received in a file or Maildir.

    Raises BadField if the address or the path is invalid, DigestError with the server's reply if the letter
    is not accepted, and DnsUnavailable if the DNS cannot be queried.
    """
    content, message_ids = send_test_letter(context, email)
    yield passed(SUBJECT, f"the server accepted a letter to {email}; check that it arrives")
    yield from check_headers(content, context.site, is_signed=bool(context.signers))
    if received_at is None:
        yield from verify_signatures(content, context.site)
    else:
        yield from check_received_letter(context, received_at, message_ids)


def send_test_letter(context: AppContext, email: str) -> tuple[bytes, tuple[str, ...]]:
    """Send a signed test letter with the headers of a digest; return it, and its possible Message-IDs.

    Its unsubscribe link does nothing. Raises BadField if the address is invalid, and DigestError with the server's
    reply if the letter is not accepted.
    """
    recipient, now, site = addresses.parse_address(email).email, context.clock(), context.site
    message_id = links.message_id(site, f"test-{now.isoformat()}")
    values = {
        "site": site, "email": recipient, "subscriber_id": None, "link_version": 0, "timezone": "UTC", "key": None,
        "dated_at": now, "message": "A test: this letter arrived", "fix": "Nothing is wrong.", "since": "", "facts": [],
    }  # fmt: skip
    content = mime.build_message(
        letter_rendering.render_letter(context.templates, "alarm", values),
        site=site,
        recipient=recipient,
        message_id=message_id,
        dated_at=now,
        headers=headers.list_headers(site, links.unsubscribe_url(site, 0, 0)),
    )
    if context.signers:
        from digest.letters import dkim_signing

        content = dkim_signing.sign_message(content, context.signers, dated_at=now)
    message = transport.Message(
        delivery_id=0, sender=links.envelope_sender(site, 0), recipient=recipient, content=content
    )
    with context.open_transport() as opened:
        (outcome,) = opened.send([message])
    if outcome.verdict is not transport.Verdict.ACCEPTED:
        reply = " ".join(str(part) for part in (outcome.code, outcome.reply) if part)
        raise DigestError(
            f"The test letter to {recipient} was not accepted ({outcome.verdict}, {outcome.phase}): {reply}"
        )
    return content, (message_id, outcome.provider_id)


# ── a received letter ───────────────────────────────────────────────────────────────────────────


def check_received_letter(
    context: AppContext, path: Path, message_ids: tuple[str, ...] = ()
) -> Iterator[Check]:
    """Check the headers and signatures of a received letter, and the receiver's verdict."""
    content = read_letter(path, message_ids)
    if content is None:
        message = f"The letter did not arrive in {path} within {WAIT_SECONDS:.0f} seconds."
        yield failed(SUBJECT, message, "Look for it in the mail server's log and queue.")
        return
    parsed_letter(content)
    yield passed(SUBJECT, f"received in {path}")
    yield from check_headers(content, context.site, is_signed=bool(context.signers))
    yield from check_receiver_verdict(content)
    yield from verify_signatures(content, context.site)


def read_letter(path: Path, message_ids: tuple[str, ...]) -> bytes | None:
    """Return the letter in a file, or wait until a Maildir has a letter with one of these Message-IDs.

    Returns None if no such letter arrives in time. Raises BadField if the path does not exist, or if it is a
    folder and no Message-ID is given.
    """
    if path.is_file():
        return path.read_bytes()
    if not path.is_dir():
        raise BadField("--received", f"{path} does not exist; name a saved letter, or a Maildir.")
    if not message_ids:
        raise BadField(
            "--received", f"{path} is a folder; to wait for a letter there, add --send-test EMAIL."
        )
    until = time.monotonic() + WAIT_SECONDS
    while (found := next(find_letters(path, message_ids), None)) is None and time.monotonic() < until:
        time.sleep(PAUSE_SECONDS)
    return found


def find_letters(folder: Path, message_ids: tuple[str, ...]) -> Iterator[bytes]:
    """Yield the letters of a Maildir that have one of these Message-IDs."""
    starts = [f"<{message_id.strip('<>')}".encode().lower() for message_id in message_ids if message_id]
    for file in (*folder.glob("new/*"), *folder.glob("cur/*"), *folder.glob("*.eml")):
        try:
            content = file.read_bytes()
        except OSError:  # a mail program moves letters from new to cur
            continue
        head = content[:HEAD_BYTES].lower()
        if b"\nmessage-id:" in head and any(start in head for start in starts):
            yield content


def check_receiver_verdict(content: bytes) -> Iterator[Check]:
    """Report the SPF, DKIM and DMARC results that the receiver recorded in the letter."""
    found = parsed_letter(content).get_all("Authentication-Results", [])
    results: dict[str, str] = {}
    for name, result in RESULT.findall(str(found[0])) if found else ():  # the last receiver's header is first
        results.setdefault(name.lower(), result.lower())
    summary = ", ".join(f"{name} {results[name]}" for name in sorted(results))
    if results and set(results.values()) <= PASS_RESULTS:
        yield passed(SUBJECT, f"the receiver reports: {summary}")
    elif results:
        fix = "Check the failing DNS record, and which servers may send mail for your domain."
        yield failed(SUBJECT, f"The receiver reports: {summary}.", fix)


# ── headers and signatures ──────────────────────────────────────────────────────────────────────


def parsed_letter(content: bytes) -> Message:
    """Parse a letter; raise BadField if it has no From line."""
    letter = message_from_bytes(content, policy=policy.compat32)
    if "From" not in letter:
        raise BadField("--received", "this file is not a letter: it has no From line.")
    return letter


def check_headers(content: bytes, site: Site, *, is_signed: bool) -> Iterator[Check]:
    """Check for the one-click headers, and for signatures of the From domain that cover these headers."""
    letter = parsed_letter(content)
    if not site.is_local and site.is_https:
        is_pair = letter["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
        if is_pair and str(letter["List-Unsubscribe"]).count("<https://") == 1:
            yield passed(SUBJECT, "has the one-click headers")
        else:
            yield failed(SUBJECT, "The letter has no one-click headers (RFC 8058).", "")
    found = signatures_in(letter)
    aligned = [tags for tags in found if is_aligned(tags.get("d", ""), site.domain)]
    for tags in aligned:
        yield check_signature_coverage(tags, site)
    if is_signed and not aligned:
        others = " and ".join(tags.get("d", "?") for tags in found)
        message = f"The letter is signed for {others or 'no domain'}, but comes from {site.domain}."
        yield failed(SUBJECT, message, "Use the same domain for both.")


def is_aligned(domain: str, sender: str) -> bool:
    """Return whether a signature's domain is aligned with the sender's (RFC 7489, relaxed)."""
    domain, sender = domain.lower(), sender.lower()
    return bool(domain) and (
        domain == sender or sender.endswith(f".{domain}") or domain.endswith(f".{sender}")
    )


def check_signature_coverage(tags: dict[str, str], site: Site) -> Check:
    """Check that a signature covers the headers that mailbox providers act on."""
    covered = {name.strip().lower() for name in tags.get("h", "").split(":")}
    required = {"from", "subject", "list-unsubscribe"}
    if site.is_https:
        required.add("list-unsubscribe-post")
    if missing := required - covered:
        return failed(SUBJECT, f"The signature does not cover {', '.join(sorted(missing))}.", "")
    return passed(SUBJECT, f"signed for {tags['d']} ({tags.get('a', '?')}), including the list headers")


def verify_signatures(content: bytes, site: Site) -> Iterator[Check]:
    """Verify every aligned signature with the key that is in the DNS."""
    for place, tags in enumerate(signatures_in(parsed_letter(content))):
        if not is_aligned(tags.get("d", ""), site.domain):
            continue  # the signature of a relay
        name = key_name(tags)
        if reason := signature_fault(content, place, name, dns_records.txt_records):
            message = f"The signature for {tags['d']} ({tags.get('a', '?')}) does not verify: {reason}."
            yield failed(SUBJECT, message, "Compare the DNS with: digest dkim keygen --list")
        else:
            yield passed(SUBJECT, f"the signature verifies with the key at {name}")
