"""Render letters and build messages: templates, inlined CSS, headers, MIME, DKIM, the press.

The names are imported when they are first used, because most commands render nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from digest.letters.cards import Card, make_card
    from digest.letters.headers import header_text, list_headers, reply_headers, reply_to
    from digest.letters.letter_templates import Personalization, RenderedLetter, render_letter
    from digest.letters.mime import build_message
    from digest.letters.templates import Templates, make_environment

MODULES = {
    "Card": "cards",
    "Personalization": "letter_templates",
    "RenderedLetter": "letter_templates",
    "Templates": "templates",
    "build_message": "mime",
    "header_text": "headers",
    "list_headers": "headers",
    "make_card": "cards",
    "make_environment": "templates",
    "render_letter": "letter_templates",
    "reply_headers": "headers",
    "reply_to": "headers",
}

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


def __getattr__(name: str) -> Any:
    """Import the module of an exported name."""
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{MODULES[name]}"), name)
