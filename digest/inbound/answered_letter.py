"""Find the letter that a message answers by the reply address, which only the letter's reader received."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from digest.db.tables.deliveries import Delivery
from digest.db.tables.subscribers import Subscriber
from digest.editions.compose import Digest
from digest.inbound.writer_checks import MailIgnored
from digest.mail import addresses
from digest.site import links
from digest.site.site_profile import Site
from digest.subscribers import subscriber_rows


@dataclass(frozen=True, kw_only=True, slots=True)
class AnsweredLetter:
    """A letter to a reader, found because a message was sent to its reply address."""

    subscriber_id: int
    letter: str  #: the kind of the letter
    decision: str  #: the letter's content, as JSON

    @property
    def papers(self) -> Sequence[int]:
        """Return the ids of the letter's papers, in the order of their numbers.

        Our reply to a message contains the same papers as the digest that the message answered.
        """
        if self.letter == "digest":
            return Digest.from_json(self.decision).papers
        found: Sequence[int] = json.loads(self.decision).get("papers", ())
        return found


def reader_of(session: Session, email: str, answered: AnsweredLetter | None) -> Subscriber | None:
    """Return the subscriber whose settings the writer of a message may change, or None.

    If the owner of a group answers a letter about the group, that group is returned. Raises MailIgnored for
    mail from a group's address, because any member may have written it.
    """
    if answered is not None:
        group = session.get(Subscriber, answered.subscriber_id)
        if group is not None and group.is_group and is_same_address(group.contact_email, email):
            return group
    found = subscriber_rows.find(session, email)
    if found is not None and found.is_group:
        raise MailIgnored(
            "any member of the group may have written it; the owner writes from their own address"
        )
    return found


def is_same_address(one: str, other: str) -> bool:
    """Return whether two texts are spellings of the same address."""
    return addresses.fold_address(one) == addresses.fold_address(other)


def find(session: Session, site: Site, recipient: str) -> AnsweredLetter | None:
    """Return the letter to which a reply address belongs.

    Returns None if `recipient` is not a reply address, or if the letter was deleted or its links were revoked.
    """
    named = links.read_reply_address(site, recipient)
    if named is None or subscriber_rows.find_by_link(session, named[0], named[1]) is None:
        return None
    subscriber_id, _, letter = named
    is_letter = Delivery.id == int(letter) if letter.isdecimal() else func.lower(Delivery.edition) == letter
    found = session.scalars(
        select(Delivery).where(Delivery.subscriber_id == subscriber_id, is_letter).limit(1)
    ).first()
    if found is None:
        return None
    return AnsweredLetter(subscriber_id=subscriber_id, letter=found.letter, decision=found.decision)
