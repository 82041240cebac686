"""The outbox: deliveries, written in the same transaction as the decision to send.

 queued ──claim──▶ claimed ──intend──▶ sending ──settle──▶ sent, failed, or queued again
   ▲                  │                   │
   └── give_back ─────┘                   └── no reply: stays until the lease is over, then in doubt

Every change of state is a compare-and-set on (id, state, lease): who has lost the lease changes
nothing. An open delivery is due from `due_at` on, unless a lease holds it: who claims passes over those, so
one index finds both new work and work whose holder has died. A claim and an intent leave that index alone,
which spares PostgreSQL an entry in each of the table's for both. Nothing here commits: the caller does, and
an intent must be committed before the first byte goes out.
"""

from digest.outbox.claiming import DUE, LEASE, Claimed, claim, renewed
from digest.outbox.evidence import Tried, are_kept, keep_attempts, trace
from digest.outbox.looking import counts, waiting
from digest.outbox.postponing import (
    hasten,
    next_try,
    postpone,
    put_back,
    withdraw,
)
from digest.outbox.rows import IS_OPEN, is_due
from digest.outbox.sending import Intent, end, intend, keep_names, remark
from digest.outbox.wanting import Reader, readers, refusal, seen
from digest.outbox.writing import (
    DIGEST_ROW,
    LETTER_LIFE,
    numbers,
    put_digests,
    put_letter,
    put_new_digests,
    put_notices,
    taken,
)

__all__ = [
    "DIGEST_ROW",
    "DUE",
    "IS_OPEN",
    "LEASE",
    "LETTER_LIFE",
    "Claimed",
    "Intent",
    "Reader",
    "Tried",
    "are_kept",
    "claim",
    "counts",
    "end",
    "hasten",
    "intend",
    "is_due",
    "keep_attempts",
    "keep_names",
    "next_try",
    "numbers",
    "postpone",
    "put_back",
    "put_digests",
    "put_letter",
    "put_new_digests",
    "put_notices",
    "readers",
    "refusal",
    "remark",
    "renewed",
    "seen",
    "taken",
    "trace",
    "waiting",
    "withdraw",
]
