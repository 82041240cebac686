"""`digest keys`: list and retire the keys that sign the links in letters."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from digest.cli import command_context, terminal
from digest.cli.command_tree import group
from digest.cli.common_options import AsJson, Now, current_time

app = group("Keys that sign the links in letters.")

REPLACED = "A new key has replaced the retired key in the data directory. Restart every role: {restart}."
IN_SETTINGS = (
    "No role starts while DIGEST_SECRET_KEY contains this key: replace it with a new key on every machine, then restart"
    " every role: {restart}."
)


@app.command("list")
def show_list(as_json: AsJson = False) -> None:
    """List the keys that sign links, each with the id that its links contain.

    Examples:
        digest keys list
        digest keys list --json
    """
    from digest import key_fingerprints

    with command_context.open_context() as context, context.read_session() as session:
        keys = key_fingerprints.list_keys(session, context.site)
    rows = [{"id": key.id, **asdict(key)} for key in keys]
    if as_json:
        terminal.lines(rows)
    else:
        terminal.print_table(
            ("key", "state", "since"), ((row["id"], row["state"], row["since"]) for row in rows)
        )


@app.command()
def retire(
    key: Annotated[str, typer.Argument(metavar="KEY", help="The id in `digest keys list`.")],
    now: Now = None,
    as_json: AsJson = False,
) -> None:
    """Retire a signing key that leaked: links signed with it stop working when every role is restarted.

    Readers who follow such a link can have a new link sent to their address.
    A machine that still has the key refuses to work. To change a key that did not leak, put the new key before it in DIGEST_SECRET_KEY instead.

    Examples:
        digest keys retire 7f3a9c
        digest keys retire 7f3a9c --json
    """
    from digest import key_fingerprints
    from digest.monitoring.supervisor import find_supervisor

    # The keys are not checked against the database, because this machine may already have only the new key.
    with command_context.open_context() as context, context.write_session() as session:
        retired = key_fingerprints.retire_key(session, context.site, key, now=current_time(now))
        is_replaced = context.settings.drop_kept_key(retired.id)
        is_here = retired.state != "missing" and not is_replaced
    if as_json:
        terminal.print_json({"id": retired.id, "retired": True, "in_settings": is_here})
        return
    terminal.print_line(
        f"Key {retired.id} is retired. Links that it signed stop working when every role is restarted."
    )
    note = REPLACED if is_replaced else IN_SETTINGS if is_here else "Restart every role: {restart}."
    supervisor = find_supervisor(context.settings.data_dir)
    restart = supervisor.restart(*(sorted(supervisor.units) or ("web", "worker", "scheduler")))
    terminal.print_note(note.format(restart=restart))
