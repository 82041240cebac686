"""Measure how well topics are found and ordered, on labelled topics over the seed papers (`../shared`).

    make bench ARGS=relevance

For each topic, the filter itself and its name and description in `about:` are judged. Marginal papers are left
out of the order. Constants that are fitted to the labelled topics look better than they are, so the *held-out*
line judges each topic with the constants that are best for all other topics. Each ablation changes one
constant.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from digest import topics
from digest.papers import Paper, title_key
from digest.topics.relevance import RelevanceWeights
from tests.topics import test_relevance as labels
from tests.topics.invented_papers import paper

#: Average precision, nDCG@10 and recall of one topic, or their means.
Figures: TypeAlias = tuple[float, float, float] | Sequence[float]
Topic: TypeAlias = Mapping[str, Any]

#: Gates for the means of average precision, nDCG@10 and recall: of filters, also held out, and of descriptions.
GATES = {"filter": (0.945, 0.97, 0.96), "held out": (0.94, 0.965, 0.96), "about:": (0.81, 0.86, 0.87)}

#: The constants from which the held-out line chooses.
TRIED = [
    RelevanceWeights(title=title, saturation=saturation, other_name=other_name)
    for title, saturation, other_name in itertools.product((3, 5, 8), (3, 6, 12), (0.2, 0.4, 0.8))
]
ABLATIONS = {
    "the title counts like the abstract": RelevanceWeights(title=1.0),
    "a second mention adds little": RelevanceWeights(saturation=0.6),
    "all alternatives count the same": RelevanceWeights(other_name=1.0),
    "only the first alternative counts": RelevanceWeights(other_name=0.0),
}


def main(full: bool) -> int:
    """Print the tables; return 0 if the means reach the gates."""
    if not (labels.SHARED / "relevance").is_dir():
        print("skipped: needs ../shared/relevance and ../shared/seeds")
        return 0
    papers, keys = seeds()
    labelled = json.loads((labels.SHARED / "relevance" / "topics.json").read_text())
    index = topics.PaperIndex(papers)
    means = {
        "filter": print_topics("filter", index, keys, labelled, by_filter),
        "held out": print_held_out(papers, keys, labelled),
        "about:": print_topics("about:", index, keys, labelled, described),
    }
    for name, weights in ABLATIONS.items():
        figures = judged_filters(topics.PaperIndex(papers, weights), keys, labelled)
        print_line(f"filter, if {name}", labels.means(figures))
    missed = [
        kind
        for kind, gates in GATES.items()
        if any(mean < gate for mean, gate in zip(means[kind], gates, strict=True))
    ]
    return int(bool(missed))


def seeds() -> tuple[list[Paper], list[str]]:
    """Return the seed papers, each once, and their title keys."""
    records: dict[str, dict[str, str]] = {}
    for path in sorted((labels.SHARED / "seeds").glob("*.truth.jsonl")):
        for line in path.read_text().splitlines():
            record = json.loads(line)
            records[title_key(record["title"])] = record
    return [paper(record["title"], record["abstract"]) for record in records.values()], list(records)


def by_filter(_: str, topic: Topic) -> str:
    """Return the filter of a topic."""
    return str(topic["query_boolean"])


def described(name: str, topic: Topic) -> str:
    """Return the name and the description of a topic as a filter."""
    description = f"{name}: {topic['description']}".replace('"', "")
    return f'about:"{description}"'


def print_topics(
    kind: str,
    index: topics.PaperIndex,
    keys: Sequence[str],
    labelled: Mapping[str, Topic],
    written: Callable[[str, Topic], str],
) -> Figures:
    """Print and return the figures of each topic, as read from what `written` returns."""
    print(f"{kind:<48} {'found':>5} {'AP':>6} {'nDCG':>6} {'recall':>6}")
    figures, found = [], []
    for name, topic in labelled.items():
        order = ranked(index, written(name, topic))
        figures.append(labels.judged([keys[number] for number in order], topic))
        found.append(len(order))
        print_line(f"  {name}", figures[-1], len(order))
    means: Figures = labels.means(figures)
    print_line(f"{kind}, all topics", means, sum(found) / len(found))
    return means


def print_held_out(papers: Sequence[Paper], keys: Sequence[str], labelled: Mapping[str, Topic]) -> Figures:
    """Judge each topic with the constants that are best for the other topics; print and return the means."""
    tables = [judged_filters(topics.PaperIndex(papers, weights), keys, labelled) for weights in TRIED]
    held_out: list[Figures] = []
    for left_out in range(len(labelled)):
        best = max(
            tables, key=lambda table: sum(figures[0] for n, figures in enumerate(table) if n != left_out)
        )
        held_out.append(best[left_out])
    fitted = max(tables, key=lambda table: labels.means(table)[0])
    print_line(f"filter, best of {len(TRIED)} for all topics", labels.means(fitted))
    means: Figures = labels.means(held_out)
    print_line(f"filter, best of {len(TRIED)} for the others (held out)", means)
    return means


def judged_filters(
    index: topics.PaperIndex, keys: Sequence[str], labelled: Mapping[str, Topic]
) -> list[Figures]:
    """Return the figures of each topic, read as its filter."""
    return [
        labels.judged([keys[number] for number in ranked(index, topic["query_boolean"])], topic)
        for topic in labelled.values()
    ]


def ranked(index: topics.PaperIndex, written: str) -> list[int]:
    """Return the papers of a filter, best first."""
    filter_ = topics.parse(written)
    scores = index.relevance(filter_, index.matches(filter_))
    return sorted(scores, key=lambda number: (-scores[number], number))


def print_line(name: str, figures: Figures, found: float | None = None) -> None:
    precision, gain, recall = figures
    shown = f"{found:5.0f}" if found is not None else " " * 5
    print(f"{name[:48]:<48} {shown} {precision:6.3f} {gain:6.3f} {recall:6.3f}")
