"""Recognise the text that people and mail programs add around a command. Pure.

Such text includes greetings, thanks, signatures, the line above a quoted letter, `Re:` in many languages,
and the phrases of automatic replies and advertisements.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import dropwhile
from pathlib import Path

MAX_NAME_LENGTH = 30  #: maximum number of characters in a word of a signature
MAX_ATTRIBUTION = 3  #: maximum number of lines that introduce a quoted letter
MAX_WORDS_IN_NAME = 6  #: maximum number of words in a line of a signature
#: Maximum number of characters in a message that are searched for phrases of automatic replies.
MAX_CHARS_SEARCHED = 4000
PHRASES: Mapping[str, str] = tomllib.loads(Path(__file__).with_name("phrases.toml").read_text("utf-8"))


def words_of(name: str) -> frozenset[str]:
    """Return the words of a list in `phrases.toml`."""
    return frozenset(PHRASES[name].split())


def pattern_of(name: str, *, before: str = "", after: str = "") -> re.Pattern[str]:
    """Return the pattern of the phrases with this name, between two other patterns."""
    return re.compile(f"{before}(?:{alternatives(name)}){after}", re.IGNORECASE)


def alternatives(name: str) -> str:
    """Return the lines of an entry in `phrases.toml` as the alternatives of a regular expression."""
    return "|".join(PHRASES[name].strip("\n").split("\n"))


POLITE_WORDS = words_of("polite_words")
YES_WORDS, YES_FILLERS, NO = words_of("yes_words"), words_of("yes_fillers"), pattern_of("no")
HESITATION = pattern_of("hesitation", before=r"\b", after=r"\b")
WISH_BESIDE_YES = pattern_of("wish_beside_yes")
SENTENCE_MARK = re.compile(r"(?<=[.!?])\s+")
WIDE_PUNCTUATION = re.compile("[、。，！]")  #: separates words of a language without spaces
ADVERTISING_WORDS = words_of("advertising_words")
PERSON_WORDS, SENTENCE_WORDS = words_of("person_words"), words_of("sentence_words")
PREFIX = re.compile(
    rf"\s*(?:(?P<forward>{alternatives('forward_prefixes')})|{alternatives('reply_prefixes')})"
    r"\s*(?:[\[(]\d+[\])]|\^\d+)?\s*[:：]\s*",
    re.IGNORECASE,
)
END_OF_TEXT, ATTRIBUTION_LINE = pattern_of("end_of_text"), pattern_of("attribution_line")
DATED_ATTRIBUTION, QUOTED_HEADER = pattern_of("dated_attribution"), pattern_of("quoted_header")
GREETING = pattern_of("greeting", after=r"\b(?:[ ,][^,.!?:]{0,40})?[,.!:。！，]?$")
CLOSING = pattern_of("closing", after=r"\b.{0,80}$")
AUTOMATIC_SUBJECT = pattern_of("automatic_subject", before=r"\W*")
CHALLENGE, AUTOMATIC_REPLY_PHRASE = pattern_of("challenge"), pattern_of("automatic_reply_phrase")


def strip_punctuation(word: str) -> str:
    """Return a word without punctuation before and after it."""
    return re.sub(r"^\W+|\W+$", "", word)


def words_in(text: str, *, polite: bool = True) -> list[str]:
    """Return the words of a text in lower case; leave out polite words if `polite` is True."""
    found = [strip_punctuation(word).casefold() for word in WIDE_PUNCTUATION.sub(" ", text).split()]
    return [word for word in found if word and not (polite and word in POLITE_WORDS)]


def without_please(line: str) -> str:
    """Return a line without the polite words at its start.

    If the line consists of polite words only, return the last of them.
    """
    first, _, rest = line.partition(" ")
    while rest and strip_punctuation(first).casefold() in POLITE_WORDS:
        line = rest
        first, _, rest = line.partition(" ")
    return line


def without_thanks(text: str) -> str:
    """Return the text without the polite words and punctuation at its end."""
    text = text.rstrip(" .,;!")
    begin, _, last = text.rpartition(" ")
    while strip_punctuation(last).casefold() in POLITE_WORDS - {"a"}:
        text = begin.rstrip(" .,;!")
        begin, _, last = text.rpartition(" ")
    return text


def says_yes(line: str) -> bool:
    """Return whether a line says only yes, ok or confirm, in one of ten languages."""
    words = [word for word in words_in(line) if word not in YES_FILLERS]
    return bool(words) and "?" not in line and YES_WORDS.issuperset(words)


def consent_in(line: str) -> str:
    """Return the first sentence of a line if it begins with a yes and neither asks nor hesitates; else ""."""
    sentence = SENTENCE_MARK.split(line)[0]
    words = [word for word in words_in(sentence) if word not in YES_FILLERS]
    is_yes = bool(words) and words[0] in YES_WORDS and "?" not in sentence
    is_doubtful = HESITATION.search(sentence) or says_no(line) or CERTAIN.search(f"{' '.join(words)} ")
    return "" if not is_yes or is_doubtful else sentence


def says_no(line: str) -> bool:
    """Return whether a line says that the writer did not ask for the digests."""
    refuses = any(NO.match(one) and "?" not in one for one in SENTENCE_MARK.split(line))
    return refuses and not says_yes(line.partition(",")[0])


# ── subjects ────────────────────────────────────────────────────────────────────────────────────


def without_prefixes(subject: str) -> str:
    """Return a subject without `Re:` and `Fwd:`, in many languages."""
    return subject[sum(len(match[0]) for match in prefixes_of(subject)) :]


def is_forwarded(subject: str) -> bool:
    """Return whether a subject has the prefix of a forwarded message."""
    return any(match["forward"] for match in prefixes_of(subject))


def prefixes_of(subject: str) -> Iterator[re.Match[str]]:
    """Yield a match for each prefix at the start of a subject, in order."""
    end = 0
    while match := PREFIX.match(subject, end):
        yield match
        end = match.end()


# ── lines around a command ──────────────────────────────────────────────────────────────────────


def is_end_of_text(lines: Sequence[str]) -> bool:
    """Return whether the writer's text ends before the first of these lines."""
    is_header = QUOTED_HEADER.match(" ".join(lines[:2]))
    return bool(END_OF_TEXT.match(lines[0]) or is_header or attribution_length(lines))


def attribution_length(lines: Sequence[str]) -> int:
    """Return how many leading lines (0 to 3) introduce a quoted letter, such as `On Friday Ada wrote:`."""
    for count in range(1, MAX_ATTRIBUTION + 1):
        text = " ".join(lines[:count])
        is_dated = count == 1 or (DATED_ATTRIBUTION.match(text) and all(lines[:count]))
        if is_dated and ATTRIBUTION_LINE.match(text):
            return count
    return 0


def is_greeting(line: str) -> bool:
    """Return whether a line is only a greeting."""
    return len(line.split()) <= MAX_WORDS_IN_NAME and bool(GREETING.match(line))


def is_name(line: str) -> bool:
    """Return whether a line may be part of a signature: a few words spelled like names."""
    found = line.split()
    return len(found) <= MAX_WORDS_IN_NAME and "?" not in line and all(map(is_name_like, found))


def is_name_like(word: str) -> bool:
    """Return whether a word is spelled like part of a name, an address or a number."""
    is_short = len(strip_punctuation(word)) <= 3 or "@" in word or "/" in word
    return len(word) <= MAX_NAME_LENGTH and (is_short or not strip_punctuation(word)[:1].islower())


def is_polite(line: str) -> bool:
    """Return whether a line is only a greeting, thanks, or a formula that ends a letter."""
    return is_greeting(line) or bool(CLOSING.match(line)) or not words_in(line)


# ── unsubscribing ───────────────────────────────────────────────────────────────────────────────

#: English words that begin the command; all but the certain ones may mean something else.
COMMAND_WORDS = ("unsubscribe", "leave", "cancel", "stop", "signoff", "unsub", "quit")
CERTAIN = pattern_of("leaving", before=r"(?<!\S)", after="(?: |$)")
CERTAIN_WITHOUT_SPACES = pattern_of("leaving_without_spaces")
MAX_WITHOUT_SPACES = 20  #: maximum number of characters in a line of a language without spaces
LIST_WORDS, LEAVING_PHRASE = words_of("list_words"), pattern_of("leaving_in_sentence")
NOW = frozenset({"now", "immediately", "asap", "today"})
#: What `cancel` and `leave` must name, if they name anything, and what `stop` may name, too.
SUBSCRIPTIONS, MAILS = words_of("subscriptions"), words_of("subscriptions") | words_of("mails")


def says_unsubscribe(line: str, names: frozenset[str]) -> bool:
    """Return whether a line says nothing more than to unsubscribe; `names` are the words of the writer's name."""
    if set("?？") & set(line):
        return False
    words = list(dropwhile(POLITE_WORDS.__contains__, words_in(line, polite=False)))
    words = [word for word in words if word not in names]
    if words and is_misspelled(words[0]):
        words[0] = "unsubscribe"
    text = f"{' '.join(words)} "
    if CERTAIN.search(text):
        others = set(CERTAIN.sub("", text).split()) - POLITE_WORDS - LIST_WORDS
        return not others or (text.startswith("sign") and len(others) == 1)  # a list's name, for LISTSERV
    if len(line) <= MAX_WITHOUT_SPACES and CERTAIN_WITHOUT_SPACES.search(line):
        return True
    if not words or words[0] not in COMMAND_WORDS:
        return False
    objects = set(words[1:]) - POLITE_WORDS - NOW - {words[0]}
    named = MAILS if words[0] == "stop" else SUBSCRIPTIONS
    return not objects or (objects <= LIST_WORDS and bool(objects & named))


def is_misspelled(word: str) -> bool:
    """Return whether a word is `unsubscribe` with a wrong letter, rather than `subscribe`."""
    known = ["unsubscribe", "subscribe", "subscriber", "subscription"]
    return get_close_matches(word, known, n=1, cutoff=0.85) == ["unsubscribe"]
