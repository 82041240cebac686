"""What a provider that rewrites the Message-ID calls a letter"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("delivery", sa.Column("provider_id", sa.String(length=120), nullable=True))
    op.create_index(
        "ix_delivery_provider",
        "delivery",
        ["provider_id"],
        unique=False,
        postgresql_where=sa.text("provider_id IS NOT NULL"),
        sqlite_where=sa.text("provider_id IS NOT NULL"),
    )
