"""Measure topics by example on labelled topics; a part of `make bench ARGS=relevance`.

Random relevant papers of a labelled topic are the examples. Marginal papers are left out. A library has 40 papers of
three topics; its topic is judged by the first ten of the other papers.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any, TypeAlias

from digest.papers import bitsets
from digest.papers.paper_record import Paper, title_key
from digest.topics import example_words, filter_parser
from digest.topics.filter_parser import Filter
from digest.topics.paper_index import PaperIndex

Topic: TypeAlias = Mapping[str, Any]
#: Average precision of all papers of a topic and of those that are not examples, F1 of both, and papers found.
Figures: TypeAlias = tuple[float, float, float, float, float]

DRAWS, LIBRARIES = 10, 20
LIBRARY_SIZE, LEAST_RELEVANT = 40, 6
BATCH_SIZE = 2000


def filter_like(examples: Sequence[Paper]) -> Filter:
    """Return the filter that has these papers as examples."""
    words = (f"{number}{example_words.words_of_paper(paper)}" for number, paper in enumerate(examples))
    return filter_parser.parse(f"like:{','.join(words)}")


def ranked(index: PaperIndex, filter_: Filter) -> list[int]:
    """Return the papers of a filter, best first."""
    return [number for _, some in index.sets_by_relevance(filter_) for number in bitsets.members(some)]


def judged_examples(
    index: PaperIndex, keys: Sequence[str], topic: Topic, count: int, draws: int = DRAWS
) -> list[Figures]:
    """Return the figures of a topic for random examples; with one example, each relevant paper is drawn once."""
    at = {key: number for number, key in enumerate(keys)}
    relevant, marginal = (
        {at[title_key(one)] for one in topic[name] if title_key(one) in at}
        for name in ("relevant", "marginal")
    )
    chance = random.Random(topic["description"])
    drawn = (
        [[one] for one in sorted(relevant)]
        if count == 1
        else [chance.sample(sorted(relevant), count) for _ in range(draws)]
    )
    figures = []
    for examples in drawn:
        order = ranked(index, filter_like([index.papers[number] for number in examples]))
        found = [number for number in order if number not in marginal]
        others = [number for number in found if number not in examples]
        left = relevant - {*examples}
        figures.append(
            (
                precision(found, relevant),
                precision(others, left),
                f1(found, relevant),
                f1(others, left),
                float(len(order)),
            )
        )
    return figures


def precision(order: Sequence[int], relevant: set[int]) -> float:
    """Return the average precision of an order."""
    places = [place for place, number in enumerate(order, start=1) if number in relevant]
    return sum((n + 1) / place for n, place in enumerate(places)) / max(1, len(relevant))


def f1(found: Sequence[int], relevant: set[int]) -> float:
    """Return F1 of a set of papers."""
    return 2 * len(relevant.intersection(found)) / max(1, len(found) + len(relevant))


def print_examples(index: PaperIndex, keys: Sequence[str], labelled: Mapping[str, Topic]) -> None:
    """Print the figures for one, three and ten examples and for libraries, with bootstrap intervals."""
    print(f"\n{'examples':<44} {'AP all':>16} {'AP others':>16} {'F1':>16} {'F1 others':>16} found")
    for count in (1, 3, 5):
        known = [topic for topic in labelled.values() if len(topic["relevant"]) > count]
        rows = [
            [fmean(column) for column in zip(*judged_examples(index, keys, topic, count), strict=True)]
            for topic in known
        ]
        columns = [*zip(*rows, strict=True)]
        shown = " ".join(f"{interval(column):>16}" for column in columns[:4])
        print(f"{count} of {len(known)} topics{'':<30}"[:44], shown, f"{fmean(columns[4]):.0f}")
    print(
        f"library of {LIBRARY_SIZE}, of the first ten fit: {interval(judged_libraries(index, keys, labelled))}"
    )


def judged_libraries(index: PaperIndex, keys: Sequence[str], labelled: Mapping[str, Topic]) -> list[float]:
    """Return, for each random library, the share of the first ten other papers that belong to its topics."""
    at = {key: number for number, key in enumerate(keys)}
    known = [
        {at[title_key(one)] for one in topic["relevant"]}
        for topic in labelled.values()
        if len(topic["relevant"]) >= LEAST_RELEVANT
    ]
    shares = []
    for draw in range(LIBRARIES):
        chance = random.Random(draw)
        chosen = chance.sample(known, 3)
        halves = [chance.sample(sorted(one), min(len(one) // 2, LIBRARY_SIZE // 3)) for one in chosen]
        library, relevant = {n for half in halves for n in half}, set().union(*chosen)
        reference, words = example_words.words_of_library(
            [index.papers[number] for number in sorted(library)], [index.papers[number] for number in library]
        )
        order = ranked(index, filter_parser.parse(f"like:{reference}{words}"))
        possible = min(10, len(relevant - library))
        shares.append(len(relevant.intersection(order[:10])) / possible)
    return shares


def print_times(papers: Sequence[Paper], labelled: Mapping[str, Topic]) -> float:
    """Print the processor time of a topic by kind on 2,000 papers, and return that of a library in Boolean topics."""
    chance = random.Random(1)
    batch = [mixed(papers, chance) for _ in range(BATCH_SIZE)]
    examples = [mixed(papers, chance) for _ in range(4 * example_words.MAX_EXAMPLES)]
    libraries = [chance.sample(examples, example_words.MAX_EXAMPLES) for _ in range(LIBRARIES)]
    filters = {
        "Boolean": [filter_parser.parse(topic["query_boolean"]) for topic in labelled.values()],
        "one example": [filter_like([one]) for one in examples],
        f"{example_words.MAX_EXAMPLES} examples": [
            filter_parser.parse("like:{}{}".format(*example_words.words_of_library(library, ())))
            for library in libraries
        ],
    }
    index, times = PaperIndex(batch), []
    for name, some in filters.items():
        start = time.process_time()
        for filter_ in some:
            index.sets_by_relevance(filter_)
        times.append((time.process_time() - start) / len(some))
        print(f"{name:<16} {1000 * times[-1]:8.2f} ms {times[-1] / times[0]:6.1f} Boolean topics")
    return times[-1] / times[0]


def mixed(papers: Sequence[Paper], chance: random.Random) -> Paper:
    """Return a paper of sentences from two others."""
    two = chance.sample(papers, 2)
    sentences = [sentence for one in two for sentence in one.abstract.split(". ")]
    return replace(two[0], abstract=". ".join(chance.sample(sentences, len(sentences) // 2)))


def interval(values: Sequence[float], draws: int = 1000) -> str:
    """Return the mean of values, and the interval with 90% of the means of bootstrap samples."""
    chance = random.Random(1)
    means = sorted(fmean(chance.choices(values, k=len(values))) for _ in range(draws))
    return f"{fmean(values):.3f} {means[draws // 20]:.2f}-{means[-draws // 20]:.2f}"
