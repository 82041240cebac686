"""Index a batch of papers, and evaluate filters on it.

Papers are numbered by their position in the batch, best first. A set of papers is an integer whose lowest
bits represent the best papers. A batch caches results: each distinct clause and each distinct combination of
clauses is evaluated only once, even if many filters contain it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property, reduce
from itertools import chain
from operator import and_, or_
from typing import Any

from digest.papers import bitsets, display_text, paper_record
from digest.papers.bitsets import ScoredSets
from digest.papers.paper_record import Paper
from digest.topics import (
    about_clauses,
    author_names,
    example_words,
    language_detection,
    relevance,
    tokenizer,
    word_rarity,
    word_roots,
    word_rows,
)
from digest.topics.about_clauses import DescriptionWeights
from digest.topics.filter_parser import Filter
from digest.topics.filter_tree import (
    And,
    AnnouncementClause,
    AnywhereClause,
    AuthorClause,
    CategoryClause,
    DateClause,
    DescriptionClause,
    Example,
    ExampleClause,
    IdClause,
    LanguageClause,
    Leaf,
    Node,
    Not,
    Or,
    SignalClause,
    SourceClause,
    TextClause,
)
from digest.topics.postings import Forms, Postings
from digest.topics.relevance import RelevanceWeights, ScoredClause
from digest.topics.word_rows import LazyDict

#: Maximum number of cached results before they are discarded; a result for 4,000 papers takes up to 3 kB.
MAX_RESULTS = 10_000

SHARED_ROOTS = 4  #: number of roots of an example that explain why a paper is similar

#: The fields of n papers are numbered as documents: titles 0..n-1, abstracts n..2n-1, and so on.
FIELDS = ("title", "abstract", "comment", "journal", "organization")
_PLACES = {"ti": (0,), "abs": (1,), "tiab": (0, 1), "co": (2,), "jr": (3,), "org": (4,)}


class PaperIndex:
    """A batch of papers that filters are matched against.

    Several threads may evaluate filters at the same time.
    """

    def __init__(
        self,
        batch: Sequence[Paper],
        weights: RelevanceWeights = relevance.WEIGHTS,
        described: DescriptionWeights = about_clauses.WEIGHTS,
    ):
        self.weights, self.described = weights, described
        self.papers = tuple(batch)
        self.size = len(self.papers)
        self.full = (1 << self.size) - 1
        self.postings = self._posted()
        self.forget_results()
        self._lookup: Mapping[type, Callable[[Any], int]] = {
            AuthorClause: self._person,
            CategoryClause: self._category,
            IdClause: lambda leaf: self._by_id.get(leaf.value.lower(), 0),
            AnnouncementClause: lambda leaf: self._where(lambda paper: paper.announcement == leaf.value),
            SourceClause: self._source,
            LanguageClause: self._language,
            DateClause: self._published,
            SignalClause: self._signal,
            AnywhereClause: self._anywhere,
            DescriptionClause: self._about,
            ExampleClause: self._about,
        }

    def _posted(self) -> Postings:
        if self.size == 1:  # a single paper has few lookups, so nothing is built in advance
            return Postings(
                word_rows.rows_of_words(
                    (place, tokenizer.read(written)) for place, written in self._documents()
                )
            )
        postings = Postings(word_rows.rows_of_texts(self._documents()))
        postings.list_words()
        return postings

    def _documents(self) -> Iterator[tuple[int, str]]:
        for number, paper in enumerate(self.papers):
            for place, written in enumerate(texts_of(paper)):
                if written:
                    yield place * self.size + number, written

    def forget_results(self) -> None:
        """Discard the cached results of all clauses."""
        self._leaves: dict[Leaf, int] = {}
        self._matches_by_clause: dict[str, int] = {}
        self._counted: dict[str, Mapping[int, int]] = {}
        self._mentions: Mapping[tuple[str, ...], Mapping[int, float]] = LazyDict(self._mention)
        self._scored_sets: dict[ScoredClause, ScoredSets] = {}
        self._scores: dict[DescriptionClause | ExampleClause, Mapping[int, float]] = {}
        self._shares: Mapping[str, Sequence[tuple[int, float]]] = LazyDict(self._share)

    @property
    def clauses_cached(self) -> int:
        """Return the number of clauses whose results are cached."""
        return len(self._leaves)

    def limit_results(self, most: int = MAX_RESULTS) -> None:
        """Discard the cached results if there are more than `most`; visitors can try many filters."""
        if self.clauses_cached > most:
            self.forget_results()

    # ── matching ───────────────────────────────────────────────────────────────────────────────

    def matches(self, filter_: Filter) -> int:
        """Return the set of papers that match a filter: bit n is paper number n."""
        return self.matches_of_node(filter_.tree)

    def matches_of_node(self, node: Node) -> int:
        """Return the set of papers that a part of a filter matches."""
        if isinstance(node, And):
            return reduce(and_, map(self.matches_of_node, node.children))
        if isinstance(node, Or):
            return reduce(or_, map(self.matches_of_node, node.children))
        if isinstance(node, Not):
            return self.full & ~self.matches_of_node(node.child)
        return self.leaf(node)

    def leaf(self, leaf: Leaf) -> int:
        """Return the set of papers that one clause matches, cached for all filters."""
        found = self._leaves.get(leaf)
        if found is None:
            found = self._leaves[leaf] = self._look_up_leaf(leaf)
        return found

    def _look_up_leaf(self, leaf: Leaf) -> int:
        if type(leaf) is not TextClause:
            return self._lookup[type(leaf)](leaf)
        return self._papers_of(leaf, self.documents(leaf))

    def _papers_of(self, leaf: TextClause, documents: int) -> int:
        """Return the papers that have one of `documents` in a field that the clause searches."""
        size = self.size
        if leaf.field == "tiab":
            return (documents | documents >> size) & self.full
        return documents >> (_PLACES[leaf.field][0] * size) & self.full

    # ── words ───────────────────────────────────────────────────────────────────────────────────

    def documents(self, leaf: TextClause) -> int:
        """Return the documents of any field that contain the words of a clause."""
        found = self._matches_by_clause.get(leaf.words)
        if found is None:
            found = self._matches_by_clause[leaf.words] = self._look_up(leaf)
        return found

    def _look_up(self, leaf: TextClause) -> int:
        postings, exact = self.postings, leaf.exact
        known = postings.known[exact]
        forms, in_two = [], False
        for token in leaf.tokens:
            words, halves = known[token]
            forms.append(words)
            if halves:
                in_two = True
        if leaf.near is not None:
            return postings.documents_near(forms, leaf.near)
        bits = postings.documents_in_a_row(forms, leaf.gaps)
        if in_two or leaf.closed:
            for gaps, spelled in self.spellings(leaf, forms):
                bits |= postings.documents_in_a_row(spelled, gaps)
        return bits

    def scored_sets(self, leaf: ScoredClause) -> ScoredSets:
        """Return the papers that a clause matches as (score, papers), cached for all filters."""
        found = self._scored_sets.get(leaf)
        if found is None:
            scored = self._score_text(leaf) if isinstance(leaf, TextClause) else self._score_description(leaf)
            found = self._scored_sets[leaf] = tuple(scored.items())
        return found

    def _score_text(self, leaf: TextClause) -> Mapping[float, int]:
        """Return {score: papers}; scores depend on the numbers of occurrences in the title and elsewhere."""
        fields, having = fields_of(leaf), self._documents_by_count(leaf)
        in_title = self._by_count(having, 0) if fields[0] == 0 else {0: self.full}
        elsewhere = self._by_count(having, fields[-1]) if fields[-1] else {0: self.full}
        scored: defaultdict[float, int] = defaultdict(int)
        for title_count, titles in in_title.items():
            for count, others in elsewhere.items():
                if both := titles & others:
                    scored[self.weights.score(title_count, count)] |= both
        scored.pop(0.0, None)
        return scored

    def _documents_by_count(self, leaf: TextClause) -> Mapping[int, int]:
        """Return {number of occurrences: documents}, cached for the clauses with the same words."""
        found = self._counted.get(leaf.words)
        if found is None:
            repeated: defaultdict[int, int] = defaultdict(int)
            for document, count in self.counts(leaf).items():
                if count > 1:  # in most documents, words occur once
                    repeated[count] |= 1 << document
            once = self.documents(leaf) & ~reduce(or_, repeated.values(), 0)
            found = self._counted[leaf.words] = {**repeated, 1: once}
        return found

    def _by_count(self, having: Mapping[int, int], field: int) -> Mapping[int, int]:
        """Return {number of occurrences in a field: papers}, including the papers without occurrences."""
        found = {count: bits >> field * self.size & self.full for count, bits in having.items()}
        return {**found, 0: self.full & ~reduce(or_, found.values(), 0)}

    def _score_description(self, leaf: DescriptionClause | ExampleClause) -> Mapping[float, int]:
        scored: defaultdict[float, int] = defaultdict(int)
        for number, score in self.scores(leaf).items():
            scored[score] |= 1 << number
        return scored

    def counts(self, leaf: TextClause) -> Mapping[int, int]:
        """Return {document: number of occurrences} for the words of a clause."""
        forms = self.forms(leaf)
        if leaf.near is not None:
            return dict.fromkeys(bitsets.members(self.documents(leaf)), 1)
        spellings = [(leaf.gaps, forms), *self.spellings(leaf, forms)]
        if len(spellings) == len(forms) == 1:
            return self.postings.counts(forms[0])
        return Counter(chain.from_iterable(self.postings.found_in(words, gaps) for gaps, words in spellings))

    def forms(self, leaf: TextClause) -> list[Forms]:
        """Return the words of this batch that match each token of a clause."""
        known = self.postings.known[leaf.exact]
        return [known[token].forms for token in leaf.tokens]

    def spellings(self, leaf: TextClause, forms: list[Forms]) -> Iterator[tuple[str, list[Forms]]]:
        """Yield (gaps, words) for each alternative spelling of a clause whose words occur in this batch."""
        known = self.postings.known[leaf.exact]
        as_one = self.postings.exact_forms if leaf.exact else self.postings.all_forms
        for joined, tokens, gaps in leaf.closed:
            if as_one(joined):
                yield gaps, [known[token].forms for token in tokens]
        for k, token in enumerate(leaf.tokens):
            for gap, two in known[token].halves:
                yield leaf.gaps[:k] + gap + leaf.gaps[k:], [*forms[:k], *two, *forms[k + 1 :]]

    # ── descriptions ────────────────────────────────────────────────────────────────────────────

    def _about(self, leaf: DescriptionClause | ExampleClause) -> int:
        return bitsets.bitset_of(self.scores(leaf))

    def scores(self, leaf: DescriptionClause | ExampleClause) -> Mapping[int, float]:
        """Return {paper: score} for the papers that match a description or examples, cached for all filters.

        The score is a share of the description's bits. It may exceed 1, because pairs of neighbouring words
        add to it. The score of a paper does not depend on the other papers of the batch.
        """
        found = self._scores.get(leaf)
        if found is None:
            found = self._scores[leaf] = (
                self._similarities_to(leaf)
                if isinstance(leaf, ExampleClause)
                else self._description_scores_of(leaf)
            )
        return found

    def _description_scores_of(self, leaf: DescriptionClause) -> Mapping[int, float]:
        roots, pairs = about_clauses.bits_of_roots(leaf.roots), about_clauses.bits_of_pairs(leaf.roots)
        described = self.described
        scores: defaultdict[int, float] = defaultdict(float)
        reasons: Counter[int] = Counter()
        for phrase, bits in chain(roots.items(), pairs.items()):
            mentions = self._mentions[phrase]
            for number, frequency in mentions.items():
                scores[number] += bits * described.score(frequency, self.lengths[number])
            if len(phrase) == 1:
                reasons.update(dict.fromkeys(mentions, self._reason_of(*phrase, len(roots))))
        whole = sum(roots.values())
        threshold = described.threshold(whole)
        return {
            number: score / whole
            for number, score in scores.items()
            if score >= threshold and reasons[number] > 1
        }

    def _similarities_to(self, leaf: ExampleClause) -> Mapping[int, float]:
        """Return {paper: mean similarity to its three nearest examples} for the similar papers."""
        similar: defaultdict[int, list[float]] = defaultdict(list)
        for example in leaf.examples:
            for number, similarity in example_words.similarities(example.weights, self._shares).items():
                similar[number].append(similarity)
        scores = {
            number: example_words.mean_of_nearest(found, len(leaf.examples))
            for number, found in similar.items()
        }
        threshold = self.described.similarity_needed(leaf.likeness)
        known = self._having(leaf.known) if leaf.known else 0
        alike = {
            number: score
            for number, score in scores.items()
            if score >= threshold and not known >> number & 1
        }
        roots = {root for example in leaf.examples for root, _ in example.weights}
        reasons: Counter[int] = Counter()
        for root in roots:
            having = [number for number, _ in self._shares[root] if number in alike]
            reasons.update(dict.fromkeys(having, self._reason_of(root, len(roots))))
        return {number: score for number, score in alike.items() if reasons[number] > 1}

    def _reason_of(self, root: str, roots: int) -> int:
        """Return 2 if a word is reason enough by itself, because it is rare or the only one, else 1."""
        return 2 if roots == 1 or word_rarity.bits(root) >= self.described.rare_bits else 1

    def nearest_example(self, leaf: ExampleClause, number: int) -> tuple[Example, Sequence[str]]:
        """Return the example nearest to a paper, and the roots that both have and that weigh most."""
        length, described = self.lengths[number], self.described

        def shared(example: Example) -> list[tuple[float, str]]:
            found = (
                (root, weight, self._mentions[root,].get(number, 0.0)) for root, weight in example.weights
            )
            return [
                (weight * described.score(frequency, length, described.example_saturation), root)
                for root, weight, frequency in found
                if frequency
            ]

        nearest = max(leaf.examples, key=lambda example: sum(score for score, _ in shared(example)))
        return nearest, [root for _, root in sorted(shared(nearest), reverse=True)[:SHARED_ROOTS]]

    def _share(self, root: str) -> Sequence[tuple[int, float]]:
        """Return (paper, share of the weight of a word with this root) for the papers with such a word."""
        lengths, described = self.lengths, self.described
        return [
            (number, described.score(frequency, lengths[number], described.example_saturation))
            for number, frequency in self._mentions[root,].items()
        ]

    def _having(self, hashes: Collection[str]) -> int:
        """Return the papers of which an id or the title has one of these hashes."""
        return reduce(or_, [self._hashed.get(name, 0) for name in hashes], 0)

    @cached_property
    def _hashed(self) -> Mapping[str, int]:
        found: defaultdict[str, int] = defaultdict(int)
        for number, paper in enumerate(self.papers):
            for name in example_words.hashes_of(paper):
                found[name] |= 1 << number
        return found

    @cached_property
    def lengths(self) -> Sequence[int]:
        """Return the number of words in the title and abstract of each paper."""
        length, size = self.postings.length, self.size
        return [length(number) + length(size + number) for number in range(size)]

    def mentions(self, roots: tuple[str, ...]) -> Mapping[int, float]:
        """Return {paper: weighted number of occurrences} of consecutive words with these roots."""
        return self._mentions[roots]

    def _mention(self, roots: tuple[str, ...]) -> Mapping[int, float]:
        """Return {paper: weighted number of occurrences} for consecutive words with these roots."""
        found: defaultdict[int, float] = defaultdict(float)
        gaps = " " * (len(roots) - 1)
        for document in self.postings.found_in([self._rooted.get(root, ()) for root in roots], gaps):
            if document < self.size:
                found[document] += self.described.title
            elif document < 2 * self.size:
                found[document - self.size] += 1
        return dict(found)

    @cached_property
    def _rooted(self) -> Mapping[str, Forms]:
        """Return {root: numbers of the words in this batch with this root}."""
        rooted: defaultdict[str, list[int]] = defaultdict(list)
        for word, at in self.postings.words.items():
            if word.islower():
                rooted[word_roots.root(word)].append(at)
        return {root: tuple(words) for root, words in rooted.items()}

    # ── people ──────────────────────────────────────────────────────────────────────────────────

    @cached_property
    def _people(self) -> dict[tuple[str, ...], list[int]]:
        """Return {name parts of an author: [papers by the author, papers with this first author]}."""
        people: dict[tuple[str, ...], list[int]] = {}
        for number, paper in enumerate(self.papers):
            for place, author in enumerate(paper.authors):
                sets = people.setdefault(author_names.parts_of(author), [0, 0])
                sets[0] |= 1 << number
                if not place:
                    sets[1] |= 1 << number
        return people

    @cached_property
    def _people_by_part(self) -> dict[str, list[tuple[str, ...]]]:
        by_part: defaultdict[str, list[tuple[str, ...]]] = defaultdict(list)
        for parts in self._people:
            for part in dict.fromkeys(parts):
                by_part[part].append(parts)
        return dict(sorted(by_part.items()))

    @cached_property
    def _name_parts(self) -> list[str]:
        return list(self._people_by_part)

    def _person(self, leaf: AuthorClause) -> int:
        bits = 0
        for part in self._candidates(leaf):
            for parts in self._people_by_part.get(part, ()):
                if author_names.names_agree(
                    leaf.given, leaf.family, is_sorted=leaf.is_sorted, starred=leaf.starred, parts=parts
                ):
                    bits |= self._people[parts][leaf.first]
        return bits

    def _candidates(self, leaf: AuthorClause) -> list[str]:
        """Return the name parts by which authors are looked up; every matching author has one of them."""
        family = leaf.family[-1]
        if not leaf.starred:
            return [family]
        start = bisect_left(self._name_parts, family)
        end = bisect_left(self._name_parts, family + "\U0010ffff", start)
        return self._name_parts[start:end]

    # ── everything else ─────────────────────────────────────────────────────────────────────────

    def _where(self, holds: Callable[[Paper], bool]) -> int:
        return sum(1 << number for number, paper in enumerate(self.papers) if holds(paper))

    @cached_property
    def _categories(self) -> tuple[dict[str, int], dict[str, int]]:
        """Return ({category or archive: papers}, {primary category or archive: papers})."""
        anywhere: defaultdict[str, int] = defaultdict(int)
        first: defaultdict[str, int] = defaultdict(int)
        for number, paper in enumerate(self.papers):
            for place, category in enumerate(paper.categories):
                code = category.lower()
                for name in {code, code.partition(".")[0] + ".*"}:
                    anywhere[name] |= 1 << number
                    if not place:
                        first[name] |= 1 << number
        return dict(anywhere), dict(first)

    def _category(self, leaf: CategoryClause) -> int:
        table = self._categories[leaf.primary]
        bits = 0
        for code in leaf.codes:
            bits |= table.get(f"{code}.*" if leaf.is_archive else code, 0)
        return bits

    @cached_property
    def _by_id(self) -> dict[str, int]:
        found: defaultdict[str, int] = defaultdict(int)
        for number, paper in enumerate(self.papers):
            for value in paper.ids.values():
                found[value.lower()] |= 1 << number
        return dict(found)

    def _source(self, leaf: SourceClause) -> int:
        return self._where(
            lambda paper: any(
                " ".join(paper_record.fold(name).split()) == leaf.value for name in paper.sources
            )
        )

    @cached_property
    def _languages(self) -> dict[str, int]:
        spoken: defaultdict[str, int] = defaultdict(int)
        for number, paper in enumerate(self.papers):
            spoken[language_detection.language_of(f"{paper.title} {paper.abstract}")] |= 1 << number
        return dict(spoken)

    def _language(self, leaf: LanguageClause) -> int:
        return self._languages.get(leaf.value, 0)

    def _published(self, leaf: DateClause) -> int:
        return self._where(
            lambda paper: paper.published is not None and leaf.since <= paper.published <= leaf.until
        )

    def _signal(self, leaf: SignalClause) -> int:
        return self._where(lambda paper: leaf.low <= paper.signals.get(leaf.name, -1) <= leaf.high)

    def _anywhere(self, leaf: AnywhereClause) -> int:
        bits = 0
        for part in leaf.parts:
            bits |= self.leaf(part)
        return bits

    def relevance(self, filter_: Filter, matches: int) -> dict[int, float]:
        """Return {paper: relevance} for the papers in `matches`, from 0 to 1 for the best paper."""
        sets = self.sets_by_relevance(filter_, matches)
        return {number: score for score, papers in sets for number in bitsets.members(papers)}

    def sets_by_relevance(self, filter_: Filter, matches: int | None = None) -> ScoredSets:
        """Return the papers in `matches`, by default all matches, as (relevance, papers), highest first."""
        found = self.matches(filter_) if matches is None else matches
        return (
            relevance.by_relevance(relevance.totals_of(self, filter_, found, self.weights)) if found else ()
        )


def fields_of(leaf: TextClause) -> tuple[int, ...]:
    """Return the indexes in `FIELDS` of the fields that a clause searches."""
    return _PLACES[leaf.field]


def texts_of(paper: Paper) -> tuple[str, ...]:
    """Return the texts of a paper, in the order of `FIELDS`."""
    organization = paper.organization
    return (
        display_text.display(paper.title),
        display_text.display(paper.abstract),
        display_text.display(paper.comment),
        display_text.display(paper.journal),
        display_text.display(f"{organization.name} {organization.handle}") if organization else "",
    )
