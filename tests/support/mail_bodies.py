"""The decoded parts of a mail."""

from email import message_from_bytes, policy
from email.message import EmailMessage, MIMEPart


def body_of(message: EmailMessage | bytes, subtype: str) -> str:
    """Return the text of the part `text/{subtype}` of a mail."""
    mail = message_from_bytes(message, policy=policy.default) if isinstance(message, bytes) else message
    part = mail.get_body((subtype,))
    assert isinstance(part, MIMEPart)
    return str(part.get_content())
