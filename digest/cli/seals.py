"""The doctor's look at a letter's bytes, as they were sent or as they arrived: the one-click pair, and its seals.

A seal is a DKIM signature. It is verified as a receiver does it (RFC 6376): with the key that the DNS has now.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from email import message_from_bytes, policy
from typing import TYPE_CHECKING

from digest.errors import BadField
from digest.rendering.dkim import SPACES, canonical_fields

if TYPE_CHECKING:
    from digest.links import Site

Told = tuple[bool, str, str]  #: is it well, what was found, how to mend it
Lookup = Callable[[str], Sequence[str]]  #: returns the TXT records of a name

NO_LETTER = "what lies there is no letter."
MADE_BY = {"rsa": "rsa-sha256", "ed25519": "ed25519-sha256"}
OWN_VALUE = re.compile(rb"((?:^|[;:])\s*b\s*=)[^;]*")
NO_BASE64 = re.compile(r"\s+")
PASSED = frozenset({"pass", "bestguesspass"})
RESULT = re.compile(r"\b(spf|dkim|dmarc)\s*=\s*(\w+)", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Letter:
    """A letter taken apart without being changed."""

    raw: Sequence[bytes]  #: its header fields, folds and all
    fields: Sequence[tuple[str, bytes]]  #: the same as `relaxed` has them
    body: bytes

    @classmethod
    def of(cls, content: bytes) -> Letter:
        """Return the letter in these bytes, or raise BadField; a Maildir has put them on lines of its own kind."""
        head, _, body = re.sub(rb"\r?\n", b"\r\n", content).partition(b"\r\n\r\n")
        try:
            fields = canonical_fields(head)
        except UnicodeDecodeError:
            raise BadField("--arrived", NO_LETTER) from None
        return cls(raw=re.split(rb"\r\n(?![ \t])", head), fields=fields, body=body)

    @property
    def seals(self) -> list[int]:
        """Return the places of its signatures."""
        return [place for place, (name, _) in enumerate(self.fields) if name == "dkim-signature"]

    def tags_at(self, place: int) -> dict[str, str]:
        """Return the tags of the signature that stands there."""
        return tags_of(self.fields[place][1].partition(b":")[2].decode("utf-8", "replace"))


# ── one signature ───────────────────────────────────────────────────────────────────────────────


def tags_of(text: str) -> dict[str, str]:
    """Return the tags of a signature or of a key's record."""
    parts = (part.partition("=") for part in text.split(";") if "=" in part)
    return {name.strip(): value.strip() for name, _, value in parts}


def broken_by(letter: Letter, place: int, lookup: Lookup) -> str:
    """Return why the signature that stands there does not verify; nothing where it does."""
    tags = letter.tags_at(place)
    name = f"{tags.get('s', '')}._domainkey.{tags.get('d', '')}"
    records = [tags_of(text) for text in lookup(name)]
    key = next((record for record in records if record.get("p")), None)
    if key is None:
        return f"the DNS has no key at {name}"
    if MADE_BY.get(key.get("k", "rsa")) != tags.get("a"):
        return f"the key at {name} is of another kind than {tags.get('a', 'its algorithm')}"
    header, _, body = tags.get("c", "simple/simple").partition("/")
    if NO_BASE64.sub("", tags.get("bh", "")) != body_hash(letter.body, is_relaxed=body == "relaxed"):
        return "its text was changed on the way"
    try:
        fits = sealed(key, tags, signed_octets(letter, place, tags, is_relaxed=header == "relaxed"))
    except (ValueError, binascii.Error):
        return f"the key at {name} cannot be read"
    return "" if fits else f"its headers were changed on the way, or {name} has another key"


def body_hash(body: bytes, *, is_relaxed: bool) -> str:
    """Return the hash of a body as the signer has made it."""
    if is_relaxed:
        lines = [SPACES.sub(b" ", line).rstrip(b" ") for line in body.split(b"\r\n")]
        body = b"\r\n".join(lines)
    stripped = re.sub(rb"(?:\r\n)+\Z", b"", body)
    ended = stripped + b"\r\n" if stripped or not is_relaxed else b""
    return base64.b64encode(hashlib.sha256(ended).digest()).decode()


def signed_octets(letter: Letter, place: int, tags: dict[str, str], *, is_relaxed: bool) -> bytes:
    """Return what was signed: the fields it names, of several with one name the last first, and itself."""
    forms = [field for _, field in letter.fields] if is_relaxed else list(letter.raw)
    left: dict[str, list[bytes]] = {}
    for (name, _), form in zip(letter.fields, forms, strict=True):
        left.setdefault(name, []).append(form)
    covered = [
        left[name].pop() + b"\r\n"
        for name in (each.strip().lower() for each in tags.get("h", "").split(":"))
        if left.get(name)
    ]
    own = OWN_VALUE.sub(rb"\1", forms[place])
    return b"".join(covered) + own


def sealed(key: dict[str, str], tags: dict[str, str], octets: bytes) -> bool:
    """Return whether the key has made this signature over these octets."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import load_der_public_key

    seal = base64.b64decode(NO_BASE64.sub("", tags.get("b", "")))
    public = base64.b64decode(NO_BASE64.sub("", key["p"]))
    try:
        if tags["a"] == MADE_BY["ed25519"]:
            Ed25519PublicKey.from_public_bytes(public).verify(seal, hashlib.sha256(octets).digest())
            return True
        made = load_der_public_key(public)
        if not isinstance(made, RSAPublicKey):
            return False
        made.verify(seal, octets, PKCS1v15(), SHA256())
    except InvalidSignature:
        return False
    return True


# ── what is told of a letter ────────────────────────────────────────────────────────────────────


def headers_told(content: bytes, site: Site, *, is_signed: bool) -> Iterator[Told]:
    """Look for the one-click pair, and for signatures that are for who is in From and cover the pair."""
    shown = message_from_bytes(content, policy=policy.compat32)
    if not site.is_local and site.is_https:
        is_pair = shown["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
        is_well = is_pair and str(shown["List-Unsubscribe"]).count("<https://") == 1
        says = "it carries the one-click pair" if is_well else "It lacks the one-click pair (RFC 8058)."
        yield is_well, says, ""
    letter = Letter.of(content)
    mine = ours(letter, site)
    for place in mine:
        yield seal_told(letter.tags_at(place), site)
    if is_signed and not mine:
        others = " and ".join(letter.tags_at(place).get("d", "?") for place in letter.seals)
        yield (
            False,
            f"It is signed for {others or 'nobody'}, and comes from {site.domain}.",
            "Use one domain.",
        )


def ours(letter: Letter, site: Site) -> list[int]:
    """Return the places of the signatures that speak for our sender; a relay has its own."""
    return [
        place for place in letter.seals if is_aligned(letter.tags_at(place).get("d", "").lower(), site.domain)
    ]


def is_aligned(domain: str, sender: str) -> bool:
    """Return whether a signature for that domain speaks for a sender there (RFC 7489, relaxed)."""
    sender = sender.lower()
    return bool(domain) and (
        domain == sender or sender.endswith(f".{domain}") or domain.endswith(f".{sender}")
    )


def seal_told(tags: dict[str, str], site: Site) -> Told:
    """Look whether a signature covers what a mailbox provider acts on."""
    covered = {name.strip().lower() for name in tags.get("h", "").split(":")}
    wanted = {"from", "subject", "list-unsubscribe"} | ({"list-unsubscribe-post"} if site.is_https else set())
    if missing := wanted - covered:
        return False, f"Its signature leaves out {', '.join(sorted(missing))}.", ""
    return True, f"signed for {tags['d']} ({tags.get('a', '?')}), the list's headers covered", ""


def verified_told(content: bytes, site: Site, lookup: Lookup) -> Iterator[Told]:
    """Verify every signature that speaks for our sender with the key that the DNS has."""
    letter = Letter.of(content)
    for place in ours(letter, site):
        tags = letter.tags_at(place)
        name = f"{tags.get('s', '')}._domainkey.{tags['d']}"
        if reason := broken_by(letter, place, lookup):
            says = f"The signature for {tags['d']} ({tags.get('a', '?')}) does not verify: {reason}."
            yield False, says, "What the DNS must say: digest dkim list"
        else:
            yield True, f"the signature verifies with the key at {name}", ""


def receiver_told(content: bytes) -> Iterator[Told]:
    """Tell what the receiver has written on top of a letter about SPF, DKIM and DMARC."""
    shown = message_from_bytes(content, policy=policy.compat32)
    found = shown.get_all("Authentication-Results", [])
    results: dict[str, str] = {}
    for name, result in RESULT.findall(str(found[0])) if found else ():  # the topmost is the last who looked
        results.setdefault(name.lower(), result.lower())
    if not results:
        return
    said = ", ".join(f"{name} {results[name]}" for name in sorted(results))
    if set(results.values()) <= PASSED:
        yield True, f"its receiver says: {said}", ""
    else:
        yield (
            False,
            f"Its receiver says: {said}.",
            "Look at that name's record in the DNS, and who may send for you.",
        )
