"""`digest dkim keygen`: make DKIM keys, and show their DNS records."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from digest.cli import command_context
from digest.cli.command_tree import group
from digest.cli.frame import command
from digest.cli.options import option
from digest.cli.results import CommandResult, Note
from digest.errors import BadField, UsageError

if TYPE_CHECKING:
    from digest.letters.dkim_signing import Signer

app = group("DKIM keys and their DNS records.")

#: A DNS label with at most 61 of the 63 allowed characters, since `ed` is appended for an Ed25519 key.
LABEL = "[a-z0-9](?:[a-z0-9-]{0,59}[a-z0-9])?"
#: Matches a selector: one or more labels, separated by dots.
NAME = re.compile(rf"{LABEL}(?:\.{LABEL})*", re.ASCII | re.IGNORECASE)
NO_KEY = (
    "No key is set: letters are not signed, unless your relay signs them. To make one: digest dkim keygen"
)


@app.command()
@command()
def keygen(
    selector: Annotated[
        str | None, option("--selector NAME", "The selector. Default: digest and the year.")
    ] = None,
    ed25519: Annotated[bool, option("--ed25519", "Also make an Ed25519 key.")] = False,
    out: Annotated[
        Path | None, option("--out FILE", "The file for the private key; it must not exist.")
    ] = None,
    lists: Annotated[bool, option("--list", "Print the DNS records of the keys in use; make none.")] = False,
) -> CommandResult:
    """Make a DKIM key, and print its DNS record and settings.

    Examples:
        digest dkim keygen
        digest dkim keygen --selector mail2026 --ed25519
        digest dkim keygen --list
    """
    from digest.letters import dkim_signing

    if lists:
        with command_context.open_context() as context:
            signers = context.signers
        return CommandResult(
            {"records": dns_records(signers)}, zone_lines(signers) if signers else Note(NO_KEY)
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
    for file, pem in keys.values():
        write(file, pem)
    signers = dkim_signing.load_signers(
        {selector: pem.decode() for selector, (_, pem) in keys.items()}, domain=settings.site().domain
    )
    files = ", ".join(f"{selector}:{file.absolute()}" for selector, (file, _) in keys.items())
    to_set = {"DIGEST_DKIM_KEYS": files}
    return CommandResult(
        {"records": dns_records(signers), "settings": to_set},
        (
            zone_lines(signers),
            Note(
                f"The private key is in {path}, readable only by you. When the DNS has the record above, set:"
            ),
            [Note(f"  {setting}={value}") for setting, value in to_set.items()],
        ),
    )


def dns_records(signers: Sequence[Signer]) -> list[dict[str, str]]:
    """Return the DNS records for JSON."""
    return [{"name": one.dns_name, "type": "TXT", "value": one.dns_record} for one in signers]


def zone_lines(signers: Sequence[Signer]) -> Iterator[str]:
    """Yield the DNS records, split into strings of 255 characters as zone files require."""
    for one in signers:
        record = one.dns_record
        pieces = [record[start : start + 255] for start in range(0, len(record), 255)]
        quoted = " ".join(f'"{piece}"' for piece in pieces)
        yield f"{one.dns_name}. IN TXT ( {quoted} )"


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
