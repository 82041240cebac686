"""Score a batch of papers for descriptions (`about:`) and for examples (`like:`)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from functools import cache, cached_property, lru_cache

from digest.papers import bitsets
from digest.topics import about_clauses, example_words, text_index, tokenizer, word_rarity
from digest.topics.about_clauses import DescriptionWeights, Phrase
from digest.topics.filter_tree import DescriptionClause, Example, ExampleClause
from digest.topics.text_index import Forms, TextIndex

SHARED_ROOTS = 4  #: number of roots of an example that explain why a paper is similar
MAX_RESULTS = 10_000  #: maximum number of clauses whose scores are cached
MAX_PACKED = 4096  #: maximum number of roots whose shares are cached, with 4 bytes for each paper


class DescriptionIndex:
    """The words of a batch of papers by their roots; document n is the title of paper n, and size + n its abstract."""

    def __init__(self, texts: TextIndex, size: int, weights: DescriptionWeights):
        self.texts, self.size, self.weights = texts, size, weights
        #: The number of words in the title and abstract of each paper.
        self.lengths = [texts.length(number) + texts.length(size + number) for number in range(size)]
        self.mentions = cache(self._look_up_mentions)
        self._packed = lru_cache(MAX_PACKED)(lambda root: example_words.packed(self._shares(root), size))
        self._having = cache(lambda root: bitsets.bitset_of(self.mentions((root,))))
        self.scores = lru_cache(MAX_RESULTS)(self._scores)

    def _scores(self, leaf: DescriptionClause | ExampleClause) -> Mapping[int, float]:
        """Return {paper: score} for the papers that match a description or examples, cached for all filters.

        The score is a share of the description's bits. It may exceed 1, because pairs of neighbouring words
        add to it. The score of a paper does not depend on the other papers of the batch.
        """
        scores: Mapping[int, float]
        if isinstance(leaf, ExampleClause):
            similar = [example_words.similarities(one.weights, self._packed) for one in leaf.examples]
            scores = dict(enumerate(example_words.means_of_nearest(similar, len(similar), self.size)))
            threshold = self.weights.similarity_needed(leaf.likeness)
            roots = {root for example in leaf.examples for root, _ in example.weights}
        else:
            scores, threshold = self._described(leaf.roots), self.weights.threshold(leaf.roots)
            roots = {*leaf.roots}
        enough = self._with_reasons(roots)
        return {
            number: score for number, score in scores.items() if score >= threshold and enough >> number & 1
        }

    def _with_reasons(self, roots: Collection[str]) -> int:
        """Return the papers with a rare word, or the only one, or two common ones of these roots."""
        enough = seen = 0
        for root in roots:
            having = self._having(root)
            is_rare = len(roots) == 1 or word_rarity.bits(root) >= self.weights.rare_bits
            enough |= having if is_rare else seen & having
            seen |= having
        return enough

    def _described(self, roots: Sequence[str]) -> Mapping[int, float]:
        scores: defaultdict[int, float] = defaultdict(float)
        whole = about_clauses.bits_of(roots)
        for phrase, bits in about_clauses.bits_of_phrases(roots).items():
            for number, frequency in self.mentions(phrase).items():
                scores[number] += bits * self.weights.score(frequency, self.lengths[number]) / whole
        return scores

    def nearest_example(self, leaf: ExampleClause, number: int) -> tuple[Example, Sequence[str]]:
        """Return the example nearest to a paper, and the roots that both have and that weigh most."""

        def shared(example: Example) -> list[tuple[float, str]]:
            found = [(weight * self._shares(root).get(number, 0.0), root) for root, weight in example.weights]
            return sorted([one for one in found if one[0]], reverse=True)

        nearest = max(leaf.examples, key=lambda example: sum(score for score, _ in shared(example)))
        return nearest, [root for _, root in shared(nearest)[:SHARED_ROOTS]]

    def _shares(self, root: str) -> Mapping[int, float]:
        """Return {paper: share of the weight of a word with this root} for the papers with such a word."""
        score, saturation = self.weights.score, self.weights.example_saturation
        return {
            number: score(frequency, self.lengths[number], saturation)
            for number, frequency in self.mentions((root,)).items()
        }

    def _look_up_mentions(self, roots: Phrase) -> Mapping[int, float]:
        """Return {paper: weighted number of occurrences} of consecutive words with these roots."""
        found: defaultdict[int, float] = defaultdict(float)
        forms = [self._forms_of_root.get(root, frozenset()) for root in roots]
        for document, count in Counter(self.texts.documents_of(forms, " " * (len(roots) - 1))).items():
            if document < self.size:
                found[document] += self.weights.title * count
            elif document < 2 * self.size:
                found[document - self.size] += count
        return found

    @cached_property
    def _forms_of_root(self) -> Mapping[str, Forms]:
        """Return {root: numbers of the words in this batch with this root}."""
        numbers = self.texts.numbers.items()
        return text_index.united((tokenizer.root(word), some) for word, some in numbers if word.islower())
