"""Create the schema

Until the first release, this migration creates the tables as currently defined. With the first release, their
definitions are copied to this file; from then on, migrations are append-only.
"""

from __future__ import annotations

from alembic import op

from digest.db.tables.deliveries import Delivery

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    Delivery.metadata.create_all(op.get_bind(), checkfirst=False)
