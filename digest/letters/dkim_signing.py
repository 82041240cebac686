"""Sign messages with DKIM (RFC 6376, 8301, 8463), using only `cryptography`.

Every header that readers or mailbox providers act on is signed, including the one-click header. In letters to
groups, the headers that mailing lists change are not signed. The most important headers, such as `From` and
`Subject`, are signed once more than they occur, so that an added header of the same name breaks the
signature. A signature depends only on the message and the key, so it is the same on every attempt.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property, lru_cache

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from digest.errors import BadField

#: Headers that are signed if present, in this order; each of `OVERSIGNED_HEADERS` is signed once more
#: than it occurs.
SIGNED_HEADERS = (
    "from", "to", "cc", "subject", "date", "message-id", "reply-to", "list-id", "list-unsubscribe",
    "list-unsubscribe-post", "list-help", "auto-submitted", "precedence", "feedback-id", "mime-version",
    "content-type",
)  # fmt: skip
OVERSIGNED_HEADERS = frozenset({
    "from", "to", "cc", "reply-to", "date", "subject", "list-unsubscribe", "list-unsubscribe-post",
    "content-type", "mime-version",
})  # fmt: skip
#: Headers that mailing lists add or replace. They are not signed in letters to groups, so that the signature
#: stays valid if a list changes nothing else.
LIST_HEADERS = frozenset({
    "reply-to", "list-id", "list-unsubscribe", "list-unsubscribe-post", "list-help", "precedence",
})  # fmt: skip
MIN_RSA_BITS = 2048  #: minimum length of RSA keys; some verifiers refuse shorter keys, as RFC 8301 allows

BLANKS = re.compile(rb"[ \t]+")
FOLDED_LINE = re.compile(rb"\r\n(?=[ \t])")


@dataclass(frozen=True, kw_only=True)
class Signer:
    """A DKIM signer for one domain and one key; it does not sign the headers named in `unsigned`."""

    domain: str
    selector: str
    pem: bytes = field(repr=False)
    unsigned: frozenset[str] = frozenset()

    @cached_property
    def key(self) -> RSAPrivateKey | Ed25519PrivateKey:
        """Return the private key in `pem`; raise BadField if `pem` contains no usable key."""
        try:
            key = load_pem_private_key(self.pem, password=None)
        except (ValueError, TypeError) as error:
            raise BadField(
                "DIGEST_DKIM_KEYS", f"It is not a private key in PEM form without a password ({error})."
            ) from error
        if isinstance(key, Ed25519PrivateKey):
            return key
        if not isinstance(key, RSAPrivateKey):
            raise BadField("DIGEST_DKIM_KEYS", "It must be an RSA or an Ed25519 key.")
        if key.key_size < MIN_RSA_BITS:
            raise BadField(
                "DIGEST_DKIM_KEYS", f"It has {key.key_size} bits; it must have at least {MIN_RSA_BITS}."
            )
        return key

    @cached_property
    def algorithm(self) -> str:
        """Return the value of the signature's `a=` tag."""
        return "rsa-sha256" if isinstance(self.key, RSAPrivateKey) else "ed25519-sha256"

    @property
    def dns_name(self) -> str:
        """Return the DNS name under which the public key is published."""
        return f"{self.selector}._domainkey.{self.domain}"

    @property
    def dns_record(self) -> str:
        """Return the TXT record that publishes the public key."""
        public = self.key.public_key()
        if isinstance(self.key, RSAPrivateKey):
            octets = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
            return f"v=DKIM1; k=rsa; p={b64encode(octets).decode()}"
        octets = public.public_bytes(Encoding.Raw, PublicFormat.Raw)
        return f"v=DKIM1; k=ed25519; p={b64encode(octets).decode()}"

    def sign(self, octets: bytes) -> bytes:
        """Return the signature of `octets`, the header fields in canonical form."""
        if isinstance(self.key, RSAPrivateKey):
            return self.key.sign(octets, PKCS1v15(), SHA256())
        return self.key.sign(hashlib.sha256(octets).digest())


def load_signers(
    keys: Mapping[str, str], *, domain: str, unsigned: frozenset[str] = frozenset()
) -> tuple[Signer, ...]:
    """Return a signer for each {selector: PEM key}; raise BadField if a key is unusable."""
    made = tuple(
        Signer(domain=domain, selector=selector, pem=key.encode(), unsigned=unsigned)
        for selector, key in keys.items()
    )
    for signer in made:
        _ = signer.key  # raises BadField now instead of when the first message is signed
    return made


def signers_for_list(signers: Sequence[Signer]) -> Sequence[Signer]:
    """Return the signers of a letter to a group; they do not sign the headers that mailing lists change."""
    return [signer_for_list(signer) for signer in signers]


@lru_cache(maxsize=64)  # a site has only a few keys
def signer_for_list(signer: Signer) -> Signer:
    """Return a signer that does not sign headers that mailing lists change; cached to parse its key once."""
    return replace(signer, unsigned=signer.unsigned | LIST_HEADERS)


def sign_message(message: bytes, signers: Sequence[Signer], *, dated_at: datetime) -> bytes:
    """Return the message, preceded by one DKIM-Signature header per signer."""
    if not signers:
        return message
    head, _, body = message.partition(b"\r\n\r\n")
    fields = canonical_fields(head)
    body_hash = b64encode(hashlib.sha256(canonical_body(body)).digest()).decode()
    tops = [signature(signer, fields, body_hash, dated_at) for signer in signers]
    return b"".join([*tops, message])


def signature(
    signer: Signer, fields: Sequence[tuple[str, bytes]], body_hash: str, dated_at: datetime
) -> bytes:
    """Return the DKIM-Signature field of one signer."""
    names, signed_fields = choose_fields(fields, signer.unsigned)
    top = (
        f"DKIM-Signature: v=1; a={signer.algorithm}; c=relaxed/relaxed; d={signer.domain};\r\n"
        f" s={signer.selector}; t={int(dated_at.timestamp())};\r\n"
        f" h={fold_names(tuple(names))};\r\n bh={body_hash};\r\n b="
    ).encode()
    encoded = b64encode(signer.sign(b"".join(signed_fields) + canonical_fields(top)[0][1])).decode()
    lines = "\r\n ".join(encoded[start : start + 72] for start in range(0, len(encoded), 72))
    return top + lines.encode() + b"\r\n"


def choose_fields(
    fields: Sequence[tuple[str, bytes]], unsigned: frozenset[str]
) -> tuple[list[str], list[bytes]]:
    """Return the header names to sign and their fields; fields with the same name are in reverse order."""
    names: list[str] = []
    signed_fields: list[bytes] = []
    by_name: dict[str, list[bytes]] = {}
    for name, canonical in reversed(fields):
        by_name.setdefault(name, []).append(canonical + b"\r\n")
    for name in SIGNED_HEADERS:
        if name in unsigned:
            continue
        found = by_name.get(name, [])
        names += [name] * (len(found) + (name in OVERSIGNED_HEADERS))
        signed_fields += found
    return names, signed_fields


@lru_cache(maxsize=64)  # all letters of one kind have the same header names
def fold_names(names: tuple[str, ...]) -> str:
    """Return the header names joined with colons, on short lines."""
    lines = [""]
    for name in names:
        if len(lines[-1]) + len(name) > 66:
            lines.append("")
        lines[-1] += f"{name}:"
    return "\r\n  ".join(lines).rstrip(":")


def canonical_fields(head: bytes) -> list[tuple[str, bytes]]:
    """Return the header fields in `relaxed` form, as (name, field without its line end)."""
    made = []
    for line in FOLDED_LINE.sub(b"", head).split(b"\r\n"):
        name, _, value = line.partition(b":")
        lower = name.strip().lower()
        single = BLANKS.sub(b" ", value) if b"  " in value or b"\t" in value else value
        made.append((lower.decode(), lower + b":" + single.strip()))
    return made


def canonical_body(body: bytes) -> bytes:
    """Return the body in `relaxed` form.

    Only empty lines at the end are removed, because letters.mime writes no other whitespace that this form
    would change.
    """
    stripped = body.rstrip(b"\r\n")
    return stripped + b"\r\n" if stripped else b""
