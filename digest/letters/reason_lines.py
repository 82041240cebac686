"""Write the reason line of a card: one sentence of facts that explains why the paper is shown."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from digest.letters import figures_in_words
from digest.letters.headers import one_line
from digest.papers import Paper, display
from digest.topics.explanation import MatchFinding

_ = figures_in_words.TRANSLATIONS.gettext

MAX_FACTS_LENGTH = 240
MAX_QUOTE_LENGTH = 60
MAX_WORDS_NAMED = 3
QUOTED_FIELDS = frozenset({"abstract", "comment", "journal"})

Place: TypeAlias = tuple[str, int, int]  #: the position of words in a displayed field: field, start, end


readable = lru_cache(maxsize=4096)(display)  # cached, since several cards and reasons use each abstract


class ReasonLine(NamedTuple):
    """The reason why a paper is shown; the line quotes the matched word if the card does not print it."""

    before: str = ""
    word: str = ""  #: the quoted word, shown in bold
    after: str = ""

    @property
    def text(self) -> str:
        """Return the line as plain text; it is empty if there is no reason to give."""
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
    """Return the reason line made of figures: "42 upvotes since yesterday · third day on the list"."""
    return ReasonLine(one_sentence(tuple(figures)))


def topic_reason(
    paper: Paper, found: MatchFinding, figures: Sequence[str], printed: PrintedText
) -> ReasonLine:
    """Return the reason line of a topic's paper: the matched words, then the figures.

    If neither the printed title nor the printed abstract contains a match, the line quotes one.
    """
    facts = (*matched_facts(found), *figures)
    field, start, end = found.places[0] if found.places else ("", 0, 0)
    if field not in QUOTED_FIELDS or any(printed.holds(place) for place in found.places):
        return ReasonLine(one_sentence(facts))
    before, word, after = quotation(readable(getattr(paper, field)), start, end)
    rest = one_sentence(("", *facts[1:]))
    return ReasonLine(f"{one_sentence(facts[:1])}: “{before}", word, f"{after}” {rest}".rstrip())


def matched_facts(found: MatchFinding) -> list[str]:
    """Return the facts of a match: at most three matched words as the reader wrote them, then other facts.

    The beginning of a word is shown as “robot…”, because not every reader knows what `robot*` means.
    """
    others = [*(_("by %s (you follow)") % author for author in found.authors), *found.others]
    if not found.words:
        return others
    return [words_fact(found.words[:MAX_WORDS_NAMED]), *others]


@lru_cache(maxsize=4096)  # many papers match the same words
def words_fact(words: tuple[str, ...]) -> str:
    """Return the fact that these words matched."""
    named = [f"“{word.replace('*', '…')}”" for word in words]
    return _("Matches %s") % figures_in_words.listed_words(named)


def quotation(text: str, start: int, end: int) -> tuple[str, str, str]:
    """Return up to 60 characters around a match, in whole words, as (text before, match, text after)."""
    end = min(end, start + MAX_QUOTE_LENGTH)
    left = MAX_QUOTE_LENGTH - (end - start)
    first, last = max(0, start - left // 2), min(len(text), end + left - left // 2)
    before = text[first:start].partition(" ")[2] if first else text[:start]
    after = text[end:last].rpartition(" ")[0] if last < len(text) else text[end:]
    opening, closing = "… " * (len(before) < start), " …" * (end + len(after) < len(text))
    return opening + before, text[start:end], after + closing


@lru_cache(maxsize=4096)  # lines share their first fact, and the cards of a paper share its figures
def one_sentence(facts: tuple[str, ...]) -> str:
    """Return the facts on one line of at most 240 characters, beginning with a capital letter."""
    line = one_line(" · ".join(facts)[: MAX_FACTS_LENGTH * 8])
    return figures_in_words.cut_at_word(line[:1].upper() + line[1:], MAX_FACTS_LENGTH)
