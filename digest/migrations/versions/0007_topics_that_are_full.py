"""How often topics were full, and when a narrower one was offered"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

import digest.db

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("subscriber", sa.Column("full_in_a_row", sa.String(length=50), nullable=True))
    op.add_column("subscriber", sa.Column("offered_at", digest.db.UtcDateTime(timezone=True), nullable=True))
