"""Store deliveries in the transaction that decides to send them.

`transitions` shows the states of a delivery and how workers change them.

An open delivery is due from `due_at` on, unless it is leased. A claim skips leased deliveries, so one index
finds both new work and the work of dead workers. Claims and intents do not change this index, which saves
PostgreSQL an index entry for each of them.

Callers commit.
"""
