"""Email addresses: checked as they come in, and folded so that one person is one row."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache

from digest.errors import BadField

#: Names that only mean something at home; mail to them is fine on a home network.
AT_HOME = re.compile(r"(?:.+\.)?(?:localhost|local|test)", re.IGNORECASE)

#: An address in small letters and short: whether it is one is up to its domain alone.
PLAIN = re.compile(r"(?=.{,64}\Z)(?P<local>[a-z0-9_+-]+(?:\.[a-z0-9_+-]+)*)@(?P<domain>[a-z0-9.-]+)")

#: Where most people's mail lives: what a slip of the finger is compared with.
WELL_KNOWN = (
    "gmail.com", "googlemail.com", "outlook.com", "hotmail.com", "live.com", "yahoo.com", "icloud.com",
    "proton.me", "protonmail.com", "gmx.de", "gmx.net", "web.de", "posteo.de", "fastmail.com", "aol.com",
    "mail.ru", "yandex.ru", "qq.com", "163.com", "126.com", "naver.com",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Address:
    """An address that a mail server could take."""

    email: str  #: for the envelope: as typed, the domain in ASCII
    key: str  #: folded: what two spellings of the same address share


def checked(text: str) -> Address:
    """Return the address in `text`, or raise BadField with what is wrong; no network is asked.

    Of a long list most are plain and share few domains, each of which is looked at once.
    """
    typed = text.strip()
    plain = PLAIN.fullmatch(typed)
    email = typed if plain and is_domain(plain["domain"]) else envelope(typed)
    return Address(email=email, key=key(email))


@lru_cache(maxsize=16_384)
def is_domain(domain: str) -> bool:
    """Return whether mail can be addressed to that domain, which is spelled as it will be."""
    try:
        return envelope(f"somebody@{domain}") == f"somebody@{domain}"
    except BadField:
        return False


def envelope(typed: str) -> str:
    """Return an address as the envelope has it, or raise BadField."""
    from email_validator import EmailNotValidError, validate_email

    local, _, domain = typed.rpartition("@")
    probe = f"{local}@home.example.org" if AT_HOME.fullmatch(domain) else typed
    try:
        found = validate_email(probe, check_deliverability=False, strict=True)
    except EmailNotValidError as error:
        raise BadField("email", f"{typed[:80]!r} is not an address we can write to. {error}") from None
    host = domain.lower() if probe != typed else found.ascii_domain
    if host is None:
        raise BadField("email", f"{typed[:80]!r} is not an address we can write to.")
    return f"{found.local_part}@{host}"


def key(email: str) -> str:
    """Return the folded address: composed, without case, the domain as the DNS spells it.

    Total, since addresses also come from bounces: what cannot be a domain is folded as it stands.
    """
    local, _, domain = unicodedata.normalize("NFC", email.strip()).rpartition("@")
    return f"{local.casefold()}@{ascii_domain(domain)}"


def ascii_domain(domain: str) -> str:
    """Return the domain in lower-case ASCII; in lower case only, where it cannot be a domain."""
    if domain.isascii():
        return domain.lower()
    import idna

    try:
        return idna.encode(domain, uts46=True).decode()
    except idna.IDNAError:
        return domain.casefold()


def probably_meant(email: str) -> str | None:
    """Return the address with its domain's likely spelling (`gmial.com`: `gmail.com`), or None."""
    local, _, domain = email.rpartition("@")
    close = get_close_matches(domain.lower(), WELL_KNOWN, n=1, cutoff=0.85)
    return f"{local}@{close[0]}" if close and close[0] != domain.lower() else None
