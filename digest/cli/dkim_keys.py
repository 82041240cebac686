"""`digest dkim`: make DKIM keys, and show their DNS records."""

from __future__ import annotations

import os
import re
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from digest.cli import command_context, terminal
from digest.cli.command_tree import group
from digest.cli.common_options import AsJson
from digest.errors import BadField, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from digest.letters.dkim_signing import Signer

app = group("DKIM keys and their DNS records.")

#: A DNS label with at most 61 of the 63 allowed characters, since `ed` is appended for an Ed25519 key.
LABEL = "[a-z0-9](?:[a-z0-9-]{0,59}[a-z0-9])?"
#: Matches a selector: one or more labels, separated by dots.
NAME = re.compile(rf"{LABEL}(?:\.{LABEL})*", re.ASCII | re.IGNORECASE)

Selector = Annotated[
    str | None,
    typer.Option("--selector", metavar="NAME", help="The selector. Default: digest and the year."),
]
Ed25519 = Annotated[bool, typer.Option("--ed25519", help="Also make an Ed25519 key.")]
Out = Annotated[
    Path | None,
    typer.Option("--out", metavar="FILE", help="The file for the private key; it must not exist."),
]


@app.command()
def keygen(
    selector: Selector = None, ed25519: Ed25519 = False, out: Out = None, as_json: AsJson = False
) -> None:
    """Make a DKIM key, and print its DNS record and settings.

    Examples:
        digest dkim keygen
        digest dkim keygen --selector mail2026 --ed25519
    """
    settings = command_context.read_settings(makes_database=True)
    name = selector or f"digest{datetime.now().astimezone():%Y}"
    if not NAME.fullmatch(name):
        raise BadField(
            "--selector", f"{name!r} is not a name for the DNS; write letters, digits and hyphens."
        )
    names = [name, f"{name}ed"] if ed25519 else [name]
    path = out or settings.data_dir / f"dkim-{name}.pem"
    keys = [new_key(kind) for kind in ("rsa", "ed25519")[: len(names)]]
    write(path, b"".join(keys))
    signers = ring(b"".join(keys).decode(), ",".join(names), settings.site().domain)
    settings_to_set = {"DIGEST_DKIM_KEY_FILE": str(path.absolute()), "DIGEST_DKIM_SELECTOR": ",".join(names)}
    if as_json:
        terminal.print_json({"records": dns_records(signers), "settings": settings_to_set})
        return
    show(signers)
    terminal.print_note(
        f"The private key is in {path}, readable only by you. When the DNS has the record above, set:"
    )
    for setting, value in settings_to_set.items():
        terminal.print_note(f"  {setting}={value}")


@app.command(name="list")
def list_keys(as_json: AsJson = False) -> None:
    """Print the DNS records of the keys in use.

    Examples:
        digest dkim list
        digest dkim list --json
    """
    with command_context.open_context() as context:
        signers = context.signers
    if as_json:
        terminal.lines(dns_records(signers))
    elif signers:
        show(signers)
    else:
        terminal.print_note(
            "No key is set: letters are not signed, unless your relay signs them. See: digest dkim keygen"
        )


def dns_records(signers: Sequence[Signer]) -> list[dict[str, str]]:
    """Return the DNS records for JSON."""
    return [{"name": one.dns_name, "type": "TXT", "value": one.dns_record} for one in signers]


def show(signers: Sequence[Signer]) -> None:
    """Print DNS records, split into strings of 255 characters as zone files require."""
    for one in signers:
        record = one.dns_record
        pieces = [record[start : start + 255] for start in range(0, len(record), 255)]
        quoted = " ".join(f'"{piece}"' for piece in pieces)
        print(f"{one.dns_name}. IN TXT ( {quoted} )")


def ring(keys: str, names: str, domain: str) -> Sequence[Signer]:
    """Return the signers for these keys."""
    from digest.letters import dkim_signing

    return dkim_signing.load_signers(keys, names, domain=domain)


def new_key(kind: str) -> bytes:
    """Return a new private key as PEM: `rsa`, which all receivers support, or `ed25519`, which is shorter."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = Ed25519PrivateKey.generate() if kind == "ed25519" else generate_private_key(65537, 2048)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def write(path: Path, content: bytes) -> None:
    """Write a new file that only its owner can read; raise UsageError if it exists."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise UsageError(f"{path} exists already; choose another name with --selector or --out.") from None
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
