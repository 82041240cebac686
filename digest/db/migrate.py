"""Create and upgrade the schema, and read its revision."""

from __future__ import annotations

from importlib.resources import files

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine

from digest.db.sessions import report_unreachable
from digest.errors import SetupMismatch


def alembic_config(engine: Engine) -> Config:
    """Return Alembic's configuration for the migrations inside this package."""
    config = Config()
    config.set_main_option("script_location", str(files("digest.db") / "migrations"))
    config.attributes["engine"] = engine
    return config


def upgrade(engine: Engine) -> None:
    """Create the schema, or upgrade it to the newest revision; a second call changes nothing."""
    with report_unreachable(engine):
        command.upgrade(alembic_config(engine), "head")


def revision(engine: Engine) -> str | None:
    """Return the revision of the database, or None if it is empty."""
    with report_unreachable(engine), engine.connect() as connection:
        return MigrationContext.configure(connection).get_current_revision()


def newest_revision(engine: Engine) -> str | None:
    """Return the newest revision, which this code requires."""
    return ScriptDirectory.from_config(alembic_config(engine)).get_current_head()


def ensure_schema(engine: Engine) -> None:
    """Create the schema in an empty database; raise SetupMismatch if an existing schema has another revision."""
    found, needed = revision(engine), newest_revision(engine)
    if found is None:
        upgrade(engine)
    elif found != needed:
        raise SetupMismatch(
            f"The database schema is at {found} and this code needs {needed}. Run: digest db upgrade"
        )
