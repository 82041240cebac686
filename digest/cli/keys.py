"""`digest keys retire`: list the keys that sign the links in letters, and retire one."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from digest.cli.command_tree import group
from digest.cli.frame import Opened, command, opened
from digest.cli.options import CLOCK, Now, argument
from digest.cli.results import CommandResult, Note, listing

app = group("Keys that sign the links in letters.")

REPLACED = "A new key has replaced the retired key in the data directory. Restart every role: {restart}."
IN_SETTINGS = (
    "No role starts while DIGEST_SECRET_KEY contains this key: replace it with a new key on every machine, then restart"
    " every role: {restart}."
)


@app.command()
@command(opened)
def retire(
    work: Opened,
    key: Annotated[str, argument("[KEY]", "The id of a key. Without it, the keys are listed.")] = "",
    now: Now = CLOCK,
) -> CommandResult:
    """Retire a signing key that leaked: links signed with it stop working when every role is restarted.

    Readers who follow such a link can have a new link sent to their address.
    A machine that still has the key refuses to work. To change a key that did not leak, put the new key before it in DIGEST_SECRET_KEY instead.

    Examples:
        digest keys retire
        digest keys retire 7f3a9c
    """
    from digest.monitoring.supervisor import find_supervisor
    from digest.site import key_fingerprints

    if not key:
        with work.reading() as session:
            keys = key_fingerprints.list_keys(session, work.site)
        return listing([{"id": known.id, **asdict(known)} for known in keys], "key=id state since")
    # The keys are not checked against the database, because this machine may already have only the new key.
    with work.context.write_session() as session:
        retired = key_fingerprints.retire_key(session, work.site, key, now=now)
        is_replaced = work.context.settings.drop_kept_key(retired.id)
        is_here = retired.state != "missing" and not is_replaced
    supervisor = find_supervisor(work.context.settings.data_dir)
    restart = supervisor.restart(*(sorted(supervisor.units) or ("web", "worker", "scheduler")))
    note = REPLACED if is_replaced else IN_SETTINGS if is_here else "Restart every role: {restart}."
    return CommandResult(
        {"id": retired.id, "retired": True, "in_settings": is_here},
        (
            f"Key {retired.id} is retired. Links that it signed stop working when every role is restarted.",
            Note(note.format(restart=restart)),
        ),
    )
