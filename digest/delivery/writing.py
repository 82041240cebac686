"""Writing: from the decision kept with a delivery to the bytes of its message. Pure."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from msgspec import Struct
from xxhash import xxh3_128_hexdigest

from digest import copies, links, press, rendering
from digest.composition import Digest
from digest.links import Site
from digest.outbox import Claimed, Intent, Reader
from digest.press import Press
from digest.rendering import Templates
from digest.rendering.dkim import Signer, signed
from digest.transport import Message

log = logging.getLogger(__name__)

SHA256_SIGNS = 64  #: of a hash from before there was a faster one


@dataclass(frozen=True, kw_only=True, slots=True)
class Desk:
    """What lies ready for writing a window of letters."""

    site: Site
    templates: Templates
    readers: Mapping[int, Reader]
    digests: Mapping[int, Digest]  #: decisions by delivery
    filters: Mapping[int, str]  #: canonical filters by id
    presses: Mapping[str, Press]
    signers: Sequence[Signer] = ()  #: who sign every letter; none: the relay does


class Written(Struct, frozen=True, kw_only=True):
    """A delivery, the message that is to be sent, and the reader it was written for."""

    delivery: Claimed
    reader: Reader | None
    message: Message
    intent: Intent


def write(desk: Desk, delivery: Claimed) -> Written | None:
    """Return the message of a delivery, or None if it cannot be made; the log then says why."""
    reader = desk.readers.get(delivery.subscriber_id or 0)
    message_id = delivery.message_id or links.message_id(desk.site, delivery.identity)
    try:
        content = content_of(desk, delivery, reader, message_id)
    except Exception:  # whatever is wrong with one letter, the others must go out
        log.exception("delivery %d cannot be written", delivery.id)
        return None
    return Written(
        delivery=delivery,
        reader=reader,
        message=Message(
            delivery_id=delivery.id,
            sender=links.envelope_sender(desk.site, delivery.id),
            recipient=delivery.email or "",
            content=signed(content, desk.signers, dated_at=delivery.dated_at),
            may_have_dots=False,  # quoted-printable writes them as =2E there (rendering.mime)
        ),
        intent=Intent(
            id=delivery.id,
            message_id=message_id,
            content_hash=content_hash(content, first=delivery.content_hash),
        ),
    )


def content_hash(content: bytes, *, first: str | None) -> str:
    """Return what tells these bytes from others, made as that of the `first` attempt was: some are SHA-256.

    It is compared with our own alone and wards off nobody, so that it need but be fast.
    """
    if first is not None and len(first) == SHA256_SIGNS:
        return sha256(content).hexdigest()
    return xxh3_128_hexdigest(content)


def content_of(desk: Desk, delivery: Claimed, reader: Reader | None, message_id: str) -> bytes:
    """Return the bytes of a letter: the same on every attempt."""
    if delivery.edition and reader:
        return digest_content(desk, delivery, reader, message_id)
    letter = rendering.letter(desk.templates, delivery.letter, context_of(desk, delivery, reader))
    return rendering.message(
        letter,
        site=desk.site,
        recipient=delivery.email or "",
        message_id=message_id,
        dated_at=delivery.dated_at,
        headers=headers_of(desk, delivery, reader),
    )


def headers_of(desk: Desk, delivery: Claimed, reader: Reader | None) -> Sequence[tuple[str, str]]:
    """Return what says how a letter came about: asked for just now, or one of many, with the way out."""
    if delivery.letter not in {"quiet", "invite", "changed"} or reader is None:
        return rendering.reply_headers(answers=str(json.loads(delivery.decision).get("answers", "")))
    key = delivery.key_id if delivery.key_id in desk.site.ring else None
    way = links.unsubscribe_url(desk.site, delivery.subscriber_id or 0, reader.epoch, key=key)
    address = links.leave_address(desk.site, delivery.subscriber_id or 0, reader.epoch, key=key)
    return rendering.list_headers(desk.site, way, leave_address=address, campaign=delivery.letter)


def digest_content(desk: Desk, delivery: Claimed, reader: Reader, message_id: str) -> bytes:
    """Return the bytes of a digest, set with the press that it was composed with."""
    copy = copies.digest_copy(
        desk.site,
        delivery_id=delivery.id,
        subscriber_id=delivery.subscriber_id or 0,
        epoch=reader.epoch,
        email=delivery.email or "",
        edition=delivery.edition or "",
        dated_at=delivery.dated_at,
        schedule=reader.schedule,
        key_id=delivery.key_id,
        filters=desk.filters,
        message_id=message_id,
    )
    made_with = desk.presses[delivery.press or ""]
    # What could not be read is read once more, to say what is wrong with it.
    digest = desk.digests.get(delivery.id) or Digest.from_json(delivery.decision)
    return press.digest_message(made_with, desk.site, digest, copy)


def context_of(desk: Desk, delivery: Claimed, reader: Reader | None) -> dict[str, Any]:
    """Return what a letter may speak of: the decision kept with it, and whom it goes to."""
    return {
        "site": desk.site,
        "email": delivery.email,
        "subscriber_id": delivery.subscriber_id,
        "epoch": reader.epoch if reader else 0,
        "timezone": reader.schedule.timezone if reader else "UTC",
        "key": delivery.key_id if delivery.key_id in desk.site.ring else None,
        "dated_at": delivery.dated_at,
        **json.loads(delivery.decision),
    }
