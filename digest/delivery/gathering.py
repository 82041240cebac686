"""Gathering: what the decisions of digests name, and writing them needs."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

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

MOST_KNOWN = 20_000  #: filters that a run remembers, some 2 MB of them
FILTER: Any = FilterRow.__table__.c
FILTERS = select(FILTER.id, FILTER.canonical).where(db.one_by_one(FILTER.id, db.many("ids", FILTER.id)))


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


def filters(session: Session, digests: Iterable[Digest], known: Mapping[int, str]) -> Mapping[int, str]:
    """Return the canonical filters that these digests name, by id, among those that are `known`.

    Filters are only ever added: what is known of one stays true. When that has become too many, we begin anew.
    """
    named = {section.filter_id for digest in digests for section in digest.sections}
    kept = known if len(known) < MOST_KNOWN else {}
    wanted = {each for each in named if each is not None and each not in kept}
    if not wanted:
        return kept
    return {
        **kept,
        **{row[0]: row[1] for row in session.connection().execute(FILTERS, {"ids": wanted}).all()},
    }


def presses(session: Session, claimed: Sequence[Claimed]) -> dict[str, Press]:
    """Return the presses of these digests by name; one that is gone is left out."""
    found = {}
    for name in {delivery.press for delivery in claimed if delivery.press}:
        try:
            found[name] = kept.load(session, name)
        except NotFound as error:
            log.warning("%s", error)
    return found
