"""Compare the matcher with SQLite FTS5, tantivy and a well-written loop over papers.

    make bench ARGS="matching --full"

All engines match the same filters on the same papers, in the part of the language that all engines support:
words, phrases, word prefixes, fields, categories, authors, AND, OR, NOT. First their matches are compared.
Times are processor time of this process. The sentences are those of the seed dumps if available
(`../shared`), else invented; plurals are folded and compounds split beforehand, since the rivals cannot do
this themselves.
"""

from __future__ import annotations

import gc
import json
import random
import re
import resource
import sqlite3
import sys
from array import array
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import process_time

import tantivy

from digest import topics
from digest.papers import Paper, display
from digest.topics import filter_tree, tokenizer
from tests.bench.world import SHAPES

SEEDS = Path(__file__).parents[3] / "shared" / "seeds"
SEEN = datetime(2026, 11, 20, tzinfo=UTC)
CATEGORIES = (
    "cs.CL",
    "cs.LG",
    "cs.CV",
    "cs.RO",
    "cs.AI",
    "stat.ML",
    "math.OC",
    "quant-ph",
    "hep-th",
    "eess.AS",
)


# ── papers and filters ──────────────────────────────────────────────────────────────────────────


def sentences(chance: random.Random) -> list[list[str]]:
    """Return sentences as rows of plain, singular words."""
    if SEEDS.is_dir():
        records = [json.loads(line) for path in sorted(SEEDS.glob("*.jsonl")) for line in path.open()]
        abstracts = {record["abstract"] for record in records}
        written = [sentence for abstract in sorted(abstracts) for sentence in abstract.split(". ")]
    else:
        words = ["".join(chance.choices("abdegiklmnoprstuvz", k=chance.randint(3, 10))) for _ in range(6300)]
        weights = [1 / rank for rank in range(1, len(words) + 1)]
        written = [" ".join(chance.choices(words, weights, k=22)) for _ in range(2500)]
    return [row for row in map(plain, written) if len(row) > 5]


def plain(sentence: str) -> list[str]:
    row = []
    for word in re.findall(r"[a-z]{2,}", sentence.lower()):
        single = word
        while single != tokenizer.stem(single):
            single = tokenizer.stem(single)
        row.append(single)
    return row if display(" ".join(row)) == " ".join(row) else []  # "leq" is shown as a sign


def batch(chance: random.Random, pool: list[list[str]], size: int) -> list[Paper]:
    people = [
        f"{chance.choice('ABCDEFGH')}lan {name.title()}"
        for name in sorted({row[0] for row in pool})
        if len(name) > 3
    ]
    return [
        Paper(
            id=number + 1,
            title=" ".join(chance.choice(pool)[:9]),
            abstract=" ".join(word for row in chance.choices(pool, k=9) for word in row),
            categories=tuple(chance.sample(CATEGORIES, chance.randint(1, 3))),
            authors=tuple(chance.sample(people, chance.randint(1, 6))),
            first_seen_at=SEEN,
        )
        for number in range(size)
    ]


def clause(chance: random.Random, pool: list[list[str]], people: Sequence[str]) -> str:
    """Return one clause: words 46%, phrases 25%, beginnings 14%, categories 11%, authors 4%."""
    kind = chance.random()
    if kind > 0.96:
        return f"au:{chance.choice(people)}"
    if kind > 0.85:
        return f"cat:{chance.choice(CATEGORIES)}"
    row = chance.choice(pool)
    at = chance.randrange(len(row) - 3)
    field = "" if chance.random() > 0.25 else chance.choice(("ti:", "abs:"))
    word = max(row[at : at + 3], key=len)
    if kind > 0.71 and len(word) > 3:
        return f"{field}{word[: max(3, len(word) - 3)]}*"
    if kind > 0.46:
        return f'{field}"{" ".join(row[at : at + chance.choice((2, 2, 3))])}"'
    word = row[at] if chance.random() > 0.14 else f"{row[at]}q"
    return f"{field}{word}"


def filters(
    chance: random.Random, pool: list[list[str]], index: topics.PaperIndex, count: int
) -> dict[int, topics.Filter]:
    """Return distinct filters of about three clauses, in the part of the language that all engines support."""
    people = sorted({author.split()[1].lower() for paper in index.papers for author in paper.authors})
    shared: dict[str, bool] = {}
    found: dict[str, topics.Filter] = {}

    def pick() -> str:
        while True:
            written = clause(chance, pool, people)
            if written not in shared:
                shared[written] = is_shared(written, index)
            if shared[written]:
                return written

    while len(found) < count:
        shape = chance.choice(SHAPES)
        parsed = topics.parse(shape.format(*(pick() for _ in range(5))))
        found.setdefault(parsed.canonical, parsed)
    return dict(enumerate(found.values()))


def is_shared(written: str, index: topics.PaperIndex) -> bool:
    """Return whether all engines interpret a clause alike, because it matches no compound of this batch."""
    leaf = topics.parse(written).tree
    if not isinstance(leaf, filter_tree.TextClause):
        return True
    return not list(index.spellings(leaf, index.forms(leaf)))


# ── engines ─────────────────────────────────────────────────────────────────────────────────────


def words_of(leaf: filter_tree.TextClause) -> list[str]:
    return [token.rstrip("*") for token in leaf.tokens]


def fts5_query(node: filter_tree.Node) -> str:
    """Return a filter in the language of FTS5."""
    if isinstance(node, filter_tree.Or):
        return f"({' OR '.join(map(fts5_query, node.children))})"
    if isinstance(node, filter_tree.And):
        wanted = " AND ".join(fts5_query(c) for c in node.children if not isinstance(c, filter_tree.Not))
        for child in node.children:
            if isinstance(child, filter_tree.Not):
                wanted = f"({wanted}) NOT {fts5_query(child.child)}"
        return f"({wanted})"
    if isinstance(node, filter_tree.CategoryClause):
        return f"cat : {code(node.codes[0])}"
    if isinstance(node, filter_tree.AuthorClause):
        return f"au : {node.family[0]}"
    assert isinstance(node, filter_tree.TextClause)
    column = {"ti": "title", "abs": "abstract", "tiab": "{title abstract}"}[node.field]
    star = " *" if node.tokens[-1].endswith("*") else ""
    return f'({column} : "{" ".join(words_of(node))}"{star})'


class Fts5:
    """SQLite's full-text index, in memory, with one query per filter."""

    name = "SQLite FTS5"

    def __init__(self, papers: Sequence[Paper]):
        self.connection = sqlite3.connect(":memory:")
        self.connection.execute(
            "CREATE VIRTUAL TABLE papers USING fts5(title, abstract, cat, au, tokenize='ascii')"
        )
        self.connection.executemany(
            "INSERT INTO papers(rowid, title, abstract, cat, au) VALUES (?, ?, ?, ?, ?)",
            [(number, p.title, p.abstract, codes(p), " ".join(p.authors)) for number, p in enumerate(papers)],
        )

    def run(self, queries: dict[int, str]) -> Iterator[tuple[int, int]]:
        sql = "SELECT rowid FROM papers WHERE papers MATCH ?"
        for key, query in queries.items():
            bits = 0
            for (number,) in self.connection.execute(sql, (query,)):
                bits |= 1 << number
            yield key, bits


def code(category: str) -> str:
    return re.sub("[^a-z]", "", category.lower())


def codes(paper: Paper) -> str:
    return " ".join(map(code, paper.categories))


class Tantivy:
    """The Rust search library; query objects are built each day, because stored ones take gigabytes."""

    name = "tantivy, queries built"

    def __init__(self, papers: Sequence[Paper]):
        builder = tantivy.SchemaBuilder()
        for field in ("title", "abstract", "cat", "au"):
            builder.add_text_field(field, stored=False)
        self.schema = builder.build()
        self.index = tantivy.Index(self.schema)
        writer = self.index.writer(heap_size=50_000_000, num_threads=1)
        for paper in papers:
            writer.add_document(
                tantivy.Document(
                    title=paper.title, abstract=paper.abstract, cat=codes(paper), au=" ".join(paper.authors)
                )
            )
        writer.commit()
        writer.wait_merging_threads()
        self.index.reload()
        self.searcher = self.index.searcher()
        assert self.searcher.num_segments == 1  # so that addresses are our numbers
        self.size = len(papers)

    def query(self, node: filter_tree.Node) -> tantivy.Query:
        should, must, must_not = tantivy.Occur.Should, tantivy.Occur.Must, tantivy.Occur.MustNot
        if isinstance(node, filter_tree.Or):
            return tantivy.Query.boolean_query([(should, self.query(child)) for child in node.children])
        if isinstance(node, filter_tree.And):
            return tantivy.Query.boolean_query(
                [
                    (must_not, self.query(child.child))
                    if isinstance(child, filter_tree.Not)
                    else (must, self.query(child))
                    for child in node.children
                ]
            )
        if isinstance(node, filter_tree.CategoryClause):
            return tantivy.Query.term_query(self.schema, "cat", code(node.codes[0]))
        if isinstance(node, filter_tree.AuthorClause):
            return tantivy.Query.term_query(self.schema, "au", node.family[0])
        assert isinstance(node, filter_tree.TextClause)
        fields = {"ti": ["title"], "abs": ["abstract"], "tiab": ["title", "abstract"]}[node.field]
        parts = [self.words(field, node) for field in fields]
        return (
            parts[0] if len(parts) == 1 else tantivy.Query.boolean_query([(should, part) for part in parts])
        )

    def words(self, field: str, leaf: filter_tree.TextClause) -> tantivy.Query:
        words = words_of(leaf)
        if leaf.tokens[-1].endswith("*"):
            return tantivy.Query.regex_query(self.schema, field, f"{words[0]}.*")
        if len(words) == 1:
            return tantivy.Query.term_query(self.schema, field, words[0])
        return tantivy.Query.phrase_query(self.schema, field, list(words))

    def run(self, filters: dict[int, topics.Filter]) -> Iterator[tuple[int, int]]:
        for key, filter_ in filters.items():
            bits = 0
            hits = self.searcher.search(self.query(filter_.tree), limit=self.size, count=False).hits
            for _, address in hits:
                bits |= 1 << address.doc
            yield key, bits


class PlainLoop:
    """A well-written loop over filters and papers: word sets for words, padded text for phrases."""

    name = "loop over papers"

    def __init__(self, papers: Sequence[Paper]):
        self.pages = [self.page(paper) for paper in papers]

    def page(self, paper: Paper) -> dict[str, object]:
        title, abstract = f" {paper.title} ", f" {paper.abstract} "
        return {
            "ti": title, "abs": abstract, "tiab": f"{title}|{abstract}",
            "ti words": {*title.split()}, "abs words": {*abstract.split()},
            "tiab words": {*title.split(), *abstract.split()},
            "cat": {category.lower() for category in paper.categories},
            "au": {part.lower() for author in paper.authors for part in author.split()},
        }  # fmt: skip

    def query(self, node: filter_tree.Node) -> Callable[[dict[str, object]], bool]:  # noqa: PLR0911  (one return for each kind of node)
        if isinstance(node, filter_tree.Not):
            inner = self.query(node.child)
            return lambda page: not inner(page)
        if isinstance(node, filter_tree.Or | filter_tree.And):
            parts = [self.query(child) for child in node.children]
            first, second = parts[0], parts[1]
            if len(parts) == 2:
                if isinstance(node, filter_tree.Or):
                    return lambda page: first(page) or second(page)
                return lambda page: first(page) and second(page)
            if isinstance(node, filter_tree.Or):
                return lambda page: any(part(page) for part in parts)
            return lambda page: all(part(page) for part in parts)
        if isinstance(node, filter_tree.CategoryClause):
            return self.has("cat", node.codes[0])
        if isinstance(node, filter_tree.AuthorClause):
            return self.has("au", node.family[0])
        assert isinstance(node, filter_tree.TextClause)
        phrase = " " + " ".join(words_of(node))
        if node.tokens[-1].endswith("*"):
            return self.has(node.field, phrase)
        return (
            self.has(node.field, f"{phrase} ") if node.gaps else self.has(f"{node.field} words", phrase[1:])
        )

    def has(self, field: str, wanted: str) -> Callable[[dict[str, object]], bool]:
        return lambda page: wanted in page[field]  # type: ignore[operator]

    def run(self, queries: dict[int, Callable[[dict[str, object]], bool]]) -> Iterator[tuple[int, int]]:
        for key, query in queries.items():
            bits = 0
            for number, page in enumerate(self.pages):
                if query(page):
                    bits |= 1 << number
            yield key, bits


# ── the table ───────────────────────────────────────────────────────────────────────────────────


def timed(work: Callable[[], object]) -> tuple[float, object]:
    """Return the processor time of `work` without garbage collection, and its result."""
    gc.collect()
    gc.disable()
    start = process_time()
    made = work()
    seconds = process_time() - start
    gc.enable()
    return seconds, made


def compare(
    papers: list[Paper], asked: dict[int, topics.Filter], *, loop: int, repeat: int
) -> dict[str, float]:
    """Return filters per second of each engine, after checking that all give the same matches."""
    ours = topics.PaperIndex(papers).evaluate(asked)
    fts5, rust, naive = Fts5(papers), Tantivy(papers), PlainLoop(papers)
    texts = {key: fts5_query(filter_.tree) for key, filter_ in asked.items()}
    some = {key: naive.query(filter_.tree) for key, filter_ in list(asked.items())[:loop]}
    rates: dict[str, float] = {}
    for name, count, work in (
        (fts5.name, len(asked), lambda: dict(fts5.run(texts))),
        (rust.name, len(asked), lambda: dict(rust.run(asked))),
        (naive.name, len(some), lambda: dict(naive.run(some))),
    ):
        seconds, found = timed(work)
        wrong = [asked[key].canonical for key, bits in found.items() if bits != ours[key]]  # type: ignore[attr-defined]
        if wrong:
            sys.exit(f"{name} disagrees on {len(wrong)} filters, the first: {wrong[0]}")
        rates[name] = count / seconds
    plan = topics.QueryPlan(asked)
    seconds = min(timed(partial(index.evaluate, plan))[0] for index in fresh(papers, repeat))
    rates["ours"] = len(asked) / seconds
    return rates


def fresh(papers: list[Paper], repeat: int) -> Iterator[topics.PaperIndex]:
    for _ in range(repeat):
        yield built_index(papers)


def built_index(papers: list[Paper]) -> topics.PaperIndex:
    """Return an index with every structure built that a large number of filters needs."""
    index = topics.PaperIndex(papers)
    index.prepare()
    return index


def main(full: bool) -> int:
    """Print the table; return 0 if the gates hold (with `full`: the sizes they are set for)."""
    chance = random.Random(20261120)
    pool = sentences(chance)
    sizes = (100, 500, 2000) if full else (100, 500)
    papers = batch(chance, pool, sizes[-1])
    building, index = timed(lambda: built_index(papers))
    assert isinstance(index, topics.PaperIndex)
    asked = filters(chance, pool, index, 100_000 if full else 5_000)
    texts = [filter_.canonical for filter_ in asked.values()]
    topics.parse.cache_clear()
    reading, _ = timed(lambda: [topics.parse(written) for written in texts])
    compiling, _ = timed(lambda: topics.QueryPlan(asked))
    print(f"{len(asked):,} distinct filters, {sizes[-1]:,} papers; index built in {building:.2f} s")
    print(
        f"read {len(asked) / reading:,.0f}/s, compiled {len(asked) / compiling:,.0f}/s (when topics change)"
    )
    print(f"{'papers':>7} {'engine':<24} {'filters/s':>12} {'ours is':>9}")
    rates: dict[str, float] = {}
    for size in sizes:
        rates = compare(papers[:size], asked, loop=max(200, 400_000 // size), repeat=3)
        for name, rate in rates.items():
            times = "" if name == "ours" else f"{rates['ours'] / rate:8.1f}x"
            print(f"{size:>7} {name:<24} {rate:>12,.0f} {times:>9}", flush=True)
    lists = time_top_lists(chance, index.evaluate(asked), 1_000_000 if full else 50_000)
    missed = [f"{name}: {gate}x" for name, gate in GATES.items() if rates["ours"] < gate * rates[name]]
    missed += [f"top-10 lists: {LISTS_GATE} s"] * (lists > LISTS_GATE)
    if full and missed:
        print(f"missed: {', '.join(missed)}")
    return int(full and bool(missed))


def time_top_lists(chance: random.Random, found: dict[int, int], people: int) -> float:
    """Find the ten best new papers of every reader's three filters; return the seconds of processor time.

    Filters are as popular as words are (the n-th has 1/n as many readers as the first). This is the lower
    limit of the time for publishing: for each reader, the union of three sets and its ten lowest bits.
    """
    popular = [1 / rank for rank in range(1, len(found) + 1)]
    held = array("I", chance.choices(list(found), popular, k=3 * people))
    best = array("H")
    seconds, _ = timed(lambda: fill(best, found, held))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{people:,} subscribers with 3 of {len(found):,} filters: {len(best):,} places of top-10 lists "
        f"in {seconds:.1f} s; {memory:,.0f} MB at most, the engines above included"
    )
    return seconds


def fill(best: array[int], found: dict[int, int], held: array[int]) -> None:
    """Put the ten lowest numbers of every reader's three sets into `best`."""
    threes = iter(held)
    for first, second, third in zip(threes, threes, threes, strict=True):
        bits = found[first] | found[second] | found[third]
        for _ in range(10):
            if not bits:
                break
            low = bits & -bits
            best.append(low.bit_length() - 1)
            bits ^= low


#: Maximum number of seconds for the top-10 lists of a million readers.
LISTS_GATE = 10
#: Minimum speed-up over each rival, with 100,000 filters on 2,000 papers.
GATES = {Fts5.name: 15, Tantivy.name: 40, PlainLoop.name: 400}
