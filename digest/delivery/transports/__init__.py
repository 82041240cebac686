"""Send messages by SMTP or LMTP, or store them in a Maildir, in a folder of .eml files, or in memory."""

from typing import TYPE_CHECKING

from digest.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from digest.delivery.transports.mail_url import MailServer, MailUrl, parse_mail_url
    from digest.delivery.transports.stored_copies import delete_copies
    from digest.delivery.transports.transport import (
        Message,
        Outcome,
        Transport,
        Verdict,
        make_outcome,
        open_transport,
    )
else:
    __getattr__ = lazy_exports(__name__, __file__)

__all__ = [
    "MailServer",
    "MailUrl",
    "Message",
    "Outcome",
    "Transport",
    "Verdict",
    "delete_copies",
    "make_outcome",
    "open_transport",
    "parse_mail_url",
]
