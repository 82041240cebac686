"""DKIM signatures (RFC 6376, 8301, 8463), with `cryptography` and nothing else.

Every header that a reader or a mailbox provider acts on is signed, `From` and `Subject` once more
than they occur, so that no second one can be slipped in; the one-click header is among them, which
stock signers leave out. A signature depends on the message and the key alone: the same on every
attempt.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, lru_cache

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from digest.errors import BadField

#: What is signed if it is there, in this order; those of `TWICE` also where it is not.
SIGNED = (
    "from", "to", "subject", "date", "message-id", "reply-to", "list-id", "list-unsubscribe",
    "list-unsubscribe-post", "list-help", "auto-submitted", "precedence", "feedback-id", "mime-version",
    "content-type",
)  # fmt: skip
TWICE = frozenset({"from", "subject"})
SMALLEST_RSA = 2048  #: bits; verifiers need not take less (RFC 8301), and some refuse it

PEM_BLOCK = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----", re.DOTALL)
SPACES = re.compile(rb"[ \t]+")
FOLD = re.compile(rb"\r\n(?=[ \t])")


@dataclass(frozen=True, kw_only=True)
class Signer:
    """Signs for one domain with one key; `unsigned` headers are those that the relay rewrites."""

    domain: str
    selector: str
    pem: bytes = field(repr=False)
    unsigned: frozenset[str] = frozenset()

    @cached_property
    def key(self) -> RSAPrivateKey | Ed25519PrivateKey:
        """Return the private key, or raise BadField saying what is wrong with it."""
        try:
            key = load_pem_private_key(self.pem, password=None)
        except (ValueError, TypeError) as error:
            raise BadField(
                "dkim key", f"It is no private key in PEM form without a password ({error})."
            ) from error
        if isinstance(key, Ed25519PrivateKey):
            return key
        if not isinstance(key, RSAPrivateKey):
            raise BadField("dkim key", "It must be an RSA or an Ed25519 key.")
        if key.key_size < SMALLEST_RSA:
            raise BadField("dkim key", f"It has {key.key_size} bits; mail servers want {SMALLEST_RSA}.")
        return key

    @cached_property
    def algorithm(self) -> str:
        """Return the name that a signature gives to its algorithm."""
        return "rsa-sha256" if isinstance(self.key, RSAPrivateKey) else "ed25519-sha256"

    @property
    def dns_name(self) -> str:
        """Return where the public key is published."""
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

    def sealed(self, octets: bytes) -> bytes:
        """Return the signature over canonical header fields."""
        if isinstance(self.key, RSAPrivateKey):
            return self.key.sign(octets, PKCS1v15(), SHA256())
        return self.key.sign(hashlib.sha256(octets).digest())


def ring(
    keys: str, selectors: str, *, domain: str, unsigned: frozenset[str] = frozenset()
) -> tuple[Signer, ...]:
    """Return a signer for each PEM key, or raise BadField; `selectors` names them in order, with commas."""
    names = [name.strip() for name in selectors.split(",") if name.strip()]
    blocks = PEM_BLOCK.findall(keys)
    if not blocks:
        raise BadField("DIGEST_DKIM_KEY", "It holds no private key; digest dkim keygen makes one.")
    if len(names) != len(blocks):
        raise BadField(
            "DIGEST_DKIM_SELECTOR", f"It names {len(names)}, and DIGEST_DKIM_KEY holds {len(blocks)} keys."
        )
    made = tuple(
        Signer(domain=domain, selector=name, pem=f"{block}\n".encode(), unsigned=unsigned)
        for name, block in zip(names, blocks, strict=True)
    )
    for signer in made:
        _ = signer.key  # what is wrong with a key is told now
    return made


def signed(message: bytes, signers: Sequence[Signer], *, dated_at: datetime) -> bytes:
    """Return the message with a signature of each signer on top."""
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
    """Return one DKIM-Signature field."""
    names, covered = chosen(fields, signer.unsigned)
    top = (
        f"DKIM-Signature: v=1; a={signer.algorithm}; c=relaxed/relaxed; d={signer.domain};\r\n"
        f" s={signer.selector}; t={int(dated_at.timestamp())};\r\n"
        f" h={folded(tuple(names))};\r\n bh={body_hash};\r\n b="
    ).encode()
    seal = b64encode(signer.sealed(b"".join(covered) + canonical_fields(top)[0][1])).decode()
    lines = "\r\n ".join(seal[start : start + 72] for start in range(0, len(seal), 72))
    return top + lines.encode() + b"\r\n"


def chosen(fields: Sequence[tuple[str, bytes]], unsigned: frozenset[str]) -> tuple[list[str], list[bytes]]:
    """Return the names to sign and the fields they stand for; of several with one name, the last first."""
    names: list[str] = []
    covered: list[bytes] = []
    there: dict[str, list[bytes]] = {}
    for name, canonical in reversed(fields):
        there.setdefault(name, []).append(canonical + b"\r\n")
    for name in SIGNED:
        if name in unsigned:
            continue
        found = there.get(name, [])
        names += [name] * (len(found) + (name in TWICE))
        covered += found
    return names, covered


@lru_cache(maxsize=64)  # of one kind of letter it is always the same
def folded(names: tuple[str, ...]) -> str:
    """Return the list of names on short lines."""
    lines = [""]
    for name in names:
        if len(lines[-1]) + len(name) > 66:
            lines.append("")
        lines[-1] += f"{name}:"
    return "\r\n  ".join(lines).rstrip(":")


def canonical_fields(head: bytes) -> list[tuple[str, bytes]]:
    """Return the header fields as `relaxed` has them: (name, field without its line end)."""
    made = []
    for line in FOLD.sub(b"", head).split(b"\r\n"):
        name, _, value = line.partition(b":")
        lower = name.strip().lower()
        single = SPACES.sub(b" ", value) if b"  " in value or b"\t" in value else value
        made.append((lower.decode(), lower + b":" + single.strip()))
    return made


def canonical_body(body: bytes) -> bytes:
    """Return a body of ours as `relaxed` has it: rendering.mime writes no blanks that it would touch."""
    stripped = body.rstrip(b"\r\n")
    return stripped + b"\r\n" if stripped else b""
