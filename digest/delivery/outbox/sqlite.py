"""Record intents and settle deliveries on SQLite, which executes each statement in our own process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import bindparam, text

from digest import db
from digest.db.tables.deliveries import DeliveryState
from digest.delivery.outbox.attempts import record_attempts
from digest.delivery.outbox.letter_eligibility import recipient_version
from digest.delivery.outbox.transitions import AcceptedWindow, FetchReply, NextWindow, Outbox, intend_sql
from digest.process import failpoints

LETTERS = """(
    SELECT value ->> 0 AS id, value ->> 1 AS message_id, value ->> 2 AS content_hash,
        value ->> 3 AS version, value ->> 4 AS address
    FROM json_each(:intents)
) AS new"""
IS_IN_SCOPES = "scope IN (SELECT value FROM json_each(:scopes))"
UNTIL, NOW = (bindparam(name, type_=db.UtcDateTime) for name in ("until", "now"))
INTEND = text(intend_sql(LETTERS, recipient_version("sqlite"))).bindparams(UNTIL)
INTEND_UNBLOCKED = text(intend_sql(LETTERS, recipient_version("sqlite"), IS_IN_SCOPES)).bindparams(UNTIL, NOW)


class SqliteOutbox(Outbox):
    """The outbox on SQLite, where each statement ends before our process continues."""

    def record_intents(self, window: NextWindow) -> set[int]:
        """Record the intents of a window; return the ids of the letters that may be sent."""
        rows = [
            (each.id, each.message_id, each.content_hash, each.recipient_version or None, each.address_hash)
            for each in window.intents
        ]
        given = {
            "intents": json.dumps(rows),
            "scopes": json.dumps(window.scopes),
            "lease": window.lease,
            "until": window.until,
            "now": window.now,
        }
        statement = INTEND_UNBLOCKED if window.scopes else INTEND
        return set(self.session.connection().execute(statement, given).scalars())

    @contextmanager
    def settle_and_intend(
        self, accepted: AcceptedWindow | None, following: NextWindow
    ) -> Iterator[FetchReply]:
        """Settle an accepted window and record the intents of the next window before the block runs."""
        ended = self.settle_accepted(accepted) if accepted else 0
        failpoints.reach("settling")
        held = self.record_intents(following)
        failpoints.reach("intending")
        self.session.commit()
        failpoints.reach("settled")
        failpoints.reach("intended")
        yield lambda: (ended, held)

    def settle_accepted(self, accepted: AcceptedWindow) -> int:
        """Settle an accepted window; return the number of its letters that we still held."""
        ids = [each.delivery_id for each in accepted.attempts]
        lease, now = accepted.lease, accepted.ended_at
        ended = self.settle(ids, DeliveryState.SENT, from_state=DeliveryState.SENDING, lease=lease, now=now)
        record_attempts(self.session, accepted.attempts, lease=lease, now=now)
        return len(ended)
