"""Hand messages over: by SMTP or LMTP, to a Maildir, to a folder of .eml files, or to memory."""

from digest.delivery.transports.mail_url import MailServer, MailUrl, parse_mail_url
from digest.delivery.transports.transport import Message, Outcome, Transport, Verdict, open_transport

__all__ = [
    "MailServer",
    "MailUrl",
    "Message",
    "Outcome",
    "Transport",
    "Verdict",
    "open_transport",
    "parse_mail_url",
]
