"""Gathering: what the decisions of digests name, and writing them needs."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress

from sqlalchemy import select
from sqlalchemy.orm import Session

from digest import db
from digest import presses as kept
from digest.composition import Digest
from digest.errors import NotFound
from digest.model import FilterRow
from digest.outbox import Claimed
from digest.press import Press

log = logging.getLogger(__name__)


def digests(claimed: Sequence[Claimed]) -> dict[int, Digest]:
    """Return the decisions of those that are digests, by delivery.

    One that cannot be read is left out: why is told when it is written.
    """
    found = {}
    for delivery in claimed:
        with suppress(ValueError, LookupError, TypeError):
            if delivery.edition:
                found[delivery.id] = Digest.from_json(delivery.decision)
    return found


def filters(session: Session, digests: Iterable[Digest]) -> dict[int, str]:
    """Return the canonical filters that these digests name, by id."""
    wanted = {
        section.filter_id
        for digest in digests
        for section in digest.sections
        if section.filter_id is not None
    }
    if not wanted:
        return {}
    table = FilterRow.__table__.c
    query = select(table.id, table.canonical).where(db.one_by_one(table.id, wanted))
    return {row[0]: row[1] for row in session.connection().execute(query).all()}


def presses(session: Session, claimed: Sequence[Claimed]) -> dict[str, Press]:
    """Return the presses of these digests by name; one that is gone is left out."""
    found = {}
    for name in {delivery.press for delivery in claimed if delivery.press}:
        try:
            found[name] = kept.load(session, name)
        except NotFound as error:
            log.warning("%s", error)
    return found
