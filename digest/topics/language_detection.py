"""Detect the language of a paper by its letters and function words.

Most dumps do not state the language. If the language cannot be detected, as for a title that consists of
names, English is assumed.
"""

from __future__ import annotations

import re
from collections import Counter

#: The names that `lang:` accepts, with the code of each language.
NAMES = {
    "en": "en", "english": "en", "de": "de", "german": "de", "deutsch": "de", "fr": "fr", "french": "fr", "es": "es",
    "spanish": "es", "pt": "pt", "portuguese": "pt", "it": "it", "italian": "it", "nl": "nl", "dutch": "nl",
    "zh": "zh", "chinese": "zh", "ja": "ja", "japanese": "ja", "ko": "ko", "korean": "ko", "ru": "ru",
    "russian": "ru", "uk": "uk", "ukrainian": "uk", "ar": "ar", "arabic": "ar", "fa": "fa", "persian": "fa",
    "el": "el", "greek": "el", "he": "he", "hebrew": "he", "hi": "hi", "hindi": "hi", "th": "th", "thai": "th",
}  # fmt: skip

#: Letters that identify a language. Japanese precedes Chinese, since Japanese also uses Chinese characters.
_LETTERS = tuple(
    (language, re.compile(letters), share)
    for language, letters, share in (
        ("ja", "[\u3040-\u30ff]", 0.05), ("ko", "[\uac00-\ud7af]", 0.2), ("zh", "[\u3400-\u9fff]", 0.2),
        ("uk", "[іїєґ]", 0.02), ("ru", "[\u0400-\u04ff]", 0.3), ("fa", "[پچژگ]", 0.02),
        ("ar", "[\u0600-\u06ff]", 0.3), ("el", "[\u0370-\u03ff]", 0.4), ("he", "[\u0590-\u05ff]", 0.3),
        ("hi", "[\u0900-\u097f]", 0.3), ("th", "[\u0e00-\u0e7f]", 0.3),
    )
)  # fmt: skip

_WORDS = {
    "en": "the of and in to for with is we that on by are this from which can our",
    "de": "der die und das von mit für ist ein eine den wird auf dem wir zur nicht sich",
    "fr": "le la les des et une dans pour est sur que nous par aux du ces avec plus",
    "es": "el los las una por con para que del se como en es este y más sobre su",
    "pt": "os uma para com que do da em não dos das por este e mais sobre seu ao",
    "it": "il di che della per con una dei nel sono gli delle del e più questo si lo",
    "nl": "de het een van en voor met op zijn wij niet dat te wordt deze ook bij naar",
}
_LANGUAGES_OF_WORD = {
    word: [language for language, row in _WORDS.items() if word in row.split()]
    for words in _WORDS.values()
    for word in words.split()
}

MIN_WORDS = 3  #: minimum number of function words by which a language other than English is detected
MAX_CHARACTERS_READ = 2000  #: maximum number of characters of a text that are examined


def language_of(text: str) -> str:
    """Return the two-letter code of a text's language."""
    text = text[:MAX_CHARACTERS_READ].lower()
    if not text.isascii():
        letters = sum(map(str.isalpha, text)) or 1
        for language, pattern, share in _LETTERS:
            if len(pattern.findall(text)) > share * letters:
                return language
    counts = Counter(
        language for word in re.findall(r"[^\W\d_]+", text) for language in _LANGUAGES_OF_WORD.get(word, ())
    )
    language, times = max(counts.items(), key=lambda one: one[1], default=("en", 0))
    return language if times >= MIN_WORDS and times > counts["en"] else "en"
