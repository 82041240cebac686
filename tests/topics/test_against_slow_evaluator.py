"""The index gives the same matches as a slow and simple evaluator, for any filter."""

from __future__ import annotations

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from digest import errors
from digest.papers import display_text
from digest.topics import explanation, filter_parser, filter_tree, pack_resolution, tokenizer
from digest.topics.explanation import Explainer
from digest.topics.filter_tree import TextClause, conjunction, disjunction, negation
from digest.topics.paper_index import FIELDS, PaperIndex, fields_of, texts_of
from tests.topics import slow_evaluator, strategies


def read(written):
    """Skip random filters with too many levels."""
    with contextlib.suppress(errors.BadFilter):
        return filter_parser.parse(written)
    return filter_parser.parse("model")


def resolved(filter_):
    """Skip random filters that resolve to too large ones."""
    with contextlib.suppress(errors.BadFilter):
        return pack_resolution.resolve_filter(filter_, strategies.SHELF)
    return None


def numbers(bits):
    return [number for number in range(bits.bit_length()) if bits >> number & 1]


@given(strategies.batches, st.lists(strategies.filters_with_packs, min_size=1, max_size=4))
def test_the_index_agrees_with_the_slow_evaluator(batch, written):
    asked = {key: read(text) for key, text in enumerate(written)}
    filters = {key: found for key, filter_ in asked.items() if (found := resolved(filter_))}
    index = PaperIndex(batch)

    found = {key: index.matches(filter_) for key, filter_ in filters.items()}

    slow = {
        key: [n for n, paper in enumerate(batch) if slow_evaluator.holds(asked[key].tree, paper)]
        for key in filters
    }
    assert {key: numbers(bits) for key, bits in found.items()} == slow


@given(strategies.batches, strategies.filters, strategies.filters)
def test_de_morgan_holds(batch, one, other):
    index = PaperIndex(batch)
    a, b = read(one).tree, read(other).tree

    assert index.matches_of_node(negation(disjunction([a, b]))) == index.matches_of_node(
        conjunction([negation(a), negation(b)])
    )
    assert index.matches_of_node(negation(conjunction([a, b]))) == index.matches_of_node(
        disjunction([negation(a), negation(b)])
    )


@given(strategies.papers, strategies.filters)
def test_explanations_match_when_the_filter_does_and_point_at_the_words(paper, written):
    filter_ = read(written)

    explained = explanation.explain(filter_, paper)

    assert explained.matched == slow_evaluator.holds(filter_.tree, paper)
    assert bool(explained.failed) != explained.matched
    assert bool(explained.why) <= explained.matched
    for word in explained.words:
        shown = display_text.display(
            f"{paper.organization.name} {paper.organization.handle}"
            if word.field == "organization"
            else getattr(paper, word.field)
        )
        assert shown[word.start : word.end] == word.text != ""


@given(strategies.batches, strategies.filters)
def test_the_matched_clauses_of_a_paper_are_those_that_hold_and_are_not_negated(batch, written):
    filter_ = read(written)
    explainer, holds = Explainer(PaperIndex(batch)), slow_evaluator.holds
    clauses = [*filter_tree.positive_leaves(filter_.tree)]

    found = explainer.matched_clauses(filter_.canonical, range(len(batch)))

    assert found == {
        number: tuple(clause for clause in clauses if holds(clause, paper))
        for number, paper in enumerate(batch)
        if holds(filter_.tree, paper)
    }


@given(strategies.batches, st.lists(strategies.filters, min_size=1, max_size=4))
def test_a_paper_is_explained_among_others_as_it_is_alone(batch, written):
    filters, index = list(map(read, written)), PaperIndex(batch)
    for filter_ in filters:
        index.matches(filter_)

    for filter_ in filters:
        alone = [explanation.explain(filter_, paper) for paper in batch]
        for pages in (Explainer(PaperIndex(batch)), Explainer(index)):
            assert [pages.explain(filter_, number) for number in range(len(batch))] == alone


@given(st.lists(strategies.papers, min_size=1, max_size=4), strategies.clauses)
def test_a_paper_explained_alone_is_explained_as_the_batch_would(batch, written):
    leaf = read(written).tree
    index = PaperIndex(batch)

    for number, paper in enumerate(batch):
        explained = explanation.explain(filter_parser.parse(written), paper)

        assert explained.matched == bool(index.matches(read(written)) >> number & 1)
        if isinstance(leaf, TextClause):
            marked = [(word.field, word.start, word.end) for word in explained.words]
            assert marked == outermost(index, number, paper, leaf)


def outermost(index, number, paper, leaf):
    """Return the stretches that the batch marks in a paper, without those that begin inside another."""
    found = []
    for place in fields_of(leaf):
        shown = tokenizer.read(texts_of(paper)[place])
        if not shown.folded:
            continue
        for first, count in index.texts.marks(leaf, place * index.size + number):
            found.append((FIELDS[place], shown.starts[first], shown.ends[first + count - 1]))
    found.sort(key=lambda word: (FIELDS.index(word[0]), word[1], -word[2]))
    kept: list[tuple[str, int, int]] = []
    for word in found:
        if not kept or kept[-1][0] != word[0] or word[1] >= kept[-1][2]:
            kept.append(word)
    return kept
