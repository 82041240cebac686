"""Write the reason line of a card: one sentence of facts that explains why the paper is shown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import NamedTuple, TypeAlias

from digest.letters import figures_in_words
from digest.letters.headers import one_line
from digest.papers.display_text import display
from digest.papers.paper_record import Paper
from digest.topics.explanation import MatchFinding

MAX_FACTS_LENGTH = 240
MAX_QUOTE_LENGTH = 60
MAX_WORDS_NAMED = 3
QUOTED_FIELDS = frozenset({"abstract", "comment", "journal"})
TEXTS = QUOTED_FIELDS | {"title"}
WILDCARD = re.compile(r"\S+\*")

Place: TypeAlias = tuple[str, int, int]  #: the position of words in a displayed field: field, start, end


readable = lru_cache(maxsize=4096)(display)  # cached, since several cards and reasons use each abstract


class ReasonLine(NamedTuple):
    """The reason why a paper is shown.

    If the card prints the matched words, `words` closes its quiet line; else the line below quotes one of them.
    """

    words: str = ""
    before: str = ""
    word: str = ""  #: the quoted word, shown in bold
    after: str = ""  #: the end of the quotation, and the figures

    @property
    def line(self) -> str:
        """Return the line below the quiet line as plain text; it may be empty."""
        return self.before + self.word + self.after


NO_REASON = ReasonLine()


class PrintedText(NamedTuple):
    """The parts of a paper's title and abstract that a card prints."""

    title: int  #: number of printed characters of the title
    start: int  #: position of the first printed character of the abstract
    end: int

    def holds(self, place: Place) -> bool:
        """Return whether the card prints all words at this place."""
        field, start, end = place
        if field == "title":
            return end <= self.title
        return field == "abstract" and self.start <= start and end <= self.end


def trending_reason(figures: Sequence[str]) -> ReasonLine:
    """Return the reason made of figures: "42 upvotes since yesterday · listed three days running"."""
    return ReasonLine(before=one_sentence(tuple(figures)))


def topic_reason(
    paper: Paper, found: MatchFinding, figures: Sequence[str], printed: PrintedText
) -> ReasonLine:
    """Return the reason of a topic's paper: the matched words and the figures.

    If neither the printed title nor the printed abstract contains a match, the line quotes one.
    """
    facts = matched_facts(paper, found, printed)
    field, start, end = found.places[0] if found.places else ("", 0, 0)
    if field not in QUOTED_FIELDS or any(printed.holds(place) for place in found.places):
        return ReasonLine(words=line_of(tuple(facts)), before=one_sentence(tuple(figures)))
    before, word, after = quotation(readable(getattr(paper, field)), start, end)
    rest = line_of(("", *others_of(found), *figures))
    return ReasonLine(before=f"“{before}", word=word, after=f"{after}” {rest}".rstrip())


def matched_facts(paper: Paper, found: MatchFinding, printed: PrintedText) -> list[str]:
    """Return the facts of a match: at most three matched words as the reader wrote them, then other facts.

    A word with a wildcard is written as it stands in the paper, if possible in the part that the card prints.
    """
    words = found.words
    if "*" in "".join(words):
        places = sorted(found.places, key=printed.holds, reverse=True)
        texts = [readable(getattr(paper, field))[start:end] for field, start, end in places if field in TEXTS]
        words = tuple([WILDCARD.sub(partial(word_in, texts), word) for word in words])
    words = tuple(distinct_words(words)[:MAX_WORDS_NAMED])
    return [*([", ".join(words)] if words else []), *others_of(found)]


def others_of(found: MatchFinding) -> list[str]:
    """Return the facts of a match that are not words of the paper."""
    return [*(f"by {author} (you follow)" for author in found.authors), *found.others]


def word_in(texts: Sequence[str], wildcard: re.Match[str]) -> str:
    """Return the first word of these texts for which a wildcard stands: "robots" for `robot*`."""
    start = wildcard[0].removesuffix("*")
    words = (re.search(rf"\b{re.escape(start)}[\w'’]*", text, re.IGNORECASE) for text in texts)
    return next((word[0] for word in words if word), start)


def distinct_words(words: Sequence[str]) -> list[str]:
    """Return the words without those that are a part of a longer one."""
    shown = list(dict.fromkeys(word.lower() for word in words))
    return [word for word in shown if not any(word != other and word in other for other in shown)]


def quotation(text: str, start: int, end: int) -> tuple[str, str, str]:
    """Return up to 60 characters around a match, in whole words, as (text before, match, text after)."""
    end = min(end, start + MAX_QUOTE_LENGTH)
    left = MAX_QUOTE_LENGTH - (end - start)
    first, last = max(0, start - left // 2), min(len(text), end + left - left // 2)
    before = text[first:start].partition(" ")[2] if first else text[:start]
    after = text[end:last].rpartition(" ")[0] if last < len(text) else text[end:]
    opening, closing = "… " * (len(before) < start), " …" * (end + len(after) < len(text))
    return opening + before, text[start:end], after + closing


@lru_cache(maxsize=4096)  # the cards of a paper share its figures
def one_sentence(facts: tuple[str, ...]) -> str:
    """Return the facts on one line, beginning with a capital letter."""
    line = line_of(facts)
    return line[:1].upper() + line[1:]


@lru_cache(maxsize=4096)  # many papers match the same words
def line_of(facts: tuple[str, ...]) -> str:
    """Return the facts on one line of at most 240 characters."""
    return figures_in_words.cut_at_word(one_line(" · ".join(facts)[: MAX_FACTS_LENGTH * 8]), MAX_FACTS_LENGTH)
