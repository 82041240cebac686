"""Render letters and build messages: templates, inlined CSS, headers, MIME, DKIM, the press."""

from digest.letters.cards import Card, make_card
from digest.letters.headers import header_text, list_headers, reply_headers, reply_to
from digest.letters.letter_templates import Personalization, RenderedLetter, render_letter
from digest.letters.mime import build_message
from digest.letters.templates import Templates, make_environment

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
