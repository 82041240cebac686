"""Choose the sentences of an abstract that say what a paper did and found.

Each sentence is scored by its words, its figures and its position. The sentence with the highest score is
shown, followed by the next sentence if both fit. An excerpt must be clear without the sentences before it: a
clause that refers back ("To address this issue,") is left out, and a sentence that begins with "They also
..." is not chosen.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from digest.letters.figures_in_words import cut_at_word
from digest.letters.sentence_ends import first_sentences, sentence_ends, to_sentence_end

MAX_EXCERPT_LENGTH = 320
MAX_SENTENCES = 40  #: maximum number of sentences of an abstract that are considered
MAX_CLAUSE_LENGTH = 200  #: maximum number of characters of a clause that may be left out
MIN_WORDS = 4  #: minimum number of words of a sentence; shorter text counts as a heading

# ── scores, tuned on labelled abstracts ─────────────────────────────────────────────────────────

RESULT, OUR_RESULT, STUDY, OUR_METHOD, EVIDENCE, AIM = 3.4, 3.0, 2.3, 2.0, 2.0, 1.5
PASSIVE = 1.6
FIGURE = 0.4
LATER = -0.2  #: added to the score of a sentence for each sentence before it
CONTINUED, BACKGROUND, TOO_LONG = -1.0, -1.5, -0.8
#: Penalties for a subject such as "this framework", which refers to earlier text, and for "this" or "they".
BACK_REFERENCE, PRONOUN, ACRONYM = -5.0, -5.0, -1.5
MIN_SCORE = 0.5  #: minimum score of a sentence with which an excerpt may begin

# ── words ───────────────────────────────────────────────────────────────────────────────────────


def words_of(text: str) -> frozenset[str]:
    """Split `text` at spaces, and return the set of its words."""
    return frozenset(text.split())


def verb_forms(verbs: str) -> frozenset[str]:
    """Return the forms of regular verbs: propose, proposes, proposed."""
    return frozenset(form for verb in words_of(verbs) for form in (verb, third_person(verb), past(verb)))


def third_person(verb: str) -> str:
    """Return a regular verb in the third person: studies for study."""
    if verb.endswith("y"):
        return f"{verb[:-1]}ies"
    return f"{verb}es" if verb.endswith(("s", "sh", "ss", "x")) else f"{verb}s"


def past(verb: str) -> str:
    """Return a regular verb in the past tense: studied for study."""
    if verb.endswith("y"):
        return f"{verb[:-1]}ied"
    return f"{verb}d" if verb.endswith("e") else f"{verb}ed"


AIM_VERBS = verb_forms("aim seek ask attempt question")
STUDY_VERBS = verb_forms(
    "study investigate analyze analyse examine evaluate explore consider address compare test conduct perform "
    "train experiment discuss revisit survey review use apply employ generate simulate undertake synthesize "
    "quantify validate assess inject define formalize focus bridge fill adopt combine cast measure verify "
    "calculate compute estimate model compile delve cover make predict infer constrain probe fit map detect "
    "monitor sequence isolate screen treat recruit enroll"
) | words_of("undertook taught sought take took made")
RESULT_VERBS = verb_forms(
    "introduce propose present develop design build construct devise formulate create offer release provide "
    "describe suggest establish derive generalize generalise extend collect curate show prove find demonstrate "
    "discover reveal uncover observe identify report achieve obtain conclude argue determine confirm improve "
    "reduce solve classify characterize characterise highlight challenge prepare outline implement recover "
    "resolve rule"
) | words_of("found built shown seen proven gave given")
VERB_SCORES = (
    dict.fromkeys(AIM_VERBS, AIM) | dict.fromkeys(STUDY_VERBS, STUDY) | dict.fromkeys(RESULT_VERBS, RESULT)
)
HOPES = words_of("hope believe expect plan hypothesize")

AUTHORS = frozenset({"we", "us"})
OWN = words_of("this the our present current")
PAPER_NOUNS = words_of(
    "paper work article study survey review report letter note thesis chapter manuscript research"
)
#: Nouns that may follow "our".
OUR_NOUN_SCORES = dict.fromkeys(
    words_of(
        "result results finding findings experiments analysis analyses evaluation evaluations theory research"
    ),
    OUR_RESULT,
) | dict.fromkeys(
    words_of("method methods approach approaches model models framework algorithm algorithms contributions"),
    OUR_METHOD,
)
EVIDENCE_NOUNS = words_of("results experiments findings analyses evaluations simulations")
BE = words_of("is are was were")
PARTICIPLES = words_of(
    "presented proposed introduced demonstrated derived developed identified obtained investigated shown "
    "calculated computed estimated measured observed detected predicted analyzed analysed studied reported "
    "considered discussed constructed found performed evaluated compared associated"
)
CLAIM_WORDS = AUTHORS | {"our"} | PAPER_NOUNS | EVIDENCE_NOUNS | PARTICIPLES

AUXILIARIES = BE | words_of("can could may might will would should must has have had does do")
DEMONSTRATIVES = words_of("this these those such")
PRONOUNS = words_of("it its they their them both he she another others former latter")
CONTINUATIONS = words_of(
    "also further furthermore moreover additionally besides finally lastly next then second secondly third "
    "specifically similarly likewise meanwhile"
)
BACKGROUND_OPENINGS = words_of(
    "recent recently previous prior existing current traditional conventional several many most much some unlike "
    "although despite while as background background: objective: code data project"
)
FIGURES = re.compile("%|-fold|outperform|surpass|state-of-the-art")
NEWS_OF_CODE = re.compile("http|github|available|open-source")

#: Matches a heading, or a linking word that refers to the preceding sentence.
LINKING_WORDS = re.compile(
    r"(?:here|however|but|yet|hence|thus|therefore|consequently|accordingly|nevertheless|nonetheless|so|and|instead(?! of)|"
    r"in contrast|by contrast|in this context|as a result|furthermore|moreover|additionally|in addition|"
    r"specifically|in particular|finally|lastly|then|next|concretely|to this end|in response|meanwhile|besides|"
    r"(?:main |key )?(?:results?|findings?|conclusions?|contributions?):),? ",
    re.IGNORECASE,
)
OWN_PAPER = re.compile(
    r"in (?:this|the present|our) (?:paper|work|article|study|note|letter),? ", re.IGNORECASE
)
#: Match the start of a clause that may refer to earlier text, and the start of the main clause after it.
SUBORDINATE = re.compile(
    r"(?:to|in order|aim\w+|towards?|motivated|inspired|based|building|built|following|addressing|leveraging|"
    r"given|with|after|from|in light|in view)\b",
    re.IGNORECASE,
)
MAIN_CLAUSE = re.compile(r", (?=(?:we|our|this|the current|the present|in this) )")

# ── the excerpt ─────────────────────────────────────────────────────────────────────────────────


class Sentence(NamedTuple):
    """The position and score of a sentence, without an opening that refers to earlier text."""

    start: int
    end: int
    score: float


def excerpt(text: str, *, max_sentences: int = 2) -> str:
    """Return the sentences of an abstract that say what the authors did and found, or else the first ones.

    The excerpt has at most 320 characters and begins with a capital letter. The last sentence is complete, or is
    cut and ends with "…" if it is too long.
    """
    found = scored_sentences(text)
    best = max(range(len(found)), key=lambda number: found[number].score, default=0)
    if not found or found[best].score < MIN_SCORE:
        return opening(text, max_sentences=max_sentences)
    start = found[best].start
    end = last_end(text, found[best : best + max_sentences], MAX_EXCERPT_LENGTH)
    return capitalized(cut_outside_brackets(text[start:end], MAX_EXCERPT_LENGTH))


def opening(text: str, *, max_sentences: int = 2, max_length: int = MAX_EXCERPT_LENGTH) -> str:
    """Return up to `max_sentences` sentences from the start of `text`, up to `max_length` characters."""
    start = OWN_PAPER.match(text)
    kept = text[start.end() :] if start else text
    return capitalized(first_sentences(to_sentence_end(kept, max_length), max_sentences))


def capitalized(text: str) -> str:
    """Return `text` with a capital letter at its start, and without the signs of a comment or of a cut before it."""
    kept = text.lstrip("%… ")
    return kept[:1].upper() + kept[1:]


def cut_outside_brackets(text: str, max_length: int) -> str:
    """Return `text` cut after a word to at most `max_length` characters, and not inside a bracket."""
    cut = cut_at_word(text, max_length)
    opened = cut.rfind("(")
    is_inside = cut != text and opened > max_length // 2 and ")" not in cut[opened:]
    return cut[:opened].rstrip(" ,;:") + "…" if is_inside else cut


def last_end(text: str, shown: Sequence[Sentence], max_length: int) -> int:
    """Return the position at which the excerpt ends.

    The excerpt ends before the first additional sentence that does not fit, is a heading, or announces code
    or data.
    """
    first, *others = shown
    end = first.end
    for sentence in others:
        following = text[sentence.start : sentence.end]
        is_too_long = sentence.end - first.start > max_length
        if is_too_long or following.count(" ") < MIN_WORDS - 1 or NEWS_OF_CODE.search(following.lower()):
            break
        end = sentence.end
    return end


def scored_sentences(text: str) -> list[Sentence]:
    """Return the sentences of an abstract with their scores."""
    found = []
    for number, (start, end) in enumerate(sentence_spans(text)):
        sentence = text[start:end]
        cut = lead_in_length(sentence) if number else 0
        if own := OWN_PAPER.match(sentence, cut):
            cut = own.end()
        score = score_of(sentence[cut:], left_out=sentence[:cut].lower(), number=number)
        found.append(Sentence(start + cut, end, score))
    return found


def sentence_spans(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each sentence."""
    start = 0
    for end in (*sentence_ends(text)[:MAX_SENTENCES], len(text)):
        if start < end:
            yield start, end
        start = end + text.startswith(" ", end)


def lead_in_length(sentence: str) -> int:
    """Return the length of the opening that a reader cannot understand without the preceding sentence."""
    cut = 0
    while found := LINKING_WORDS.match(sentence, cut):
        cut = found.end()
    if SUBORDINATE.match(sentence, cut) and (
        main := MAIN_CLAUSE.search(sentence, cut, cut + MAX_CLAUSE_LENGTH)
    ):
        clause = sentence[cut : main.start()].lower().split()
        if not (DEMONSTRATIVES | PRONOUNS | {"above"}).isdisjoint(clause):
            cut = main.end()
    return cut


# ── the score of a sentence ─────────────────────────────────────────────────────────────────────


def score_of(sentence: str, *, left_out: str, number: int) -> float:
    """Score the abstract's sentence `number` (from 0) by how well it says what the paper did.

    `left_out` is the beginning that would be omitted: a linking word, a clause or the heading "Results:".
    """
    lower = sentence.lower()
    words = lower.rstrip(".").replace(",", "").split()
    claimed = RESULT if ":" in left_out else claim_in(words)
    if not claimed or len(words) < MIN_WORDS or sentence.endswith("?") or NEWS_OF_CODE.search(lower):
        return 0
    is_continued = not CONTINUATIONS.isdisjoint((*left_out.replace(",", "").split(), *words[:4]))
    return (
        claimed
        + LATER * number
        + (FIGURE if FIGURES.search(lower) else 0)
        + (back_reference(words) + unknown_acronym(sentence) if number else 0)
        + CONTINUED * is_continued
        + BACKGROUND * (words[0] in BACKGROUND_OPENINGS)
        + TOO_LONG * (len(sentence) > MAX_EXCERPT_LENGTH)
    )


def claim_in(words: Sequence[str]) -> float:
    """Return the highest score of the authors' statements about their own work; 0 if there are none."""
    places = [place for place, word in enumerate(words) if word in CLAIM_WORDS]
    return max([claim_at(words, place) for place in places], default=0)


def claim_at(words: Sequence[str], place: int) -> float:
    """Return the score of the statement whose subject is the word with index `place` in `words`."""
    word, following = words[place], words[place + 1 : place + 6]
    if word in AUTHORS:
        return 0 if not HOPES.isdisjoint(following[:2]) else max(map(verb_score, following), default=0)
    if word == "our":
        return max([OUR_NOUN_SCORES.get(noun, 0) for noun in following[:3]], default=0)
    if word in PAPER_NOUNS and place and words[place - 1] in OWN:
        return max(map(verb_score, following), default=0)
    if word in EVIDENCE_NOUNS and any(map(verb_score, following[:3])):
        return EVIDENCE
    return PASSIVE if word in PARTICIPLES and not BE.isdisjoint(words[max(0, place - 2) : place]) else 0


def verb_score(word: str) -> float:
    """Return the score of a verb after a subject such as "we" or "this paper"; 0 for any other word."""
    return VERB_SCORES.get(word, 0)


def back_reference(words: Sequence[str]) -> float:
    """Return the penalty if the subject of a sentence refers to the preceding sentence, else 0."""
    first, second = words[:2]
    if first in PRONOUNS or (first in DEMONSTRATIVES and is_verb(second, after=first)):
        return PRONOUN
    return BACK_REFERENCE if first in DEMONSTRATIVES and second not in PAPER_NOUNS else 0


def unknown_acronym(sentence: str) -> float:
    """Return the penalty if a sentence begins with an acronym, which an earlier sentence spelled out."""
    first = sentence.partition(" ")[0].rstrip(",.:;")
    return ACRONYM if len(first) > 1 and first.isupper() else 0


def is_verb(word: str, *, after: str) -> bool:
    """Return whether the word after a demonstrative is a verb; if so, the demonstrative is a pronoun."""
    return word in AUXILIARIES or (
        after == "this" and word.endswith("s") and not word.endswith(("ss", "us", "is"))
    )
