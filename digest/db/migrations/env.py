"""Run Alembic migrations on the engine passed by the caller, without a settings file."""

from __future__ import annotations

from alembic import context

from digest.db.tables.deliveries import Delivery

engine = context.config.attributes["engine"]
with engine.execution_options(writing=True).connect() as connection:
    context.configure(
        connection=connection,
        target_metadata=Delivery.metadata,
        render_as_batch=True,
        transactional_ddl=True,  # also on SQLite, because the engine begins transactions explicitly
    )
    with context.begin_transaction():
        context.run_migrations()
