"""The outbox: deliveries, written in the same transaction as the decision to send.

Every change of state is a compare-and-set on (id, state, lease). Nothing here commits.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from digest.links import Site
from digest.model import Delivery, DeliveryState, Lane

DELIVERY: Any = Delivery.__table__

LETTER_LIFE = timedelta(days=2)  #: how long a letter other than a digest is tried

#: What a row of `put_digests` carries unless it says otherwise.
DIGEST_ROW: dict[str, Any] = {
    "letter": "digest",
    "lane": Lane.BULK,
    "email": None,
    "decision": "{}",
    "press": None,
    "key_id": "",
    "covers_from": None,
    "covers_to": None,
    "covers_paper_id": None,
    "state": DeliveryState.QUEUED,
    "reason": "",
    "settled_at": None,
}


# ── writing ─────────────────────────────────────────────────────────────────────────────────────


def put_letter(
    session: Session,
    *,
    letter: str,
    subscriber_id: int | None,
    email: str,
    decision: Mapping[str, Any],
    dedupe_key: str,
    site: Site,
    now: datetime,
    expires_at: datetime | None = None,
) -> int | None:
    """Write one letter into the prompt lane and return its id; None if its key was used before."""
    row = {
        "letter": letter,
        "lane": Lane.PROMPT,
        "subscriber_id": subscriber_id,
        "email": email,
        "decision": json.dumps(decision, separators=(",", ":")),
        "dedupe_key": dedupe_key,
        "key_id": site.signing_key_id,
        "dated_at": now,
        "state": DeliveryState.QUEUED,
        "due_at": now,
        "expires_at": expires_at or now + LETTER_LIFE,
    }
    adding = insert(session).on_conflict_do_nothing(index_elements=["dedupe_key"]).values(row)
    return session.execute(adding.returning(DELIVERY.c.id)).scalar_one_or_none()


def put_digests(session: Session, rows: Sequence[Mapping[str, Any]]) -> dict[int, int]:
    """Write digests into the bulk lane and return {subscriber id: delivery id} of those that are new.

    A row names at least `subscriber_id edition dated_at due_at expires_at`; an edition that a subscriber
    already has is left as it stands.
    """
    if not rows:
        return {}
    adding = insert(session).on_conflict_do_nothing(index_elements=["subscriber_id", "edition"])
    found = session.execute(
        adding.returning(DELIVERY.c.subscriber_id, DELIVERY.c.id), [{**DIGEST_ROW, **row} for row in rows]
    )
    return {row.subscriber_id: row.id for row in found}


def insert(session: Session) -> Any:
    """Return the INSERT of this session's database, which knows ON CONFLICT."""
    dialect = postgresql if session.get_bind().dialect.name == "postgresql" else sqlite
    return dialect.insert(DELIVERY)
