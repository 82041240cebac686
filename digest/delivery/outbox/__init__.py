"""Store deliveries in the transaction that decides to send them.

`transitions` shows the states of a delivery and how workers change them.

An open delivery is due from `due_at` on, unless it is leased. A claim skips leased deliveries, so one index
finds both new work and the work of dead workers. Claims and intents do not change this index, which saves
PostgreSQL an index entry for each of them.

Callers commit, except for `Outbox.settle_and_intend`, which commits itself.
"""

from digest import db
from digest.db import Session
from digest.delivery.outbox.attempts import (
    AttemptRecord,
    is_recorded,
    list_attempts,
    note_reason,
    record_attempts,
    record_provider_ids,
)
from digest.delivery.outbox.backoff import make_due, next_attempt_at, postpone
from digest.delivery.outbox.dead_claims import release_dead_claims
from digest.delivery.outbox.delete_old import prune_attempts, prune_deliveries
from digest.delivery.outbox.delivery_listing import (
    count_by_state,
    count_deliveries,
    count_due,
    count_sent_digests,
    find_delivery,
    find_digest,
    list_deliveries,
    list_sent_digests,
)
from digest.delivery.outbox.enqueue import (
    DIGEST_DEFAULTS,
    LETTER_LIFE,
    decided_editions,
    queue_bulk_letters,
    queue_digests,
    queue_letter,
    queue_new_digests,
    reserve_ids,
)
from digest.delivery.outbox.letter_eligibility import (
    LIFTS_SUPPRESSION,
    RecipientState,
    load_recipients_with_versions,
    may_reach_suppressed,
    refusal_reason,
)
from digest.delivery.outbox.open_deliveries import IS_OPEN, is_due
from digest.delivery.outbox.silent_server import MailSilence, find_silence, note_silence
from digest.delivery.outbox.stuck_deliveries import give_up_stuck, retry_stuck, stuck_ids
from digest.delivery.outbox.transitions import (
    DUE_QUERY,
    LEASE,
    AcceptedWindow,
    ClaimedDelivery,
    Intent,
    NextWindow,
    Outbox,
    renewed_lease,
)
from digest.delivery.outbox.withdrawals import (
    expire_open,
    forget_recipient,
    has_queued_letter,
    readdress_queued,
    withdraw_letter,
    withdraw_letters,
)


def open_outbox(session: Session) -> Outbox:
    """Return the outbox that uses the session's database."""
    return implementation(db.dialect_name(session))(session)


def implementation(dialect: str) -> type[Outbox]:
    """Return the outbox class of a dialect; the other class is not imported, so that commands start
    faster."""
    if dialect == "postgresql":
        from digest.delivery.outbox.postgresql import PostgresqlOutbox

        return PostgresqlOutbox
    from digest.delivery.outbox.sqlite import SqliteOutbox

    return SqliteOutbox


__all__ = [
    "DIGEST_DEFAULTS",
    "DUE_QUERY",
    "IS_OPEN",
    "LEASE",
    "LETTER_LIFE",
    "LIFTS_SUPPRESSION",
    "AcceptedWindow",
    "AttemptRecord",
    "ClaimedDelivery",
    "Intent",
    "MailSilence",
    "NextWindow",
    "Outbox",
    "RecipientState",
    "count_by_state",
    "count_deliveries",
    "count_due",
    "count_sent_digests",
    "decided_editions",
    "expire_open",
    "find_delivery",
    "find_digest",
    "find_silence",
    "forget_recipient",
    "give_up_stuck",
    "has_queued_letter",
    "is_due",
    "is_recorded",
    "list_attempts",
    "list_deliveries",
    "list_sent_digests",
    "load_recipients_with_versions",
    "make_due",
    "may_reach_suppressed",
    "next_attempt_at",
    "note_reason",
    "note_silence",
    "open_outbox",
    "postpone",
    "prune_attempts",
    "prune_deliveries",
    "queue_bulk_letters",
    "queue_digests",
    "queue_letter",
    "queue_new_digests",
    "readdress_queued",
    "record_attempts",
    "record_provider_ids",
    "refusal_reason",
    "release_dead_claims",
    "renewed_lease",
    "reserve_ids",
    "retry_stuck",
    "stuck_ids",
    "withdraw_letter",
    "withdraw_letters",
]
