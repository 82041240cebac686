"""`digest db`: the schema."""

from __future__ import annotations

import typer

from digest.cli import rooms, screen
from digest.cli.options import AsJson

app = typer.Typer(help="The database: create it, bring it up to date.", no_args_is_help=True)


@app.command()
def upgrade(as_json: AsJson = False) -> None:
    """Create the schema, or bring it to the newest revision. A second call changes nothing."""
    from digest import db

    settings = rooms.read_settings()
    engine = db.connect(settings.database)
    with rooms.explaining(engine):
        before = db.revision(engine)
        db.upgrade(engine)
        after = db.revision(engine)
    if as_json:
        screen.document({"from": before, "to": after, "changed": before != after})
    elif before == after:
        screen.tell(f"The schema is at {after} already.")
    else:
        screen.tell(f"The schema is at {after} now (before: {before or 'nothing'}).")
