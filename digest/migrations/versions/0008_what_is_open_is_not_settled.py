"""What is open is what is not settled, and evidence stands for itself"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

IS_OPEN = sa.text("settled_at IS NULL")


def upgrade() -> None:
    op.execute(
        "UPDATE delivery SET settled_at = dated_at"
        " WHERE settled_at IS NULL AND state NOT IN ('queued', 'claimed', 'sending')"
    )
    op.drop_index("ix_delivery_open", table_name="delivery")
    op.create_index(
        "ix_delivery_open", "delivery", ["lane", "due_at"], postgresql_where=IS_OPEN, sqlite_where=IS_OPEN
    )
    with op.batch_alter_table("attempt") as attempts:
        attempts.drop_constraint("fk_attempt_delivery_id_delivery", type_="foreignkey")
