"""Digests are written without looking up their readers"""

from __future__ import annotations

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        op.drop_constraint("fk_delivery_subscriber_id_subscriber", "delivery", type_="foreignkey")
