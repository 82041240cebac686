"""Gathering: what the decisions of digests name, and writing them needs."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from digest import db
from digest import presses as kept
from digest.errors import NotFound
from digest.model import FilterRow
from digest.outbox import Claimed
from digest.press import Press

log = logging.getLogger(__name__)


def filters(session: Session, digests: Sequence[Claimed]) -> dict[int, str]:
    """Return the canonical filters that these digests name, by id."""
    wanted = {number for delivery in digests for number in filters_named(delivery)}
    if not wanted:
        return {}
    table = FilterRow.__table__.c
    query = select(table.id, table.canonical).where(db.one_by_one(table.id, wanted))
    return {row[0]: row[1] for row in session.connection().execute(query)}


def filters_named(delivery: Claimed) -> list[int]:
    """Return the filters of a decision; none of one that cannot be read, which is told when it is written."""
    try:
        chosen_by = (section[1] for section in json.loads(delivery.decision)["sections"])
        return [number for number in chosen_by if number is not None]
    except (ValueError, LookupError, TypeError):
        return []


def presses(session: Session, digests: Sequence[Claimed]) -> dict[str, Press]:
    """Return the presses of these digests by name; one that is gone is left out."""
    found = {}
    for name in {delivery.press for delivery in digests if delivery.press}:
        try:
            found[name] = kept.load(session, name)
        except NotFound as error:
            log.warning("%s", error)
    return found
