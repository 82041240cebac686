"""Who we are in every letter, and the links only we can make.

A token is `KEY.SUBJECT.MAC`: the MAC is HMAC-SHA256 over purpose and subject, so a token for one
purpose opens no other door. The first key of the ring signs, all of them verify, and a link
outlives a rotation as long as its key stays in the ring.
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import urlsafe_b64encode
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from urllib.parse import urlsplit

LOCAL_URL = "http://127.0.0.1:8000"  #: where the web door is until it is given an address
BLOCK = 64  #: bytes that SHA-256 takes at a time
MAC_BYTES = 18  #: 144 bits: 24 characters in a link


@dataclass(frozen=True, kw_only=True)
class Site:
    """Who we are: what stands in every letter and signs every link."""

    name: str = "Digest"
    url: str = LOCAL_URL  #: without a final slash
    sender_name: str = "Digest"
    sender_address: str = "digest@localhost"
    postal_address: str = ""
    keys: tuple[bytes, ...] = field(default=(), repr=False)  #: the first signs, all verify
    pepper: bytes = field(default=b"", repr=False)  #: never rotates: guards suppressions
    inbound_domain: str = ""  #: where mail for us arrives; empty: we take none in
    owns_up: bool = False  #: the day's letters name the lists that had not come when they were written

    @property
    def domain(self) -> str:
        """Return the domain our letters come from."""
        return self.sender_address.rpartition("@")[2]

    @property
    def takes_commands(self) -> bool:
        """Return whether an answer to a letter of ours reaches us, and may ask for something."""
        return self.inbound_domain.lower() == self.domain.lower()

    @property
    def is_https(self) -> bool:
        """Return whether one-click headers may be sent (RFC 8058 wants https)."""
        return self.url.startswith("https://")

    @property
    def is_local(self) -> bool:
        """Return whether our address means nothing on other machines."""
        host = urlsplit(self.url).hostname or ""
        return host == "localhost" or host == "::1" or host.startswith("127.")

    @cached_property
    def ring(self) -> dict[str, bytes]:
        """Return the keys by their ids, the signing one first."""
        return {key_id(key): key for key in self.keys}

    @property
    def signing_key_id(self) -> str:
        """Return the id of the key that signs what is made now."""
        return key_id(self.keys[0])


def key_id(key: bytes) -> str:
    """Return the short public name of a key."""
    return hashlib.sha256(b"key-id:" + key).hexdigest()[:6]


def fingerprint(secret: bytes) -> str:
    """Return what may be stored to recognise a secret without knowing it."""
    return hashlib.sha256(b"fingerprint:" + secret).hexdigest()


def seal(site: Site, purpose: str, subject: str, *, key: str | None = None) -> str:
    """Return the token that proves `subject` for `purpose`, signed by `key` or the newest."""
    name = key or site.signing_key_id
    return f"{name}.{subject}.{mac(site.ring[name], purpose, subject)}"


def unseal(site: Site, purpose: str, token: str) -> str | None:
    """Return the subject of a token made for `purpose`, or None if we did not make it."""
    name, _, rest = token.partition(".")
    subject, _, given = rest.rpartition(".")
    key = site.ring.get(name)
    if key is None or not subject or not given.isascii():
        return None
    return subject if hmac.compare_digest(mac(key, purpose, subject), given) else None


def mac(key: bytes, purpose: str, subject: str) -> str:
    """Return the URL-safe MAC over purpose and subject."""
    return urlsafe_b64encode(keyed_hash(key, f"{purpose}\0{subject}")[:MAC_BYTES]).decode()


def keyed_hash(key: bytes, text: str) -> bytes:
    """Return HMAC-SHA256 of a text."""
    first, second = begun(key)
    inner, outer = first.copy(), second.copy()
    inner.update(text.encode())
    outer.update(inner.digest())
    return outer.digest()


@lru_cache(maxsize=64)
def begun(key: bytes) -> tuple[hashlib._Hash, hashlib._Hash]:
    """Return what the two hashes of every MAC of a key begin with (RFC 2104), to be copied.

    The library's own HMAC takes twice as long, and letters have seven.
    """
    block = (hashlib.sha256(key).digest() if len(key) > BLOCK else key).ljust(BLOCK, b"\0")
    inner, outer = (bytes(sign ^ pad for sign in block) for pad in (0x36, 0x5C))
    return hashlib.sha256(inner), hashlib.sha256(outer)


def unsubscribe_url(site: Site, subscriber_id: int, epoch: int, *, key: str | None = None) -> str:
    """Return the link that lets one subscriber leave; it can do nothing else."""
    return f"{site.url}/u/{seal(site, 'unsubscribe', f'{subscriber_id}-{epoch}', key=key)}"


def manage_url(site: Site, subscriber_id: int, epoch: int, *, key: str | None = None) -> str:
    """Return the link to one subscriber's topics, pause and hour."""
    return f"{site.url}/m/{seal(site, 'manage', f'{subscriber_id}-{epoch}', key=key)}"


def confirm_url(site: Site, confirmation_id: int, *, key: str | None = None) -> str:
    """Return the link to the page with the one button that confirms."""
    return f"{site.url}/c/{seal(site, 'confirm', str(confirmation_id), key=key)}"


def feed_url(site: Site, subscriber_id: int, epoch: int) -> str:
    """Return the address at which one subscriber reads their digests as a feed."""
    return f"{site.url}/f/{seal(site, 'feed', f'{subscriber_id}-{epoch}')}.atom"


def ask_url(site: Site, subscriber_id: int, epoch: int, *, key: str | None = None) -> str:
    """Return the link that mails its owner the way to their settings, or pauses: nothing that lasts.

    It stands in digests, which are passed on.
    """
    return f"{site.url}/t/{seal(site, 'ask', f'{subscriber_id}-{epoch}', key=key)}"


def archive_url(site: Site, subscriber_id: int, epoch: int) -> str:
    """Return the address at which one subscriber finds all digests they were sent."""
    return f"{site.url}/a/{seal(site, 'archive', f'{subscriber_id}-{epoch}')}"


def view_url(site: Site, subscriber_id: int, epoch: int, edition: str, *, key: str | None = None) -> str:
    """Return the address at which one digest is read in a browser."""
    return f"{site.url}/v/{seal(site, 'view', f'{subscriber_id}-{epoch}-{edition}', key=key)}"


def view_in(site: Site, token: str) -> tuple[int, int, str] | None:
    """Return (subscriber id, epoch, edition) of a view token, or None if it is not ours."""
    subject = unseal(site, "view", token)
    if subject is None:
        return None
    number, epoch, edition = subject.split("-", 2)
    return int(number), int(epoch), edition


def paper_url(site: Site, paper_id: int) -> str:
    """Return the address of a paper's own page."""
    return f"{site.url}/papers/{paper_id}"


def subscriber_in(site: Site, purpose: str, token: str) -> tuple[int, int] | None:
    """Return (subscriber id, epoch) of an unsubscribe or manage token, or None if it is not ours."""
    subject = unseal(site, purpose, token)
    if subject is None:
        return None
    number, _, epoch = subject.partition("-")
    return int(number), int(epoch)


# ── addresses ───────────────────────────────────────────────────────────────────────────────────
#
# An address may lose its upper case on the way, so their MACs are hexadecimal, and say nothing of
# the key: each of the ring is tried.


def bounce_address(site: Site, delivery_id: int) -> str:
    """Return the envelope sender of a delivery: what comes back there is about that delivery (VERP)."""
    return sealed_address(site, "bounce", str(delivery_id))


def envelope_sender(site: Site, delivery_id: int) -> str:
    """Return where a delivery comes back to if it fails: its own address, if we take mail in."""
    return bounce_address(site, delivery_id) if site.inbound_domain else site.sender_address


def leave_address(site: Site, subscriber_id: int, epoch: int, *, key: str | None = None) -> str:
    """Return the address to which any mail lets one subscriber leave; it can do nothing else.

    Empty while we take no mail in.
    """
    if not site.inbound_domain:
        return ""
    return sealed_address(site, "leave", f"{subscriber_id}-{epoch}", key=key)


def sealed_address(site: Site, purpose: str, subject: str, *, key: str | None = None) -> str:
    """Return `PURPOSE+SUBJECT.MAC@` our domain, signed by `key` or the newest."""
    proof = address_mac(site.ring[key or site.signing_key_id], purpose, subject)
    return f"{purpose}+{subject}.{proof}@{site.inbound_domain}"


def opened_address(site: Site, purpose: str, address: str) -> str | None:
    """Return the subject of an address made for `purpose`, or None if we did not make it."""
    local = address.rpartition("@")[0].lower()
    name, _, token = local.partition("+")
    subject, _, given = token.rpartition(".")
    if name != purpose or not subject or not given.isascii():
        return None
    macs = (address_mac(key, purpose, subject) for key in site.keys)
    return subject if any(hmac.compare_digest(made, given) for made in macs) else None


def address_mac(key: bytes, purpose: str, subject: str) -> str:
    """Return a MAC that survives any mail system: 80 bits in small letters."""
    return keyed_hash(key, f"address-{purpose}\0{subject}")[:10].hex()


# ── names ───────────────────────────────────────────────────────────────────────────────────────


def message_id(site: Site, identity: str) -> str:
    """Return the Message-ID of a delivery: the same on every attempt, and it tells nothing."""
    key = site.keys[-1]  # the oldest: rotating the signing key does not change it
    return f"<{keyed_hash(key, f'message-id{chr(0)}{identity}').hex()[:40]}@{site.domain}>"


def address_hash(site: Site, email_key: str) -> str:
    """Return the keyed hash under which a suppressed address is remembered."""
    return keyed_hash(site.pepper, email_key).hex()
