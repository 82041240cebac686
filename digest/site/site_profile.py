"""Define the site: its name, addresses and signing keys."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from urllib.parse import urlsplit

LOCAL_URL = "http://127.0.0.1:8000"  #: the default address of the web server
ID_LENGTH = 6  #: number of characters of a fingerprint that identify a key


@dataclass(frozen=True, kw_only=True)
class Site:
    """The name, addresses and keys that letters and links use."""

    name: str = "Digest"
    url: str = LOCAL_URL  #: without a trailing slash
    sender_name: str = "Digest"
    sender_address: str = "digest@localhost"
    postal_address: str = ""
    keys: tuple[bytes, ...] = field(default=(), repr=False)  #: the first key signs, all keys verify
    #: secret for hashing suppressed addresses; it must never change
    pepper: bytes = field(default=b"", repr=False)
    inbound_domain: str = ""  #: the domain of incoming mail; empty if we receive no mail
    #: whether a letter names the lists that had not arrived when it was written
    announces_late_lists: bool = False

    @property
    def domain(self) -> str:
        """Return the domain of the sender address."""
        return self.sender_address.rpartition("@")[2]

    @property
    def mailbox(self) -> str:
        """Return the local part of the sender address, in lower case."""
        return self.sender_address.rpartition("@")[0].lower()

    @property
    def takes_commands(self) -> bool:
        """Return whether replies to letters reach us; replies may contain commands."""
        return self.inbound_domain.lower() == self.domain.lower()

    def is_own_address(self, email: str) -> bool:
        """Return whether an address belongs to this service, so that no person reads mail to it."""
        local, _, domain = email.lower().rpartition("@")
        prefixes = (f"{self.mailbox}-", f"{self.mailbox}+", "bounce+", "unsubscribe+", "reply+")
        is_here = domain in {self.domain.lower(), self.inbound_domain.lower()}
        return is_here and (local == self.mailbox or local.startswith(prefixes))

    @property
    def is_https(self) -> bool:
        """Return whether one-click headers may be sent (RFC 8058 requires https)."""
        return self.url.startswith("https://")

    @property
    def is_local(self) -> bool:
        """Return whether the URL works only on this machine."""
        host = urlsplit(self.url).hostname or ""
        return host == "localhost" or host == "::1" or host.startswith("127.")

    @cached_property
    def ring(self) -> dict[str, bytes]:
        """Return the keys, keyed by id, with the signing key first."""
        return {key_id(key): key for key in self.keys}

    @property
    def signing_key_id(self) -> str:
        """Return the id of the key that signs new links."""
        return key_id(self.keys[0])


def key_id(key: bytes) -> str:
    """Return the public id of a key: the first characters of its fingerprint."""
    return fingerprint(key)[:ID_LENGTH]


def fingerprint(secret: bytes) -> str:
    """Return a hash that identifies a secret without revealing it."""
    return hashlib.sha256(b"fingerprint:" + secret).hexdigest()
