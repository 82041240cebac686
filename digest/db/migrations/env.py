"""How Alembic runs our migrations: always on the engine it is handed, never from a settings file."""

from __future__ import annotations

from alembic import context

from digest.db import Base

engine = context.config.attributes["engine"]
with engine.execution_options(writing=True).connect() as connection:
    context.configure(
        connection=connection,
        target_metadata=Base.metadata,
        render_as_batch=True,
        transactional_ddl=True,  # SQLite's is, too, as we begin: nobody meets a schema that is half way
    )
    with context.begin_transaction():
        context.run_migrations()
