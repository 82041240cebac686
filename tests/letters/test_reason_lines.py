"""A reason line says in one sentence of observed facts why a paper is shown."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from digest.letters.cards import CardForm, printed_text
from digest.letters.reason_lines import NO_REASON, ReasonLine, quotation, topic_reason, trending_reason
from digest.papers.paper_record import Paper
from digest.topics.explanation import MatchFinding
from tests.letters.invented_papers import FLOW

LONG = "Robots are old. However, we propose a robot that asks. It asks each question twice. Then it waits. The end comes late, behind many more words."


def matched(*words: str, authors: tuple[str, ...] = (), others: tuple[str, ...] = ()) -> ReasonLine:
    """Return the reason line of a filter that matched these words in the title."""
    found = MatchFinding(words, authors, others, (("title", 0, 4),) if words else ())
    return topic_reason(FLOW, found, ["+42 votes"], printed_text(FLOW, CardForm.FULL))


@pytest.mark.parametrize(
    ("words", "authors", "others", "line"),
    [
        (("flow",), (), (), "flow"),
        (("flow", "twelve*"), (), (), "flow, twelve"),
        (("a1", "b2", "c3", "d4"), (), (), "a1, b2, c3"),
        (("agent", "tool use", "agents", "Tool use"), (), (), "tool use, agents"),
        (("flow",), (), ("in cs.LG",), "flow · in cs.LG"),
        ((), ("Mara Lind",), (), "by Mara Lind (you follow)"),
        ((), (), ("in cs.LG",), "in cs.LG"),
    ],
)
def test_what_matched_closes_the_quiet_line_and_the_figures_stand_below(
    words: tuple[str, ...], authors: tuple[str, ...], others: tuple[str, ...], line: str
) -> None:
    assert matched(*words, authors=authors, others=others) == ReasonLine(words=line, before="+42 votes")


def test_a_wildcard_is_written_as_the_printed_word_for_which_it_stands() -> None:
    abstract = (
        "We train chains of thought on robots. They are short. Many years later, robotics is still hard."
    )
    paper = replace(FLOW, title="Thinking aloud", abstract=abstract)
    words = ("chains of thought", "robots", "robotics")
    places = tuple([("abstract", abstract.index(word), abstract.index(word) + len(word)) for word in words])
    found = MatchFinding(("chain* of thought", "robot*"), (), (), places[::-1])

    shown = topic_reason(paper, found, [], printed_text(paper, CardForm.BRIEF))

    assert shown.words == "chains of thought, robots"


def test_a_paper_without_an_observed_fact_has_no_reason() -> None:
    assert trending_reason([]) == NO_REASON
    assert trending_reason(["listed three days running"]).line == "Listed three days running"


def reason(paper: Paper, field: str, word: str, form: CardForm = CardForm.FULL) -> ReasonLine:
    start = getattr(paper, field).index(word)
    found = MatchFinding((word,), (), (), ((field, start, start + len(word)),))
    return topic_reason(paper, found, ["+42 votes"], printed_text(paper, form))


@pytest.mark.parametrize(("field", "word"), [("title", "Flow"), ("abstract", "robot"), ("organization", "")])
def test_a_match_that_the_card_prints_is_not_quoted(field: str, word: str) -> None:
    paper = replace(FLOW, abstract=LONG, organization="")  # type: ignore[arg-type]

    assert reason(paper, field, word) == ReasonLine(words=word.lower(), before="+42 votes")


def test_a_match_that_the_card_does_not_print_is_quoted_with_its_word_in_bold() -> None:
    found = reason(replace(FLOW, abstract=LONG), "abstract", "late")

    assert found == ReasonLine(
        "", "“… it waits. The end comes ", "late", ", behind many more words.” · +42 votes"
    )
    assert reason(replace(FLOW, comment="12 flows"), "comment", "flows") == ReasonLine(
        "", "“12 ", "flows", "” · +42 votes"
    )


def test_a_shorter_card_quotes_what_it_no_longer_prints() -> None:
    assert reason(replace(FLOW, abstract=LONG), "abstract", "robot", CardForm.LINE).word == "robot"


@given(st.text(" ab.é", min_size=1, max_size=300), st.integers(0, 299), st.integers(1, 99))
def test_a_quotation_has_at_most_sixty_characters_of_the_text(text: str, start: int, length: int) -> None:
    start = min(start, len(text) - 1)

    before, word, after = quotation(text, start, min(len(text), start + length))

    quoted = f"{before}{word}{after}".removeprefix("… ").removesuffix(" …")
    assert len(quoted) <= 60
    assert quoted in text
