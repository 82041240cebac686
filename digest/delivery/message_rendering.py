"""Render the message of a delivery from its stored decision. Pure."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct
from xxhash import xxh3_128_hexdigest

from digest.bounces import suppressions
from digest.delivery.outbox.letter_eligibility import may_reach_suppressed
from digest.delivery.outbox.recipients import RecipientState
from digest.delivery.outbox.transitions import ClaimedDelivery, Intent
from digest.delivery.transports.transport import Message
from digest.editions.compose import Digest
from digest.letters import headers, letter_rendering, mime, personalization
from digest.letters.dkim_signing import Signer, sign_message, signers_for_list
from digest.letters.press.digest_letters import DigestLetters
from digest.letters.templates import Templates
from digest.site import links
from digest.site.site_profile import Site

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class RenderContext:
    """The data loaded to render a window of letters."""

    site: Site
    templates: Templates
    signers: Sequence[Signer] = ()  #: the DKIM signers of every letter; if empty, the relay signs
    recipients: Mapping[int, RecipientState] = field(default_factory=dict)
    versions: Mapping[int, str] = field(default_factory=dict)  #: the versions of the recipients' rows
    digests: Mapping[int, Digest] = field(default_factory=dict)  #: decisions keyed by delivery id
    filters: Mapping[int, str] = field(default_factory=dict)  #: canonical filters keyed by id
    presses: Mapping[str, DigestLetters] = field(
        default_factory=dict
    )  #: the letters of each press by its name


class RenderedDelivery(Struct, frozen=True, kw_only=True):
    """A delivery, its message, and the recipient's state for which the message was rendered."""

    delivery: ClaimedDelivery
    recipient: RecipientState | None
    message: Message
    intent: Intent


def render_delivery(context: RenderContext, delivery: ClaimedDelivery) -> RenderedDelivery | None:
    """Return the message of a delivery, or None if its address was erased or it cannot be rendered, which is logged."""
    if delivery.email is None:
        return None
    recipient = context.recipients.get(delivery.subscriber_id or 0)
    message_id = delivery.message_id or links.message_id(context.site, delivery.identity)
    try:
        content = render_content(context, delivery, recipient, message_id)
    except Exception:  # an error in one letter must not stop the others
        log.exception("delivery %d cannot be rendered", delivery.id)
        return None
    is_for_group = bool(delivery.edition and recipient and recipient.group)
    signers = signers_for_list(context.signers) if is_for_group else context.signers
    return RenderedDelivery(
        delivery=delivery,
        recipient=recipient,
        message=Message(
            delivery_id=delivery.id,
            sender=links.envelope_sender(context.site, delivery.id),
            recipient=delivery.email,
            content=sign_message(content, signers, dated_at=delivery.dated_at),
            may_have_dots=False,  # quoted-printable encodes leading dots as =2E (letters.mime)
        ),
        intent=Intent(
            id=delivery.id,
            message_id=message_id,
            content_hash=xxh3_128_hexdigest(content),
            recipient_version=context.versions.get(delivery.subscriber_id or 0, ""),
            address_hash=suppressions.address_hmac(context.site, delivery.email),
            lifts_suppression=may_reach_suppressed(delivery),
        ),
    )


def render_content(
    context: RenderContext, delivery: ClaimedDelivery, recipient: RecipientState | None, message_id: str
) -> bytes:
    """Return the bytes of a letter; only a change of its recipient's row or of the templates changes them."""
    if delivery.edition and recipient:
        return render_digest(context, delivery, recipient, message_id)
    letter = letter_rendering.render_letter(
        context.templates, delivery.letter, template_context(context, delivery, recipient)
    )
    return mime.build_message(
        letter,
        site=context.site,
        recipient=delivery.email or "",
        message_id=message_id,
        dated_at=delivery.dated_at,
        headers=letter_headers(context, delivery, recipient),
    )


def letter_headers(
    context: RenderContext, delivery: ClaimedDelivery, recipient: RecipientState | None
) -> Sequence[tuple[str, str]]:
    """Return the Reply-To header, and list headers for bulk letters or reply headers for all others."""
    key = delivery.key_id if delivery.key_id in context.site.ring else None
    decision = json.loads(delivery.decision)
    reply = headers.reply_to(address_for_replies(context.site, delivery, recipient, decision, key))
    if delivery.letter not in {"nothing_today", "invite", "changed", "still_reading"} or recipient is None:
        return *reply, *headers.reply_headers(answered_id=str(decision.get("answered_id", "")))
    reader = (delivery.subscriber_id or 0, recipient.link_version)
    url = links.unsubscribe_url(context.site, *reader, key=key)
    address = links.unsubscribe_address(context.site, *reader, key=key)
    return *reply, *headers.list_headers(
        context.site, url, unsubscribe_address=address, campaign=delivery.letter
    )


def address_for_replies(
    site: Site,
    delivery: ClaimedDelivery,
    recipient: RecipientState | None,
    decision: Mapping[str, Any],
    key: str | None,
) -> str:
    """Return the Reply-To address of a letter, or "" if it has none.

    If the letter forwards a message to the operator, replies go to the writer of that message. A reply to a
    confirmation letter confirms, and a reply to any other letter can change settings. Any other letter to an
    address that is not a subscriber's has no Reply-To.
    """
    if "writer" in decision:
        return str(decision["writer"])
    if "confirmation_id" in decision:
        return links.confirm_address(site, decision["confirmation_id"], key=key)
    # These letters go to an address that is not the subscriber's.
    if recipient is None or delivery.letter in {"new_address", "address_changed"}:
        return ""
    reader = (delivery.subscriber_id or 0, recipient.link_version)
    return links.reply_address(site, *reader, delivery.edition or str(delivery.id), key=key)


def render_digest(
    context: RenderContext, delivery: ClaimedDelivery, recipient: RecipientState, message_id: str
) -> bytes:
    """Return the bytes of a digest, made from the prepared content (press) of its publication."""
    copy = personalization.personalize(
        context.site,
        delivery_id=delivery.id,
        subscriber_id=delivery.subscriber_id or 0,
        link_version=recipient.link_version,
        email=delivery.email or "",
        edition=delivery.edition or "",
        dated_at=delivery.dated_at,
        schedule=recipient.schedule,
        key_id=delivery.key_id,
        filters=context.filters,
        message_id=message_id,
        is_group=bool(recipient.group),
    )
    letters_of_press = context.presses[delivery.press or ""]
    # A decision that could not be parsed is parsed again here, to raise the error.
    digest = context.digests.get(delivery.id) or Digest.from_json(delivery.decision)
    return letters_of_press.message(digest, copy)


def template_context(
    context: RenderContext, delivery: ClaimedDelivery, recipient: RecipientState | None
) -> dict[str, Any]:
    """Return the variables of a letter's templates: the stored decision and the recipient."""
    return {
        "site": context.site,
        "email": delivery.email,
        "subscriber_id": delivery.subscriber_id,
        "link_version": recipient.link_version if recipient else 0,
        "timezone": recipient.schedule.timezone if recipient else "UTC",
        "group": recipient.group if recipient and delivery.email != recipient.group else "",
        "key": delivery.key_id if delivery.key_id in context.site.ring else None,
        "dated_at": delivery.dated_at,
        **json.loads(delivery.decision),
    }
