"""The Press: what is prepared once for many digests, immutable and named by its content.

It holds the papers by rank, with their scores and the figures behind them, and the digest letter's
stencils. Whoever has the same Press, the same digest and the same copy makes the same bytes.
"""

from digest.press.making import make, stencils
from digest.press.pages import Page
from digest.press.presses import Press, from_bytes, to_bytes
from digest.press.proof import by_the_book
from digest.press.setting import digest_letter, digest_message, fitted, page

__all__ = [
    "Page",
    "Press",
    "by_the_book",
    "digest_letter",
    "digest_message",
    "fitted",
    "from_bytes",
    "make",
    "page",
    "stencils",
    "to_bytes",
]
