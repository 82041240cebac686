"""The schema: created, brought up to date, and asked which revision it has."""

from __future__ import annotations

from importlib.resources import files

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine

from digest.db.sessions import answering
from digest.errors import Misfit


def migrations(engine: Engine) -> Config:
    """Return Alembic's configuration for our migrations, which travel inside the package."""
    config = Config()
    config.set_main_option("script_location", str(files("digest") / "migrations"))
    config.attributes["engine"] = engine
    return config


def upgrade(engine: Engine) -> None:
    """Create the schema, or bring it to the newest revision; a second call changes nothing."""
    with answering(engine):
        command.upgrade(migrations(engine), "head")


def revision(engine: Engine) -> str | None:
    """Return the revision the database is at; None for an empty one."""
    with answering(engine), engine.connect() as connection:
        return MigrationContext.configure(connection).get_current_revision()


def newest_revision(engine: Engine) -> str | None:
    """Return the revision this code was written for."""
    return ScriptDirectory.from_config(migrations(engine)).get_current_head()


def ensure(engine: Engine) -> None:
    """Create the schema in an empty database; raise Misfit where it is another than ours."""
    found, wanted = revision(engine), newest_revision(engine)
    if found is None:
        upgrade(engine)
    elif found != wanted:
        raise Misfit(
            f"The database schema is at {found} and this code needs {wanted}. Run: digest db upgrade"
        )
