"""`digest dkim`: keys that sign our mail, and what the DNS must say of them."""

from __future__ import annotations

import os
import re
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from digest.cli import rooms, screen
from digest.cli.options import AsJson
from digest.errors import BadField, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from digest.rendering.dkim import Signer

app = typer.Typer(no_args_is_help=True, help="Keys that sign our mail.")

LABEL = "[a-z0-9](?:[a-z0-9-]{0,59}[a-z0-9])?"  #: of 63 characters, two are for `ed`
NAME = re.compile(rf"{LABEL}(?:\.{LABEL})*", re.ASCII | re.IGNORECASE)  #: of a key in the DNS

Selector = Annotated[
    str | None,
    typer.Option("--selector", metavar="NAME", help="What to call the key; by default digest and the year."),
]
Both = Annotated[
    bool, typer.Option("--both", help="Make an Ed25519 key beside the RSA key, for those who read it.")
]
Out = Annotated[
    Path | None, typer.Option("--out", metavar="FILE", help="Where the private key goes; never over another.")
]


@app.command()
def keygen(selector: Selector = None, both: Both = False, out: Out = None) -> None:
    """Make a key, and say what to put into the DNS and into the settings."""
    settings = rooms.read_settings()
    name = selector or f"digest{datetime.now().astimezone():%Y}"
    if not NAME.fullmatch(name):
        raise BadField("--selector", f"{name!r} is no name for the DNS; write letters, digits and hyphens.")
    names = [name, f"{name}ed"] if both else [name]
    path = out or settings.data_dir / f"dkim-{name}.pem"
    keys = [new_key(kind) for kind in ("rsa", "ed25519")[: len(names)]]
    write(path, b"".join(keys))
    show(ring(b"".join(keys).decode(), ",".join(names), settings.site().domain))
    screen.say(f"The private key is in {path}, for nobody else to read. When the DNS has the above, set:")
    screen.say(f"  DIGEST_DKIM_KEY_FILE={path.absolute()}")
    screen.say(f"  DIGEST_DKIM_SELECTOR={','.join(names)}")


@app.command(name="list")
def listing(as_json: AsJson = False) -> None:
    """Say what the DNS must say of the keys in use."""
    with rooms.opened() as house:
        signers = house.signers
    if as_json:
        screen.lines({"name": one.dns_name, "type": "TXT", "value": one.dns_record} for one in signers)
    elif signers:
        show(signers)
    else:
        screen.say("No key is set: letters leave unsigned, or the relay signs them. See: digest dkim keygen")


def show(signers: Sequence[Signer]) -> None:
    """Print DNS records, in the pieces of 255 characters that a zone file wants."""
    for one in signers:
        record = one.dns_record
        pieces = [record[start : start + 255] for start in range(0, len(record), 255)]
        quoted = " ".join(f'"{piece}"' for piece in pieces)
        print(f"{one.dns_name}. IN TXT ( {quoted} )")


def ring(keys: str, names: str, domain: str) -> Sequence[Signer]:
    """Return the signers of these keys."""
    from digest.rendering import dkim

    return dkim.ring(keys, names, domain=domain)


def new_key(kind: str) -> bytes:
    """Return a new private key as PEM: `rsa`, which everybody verifies, or `ed25519`, which is short."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = Ed25519PrivateKey.generate() if kind == "ed25519" else generate_private_key(65537, 2048)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def write(path: Path, content: bytes) -> None:
    """Write a new file that only we may read; a key that is in use is never written over."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise UsageError(f"{path} is there already; name another with --selector or --out.") from None
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
