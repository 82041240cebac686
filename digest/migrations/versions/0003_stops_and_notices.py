"""Stops of the mail, and the notices of providers"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

import digest.db

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "stop",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("covers", sa.String(length=6), nullable=False),
        sa.Column("since", digest.db.UtcDateTime(timezone=True), nullable=False),
        sa.Column("said", sa.String(), nullable=False),
        sa.Column("lifted_at", digest.db.UtcDateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_stop")),
    )
    op.create_index(
        "ix_stop_standing",
        "stop",
        ["covers"],
        unique=True,
        postgresql_where=sa.text("lifted_at IS NULL"),
        sqlite_where=sa.text("lifted_at IS NULL"),
    )
    op.create_table(
        "notice",
        sa.Column("id", sa.String(length=100), nullable=False),
        sa.Column("at", digest.db.UtcDateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notice")),
    )
    op.create_index("ix_notice_at", "notice", ["at"], unique=False)
