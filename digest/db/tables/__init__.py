"""Define the schema: all tables, in one module per subject.

Unique keys prevent duplicates, such as two digests of one edition for a subscriber. Columns named `*_at` are
times in UTC. `tests/db/test_schema.py` compares the migrations with these classes.

Importing one module imports all, because tables refer to tables of other modules.
"""

from digest.db.tables import deliveries, dumps, inbound_mail, limits, papers, service_state, subscribers

__all__ = ["deliveries", "dumps", "inbound_mail", "limits", "papers", "service_state", "subscribers"]
