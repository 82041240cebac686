"""The house, opened once for a command.

With an empty data directory everything that is needed is made on the way: the folder, the schema,
the secrets.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from digest.errors import BadField, DigestError, UsageError

if TYPE_CHECKING:
    from sqlalchemy import Engine
    from sqlalchemy.orm import Session

    from digest.house import House
    from digest.settings import Settings

MENDABLE = ("not a database", "malformed", "disk is full", "readonly", "locked", "unable to open")


@contextmanager
def opened() -> Iterator[House]:
    """Open the house: make what is missing, refuse what does not belong together."""
    from digest import db
    from digest.house import House

    settings = read_settings()
    engine = db.connect(settings.database)
    with explaining(engine):
        db.ensure(engine)
        yield House(settings=settings, engine=engine, site=settings.site())


@contextmanager
def writing(house: House, *, renders: bool = False) -> Iterator[Session]:
    """Open a session for a story, if this machine has the keys that the others have.

    Where letters are made it must have the templates, too.
    """
    house.check(renders=renders)
    with house.writing() as session:
        yield session


@contextmanager
def explaining(engine: Engine) -> Iterator[None]:
    """Turn what an operator can mend about a database into one sentence, and let go of it at the end."""
    from sqlalchemy.exc import DatabaseError

    try:
        yield
    except DatabaseError as error:
        reason = str(error.orig).strip().splitlines()[0]
        if not any(hint in reason for hint in MENDABLE):
            raise
        where = engine.url.render_as_string(hide_password=True)
        raise DigestError(
            f"The database {where} cannot be used ({reason}). Mend it, or set DIGEST_DATABASE_URL."
        ) from error
    finally:
        engine.dispose()


def read_settings(**given: object) -> Settings:
    """Read the settings, those given on the command line first, and make the data directory."""
    from digest import logs
    from digest import settings as knobs

    settings = knobs.load(given)
    logs.set_up(settings.log_format, level=logging.WARNING)
    if settings.mail.startswith("memory:"):
        raise UsageError(
            "DIGEST_MAIL_URL: memory: keeps mail inside one process and is for tests;"
            " write smtp://host:587?starttls=true, lmtp://host:24 or maildir:///path."
        )
    try:
        settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)  # it holds addresses
    except OSError as error:
        raise BadField(
            "DIGEST_DATA_DIR", f"{error.filename}: {error.strerror}; name a folder we may write to."
        ) from None
    return settings
