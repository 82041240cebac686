"""Measure how well topics are found and ordered, on labelled topics over the seed papers (`../shared`).

    make bench ARGS=relevance

For each topic, the filter itself, its name and description in `about:`, and each of its relevant papers in `like:`
are judged. Marginal papers are left out of the order. Constants that are fitted to the labelled topics look better than they are, so the *held-out*
line judges each topic with the constants that are best for all other topics. Each ablation changes one
constant.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from digest.papers.paper_record import Paper, title_key
from digest.topics import filter_parser
from digest.topics.about_clauses import DescriptionWeights
from digest.topics.paper_index import PaperIndex
from digest.topics.relevance import RelevanceWeights
from tests.bench import example_topics
from tests.support.ranked_matches import order_of, rank_matches
from tests.topics import test_relevance as labels
from tests.topics.invented_papers import paper

#: Average precision, nDCG@10, recall and number of papers found of one topic, or their means.
Figures: TypeAlias = Sequence[float]
Topic: TypeAlias = Mapping[str, Any]
Weights: TypeAlias = RelevanceWeights | DescriptionWeights
#: A function that writes a topic, of which it gets the name and the label, as a filter.
Writer: TypeAlias = Callable[[str, Topic], str]

#: Gates for the means of average precision, nDCG@10 and recall, and for the number of papers found.
GATES = {
    "filter": (0.945, 0.97, 0.96),
    "filter, held out": (0.94, 0.965, 0.96),
    "about:": (0.865, 0.9, 0.95),
    "about:, held out": (0.86, 0.89, 0.94),
    "like:": (0.46, 0.46, 0.25),
    "like:, held out": (0.46, 0.46, 0.24),
}
#: The mean number of papers found may not be higher.
MOST_FOUND = {"filter": 12, "about:": 36, "like:": 40}
#: A topic of 200 examples may take as much processor time as this many Boolean topics.
MOST_TIMES = 30
#: Average precision that digests may lose by votes that spread by one bit, and the draws of votes to average.
MOST_LOST, DRAWS = 0.01, 10

#: The constants from which the held-out lines choose.
TRIED: dict[str, Sequence[Weights]] = {
    "filter": [
        RelevanceWeights(title=title, saturation=saturation, other_name=other_name)
        for title, saturation, other_name in itertools.product((3, 5, 8), (3, 6, 12), (0.2, 0.4, 0.8))
    ],
    "about:": [
        DescriptionWeights(title=title, saturation=saturation, enough_bits=enough_bits)
        for title, saturation, enough_bits in itertools.product((3, 5, 8), (0.8, 1.2, 1.8), (5.5, 7.0, 8.5))
    ],
    "like:": [
        DescriptionWeights(title=title, example_saturation=saturation, alike=alike)
        for title, saturation, alike in itertools.product((3, 5, 8), (1.5, 3, 6), (0.06, 0.08, 0.1))
    ],
}
ABLATIONS: dict[str, Weights] = {
    "filter, the title counts like the abstract": RelevanceWeights(title=1.0),
    "filter, a second mention adds little": RelevanceWeights(saturation=0.6),
    "filter, all alternatives count the same": RelevanceWeights(other_name=1.0),
    "filter, only the first alternative counts": RelevanceWeights(other_name=0.0),
    "about:, the title counts like the abstract": DescriptionWeights(title=1.0),
    "about:, no number of bits is enough": DescriptionWeights(enough_bits=1000.0),
    "about:, one common word is enough": DescriptionWeights(rare_bits=0.0),
    "about:, no share is enough": DescriptionWeights(enough_share=1.0),
    "like:, everything matches": DescriptionWeights(alike=0.0),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class LabelledPapers:
    """The seed papers with their title keys, and the labelled topics."""

    papers: Sequence[Paper]
    keys: Sequence[str]
    topics: Mapping[str, Topic]


#: A function that returns the figures of each topic.
Judge: TypeAlias = Callable[[LabelledPapers, PaperIndex], list[Figures]]


def main(full: bool) -> int:
    """Print the tables; return 0 if the means reach the gates."""
    if not (labels.SHARED / "relevance").is_dir():
        print("skipped: needs ../shared/relevance and ../shared/seeds")
        return 0
    data = read_labelled()
    means: dict[str, Figures] = {}
    for kind in TRIED:
        table = JUDGES[kind](data, indexed(data))
        print(f"{kind:<48} {'found':>5} {'AP':>6} {'nDCG':>6} {'recall':>6}")
        for name, row in zip(data.topics, table, strict=True):
            print_line(f"  {name}", row)
        means |= {kind: mean(table), f"{kind}, held out": held_out(data, kind)}
        print_line(f"{kind}, all topics", means[kind])
        print_line(f"{kind}, all topics, held out", means[f"{kind}, held out"])
        print(f"{kind}, bootstrap: AP {example_topics.interval([row[0] for row in table])}")
    for form, written in (("name", by_name), ("description", by_description)):
        print_line(f"about:, the {form} alone", mean(judge_as(written)(data, indexed(data))))
    for name, weights in ABLATIONS.items():
        print_line(name, mean(JUDGES[name.partition(",")[0]](data, indexed(data, weights))))
    losses = print_votes(data)
    example_topics.print_examples(indexed(data), data.keys, data.topics)
    times = example_topics.print_times(data.papers, data.topics)
    found_too_many = any(means[kind][3] > most for kind, most in MOST_FOUND.items())
    return int(
        found_too_many
        or times > MOST_TIMES
        or losses[1] > MOST_LOST
        or any(misses(means[kind], gates) for kind, gates in GATES.items())
    )


def misses(figures: Figures, gates: Sequence[float]) -> bool:
    """Return whether a figure is below its gate."""
    return any(figure < gate for figure, gate in zip(figures, gates, strict=False))


def read_labelled() -> LabelledPapers:
    """Return the seed papers, each once, and the labelled topics."""
    records: dict[str, dict[str, str]] = {}
    for path in sorted((labels.SHARED / "seeds").glob("*.truth.jsonl")):
        for line in path.read_text().splitlines():
            record = json.loads(line)
            records[title_key(record["title"])] = record
    return LabelledPapers(
        papers=[paper(record["title"], record["abstract"]) for record in records.values()],
        keys=list(records),
        topics=json.loads((labels.SHARED / "relevance" / "topics.json").read_text()),
    )


def print_votes(data: LabelledPapers) -> dict[float, float]:
    """Print the average precision of filters in digests, by the spread of the trending scores in bits; return the losses."""
    print(f"\n{'spread of votes, in bits':<24} {'bands':>8} {'3 bits of relevance':>20}")
    losses: dict[float, float] = {}
    for spread in (0.0, 0.5, 1.0, 2.0, 4.0):
        rows = [precision_with_votes(data, spread, draw) for draw in range(DRAWS if spread else 1)]
        bands, summed = labels.means(rows)
        losses[spread] = mean(judge_as(by_filter)(data, indexed(data)))[0] - bands
        print(f"{spread:<24g} {bands:8.3f} {summed:20.3f}")
    return losses


def precision_with_votes(data: LabelledPapers, spread: float, draw: int) -> tuple[float, float]:
    """Return the mean average precision if the scores are normally distributed: in bands, and without them."""
    chance, index = random.Random(draw), indexed(data)
    scores = [chance.gauss(0, spread) for _ in data.papers]
    rows = []
    for topic in data.topics.values():
        filter_ = filter_parser.parse(topic["query_boolean"])
        fit = index.relevance(filter_, index.matches(filter_))
        banded = order_of(rank_matches(index.matches(filter_), scores, fit))
        summed = sorted(fit, key=lambda number: (-scores[number] - 3 * fit[number], number))
        rows.append([labels.judged([data.keys[n] for n in order], topic)[0] for order in (banded, summed)])
    bands, sums = labels.means(rows)
    return bands, sums


# ── ways to write a topic ───────────────────────────────────────────────────────────────────────


def by_filter(_: str, topic: Topic) -> str:
    return str(topic["query_boolean"])


def by_name_and_description(name: str, topic: Topic) -> str:
    return in_words(f"{name}: {topic['description']}")


def by_name(name: str, _: Topic) -> str:
    return in_words(name)


def by_description(_: str, topic: Topic) -> str:
    return in_words(topic["description"])


def in_words(text: str) -> str:
    text = text.replace('"', "")
    return f'about:"{text}"'


# ── figures ─────────────────────────────────────────────────────────────────────────────────────


def judge_as(written: Writer) -> Judge:
    """Return a judge of topics that are read from what `written` returns."""

    def judge(data: LabelledPapers, index: PaperIndex) -> list[Figures]:
        table: list[Figures] = []
        for name, topic in data.topics.items():
            order = ranked(index, written(name, topic))
            table.append((*labels.judged([data.keys[number] for number in order], topic), len(order)))
        return table

    return judge


def judge_examples(data: LabelledPapers, index: PaperIndex) -> list[Figures]:
    """Return the means of the figures of `like:` for each relevant paper of a topic as the example."""
    table = []
    for topic in data.topics.values():
        rows = example_topics.judged_examples(index, data.keys, topic, 1)
        table.append(labels.means([(others, others, f1, found) for _, others, _, f1, found in rows]))
    return table


JUDGES: dict[str, Judge] = {
    "filter": judge_as(by_filter),
    "about:": judge_as(by_name_and_description),
    "like:": judge_examples,
}


def indexed(data: LabelledPapers, weights: Weights | None = None) -> PaperIndex:
    """Return the seed papers, indexed with these constants instead of the usual ones."""
    if isinstance(weights, RelevanceWeights):
        return PaperIndex(data.papers, weights)
    return PaperIndex(data.papers, described=weights) if weights else PaperIndex(data.papers)


def held_out(data: LabelledPapers, kind: str) -> Figures:
    """Judge each topic with the constants that are best for the other topics; return the means."""
    tables = [JUDGES[kind](data, indexed(data, weights)) for weights in TRIED[kind]]
    allowed = [table for table in tables if mean(table)[3] <= MOST_FOUND[kind]]
    judged: list[Figures] = []
    for left_out in range(len(data.topics)):
        best = max(allowed, key=lambda table: sum(row[0] for n, row in enumerate(table) if n != left_out))
        judged.append(best[left_out])
    return mean(judged)


def ranked(index: PaperIndex, written: str) -> list[int]:
    """Return the papers of a filter, best first."""
    filter_ = filter_parser.parse(written)
    scores = index.relevance(filter_, index.matches(filter_))
    return sorted(scores, key=lambda number: (-scores[number], number))


def mean(table: Sequence[Figures]) -> Figures:
    """Return the means of the figures."""
    means: Figures = labels.means(table)
    return means


def print_line(name: str, figures: Figures) -> None:
    precision, gain, recall, found = figures
    print(f"{name[:48]:<48} {found:5.0f} {precision:6.3f} {gain:6.3f} {recall:6.3f}")
