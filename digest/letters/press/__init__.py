"""Make the press, the prepared content of one publication, and assemble letters from it.

A press is immutable, and its name is a hash of its content. A press contains the ranked papers, their scores,
the figures behind the scores, and the template pieces of the digest letter. The same press, digest and
personalization give the same bytes on every machine.
"""

from digest.letters.press.digest_page import DigestPage, card_of_paper
from digest.letters.press.letter_assembler import MAX_PRESSES, LetterAssembler, assembler_of
from digest.letters.press.press_builder import digest_templates, make_press
from digest.letters.press.press_value import Press, from_bytes, to_bytes
from digest.letters.press.self_check import reference_rendering

__all__ = [
    "MAX_PRESSES",
    "DigestPage",
    "LetterAssembler",
    "Press",
    "assembler_of",
    "card_of_paper",
    "digest_templates",
    "from_bytes",
    "make_press",
    "reference_rendering",
    "to_bytes",
]
