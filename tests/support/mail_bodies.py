"""The decoded parts of a message."""

from email import message_from_bytes, policy
from email.message import EmailMessage, MIMEPart


def body_of(message: EmailMessage | bytes, subtype: str) -> str:
    """Return the text of a message's `text/{subtype}` part."""
    mail = message_from_bytes(message, policy=policy.default) if isinstance(message, bytes) else message
    part = mail.get_body((subtype,))
    assert isinstance(part, MIMEPart)
    return str(part.get_content())
