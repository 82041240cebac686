"""Make and verify the signed links and addresses in letters.

A token is `KEY.SUBJECT.MAC`. The MAC is HMAC-SHA256 over purpose and subject, so a token for one
purpose is invalid for any other. The first key of the ring signs and all keys verify, so a link is
valid while its key is in the ring.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import b2a_base64
from functools import lru_cache

from digest.site.site_profile import ID_LENGTH, Site

HMAC_BLOCK = 64  #: block size of SHA-256 in bytes
KEY_ID_PATTERN = re.compile(f"[0-9a-f]{{{ID_LENGTH}}}")
MAC_BYTES = 18  #: 144 bits: 24 characters in a link
URL_SAFE = bytes.maketrans(b"+/", b"-_")


def is_of_unknown_key(site: Site, token: str) -> bool:
    """Return whether a token names a key that is not in the ring, such as a retired key."""
    name, dot, _ = token.partition(".")
    return bool(dot) and KEY_ID_PATTERN.fullmatch(name) is not None and name not in site.ring


def sign_token(site: Site, purpose: str, subject: str, *, key: str | None = None) -> str:
    """Return a token that proves `subject` for `purpose`, signed with `key` or the newest key."""
    name = key or site.signing_key_id
    return f"{name}.{subject}.{mac(site.ring[name], purpose, subject)}"


def verify_token(site: Site, purpose: str, token: str) -> str | None:
    """Return the subject of a token made for `purpose`, or None if the token is invalid."""
    name, _, rest = token.partition(".")
    subject, _, given = rest.rpartition(".")
    key = site.ring.get(name)
    if key is None or not subject or not given.isascii():
        return None
    return subject if hmac.compare_digest(mac(key, purpose, subject), given) else None


def mac(key: bytes, purpose: str, subject: str) -> str:
    """Return the URL-safe MAC over purpose and subject."""
    octets = keyed_hash(key, f"{purpose}\0{subject}")[:MAC_BYTES]
    return b2a_base64(octets, newline=False).translate(URL_SAFE).decode()


def keyed_hash(key: bytes, text: str) -> bytes:
    """Return the HMAC-SHA256 of a string."""
    first, second = hmac_states(key)
    inner, outer = first.copy(), second.copy()
    inner.update(text.encode())
    outer.update(inner.digest())
    return outer.digest()


@lru_cache(maxsize=64)  # a site has a few keys
def hmac_states(key: bytes) -> tuple[hashlib._Hash, hashlib._Hash]:
    """Return the initial states of a key's inner and outer hash (RFC 2104); callers must copy the states.

    Caching them makes a MAC twice as fast as with the standard library's HMAC, and every letter has
    several MACs.
    """
    block = (hashlib.sha256(key).digest() if len(key) > HMAC_BLOCK else key).ljust(HMAC_BLOCK, b"\0")
    inner, outer = (bytes(sign ^ pad for sign in block) for pad in (0x36, 0x5C))
    return hashlib.sha256(inner), hashlib.sha256(outer)


def unsubscribe_url(site: Site, subscriber_id: int, link_version: int, *, key: str | None = None) -> str:
    """Return the link that unsubscribes one subscriber and gives no other access."""
    return f"{site.url}/u/{sign_token(site, 'unsubscribe', f'{subscriber_id}-{link_version}', key=key)}"


def manage_url(site: Site, subscriber_id: int, link_version: int, *, key: str | None = None) -> str:
    """Return the link to one subscriber's settings."""
    return f"{site.url}/m/{sign_token(site, 'manage', f'{subscriber_id}-{link_version}', key=key)}"


def confirm_url(site: Site, confirmation_id: int, *, key: str | None = None) -> str:
    """Return the link to the page that confirms a subscription."""
    return f"{site.url}/c/{sign_token(site, 'confirm', str(confirmation_id), key=key)}"


def feed_url(site: Site, subscriber_id: int, link_version: int) -> str:
    """Return the URL of one subscriber's feed of digests."""
    return f"{site.url}/f/{sign_token(site, 'feed', f'{subscriber_id}-{link_version}')}.atom"


def topic_links_url(site: Site, subscriber_id: int, link_version: int, *, key: str | None = None) -> str:
    """Return the link to one subscriber's settings that every digest contains.

    Digests are forwarded, so its page shows no address, saved papers, past digests or links to them.
    """
    return f"{site.url}/t/{sign_token(site, 'topic-links', f'{subscriber_id}-{link_version}', key=key)}"


def paper_token(site: Site, subscriber_id: int, link_version: int, *, key: str | None = None) -> str:
    """Return the token of one subscriber's links that save a paper or propose a topic change.

    One token serves both purposes, because every card has both links. The links are in every digest, and
    digests are forwarded, so their pages show neither the list of saved papers nor the settings.
    """
    return sign_token(site, "paper", f"{subscriber_id}-{link_version}", key=key)


def feedback_prefix(site: Site, token: str) -> str:
    """Return the common prefix of the `less_url` and `more_url` links that contain this paper token."""
    return f"{site.url}/l/{token}"


def feedback_url(site: Site, subscriber_id: int, link_version: int) -> str:
    """Return the common prefix of one subscriber's `less_url` and `more_url` links."""
    return feedback_prefix(site, paper_token(site, subscriber_id, link_version))


def less_url(start: str, paper_id: int) -> str:
    """Return the link to the page that proposes a topic change: fewer papers like this one."""
    return f"{start}/{paper_id}"


def more_url(start: str, paper_id: int) -> str:
    """Return the link to the page that proposes a topic change: more papers like this one."""
    return f"{start}/{paper_id}/more"


def account_url(
    site: Site, subscriber_id: int, link_version: int, made_at: int, *, key: str | None = None
) -> str:
    """Return the link to download or erase a subscriber's data or to change the address.

    `made_at` is in seconds since 1970.
    """
    return f"{site.url}/d/{sign_token(site, 'account', f'{subscriber_id}-{link_version}-{made_at}', key=key)}"


def read_account_token(site: Site, token: str) -> tuple[int, int, int] | None:
    """Return (subscriber id, link_version, time in seconds) of an account token, or None if it is invalid."""
    subject = verify_token(site, "account", token)
    if subject is None:
        return None
    number, link_version, made_at = subject.split("-")
    return int(number), int(link_version), int(made_at)


def new_address_url(
    site: Site, subscriber_id: int, link_version: int, email: str, made_at: int, *, key: str | None = None
) -> str:
    """Return the link that confirms a subscriber's new address; `made_at` is in seconds."""
    address = urlsafe_b64encode(email.encode()).decode().rstrip("=")
    subject = f"{subscriber_id}-{link_version}-{made_at}-{address}"
    return f"{site.url}/e/{sign_token(site, 'new-address', subject, key=key)}"


def read_new_address_token(site: Site, token: str) -> tuple[int, int, int, str] | None:
    """Return (subscriber id, link_version, made_at, new address) of a token, or None if it is invalid."""
    subject = verify_token(site, "new-address", token)
    if subject is None:
        return None
    number, link_version, made_at, address = subject.split("-", 3)
    email = urlsafe_b64decode(address + "=" * (-len(address) % 4)).decode()
    return int(number), int(link_version), int(made_at), email


def save_prefix(site: Site, token: str) -> str:
    """Return the common prefix of the `save_url` links that contain this paper token.

    In a link, a slash and the paper's id follow the prefix.
    """
    return f"{site.url}/s/{token}"


def save_url(site: Site, subscriber_id: int, link_version: int, paper_id: int) -> str:
    """Return the link to a page that saves one paper to a subscriber's list."""
    return f"{save_prefix(site, paper_token(site, subscriber_id, link_version))}/{paper_id}"


def saved_feed_url(site: Site, subscriber_id: int, link_version: int) -> str:
    """Return the URL of the feed of one subscriber's saved papers."""
    return f"{site.url}/s/{sign_token(site, 'saved-feed', f'{subscriber_id}-{link_version}')}.atom"


def archive_url(site: Site, subscriber_id: int, link_version: int) -> str:
    """Return the URL of one subscriber's archive of digests."""
    return f"{site.url}/a/{sign_token(site, 'archive', f'{subscriber_id}-{link_version}')}"


def view_url(
    site: Site, subscriber_id: int, link_version: int, edition: str, *, key: str | None = None
) -> str:
    """Return the URL of one digest on the web."""
    return f"{site.url}/v/{sign_token(site, 'view', f'{subscriber_id}-{link_version}-{edition}', key=key)}"


def read_view_token(site: Site, token: str) -> tuple[int, int, str] | None:
    """Return (subscriber id, link_version, edition) of a view token, or None if it is invalid."""
    subject = verify_token(site, "view", token)
    if subject is None:
        return None
    number, link_version, edition = subject.split("-", 2)
    return int(number), int(link_version), edition


def paper_url(site: Site, paper_id: int) -> str:
    """Return the URL of a paper's page."""
    return f"{site.url}/papers/{paper_id}"


def read_subscriber_token(site: Site, purpose: str, token: str) -> tuple[int, int] | None:
    """Return (subscriber id, link_version) of a token made for `purpose`, or None if it is invalid."""
    subject = verify_token(site, purpose, token)
    if subject is None:
        return None
    number, _, link_version = subject.partition("-")
    return int(number), int(link_version)


# ── addresses ───────────────────────────────────────────────────────────────────────────────────
#
# Mail systems may change an address to lower case, so these MACs are hexadecimal. Addresses do not name
# the key, so each key of the ring is tried.


def bounce_address(site: Site, delivery_id: int) -> str:
    """Return an envelope sender that receives only the bounces of one delivery (VERP)."""
    return signed_address(site, "bounce", str(delivery_id))


def envelope_sender(site: Site, delivery_id: int) -> str:
    """Return a delivery's envelope sender: its bounce address if we receive mail, else our sender address."""
    return bounce_address(site, delivery_id) if site.inbound_domain else site.sender_address


def unsubscribe_address(site: Site, subscriber_id: int, link_version: int, *, key: str | None = None) -> str:
    """Return the address at which any mail unsubscribes one subscriber; empty if we receive no mail."""
    if not site.inbound_domain:
        return ""
    return signed_address(site, "unsubscribe", f"{subscriber_id}-{link_version}", key=key)


def reply_address(
    site: Site, subscriber_id: int, link_version: int, letter: str, *, key: str | None = None
) -> str:
    """Return the address for replies to one letter; `letter` is its edition or its delivery id.

    The address is empty if replies to our sender address do not reach us.
    """
    if not site.takes_commands:
        return ""
    return signed_address(site, "reply", f"{subscriber_id}-{link_version}-{letter.lower()}", key=key)


def read_reply_address(site: Site, address: str) -> tuple[int, int, str] | None:
    """Return (subscriber id, link_version, letter) of a reply address, or None if it is invalid."""
    subject = verify_address(site, "reply", address)
    if subject is None:
        return None
    number, link_version, letter = subject.split("-", 2)
    return int(number), int(link_version), letter


def confirm_address(site: Site, confirmation_id: int, *, key: str | None = None) -> str:
    """Return the address at which the reply `yes` confirms a subscription.

    The address is empty if the service is not set up to receive replies.
    """
    if not site.takes_commands:
        return ""
    return f"{site.mailbox}-{signed_address(site, 'confirm', str(confirmation_id), key=key)}"


def read_confirm_address(site: Site, address: str) -> int | None:
    """Return the id of the confirmation that an address confirms, or None if it is invalid."""
    prefix = f"{site.mailbox}-"
    number = verify_address(site, "confirm", address.lower().removeprefix(prefix))
    return int(number) if number is not None else None


def signed_address(site: Site, purpose: str, subject: str, *, key: str | None = None) -> str:
    """Return `PURPOSE+SUBJECT.MAC@INBOUND_DOMAIN`, signed with `key` or the newest key."""
    proof = address_mac(site.ring[key or site.signing_key_id], purpose, subject)
    return f"{purpose}+{subject}.{proof}@{site.inbound_domain}"


def verify_address(site: Site, purpose: str, address: str) -> str | None:
    """Return the subject of an address made for `purpose`, or None if its MAC is invalid."""
    local = address.rpartition("@")[0].lower()
    name, _, token = local.partition("+")
    subject, _, given = token.rpartition(".")
    if name != purpose or not subject or not given.isascii():
        return None
    macs = (address_mac(key, purpose, subject) for key in site.keys)
    return subject if any(hmac.compare_digest(made, given) for made in macs) else None


def address_mac(key: bytes, purpose: str, subject: str) -> str:
    """Return a MAC that is still valid after lower-casing: 80 bits in hexadecimal."""
    return keyed_hash(key, f"address-{purpose}\0{subject}")[:10].hex()


# ── names ───────────────────────────────────────────────────────────────────────────────────────


def message_id(site: Site, identity: str) -> str:
    """Return a delivery's Message-ID, which is the same on every attempt and does not reveal `identity`."""
    key = site.keys[-1]  # the oldest key, which rotation does not change
    return f"<{keyed_hash(key, f'message-id{chr(0)}{identity}').hex()[:40]}@{site.domain}>"


def address_hash(site: Site, email_key: str) -> str:
    """Return the keyed hash of an address, as stored in the suppression list."""
    return keyed_hash(site.pepper, email_key).hex()
