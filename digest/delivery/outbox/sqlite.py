"""Record intents and settle deliveries on SQLite, which executes each statement in our own process."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from sqlalchemy import TextClause, bindparam, text

from digest import db, failpoints
from digest.db.tables import DeliveryState
from digest.delivery.outbox.attempts import record_attempts
from digest.delivery.outbox.letter_eligibility import recipient_version
from digest.delivery.outbox.transitions import AcceptedWindow, FetchReply, Intent, NextWindow, Outbox


def intend_statement(guards: str) -> TextClause:
    """Return the statement that records an intent for each letter that we hold and that is not blocked.

    A suppressed address, or a condition in `guards`, blocks a letter.
    """
    statement = text(
        f"""UPDATE delivery SET state = 'sending', attempts = attempts + 1, leased_until = :until,
            message_id = new.value ->> 1, content_hash = new.value ->> 2
        FROM json_each(:intents) AS new
        WHERE delivery.id = new.value ->> 0 AND delivery.state = 'claimed' AND delivery.lease = :lease
            AND NOT EXISTS (SELECT 1 FROM suppression WHERE suppression.hmac = new.value ->> 4) {guards}
        RETURNING id"""  # noqa: S608 - constants only
    )
    return statement.bindparams(bindparam("until", type_=db.UtcDateTime))


INTEND = intend_statement(
    f"""AND NOT EXISTS (
            SELECT 1 FROM subscriber
            WHERE subscriber.id = delivery.subscriber_id AND new.value ->> 3 <> ''
                AND {recipient_version("sqlite")} <> new.value ->> 3
        )"""  # noqa: S608 - constants only
)
INTEND_UNBLOCKED = intend_statement(
    f"""AND EXISTS (
            SELECT 1 FROM subscriber
            WHERE subscriber.id = delivery.subscriber_id AND {recipient_version("sqlite")} = new.value ->> 3
        )
        AND NOT EXISTS (SELECT 1 FROM emergency_stop WHERE emergency_stop.lifted_at IS NULL)
        AND NOT EXISTS (
            SELECT 1 FROM domain_pause AS pause
            WHERE pause.scope IN (SELECT value FROM json_each(:paused)) AND pause.until > :now
        )"""  # noqa: S608 - constants only
).bindparams(bindparam("now", type_=db.UtcDateTime))


class SqliteOutbox(Outbox):
    """The outbox on SQLite, where each statement ends before our process continues."""

    def intend(self, intents: Sequence[Intent], *, lease: str, until: datetime) -> set[int]:
        """Record the intent to send these letters; return the ids of those that may be sent until `until`."""
        return self.execute(INTEND, intents, lease=lease, until=until)

    def execute(self, statement: TextClause, intents: Sequence[Intent], **given: Any) -> set[int]:
        """Record intents with `INTEND` or `INTEND_UNBLOCKED`; return the ids of letters that may be sent."""
        if not intents:
            return set()
        rows = [
            (each.id, each.message_id, each.content_hash, each.recipient_version, each.address_hash)
            for each in intents
        ]
        return set(
            self.session.connection().execute(statement, {**given, "intents": json.dumps(rows)}).scalars()
        )

    @contextmanager
    def settle_and_intend(
        self, accepted: AcceptedWindow | None, following: NextWindow
    ) -> Iterator[FetchReply]:
        """Settle an accepted window and record the intents of the next window before the block runs."""
        ended = self.settle_accepted(accepted) if accepted else 0
        failpoints.reach("settling")
        held = self.execute(
            INTEND_UNBLOCKED, following.intents, lease=following.lease, until=following.until,
            now=following.now, paused=json.dumps(following.paused),
        )  # fmt: skip
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
