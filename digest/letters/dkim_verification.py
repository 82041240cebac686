"""Verify DKIM signatures as a receiver does (RFC 6376), using a given DNS lookup."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from email.message import Message

Lookup = Callable[[str], Sequence[str]]  #: a function that returns the TXT records of a DNS name


def signatures_in(letter: Message) -> list[dict[str, str]]:
    """Return the tags of each DKIM-Signature header of a message, in the order of the headers."""
    return [tags_of(str(field)) for field in letter.get_all("DKIM-Signature", [])]


def tags_of(text: str) -> dict[str, str]:
    """Return the tags of a signature or of a key record."""
    parts = (part.partition("=") for part in text.split(";") if "=" in part)
    return {name.strip(): value.strip() for name, _, value in parts}


def key_name(tags: dict[str, str]) -> str:
    """Return the DNS name at which a signature's public key is published."""
    return f"{tags.get('s', '')}._domainkey.{tags['d']}"


def signature_fault(content: bytes, place: int, name: str, lookup: Lookup) -> str:
    """Return why the signature at index `place` is invalid, or "" if the key at `name` verifies it."""
    import dkim

    record = next((text for text in lookup(name) if tags_of(text).get("p")), None)
    if record is None:
        return f"the DNS has no key at {name}"
    try:
        is_verified = dkim.DKIM(content).verify(place, dnsfunc=lambda _name, **_timeout: record.encode())
    except dkim.ValidationError as error:
        is_changed = "body hash" in str(error)
        return "the body was changed in transit" if is_changed else str(error)
    except Exception as error:  # noqa: BLE001  (dkimpy raises almost any exception on a crafted mail)
        return f"it cannot be parsed ({error})"
    return "" if is_verified else f"the headers were changed in transit, or {name} has another key"
