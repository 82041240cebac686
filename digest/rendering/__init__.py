"""From values to letters and messages: templates, inlined CSS, headers, MIME."""

from digest.rendering.cards import Card, card
from digest.rendering.headers import header_text, list_headers, reply_headers
from digest.rendering.letters import Copy, Letter, letter
from digest.rendering.mime import message
from digest.rendering.templates import Templates, environment

__all__ = [
    "Card",
    "Copy",
    "Letter",
    "Templates",
    "card",
    "environment",
    "header_text",
    "letter",
    "list_headers",
    "message",
    "reply_headers",
]
