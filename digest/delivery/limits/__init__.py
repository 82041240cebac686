"""Limit the sending of mail across all workers: rates, quotas, domain pauses and emergency stops.

`limiter` decides which letters of a batch (a window) may be sent now, without reading the database.
`shared_limits` loads the limits from rows shared by all workers, and writes the changes in the transaction
that commits the intents to send letters. Callers commit.
"""
