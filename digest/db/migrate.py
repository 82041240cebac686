"""Create and upgrade the schema, and read its revision."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

from sqlalchemy import Column, Engine, MetaData, String, Table, inspect, select

from digest.db.sessions import report_unreachable
from digest.errors import SetupMismatch

if TYPE_CHECKING:
    from alembic.config import Config

#: Alembic's table with the revision of the database, defined here so that only migrations import Alembic.
VERSIONS = Table("alembic_version", MetaData(), Column("version_num", String(32)))


def alembic_config(engine: Engine) -> Config:
    """Return Alembic's configuration for the migrations inside this package."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(files("digest.db") / "migrations"))
    config.attributes["engine"] = engine
    return config


def upgrade(engine: Engine) -> None:
    """Create the schema, or upgrade it to the newest revision; a second call changes nothing.

    Raises SetupMismatch if a newer version of Digest created the schema, and Unreachable if the database does
    not respond.
    """
    from alembic import command

    refuse_newer_schema(revision(engine))
    with report_unreachable(engine):
        command.upgrade(alembic_config(engine), "head")


def revision(engine: Engine) -> str | None:
    """Return the revision of the database, or None if it has no schema.

    Raises Unreachable if the database does not respond.
    """
    with report_unreachable(engine), engine.connect() as connection:
        if not inspect(connection).has_table(VERSIONS.name):
            return None
        return connection.scalar(select(VERSIONS.c.version_num))


def newest_revision() -> str:
    """Return the newest revision, which this code requires; migration file names begin with a revision."""
    names = [file.name for file in (files("digest.db") / "migrations" / "versions").iterdir()]
    return max(name.partition("_")[0] for name in names if name.endswith(".py"))


def refuse_newer_schema(found: str | None) -> None:
    """Raise SetupMismatch if a newer version of Digest created the schema."""
    if found is not None and found > newest_revision():
        raise SetupMismatch(
            f"The database schema is at {found}, which a newer version of Digest made; this version needs"
            f" {newest_revision()}. Install the newer version, or restore a backup made before the upgrade."
        )


def ensure_schema(engine: Engine) -> None:
    """Create the schema if the database has none.

    Raises SetupMismatch if the schema has another revision, and Unreachable if the database does not respond.
    """
    found, needed = revision(engine), newest_revision()
    refuse_newer_schema(found)
    if found is None:
        upgrade(engine)
    elif found != needed:
        raise SetupMismatch(
            f"The database schema is at {found} and this code needs {needed}. Run: digest db upgrade"
        )
