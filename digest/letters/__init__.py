"""Render letters and build messages: templates, inlined CSS, headers, MIME, DKIM, the press.

Modules are imported on first use, because most commands render no letters.
"""

from typing import TYPE_CHECKING

from digest.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from digest.letters.cards import Card, make_card
    from digest.letters.headers import header_text, list_headers, reply_headers, reply_to
    from digest.letters.letter_rendering import Personalization, render_letter
    from digest.letters.mime import RenderedLetter, build_message
    from digest.letters.templates import Templates, make_environment
else:
    __getattr__ = lazy_exports(__name__, __file__)

__all__ = [
    "Card",
    "Personalization",
    "RenderedLetter",
    "Templates",
    "build_message",
    "header_text",
    "list_headers",
    "make_card",
    "make_environment",
    "render_letter",
    "reply_headers",
    "reply_to",
]
