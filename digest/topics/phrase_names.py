"""Name a topic after a noun phrase in the titles of its papers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from digest import papers
from digest.papers import Paper
from digest.topics import about_clauses, tokenizer, word_rarity, word_roots
from digest.topics.filter_tree import TextClause

MAX_WORDS = 4  #: maximum number of words of a name
LEAST_BITS = 3.0  #: minimum rarity of a name, as the sum of its words' bits (see `word_rarity`)
ENOUGH_BITS = 9.0  #: number of bits above which a rarer name is not preferred
#: Weight of a phrase that omits the last noun of the title, such as "language" for "language model".
INCOMPLETE = 0.8
IN_ABSTRACT = 0.25  #: weight of an abstract that contains the name; a title that contains it has weight 1

#: Words of titles that do not belong to a noun phrase: verbs, and nouns that fit any paper.
_OUTSIDE = (
    "consider considering correct enable accelerate accelerating accelerated adapting aligning analyzing applying assessing avoiding boosting breaking bridging "
    "building can characterizing combining comparing controlling decomposing defending detecting "
    "determining developing disentangling discovering do does easy efficient effective empirical enabling "
    "encouraging enhances enhancing ensuring estimating evaluating examining explaining exploiting "
    "exploring extending finding fast faster framework generating getting good guiding harnessing identifying "
    "implies improved improves improving incorporating inducing introducing investigating is it "
    "lessons leveraging less let limits makes making matters measuring meets mitigate mitigating "
    "modeling monitor need needs nothing on optimizing overcoming perspective preventing probing promoting "
    "provable quantifying reducing report requires rethinking revealing revisiting role scaling simple simplifying "
    "solving struggle study survey systematic technical teaching teach testing toward training uncovering "
    "understanding unifying unified universal unlocking unlocks unraveling unveiling analysis approach evaluation "
    "investigation really work enables beyond case comprehensive to from with without where find one all you "
    "should could would will not"
)
OUTSIDE = about_clauses.SILENT_WORDS.union(_OUTSIDE.split())
_ADJECTIVE_ENDINGS = ("al", "ive", "ous", "ic", "ed", "able", "ible", "ary", "aware", "based", "shot")


@dataclass(frozen=True, slots=True)
class _Phrase:
    """Consecutive words of a title or abstract that may become a topic's name."""

    text: str  #: as written
    roots: tuple[str, ...]
    is_complete: bool  #: whether the words end with the last word of a noun phrase
    order: tuple[int, int]  #: the number of the text, and the position of the words in the text


def name_of(clauses: Sequence[TextClause], examples: Sequence[Paper]) -> str:
    """Return the best noun phrase in the titles that contains the words of the first clause.

    The best phrase is the most common and informative one. If no title has such a phrase, the phrase is taken
    from the abstracts, or else it is the best of all noun phrases in the titles.
    """
    main = [word_roots.root(token.rstrip("*").lower()) for token in clauses[0].tokens]
    in_titles = _all_noun_phrases([paper.title for paper in examples])
    in_abstracts = _all_noun_phrases([paper.abstract for paper in examples])
    for phrases in (in_titles, in_abstracts):
        fitting = [phrase for phrase in phrases if _contains_words(phrase.roots, main)]
        if fitting:
            return _in_sentence_case(_best(fitting, examples).text, examples)
    return _in_sentence_case(_best(in_titles, examples).text, examples) if in_titles else examples[0].title


def _all_noun_phrases(texts: Sequence[str]) -> list[_Phrase]:
    return [phrase for number, text in enumerate(texts) for phrase in _noun_phrases(text, number)]


def _contains_words(roots: Sequence[str], beginnings: Sequence[str]) -> bool:
    return all(any(root.startswith(word) for root in roots) for word in beginnings)


def _best(phrases: Iterable[_Phrase], examples: Sequence[Paper]) -> _Phrase:
    titles = [_roots(paper.title) for paper in examples]
    abstracts = [_roots(paper.abstract) for paper in examples]

    def worth(phrase: _Phrase) -> tuple[float, int, int, int]:
        shared = float(sum(_holds(text, phrase.roots) for text in titles))
        shared += IN_ABSTRACT * sum(_holds(text, phrase.roots) for text in abstracts)
        bits = min(ENOUGH_BITS, sum(map(word_rarity.bits, phrase.roots)))
        return (
            shared * bits * (1 if phrase.is_complete else INCOMPLETE),
            -len(phrase.roots),
            -phrase.order[0],
            -phrase.order[1],
        )

    return max(phrases, key=worth)


def _roots(text: str) -> tuple[str, ...]:
    return tuple(map(word_roots.root, tokenizer.read(papers.display(text)).folded))


def _holds(text: tuple[str, ...], phrase: tuple[str, ...]) -> bool:
    """Return whether a text's roots contain a phrase's roots consecutively."""
    return any(text[at : at + len(phrase)] == phrase for at, root in enumerate(text) if root == phrase[0])


def _noun_phrases(text: str, number: int) -> Iterator[_Phrase]:
    """Yield a text's phrases of up to four words that end in a noun, contain no verb and may be names."""
    shown = papers.display(text)
    row = tokenizer.read(shown)
    for first, behind in _chunks(row):
        for end in range(first + 1, behind + 1):
            last = row.folded[end - 1]
            if last.endswith("ly") or (end < behind and last.endswith(_ADJECTIVE_ENDINGS)):
                continue
            if end < behind and row.glue[end - 1] == "-":
                continue
            for start in range(max(first, end - MAX_WORDS), end):
                if start > first and row.glue[start - 1] == "-":
                    continue
                roots = tuple(map(word_roots.root, row.folded[start:end]))
                if sum(map(word_rarity.bits, roots)) >= LEAST_BITS:
                    yield _Phrase(
                        shown[row.starts[start] : row.ends[end - 1]], roots, end == behind, (number, start)
                    )


def _chunks(row: tokenizer.WordParts) -> Iterator[tuple[int, int]]:
    """Yield (start, end) of each maximal sequence of words that may form a noun phrase."""
    first = 0
    for at, word in enumerate((*row.folded, "to")):
        is_outside = word in OUTSIDE and row.glue[at : at + 1] != "-"  # "in-context" is part of a phrase
        if is_outside or (at > first and row.glue[at - 1] == ","):
            if first < at:
                yield first, at
            first = at + 1 if is_outside else at


def _in_sentence_case(text: str, examples: Sequence[Paper]) -> str:
    """Return a phrase in lower case, except for its first letter, acronyms and proper names."""
    written = " ".join(papers.display(paper.abstract) for paper in examples)
    words = [word if _has_capital(word, written) else word.lower() for word in re.split(r"(\W+)", text)]
    shown = "".join(words)
    return shown[:1].upper() + shown[1:]


def _has_capital(word: str, abstracts: str) -> bool:
    """Return whether a word has capitals after its first letter or is always capitalised in the abstracts."""
    if not word[1:].islower():
        return True
    is_lower = re.search(rf"\b{re.escape(word.lower())}", abstracts) is not None
    return not is_lower and re.search(rf"\w,? {re.escape(word)}", abstracts) is not None
