"""Validate email addresses, and fold their spellings, so that one address has one row."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache

from digest.errors import BadField

#: Domains that exist only on local networks; mail to these domains is allowed.
LABEL = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
LOCAL_DOMAIN = re.compile(rf"(?:{LABEL}\.)*(?:localhost|local|test)", re.IGNORECASE)

#: Matches short lower-case addresses with a valid local part; only their domain still needs to be checked.
PLAIN_ADDRESS = re.compile(r"(?=.{,64}\Z)(?P<local>[a-z0-9_+-]+(?:\.[a-z0-9_+-]+)*)@(?P<domain>[a-z0-9.-]+)")

#: Common mailbox domains, used to detect mistyped domains.
WELL_KNOWN_DOMAINS = (
    "gmail.com", "googlemail.com", "outlook.com", "hotmail.com", "live.com", "yahoo.com", "icloud.com",
    "proton.me", "protonmail.com", "gmx.de", "gmx.net", "web.de", "posteo.de", "fastmail.com", "aol.com",
    "mail.ru", "yandex.ru", "qq.com", "163.com", "126.com", "naver.com",
)  # fmt: skip
GMAIL = frozenset({"gmail.com", "googlemail.com"})  #: domains that ignore dots in the local part
#: Labels below which countries register domains, as in ac.uk and com.br.
COUNTRY_SECTORS = frozenset({"ac", "co", "com", "edu", "go", "gob", "gov", "gv", "ne", "net", "or", "org"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Address:
    """A syntactically valid address."""

    email: str  #: the address for the envelope: as typed, with the domain in ASCII
    folded: str  #: the normalised form, which is equal for all spellings of the address


def parse_address(text: str) -> Address:
    """Return the address in `text`; raise BadField if it is invalid. No network request is made.

    The result for a common domain is cached, because the addresses of a long list share a few domains.
    """
    typed = text.strip()
    plain = PLAIN_ADDRESS.fullmatch(typed)
    email = typed if plain and is_domain(plain["domain"]) else envelope_address(typed)
    return Address(email=email, folded=fold_address(email))


@lru_cache(maxsize=16_384)  # most addresses of an import share a few hundred domains
def is_domain(domain: str) -> bool:
    """Return whether a domain is valid and already in the form used in envelopes."""
    try:
        return envelope_address(f"somebody@{domain}") == f"somebody@{domain}"
    except BadField:
        return False


def envelope_address(typed: str) -> str:
    """Return an address in the form used in envelopes; raise BadField if it is invalid."""
    from email_validator import EmailNotValidError, validate_email

    if not typed.strip():
        raise BadField("email", "Enter an email address.")
    local, _, domain = typed.rpartition("@")
    probe = f"{local}@home.example.org" if LOCAL_DOMAIN.fullmatch(domain) else typed
    try:
        found = validate_email(probe, check_deliverability=False, strict=True)
    except EmailNotValidError as error:
        raise BadField("email", f"{typed[:80]!r} is not a valid email address. {error}") from None
    host = domain.lower() if probe != typed else found.ascii_domain
    return f"{found.local_part}@{host}"


def fold_address(email: str) -> str:
    """Return the address in its normalised form: in NFC and lower case, with the domain in ASCII.

    Case folding would make one address of `straße` and `strasse`. Accepts any text, because addresses also
    come from bounces; an invalid domain is only put in lower case.
    """
    local, _, domain = unicodedata.normalize("NFC", email.strip()).rpartition("@")
    return f"{local.lower()}@{ascii_domain(domain)}"


def mailbox_of(email: str) -> str:
    """Return the folded address without what its owner may add: a tag after `+`, and dots at Gmail."""
    local, _, domain = fold_address(email).rpartition("@")
    mailbox = local.partition("+")[0] or local
    return f"{mailbox.replace('.', '') if domain in GMAIL else mailbox}@{domain}"


def registered_domain(domain: str) -> str:
    """Return a domain without the subdomains that its owner can add at will."""
    labels = ascii_domain(domain).split(".")
    is_below_country = len(labels) > 2 and len(labels[-1]) == 2 and labels[-2] in COUNTRY_SECTORS
    return ".".join(labels[-3:] if is_below_country else labels[-2:])


def ascii_domain(domain: str) -> str:
    """Return the domain in lower-case ASCII; an invalid domain is only put in lower case."""
    if domain.isascii():
        return domain.lower()
    import idna

    try:
        return idna.encode(domain, uts46=True).decode()
    except idna.IDNAError:
        return domain.lower()


def readable_address(email: str) -> str:
    """Return an address with its domain in Unicode, as the owner writes it."""
    local, _, domain = email.rpartition("@")
    if "xn--" not in domain:
        return email
    import idna

    try:
        return f"{local}@{idna.decode(domain)}"
    except idna.IDNAError:
        return email


def mention_of(emails: Collection[str]) -> re.Pattern[str]:
    """Return a pattern that finds any of these addresses in a text, but not inside a longer address."""
    spellings = {spelling for email in emails for spelling in (email, readable_address(email))}
    anyone = "|".join(map(re.escape, spellings))
    return re.compile(rf"(?<![\w.+-])(?<!\w['’])(?:{anyone})(?![\w-]|\.\w)", re.IGNORECASE)


def masked_address(email: str) -> str:
    """Return an address masked as `a•••@uni.edu`: its owner recognises it, and other readers cannot use it."""
    local, _, domain = readable_address(email).rpartition("@")
    return f"{local[:1]}•••@{domain}"


def suggest_correction(email: str) -> str | None:
    """Return the address with its domain corrected if it looks misspelled (`gmial.com`), else None."""
    local, _, domain = email.rpartition("@")
    close = get_close_matches(domain.lower(), WELL_KNOWN_DOMAINS, n=1, cutoff=0.85)
    return f"{local}@{close[0]}" if close and close[0] != domain.lower() else None
