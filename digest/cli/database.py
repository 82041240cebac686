"""`digest db`: the schema."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from digest.cli import rooms, screen
from digest.cli.options import AsJson, clock

if TYPE_CHECKING:
    from sqlalchemy import Engine

app = typer.Typer(help="The database: create it, bring it up to date.", no_args_is_help=True)


@app.command()
def upgrade(as_json: AsJson = False) -> None:
    """Create the schema, or bring it to the newest revision. A second call changes nothing.

    From now on this version's templates are the ones that every machine must have.
    """
    from digest import db

    settings = rooms.read_settings()
    engine = db.connect(settings.database)
    with rooms.explaining(engine):
        before = db.revision(engine)
        db.upgrade(engine)
        after = db.revision(engine)
        adopt_templates(engine)
    if as_json:
        screen.document({"from": before, "to": after, "changed": before != after})
    elif before == after:
        screen.tell(f"The schema is at {after} already.")
    else:
        screen.tell(f"The schema is at {after} now (before: {before or 'nothing'}).")


def adopt_templates(engine: Engine) -> None:
    """Make the templates of this machine the ones that fit."""
    from digest import db, fingerprints
    from digest.rendering import Templates
    from digest.settings import templates_dir

    with db.writing(engine) as session:
        fingerprints.adopt_templates(session, Templates(templates_dir()).fingerprint, now=clock(None))
        session.commit()
