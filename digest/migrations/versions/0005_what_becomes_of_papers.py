"""What becomes of papers, and who was told"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

import digest.db

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "change",
        sa.Column("paper_id", KEY, nullable=False),
        sa.Column("kind", sa.String(length=10), nullable=False),
        sa.Column("seen_at", digest.db.UtcDateTime(timezone=True), nullable=False),
        sa.Column("says", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(
            ["paper_id"], ["paper.id"], name=op.f("fk_change_paper_id_paper"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("paper_id", "kind", name=op.f("pk_change")),
    )
    op.create_index(op.f("ix_change_seen_at"), "change", ["seen_at"], unique=False)
    op.create_table(
        "told",
        sa.Column("subscriber_id", KEY, autoincrement=False, nullable=False),
        sa.Column("paper_id", KEY, autoincrement=False, nullable=False),
        sa.Column("kind", sa.String(length=10), nullable=False),
        sa.Column("delivery_id", KEY, nullable=False),
        sa.Column("told_on", sa.Date(), nullable=False),
        sa.PrimaryKeyConstraint("subscriber_id", "paper_id", "kind", name=op.f("pk_told")),
        sqlite_with_rowid=False,
    )
    op.create_index(op.f("ix_told_paper_id"), "told", ["paper_id"], unique=False)
    op.create_index(op.f("ix_told_delivery_id"), "told", ["delivery_id"], unique=False)
