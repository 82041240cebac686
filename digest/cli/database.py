"""`digest db`: the schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from digest.cli import rooms, screen
from digest.cli.options import AsJson, clock

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from digest.settings import Settings

app = typer.Typer(help="The database schema.", no_args_is_help=True)


@app.command()
def upgrade(as_json: AsJson = False) -> None:
    """Create the schema, or bring it up to date.

    A second call changes nothing. From now on this version's templates are the ones that every machine must have.
    """
    from digest import db

    settings = rooms.read_settings()
    engine = db.connect(settings.database)
    with rooms.explaining(engine):
        before = db.revision(engine)
        db.upgrade(engine)
        after = db.revision(engine)
        adopt_templates(engine, settings)
    if as_json:
        screen.document({"from": before, "to": after, "changed": before != after})
    elif before == after:
        screen.tell(f"The schema is at {after} already.")
    else:
        screen.tell(f"The schema is at {after} now (before: {before or 'nothing'}).")


@app.command()
def copy(
    url: Annotated[
        str, typer.Argument(metavar="URL", help="An empty database, such as postgresql:///digest.")
    ],
    as_json: AsJson = False,
) -> None:
    """Copy everything into another, empty database, and count it.

    Stop every role first. Afterwards set DIGEST_DATABASE_URL to the new one; the old one stays as it is.
    """
    from digest import db
    from digest.cli import copying

    target = db.connect(url)
    with (
        rooms.opened() as house,
        rooms.explaining(target),
        db.answering(target),
        screen.progress("Copying") as done,
    ):
        counts = copying.copy(house.engine, target, done.by)
    if as_json:
        screen.document(counts)
        return
    screen.table(("table", "rows#"), counts.items())
    screen.say("All of it arrived. Set DIGEST_DATABASE_URL to the new database.")


def adopt_templates(engine: Engine, settings: Settings) -> None:
    """Make the templates of this machine the ones that fit."""
    from digest import db, fingerprints
    from digest.rendering import Templates
    from digest.settings import templates_dir

    ours = Templates(templates_dir(), settings.overrides).fingerprint
    with db.writing(engine) as session:
        fingerprints.adopt_templates(session, ours, now=clock(None))
        session.commit()
