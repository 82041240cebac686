"""Find the page in a message that a mail program passed to `digest capture`."""

from __future__ import annotations

import re
from email import message_from_bytes, policy

from digest.dumps.formats import arxiv_listing

HEADER = re.compile(rb"(?:From |[A-Za-z][\w-]{1,40}:[ \t])")
MIME = re.compile(
    rb"^(?:MIME-Version:|Content-Type:\s*(?:multipart/|text/html))", re.IGNORECASE | re.MULTILINE
)


def page_in_mail(content: bytes) -> bytes:
    """Return the HTML or the text of a message; return other content, and arXiv's listings, unchanged."""
    headers = re.split(rb"\r?\n\r?\n", content[:65536].lstrip(), maxsplit=1)[0]
    if not (HEADER.match(headers) and MIME.search(headers)):
        return content
    if arxiv_listing.is_mail(headers.decode(errors="replace")):
        return content
    message = message_from_bytes(content.lstrip(), policy=policy.default)
    body = message.get_body(("html", "plain"))
    if body is None:
        return content
    try:
        text = body.get_content()
    except (LookupError, ValueError):  # an unknown or wrong charset
        payload = body.get_payload(decode=True)
        return payload if isinstance(payload, bytes) else content
    return str(text).encode(errors="replace")
