"""List the words that unsubscribe by mail, and recognise lines that say nothing else. Pure."""

from __future__ import annotations

import re

from digest.inbound.words_around_commands import POLITE_WORDS, word_set, words_in

#: The words that begin the command; `remove me` unsubscribes, too.
COMMAND_WORDS = ("leave", "unsubscribe", "cancel", "signoff", "stop", "unsub")
CERTAIN_WORDS = word_set("unsubscribe signoff unsub")  #: command words that can only refer to the digests
#: Words that may follow `unsubscribe` without changing its meaning, as in `this list` or `your mails`.
LIST_WORDS = word_set(
    "from to this the these your my all of list mailing newsletter digest digests email emails mail mails"
    " paper papers subscription service now immediately asap"
)
#: Words after `cancel` and `stop` that refer to the digests.
SUBSCRIPTIONS = frozenset(
    f"{which}{what}"
    for which in ("", "my ", "the ", "your ", "this ")
    for what in ("subscription", "digest", "digests")
)
#: Words after `remove` with which the writer asks to be unsubscribed.
SELF_WORDS = frozenset({"me", "myself", "my address", "my email", "my email address"})
UNSUBSCRIBE_PHRASE = re.compile(
    r"\bun-?subscribe\b|\b(?:remove|take) me (?:off|from)\b|\bcancel (?:my|the) (?:subscription|digest)",
    re.IGNORECASE,
)


def is_about_writer(text: str) -> bool:
    """Return whether the text after `remove` refers to the writer: `remove me from this list`."""
    found = words_in(text, polite=False)
    return any(
        " ".join(found[:many]) in SELF_WORDS
        and all(word in LIST_WORDS | POLITE_WORDS for word in found[many:])
        for many in range(1, 4)
    )


def other_words(text: str, names: frozenset[str]) -> list[str]:
    """Return the words of a text that are neither polite, nor in `names`, nor about the list."""
    return [word for word in words_in(text) if word not in names and word not in LIST_WORDS]


def says_unsubscribe(word: str, line: str, names: frozenset[str]) -> bool:
    """Return whether a line that begins with `word` says nothing more than to unsubscribe."""
    if "?" in line:
        return False
    rest = line.partition(" ")[2]
    others = words_in(rest)
    if word in CERTAIN_WORDS:
        return all(one == word for one in other_words(rest, names))
    return all(one == word for one in others) or " ".join(others) in SUBSCRIPTIONS
