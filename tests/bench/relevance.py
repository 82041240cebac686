"""How well topics are found and ranked, on labelled topics over the seed papers (`../shared`).

    make bench ARGS=relevance

For each topic its own filter, and its name and description in `about:`. Marginal papers are left out
of the ranking.
"""

from __future__ import annotations

import json

from digest import topics
from digest.papers import title_key
from tests.topics import test_relevance as labels
from tests.topics.invented_papers import paper

#: What the means must reach: average precision, nDCG@10 and recall, by filter and by description.
GATES = {"filter": (0.95, 0.96, 0.97), "about:": (0.87, 0.0, 0.0)}


def main(full: bool) -> int:
    """Print the table; return 0 if the means reach the gates."""
    if not (labels.SHARED / "relevance").is_dir():
        print("skipped: needs ../shared/relevance and ../shared/seeds")
        return 0
    index, keys = seeds()
    labelled = json.loads((labels.SHARED / "relevance" / "topics.json").read_text())
    missed = 0
    print(f"{'topic':<40} {'read as':<8} {'found':>5} {'AP':>6} {'nDCG':>6} {'recall':>6}")
    for kind, gates in GATES.items():
        figures = []
        for name, topic in labelled.items():
            description = f"{name}. {topic['description']}".replace('"', "")
            order = ranked(index, topic["query_boolean"] if kind == "filter" else f'about:"{description}"')
            figures.append(labels.judged([keys[number] for number in order], topic))
            print(
                f"{name[:40]:<40} {kind:<8} {len(order):>5} {figures[-1][0]:6.3f} {figures[-1][1]:6.3f} {figures[-1][2]:6.3f}"
            )
        means = labels.means(figures)
        print(f"{'MEAN':<40} {kind:<8} {'':>5} {means[0]:6.3f} {means[1]:6.3f} {means[2]:6.3f}")
        missed += any(mean < gate for mean, gate in zip(means, gates, strict=True))
    return int(bool(missed))


def seeds() -> tuple[topics.PaperIndex, list[str]]:
    """Return the seed papers indexed, each once, and their title keys."""
    records: dict[str, dict[str, str]] = {}
    for path in sorted((labels.SHARED / "seeds").glob("*.truth.jsonl")):
        for line in path.read_text().splitlines():
            record = json.loads(line)
            records[title_key(record["title"])] = record
    batch = [paper(record["title"], record["abstract"]) for record in records.values()]
    return topics.PaperIndex(batch), list(records)


def ranked(index: topics.PaperIndex, written: str) -> list[int]:
    """Return the papers of a filter, best first."""
    filter_ = topics.parse(written)
    scores = index.relevance(filter_, index.matches(filter_))
    return sorted(scores, key=lambda number: (-scores[number], number))
