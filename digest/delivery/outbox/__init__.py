"""Store deliveries, written in the same transaction as the decision to send them.

 queued ──claim──▶ claimed ──intend──▶ sending ──settle──▶ sent, failed, or queued again
   ▲                  │                   │
   └──── requeue ─────┘                   └── no reply: stays until the lease ends, then in doubt

Every change of state is a compare-and-set on (id, state, lease), so a worker that lost its lease changes
nothing. An open delivery is due from `due_at` on, unless it is leased. A claim skips leased deliveries, so
one index finds both new work and work whose worker died. Claims and intents do not touch that index, which
saves PostgreSQL an index entry for each.

Nothing here commits: the caller does. An intent must be committed before the first byte goes out.
"""

from digest.delivery.outbox.attempts import AttemptRecord, are_recorded, list_attempts, record_attempts
from digest.delivery.outbox.backoff import make_due, next_attempt_at, postpone, requeue, withdraw_letter
from digest.delivery.outbox.claims import DUE_QUERY, LEASE, ClaimedDelivery, claim, renewed_lease
from digest.delivery.outbox.delete_old import prune_attempts, prune_deliveries
from digest.delivery.outbox.enqueue import (
    DIGEST_DEFAULTS,
    LETTER_LIFE,
    find_already_queued,
    queue_bulk_letters,
    queue_digests,
    queue_letter,
    queue_new_digests,
    reserve_ids,
)
from digest.delivery.outbox.intents import Intent, intend, note_reason, record_provider_ids, settle
from digest.delivery.outbox.letter_eligibility import (
    LIFTS_SUPPRESSION,
    RecipientState,
    load_recipients,
    load_recipients_with_versions,
    may_reach_suppressed,
    refusal_reason,
)
from digest.delivery.outbox.open_deliveries import IS_OPEN, is_due
from digest.delivery.outbox.queue_counts import count_by_state, count_due

__all__ = [
    "DIGEST_DEFAULTS",
    "DUE_QUERY",
    "IS_OPEN",
    "LEASE",
    "LETTER_LIFE",
    "LIFTS_SUPPRESSION",
    "AttemptRecord",
    "ClaimedDelivery",
    "Intent",
    "RecipientState",
    "are_recorded",
    "claim",
    "count_by_state",
    "count_due",
    "find_already_queued",
    "intend",
    "is_due",
    "list_attempts",
    "load_recipients",
    "load_recipients_with_versions",
    "make_due",
    "may_reach_suppressed",
    "next_attempt_at",
    "note_reason",
    "postpone",
    "prune_attempts",
    "prune_deliveries",
    "queue_bulk_letters",
    "queue_digests",
    "queue_letter",
    "queue_new_digests",
    "record_attempts",
    "record_provider_ids",
    "refusal_reason",
    "renewed_lease",
    "requeue",
    "reserve_ids",
    "settle",
    "withdraw_letter",
]
