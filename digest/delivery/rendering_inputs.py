"""Load the data that rendering needs: recipients, digest decisions, filters and presses."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from digest import db
from digest.db.tables.subscribers import FilterRow
from digest.delivery import press_store
from digest.delivery.message_rendering import RenderContext
from digest.delivery.outbox import recipients
from digest.delivery.outbox.transitions import ClaimedDelivery
from digest.editions.compose import Digest
from digest.errors import NotFound
from digest.letters.press.digest_letters import DigestLetters
from digest.letters.press.load_templates import letters_of
from digest.process.caches import Caches

log = logging.getLogger(__name__)

MAX_KNOWN = 20_000  #: maximum number of filters that a delivery run caches (about 2 MB)
FILTER_COLUMNS: Any = FilterRow.__table__.c
FILTERS_QUERY = select(FILTER_COLUMNS.id, FILTER_COLUMNS.canonical).where(
    db.one_of(FILTER_COLUMNS.id, db.values_param("ids", FILTER_COLUMNS.id), is_small_table=True)
)


def load_context(
    session: Session,
    base: RenderContext,
    claimed: Sequence[ClaimedDelivery],
    *,
    known_filters: Mapping[int, str],
    caches: Caches,
) -> RenderContext:
    """Return the context with the data needed to render these letters."""
    digests = load_digests(claimed)
    found = recipients.load_recipients_with_versions(
        session, (delivery.subscriber_id for delivery in claimed)
    )
    return replace(
        base,
        recipients={number: recipient for number, (recipient, _) in found.items()},
        versions={number: version for number, (_, version) in found.items()},
        digests=digests,
        filters=load_filters(session, digests.values(), known_filters),
        presses=load_presses(session, claimed, base, caches),
    )


def load_digests(claimed: Sequence[ClaimedDelivery]) -> dict[int, Digest]:
    """Return the digest decisions among these deliveries, keyed by delivery id.

    A decision that cannot be parsed is left out; the error is logged when the letter is rendered.
    """
    found = {}
    for delivery in claimed:
        with suppress(ValueError, LookupError, TypeError):
            if delivery.edition:
                found[delivery.id] = Digest.from_json(delivery.decision)
    return found


def load_filters(session: Session, digests: Iterable[Digest], known: Mapping[int, str]) -> Mapping[int, str]:
    """Return `known` with the canonical filters of these digests added, keyed by filter id.

    Filters never change, so the cache stays valid. The cache is emptied when it reaches `MAX_KNOWN`.
    """
    named = {section.filter_id for digest in digests for section in digest.sections}
    kept = known if len(known) < MAX_KNOWN else {}
    missing = {each for each in named if each is not None and each not in kept}
    if not missing:
        return kept
    return {
        **kept,
        **{row[0]: row[1] for row in session.connection().execute(FILTERS_QUERY, {"ids": missing}).all()},
    }


def load_presses(
    session: Session, claimed: Sequence[ClaimedDelivery], base: RenderContext, caches: Caches
) -> dict[str, DigestLetters]:
    """Return the letters of the presses of these digests, keyed by press name; log and skip missing presses."""
    found = {}
    for name in {delivery.press for delivery in claimed if delivery.press}:
        try:
            made = press_store.load_press(session, name, caches)
            found[name] = letters_of(made, base.site, base.templates, caches)
        except NotFound as error:
            log.warning("%s", error)
    return found
