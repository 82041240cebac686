"""Find the page in a message (`.eml`) or in a web archive (`.mhtml`), which is built like a message."""

from __future__ import annotations

import re
from io import BytesIO
from typing import BinaryIO

from digest.dumps.formats import arxiv_listing
from digest.mail import mail_parsing

HEADER = re.compile(rb"(?:From |[A-Za-z][\w-]{1,40}:[ \t])")
MIME = re.compile(
    rb"^(?:MIME-Version:|Content-Type:\s*(?:multipart/|text/html))", re.IGNORECASE | re.MULTILINE
)
HEADERS_BYTES = 65_536
MAX_BYTES = 64 * 1024**2


def with_page(stream: BinaryIO) -> BinaryIO:
    """Return a stream of the page in a message; return the stream itself for any other content."""
    stream.seek(0)
    head = stream.read(HEADERS_BYTES)
    if not is_message(head):
        return stream
    stream.seek(0)
    content = stream.read(MAX_BYTES)
    page = page_in_mail(content)
    return stream if page is content else BytesIO(page)


def is_message(head: bytes) -> bool:
    """Return whether content begins with the headers of a message, but not of one of arXiv's listings."""
    head = head.lstrip()
    if not HEADER.match(head):
        return False
    headers = re.split(rb"\r?\n\r?\n", head, maxsplit=1)[0]
    return MIME.search(headers) is not None and not arxiv_listing.is_mail(headers.decode(errors="replace"))


def page_in_mail(content: bytes) -> bytes:
    """Return the HTML or the text of a message, with the page's address if the message has it; else the content."""
    if not is_message(content[:HEADERS_BYTES]):
        return content
    message = mail_parsing.parse_message(content.lstrip(), is_whole=True)
    kinds = (mail_parsing.parts_of_type(message, frozenset({kind})) for kind in ("text/html", "text/plain"))
    body = next(
        (part for kind in kinds for part in kind if part.get_content_disposition() != "attachment"), None
    )
    if body is None:
        return content
    address = mail_parsing.header_text(body, "Content-Location")
    address = address or mail_parsing.header_text(message, "Snapshot-Content-Location")
    page = mail_parsing.text_of(body).encode(errors="replace")
    return with_address(page, address) if address.startswith("http") and is_html(page) else page


def is_html(content: bytes) -> bool:
    """Return whether content begins like HTML."""
    return content.lstrip()[:1] == b"<"


def with_address(content: bytes, url: str) -> bytes:
    """Return HTML preceded by its address, in the format of pages saved by browsers."""
    address = "".join(char for char in url if char.isprintable() and char not in "<> ").replace(
        "--", "%2D%2D"
    )
    return f"<!-- saved from url=({len(address):04d}){address} -->\n".encode() + content
