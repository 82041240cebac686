"""Measure how well suggested topics find the papers of labelled topics; a part of `make bench ARGS=relevance`.

Three random relevant papers of a labelled topic are the examples, and the F1 of the suggested filter over all
seed papers is measured: of all relevant papers, and of those that are not among the examples. Marginal papers
are left out. The *held-out* lines judge each half of the topics with the constants that are best for the other
half, by the sum of both figures. A library is a mixture of 40 relevant papers of three topics, or of relevant and marginal papers; for each
of these topics, the best of the suggested filters counts.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from time import process_time
from typing import Any, TypeAlias

from digest import topics
from digest.papers import Paper, title_key
from digest.topics.suggested_topics import WEIGHTS, SuggestionWeights
from tests.topics import test_library_topics as library_tests
from tests.topics import test_suggested_topics as suggestion_tests

Topic: TypeAlias = Mapping[str, Any]
#: F1 of all papers of a topic, F1 of those that are not examples, and number of papers found.
Figures: TypeAlias = tuple[float, float, float]
Table: TypeAlias = dict[str, Figures]
#: A function that returns the papers that a filter finds for some examples.
Suggest: TypeAlias = Callable[[Sequence[Paper]], int]

DRAWS, FEW_DRAWS, LIBRARIES = 20, 4, 20
#: Gates: the mean F1, held out; the share of the topics of libraries that are found with an F1 of at least .5.
LEAST_F1, LEAST_FOUND = 0.7, 0.95
WORST = 5  #: number of topics that are listed as the worst

TRIED: Sequence[SuggestionWeights] = [
    replace(WEIGHTS, topic_share=share, steepness=steepness, example=example)
    for share, steepness, example in itertools.product((0.02, 0.03, 0.045), (8.0, 14.0), (2.0, 3.5, 6.0))
]
ABLATIONS: Mapping[str, SuggestionWeights] = {
    "all constants": WEIGHTS,
    "papers are not compared with the examples": replace(WEIGHTS, steepness=0.0, topic_share=1.0),
    "an example counts as one paper": replace(WEIGHTS, example=1.0),
    "an example counts as ten papers": replace(WEIGHTS, example=10.0),
    "no papers outside the catalog": replace(WEIGHTS, unseen=0.0),
    "a longer phrase need not gain": replace(WEIGHTS, extra_word=0.0),
    "every gain is enough": replace(WEIGHTS, least_gain=1e-9),
}


def print_suggestions(papers: Sequence[Paper], labelled: Mapping[str, Topic]) -> bool:
    """Print all figures of suggestions; return whether the gates are reached."""
    batch = [replace(paper, id=number) for number, paper in enumerate(papers, start=1)]
    keys = [title_key(paper.title) for paper in batch]
    index = topics.PaperIndex(batch)
    known = {name: topic for name, topic in labelled.items() if len(topic["relevant"]) >= 3}

    def table(weights: SuggestionWeights, draws: int) -> Table:
        return judge(index, keys, known, draws, lambda some: found_by(some, index, weights))

    fitted = table(WEIGHTS, DRAWS)
    print(f"\n{'suggest, from three papers':<48} {'F1':>6} {'others':>6} {'found':>6}")
    for name, figures in fitted.items():
        print_figures(f"  {name}", figures)
    print_figures("suggest, all topics", mean(fitted))
    judged = held_out(known, table)
    print_figures("suggest, all topics, held out", judged)
    for name, weights in ABLATIONS.items():
        print_figures(f"suggest, {name}", mean(table(weights, FEW_DRAWS)))
    titles = judge(
        index, keys, known, FEW_DRAWS, lambda some: found_by(without_abstracts(some), index, WEIGHTS)
    )
    print_figures("suggest, titles without abstracts", mean(titles))
    print_worst("suggest", {name: figures[0] for name, figures in fitted.items()})
    found = print_libraries(index, keys, known, with_marginal=False)
    print_libraries(index, keys, known, with_marginal=True)
    return found >= LEAST_FOUND and judged[0] >= LEAST_F1


def held_out(known: Mapping[str, Topic], table: Callable[[SuggestionWeights, int], Table]) -> Figures:
    """Judge each half of the topics with the constants that are best for the other half; return the means."""
    names = sorted(known)
    halves = names[::2], names[1::2]
    few = {weights: table(weights, FEW_DRAWS) for weights in TRIED}
    judged: Table = {}
    for half, other in (halves, halves[::-1]):
        best = max(TRIED, key=lambda weights: fmean(sum(few[weights][name][:2]) for name in half))
        print(
            f"  chosen without {other[0]}, ...: topic_share={best.topic_share:g}, "
            f"steepness={best.steepness:g}, example={best.example:g}"
        )
        judged |= {name: figures for name, figures in table(best, DRAWS).items() if name in other}
    return mean(judged)


def found_by(examples: Sequence[Paper], index: topics.PaperIndex, weights: SuggestionWeights) -> int:
    """Return the papers that the filter suggested for some examples finds."""
    return index.matches(topics.suggest_topic(examples, index, weights).filter)


def without_abstracts(examples: Sequence[Paper]) -> list[Paper]:
    """Return papers of which only the title is known."""
    return [replace(paper, abstract="") for paper in examples]


def judge(
    index: topics.PaperIndex, keys: Sequence[str], known: Mapping[str, Topic], draws: int, suggest: Suggest
) -> Table:
    """Return the figures of each topic, averaged over the draws of examples."""
    at = dict(zip(keys, index.papers, strict=True))
    table: Table = {}
    for name, topic in known.items():
        rows = []
        for titles in suggestion_tests.draws_of(topic, draws):
            found, chosen = suggest([at[title_key(title)] for title in titles]), {*map(title_key, titles)}
            rows.append(
                (
                    suggestion_tests.f1_of(found, topic, keys),
                    suggestion_tests.f1_of(found, topic, keys, left_out=chosen),
                    float(found.bit_count()),
                )
            )
        table[name] = mean_of(rows)
    return table


def mean(table: Table) -> Figures:
    """Return the means over the topics; topics of three papers have no others."""
    return mean_of([*table.values()])


def mean_of(rows: Sequence[Figures]) -> Figures:
    first, second, third = zip(*rows, strict=True)
    return fmean(first), fmean(second), fmean(third)


def print_worst(kind: str, figures: Mapping[str, float]) -> None:
    """Print the topics with the lowest figures."""
    worst = sorted(figures, key=lambda name: figures[name])[:WORST]
    print(f"{kind}, worst topics: " + "; ".join(f"{name} ({figures[name]:.2f})" for name in worst))


def print_figures(name: str, figures: Figures) -> None:
    print(f"{name[:48]:<48} {figures[0]:6.3f} {figures[1]:6.3f} {figures[2]:6.1f}")


# ── libraries ───────────────────────────────────────────────────────────────────────────────────


def print_libraries(
    index: topics.PaperIndex, keys: Sequence[str], known: Mapping[str, Topic], *, with_marginal: bool
) -> float:
    """Print how many topics of mixed libraries are found; return their share."""
    at = dict(zip(keys, index.papers, strict=True))
    best: dict[str, list[float]] = {}
    start, suggested, complete = process_time(), 0, 0
    for draw in range(LIBRARIES):
        names, library = library_tests.mixed_library(known, random.Random(draw), with_marginal=with_marginal)
        found = topics.suggest_from_library([at[key] for key in library], index)
        suggested += len(found.topics)
        figures = library_tests.best_f1s(found, index, keys, [known[name] for name in names])
        complete += min(figures) >= library_tests.ENOUGH
        for name, figure in zip(names, figures, strict=True):
            best.setdefault(name, []).append(figure)
    seconds = process_time() - start
    every = [figure for row in best.values() for figure in row]
    title = f"libraries of 40 {'relevant and marginal' if with_marginal else 'relevant'} papers"
    print(f"\n{title:<48} {'F1':>6} {'>= .5':>6}")
    for name, row in sorted(best.items(), key=lambda one: fmean(one[1])):
        print_share(f"  {name}", row)
    print_share("libraries, all topics", every)
    print(
        f"libraries with all three topics: {complete} of {LIBRARIES}; {suggested / LIBRARIES:.1f} topics and "
        f"{seconds / LIBRARIES:.2f} s each"
    )
    return fmean(figure >= library_tests.ENOUGH for figure in every)


def print_share(name: str, row: Sequence[float]) -> None:
    print(f"{name[:48]:<48} {fmean(row):6.3f} {fmean(figure >= library_tests.ENOUGH for figure in row):6.2f}")
