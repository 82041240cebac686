"""`digest keys retire` and `digest dkim keygen`: the keys that sign links, and the keys that sign mail."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from digest.cli import command_context
from digest.cli.command_tree import group
from digest.cli.frame import Opened, command, opened
from digest.cli.options import CLOCK, Now, argument, option
from digest.cli.results import CommandResult, listing, note
from digest.errors import BadField, UsageError

if TYPE_CHECKING:
    from digest.letters.dkim_signing import Signer

app = group("Keys that sign the links in letters.")
dkim = group("DKIM keys and their DNS records.")

REPLACED = "A new key has replaced the retired key in the data directory. Restart every role: {restart}."
IN_SETTINGS = (
    "No role starts while DIGEST_SECRET_KEY contains this key: replace it with a new key on every machine, then restart"
    " every role: {restart}."
)
#: A DNS label with at most 61 of the 63 allowed characters, since `ed` is appended for an Ed25519 key.
LABEL = "[a-z0-9](?:[a-z0-9-]{0,59}[a-z0-9])?"
#: Matches a selector: one or more labels, separated by dots.
NAME = re.compile(rf"{LABEL}(?:\.{LABEL})*", re.ASCII | re.IGNORECASE)
NO_KEY = (
    "No key is set: letters are not signed, unless your relay signs them. To make one: digest dkim keygen"
)


@command(opened, app)
def retire(
    work: Opened,
    key: str = argument("[KEY]", "The id of a key. Without it, the keys are listed.", ""),
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
    from digest.process import key_fingerprints

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
    todo = REPLACED if is_replaced else IN_SETTINGS if is_here else "Restart every role: {restart}."
    return CommandResult(
        {"id": retired.id, "retired": True, "in_settings": is_here},
        (
            f"Key {retired.id} is retired. Links that it signed stop working when every role is restarted.",
            note(todo.format(restart=restart)),
        ),
    )


# ── DKIM ──


@command(app=dkim)
def keygen(
    selector: str | None = option("--selector NAME", "The selector. Default: digest and the year."),
    ed25519: bool = option("--ed25519", "Also make an Ed25519 key."),
    out: Path | None = option("--out FILE", "The file for the private key; it must not exist."),
    lists: bool = option("--list", "Print the DNS records of the keys in use; make none."),
) -> CommandResult:
    """Make a DKIM key, and print its DNS record and settings.

    Examples:
        digest dkim keygen
        digest dkim keygen --selector mail2026 --ed25519
        digest dkim keygen --list
    """
    from digest.letters import dkim_signing
    from digest.settings import write_private

    if lists:
        with command_context.open_context() as context:
            signers = context.signers
        return CommandResult(
            {"records": dns_records(signers)}, zone_lines(signers) if signers else note(NO_KEY)
        )
    settings = command_context.read_settings(makes_database=True)
    name = selector or f"digest{datetime.now().astimezone():%Y}"
    if not NAME.fullmatch(name):
        raise BadField(
            "--selector", f"{name!r} is not a name for the DNS; write letters, digits and hyphens."
        )
    path = out or settings.data_dir / f"dkim-{name}.pem"
    keys = {name: (path, new_key("rsa"))}
    if ed25519:
        keys[f"{name}ed"] = (path.with_stem(f"{path.stem}ed"), new_key("ed25519"))
    path.parent.mkdir(parents=True, exist_ok=True)
    for file, pem in keys.values():
        if not write_private(file, pem.decode()):
            raise UsageError(f"{file} exists already; choose another name with --selector or --out.")
    signers = dkim_signing.load_signers(
        {selector: pem.decode() for selector, (_, pem) in keys.items()}, domain=settings.site().domain
    )
    files = ", ".join(f"{selector}:{file.absolute()}" for selector, (file, _) in keys.items())
    return CommandResult(
        {"records": dns_records(signers), "settings": {"DIGEST_DKIM_KEYS": files}},
        (
            zone_lines(signers),
            note(
                f"The private key is in {path}, readable only by you. When the DNS has the record above, set:\n"
                f"  DIGEST_DKIM_KEYS={files}"
            ),
        ),
    )


def dns_records(signers: Sequence[Signer]) -> list[dict[str, str]]:
    """Return the DNS records for JSON."""
    return [{"name": one.dns_name, "type": "TXT", "value": one.dns_record} for one in signers]


def zone_lines(signers: Sequence[Signer]) -> Iterator[str]:
    """Yield the DNS records, split into strings of 255 characters as zone files require."""
    for one in signers:
        pieces = [one.dns_record[start : start + 255] for start in range(0, len(one.dns_record), 255)]
        quoted = " ".join(f'"{piece}"' for piece in pieces)
        yield f"{one.dns_name}. IN TXT ( {quoted} )"


def new_key(kind: str) -> bytes:
    """Return a new private key as PEM: `rsa`, which all receivers support, or `ed25519`, which is shorter."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = Ed25519PrivateKey.generate() if kind == "ed25519" else generate_private_key(65537, 2048)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
