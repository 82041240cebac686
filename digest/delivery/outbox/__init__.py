"""Store deliveries in the transaction that decides to send them.

`transitions` shows the states of a delivery and how workers change them.

An open delivery is due from `due_at` on, unless it is leased. A claim skips leased deliveries, so one index
finds both new work and the work of dead workers. Claims and intents do not change this index, which saves
PostgreSQL an index entry for each of them.

Callers commit.
"""

from digest.delivery.outbox.attempts import (
    AttemptRecord,
    is_recorded,
    list_attempts,
    record_attempts,
)
from digest.delivery.outbox.backoff import make_due, next_attempt_at, postpone
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
    may_reach_suppressed,
    refusal_reason,
)
from digest.delivery.outbox.open_deliveries import IS_OPEN, is_due
from digest.delivery.outbox.recipients import RecipientState, load_recipients_with_versions
from digest.delivery.outbox.silent_server import MailSilence, find_silence, note_silence
from digest.delivery.outbox.stuck_deliveries import give_up_stuck, retry_stuck, stuck_ids
from digest.delivery.outbox.transitions import (
    DUE_QUERY,
    LEASE,
    ClaimedDelivery,
    Ending,
    Intent,
    claim,
    intend,
    release_dead_claims,
    renew,
    renewed_lease,
    settle,
    sweep,
)
from digest.delivery.outbox.withdrawals import (
    expire_open,
    forget_recipient,
    has_queued_letter,
    readdress_queued,
    withdraw_letter,
    withdraw_letters,
)

__all__ = [
    "DIGEST_DEFAULTS",
    "DUE_QUERY",
    "IS_OPEN",
    "LEASE",
    "LETTER_LIFE",
    "LIFTS_SUPPRESSION",
    "AttemptRecord",
    "ClaimedDelivery",
    "Ending",
    "Intent",
    "MailSilence",
    "RecipientState",
    "claim",
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
    "intend",
    "is_due",
    "is_recorded",
    "list_attempts",
    "list_deliveries",
    "list_sent_digests",
    "load_recipients_with_versions",
    "make_due",
    "may_reach_suppressed",
    "next_attempt_at",
    "note_silence",
    "postpone",
    "prune_attempts",
    "prune_deliveries",
    "queue_bulk_letters",
    "queue_digests",
    "queue_letter",
    "queue_new_digests",
    "readdress_queued",
    "record_attempts",
    "refusal_reason",
    "release_dead_claims",
    "renew",
    "renewed_lease",
    "reserve_ids",
    "retry_stuck",
    "settle",
    "stuck_ids",
    "sweep",
    "withdraw_letter",
    "withdraw_letters",
]
