"""Recognise lines that unsubscribe, in ten languages and with one wrong letter. Pure."""

from __future__ import annotations

from difflib import get_close_matches
from itertools import dropwhile

from digest.inbound.words_around_commands import POLITE_WORDS, pattern_of, words_in, words_of

#: English words that begin the command; all but the certain ones may mean something else.
COMMAND_WORDS = ("unsubscribe", "leave", "cancel", "stop", "signoff", "unsub", "quit")
CERTAIN = pattern_of("leaving", before=r"(?<!\S)", after="(?: |$)")
CERTAIN_WITHOUT_SPACES = pattern_of("leaving_without_spaces")
MAX_WITHOUT_SPACES = 20  #: maximum number of characters in a line of a language without spaces
LIST_WORDS, PHRASE = words_of("list_words"), pattern_of("leaving_in_sentence")
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
