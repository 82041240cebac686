"""Delete the copies of letters that the Maildir and `.eml` transports keep on this machine."""

from __future__ import annotations

from collections.abc import Collection
from email.parser import BytesHeaderParser
from email.utils import getaddresses
from pathlib import Path

from digest.delivery.transports.mail_url import MailUrl
from digest.mail import addresses

HEAD_BYTES = 50_000  #: number of bytes at the start of a file that are searched for the recipient


def delete_copies(mail: MailUrl, email: str, ids: Collection[int]) -> int:
    """Delete the stored letters to this address or with one of these ids, and return their number.

    Returns 0 if mail goes to servers.
    """
    if mail.folder_format not in {"maildir", "eml"}:
        return 0
    stored = [path for path in mail.folder.rglob("*") if path.is_file()]
    found = [path for path in stored if delivery_id(path) in ids or is_to(path, email)]
    for path in found:
        path.unlink(missing_ok=True)
    return len(found)


def delivery_id(path: Path) -> int | None:
    """Return the delivery id in the file name of a stored or unfinished letter, or None."""
    start = path.name.lstrip(".").partition(".")[0]
    return int(start) if start.isdecimal() else None


def is_to(path: Path, email: str) -> bool:
    """Return whether a file is a letter to this address, however the address is spelled."""
    with path.open("rb") as file:
        head = BytesHeaderParser().parsebytes(file.read(HEAD_BYTES))
    given = getaddresses([str(head.get("To", ""))])
    return addresses.fold_address(email) in {addresses.fold_address(address) for _, address in given}
