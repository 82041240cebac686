"""Packs, and what filters that use them stand for"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

import digest.db

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    key = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "pack",
        sa.Column("id", key, nullable=False),
        sa.Column("name", sa.String(length=40), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("description", sa.String(), nullable=False),
        sa.Column("filters", sa.JSON(), nullable=False),
        sa.Column("stood_on", sa.JSON(), nullable=False),
        sa.Column("text", sa.String(), nullable=False),
        sa.Column("published_at", digest.db.UtcDateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_pack")),
        sa.UniqueConstraint("name", "version", name=op.f("uq_pack_name_version")),
    )
    op.create_table(
        "meaning",
        sa.Column("filter_id", key, autoincrement=False, nullable=False),
        sa.Column("stands_for_id", key, nullable=False),
        sa.ForeignKeyConstraint(["filter_id"], ["filter.id"], name=op.f("fk_meaning_filter_id_filter")),
        sa.ForeignKeyConstraint(
            ["stands_for_id"], ["filter.id"], name=op.f("fk_meaning_stands_for_id_filter")
        ),
        sa.PrimaryKeyConstraint("filter_id", name=op.f("pk_meaning")),
    )
