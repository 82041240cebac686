"""Delete the copies of letters that the Maildir and `.eml` transports keep on this machine."""

from __future__ import annotations

from email.parser import BytesHeaderParser
from email.utils import getaddresses
from pathlib import Path

from digest import addresses
from digest.delivery.transports.mail_url import MailUrl

HEAD_BYTES = 50_000  #: number of bytes at the start of a file that are searched for the recipient


def delete_copies(mail: MailUrl, email: str) -> int:
    """Delete every stored letter to this address, and return how many were deleted; 0 if mail goes to servers."""
    if mail.folder_format not in {"maildir", "eml"} or mail.folder is None:
        return 0
    found = [path for path in mail.folder.rglob("*") if path.is_file() and is_to(path, email)]
    for path in found:
        path.unlink(missing_ok=True)
    return len(found)


def is_to(path: Path, email: str) -> bool:
    """Return whether a file is a letter to this address, in any spelling."""
    with path.open("rb") as file:
        head = BytesHeaderParser().parsebytes(file.read(HEAD_BYTES))
    given = getaddresses([str(head.get("To", ""))])
    return addresses.fold_address(email) in {addresses.fold_address(address) for _, address in given}
