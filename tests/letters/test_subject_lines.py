"""Subjects and preheaders of digests."""

from __future__ import annotations

import pytest

from digest.letters import subject_lines

LONG = "A title that goes on about vector fields, straight paths and noise for longer than any subject line"


@pytest.mark.parametrize(
    ("papers", "is_on_topics", "words"),
    [
        (1, True, "While you were away: the best of 212 matches"),
        (9, True, "While you were away: the top 9 of 212 matches"),
        (1, False, "While you were away: the best of 212 papers"),
        (9, False, "While you were away: the top 9 of 212 papers"),
    ],
)
def test_a_catch_up_says_how_many_papers_matched(papers: int, is_on_topics: bool, words: str) -> None:
    assert subject_lines.catch_up_counts(212, papers, is_on_topics=is_on_topics) == words


@pytest.mark.parametrize(
    ("cadence", "count", "words"),
    [
        ("daily", 1, "Cups"),
        ("daily", 3, "Cups"),
        (subject_lines.CATCH_UP, 1, "While you were away: the top paper"),
        (subject_lines.CATCH_UP, 9, "While you were away: the top 9 papers"),
        ("weekly", 1, "Your week: Cups"),
        ("weekly", 4, "Your week: 4 papers, led by Cups"),
        ("monthly", 4, "Your month: 4 papers, led by Cups"),
    ],
)
def test_the_subject_names_the_top_paper_and_counts_the_others(cadence: str, count: int, words: str) -> None:
    assert subject_lines.subject(cadence, "Cups", count) == words


def test_a_long_title_is_cut_at_a_word_and_nothing_follows_a_question() -> None:
    subject = subject_lines.subject("daily", LONG, 3)

    assert subject == "A title that goes on about vector fields, straight paths…"
    assert len(subject) <= subject_lines.MAX_SUBJECT_LENGTH
    question = "Can a robot that asks before it acts break fewer cups?"
    assert subject_lines.subject("daily", f"{question} Evidence from kitchens", 3) == question


@pytest.mark.parametrize(
    ("others", "shown"),
    [
        (["Cups"], "Also: Cups"),
        (["Cups", "Robots that ask"], "Also: Cups · Robots that ask"),
        (
            [LONG, "Cups"],
            "Also: A title that goes on about vector fields, straight paths and noise for longer…",
        ),
    ],
    ids=["one", "two", "a long one leaves no space for the next"],
)
def test_the_preheader_names_one_more_paper_or_two_short_ones(others: list[str], shown: str) -> None:
    assert subject_lines.preheader(others) == shown


def test_the_preheader_of_a_catch_up_names_the_first_paper() -> None:
    shown = subject_lines.preheader(["Cups", "Robots that ask"], is_catch_up=True)

    assert shown == "First: Cups · Robots that ask"
