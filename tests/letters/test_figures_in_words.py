"""Texts that depend on figures and dates read well for one, for several and for none."""

from __future__ import annotations

from datetime import UTC, datetime, time

import pytest

from digest.editions.schedule import Cadence, Schedule
from digest.letters import figures_in_words, line_wrapping

NOW = datetime(2026, 11, 20, 7, tzinfo=UTC)


@pytest.mark.parametrize(
    ("moment", "words"),
    [
        (datetime(2026, 11, 23, 7, tzinfo=UTC), "Monday 02:00, New York"),
        (datetime(2026, 12, 1, 7, tzinfo=UTC), "Tuesday 1 December, 02:00, New York"),
    ],
    ids=["within a week", "later"],
)
def test_a_moment_has_its_date_where_the_weekday_could_mislead(moment: datetime, words: str) -> None:
    assert figures_in_words.moment_in_words(moment, "America/New_York", seen_from=NOW) == words


def test_the_footer_names_all_topics_once_and_those_without_papers() -> None:
    line = figures_in_words.topics_line(["graphs", "cups"], ["robots"])

    assert line == "Your topics: graphs; cups; robots (nothing today)"


@pytest.mark.parametrize(
    ("missing", "note"),
    [
        (0, "Today’s list of papers is incomplete."),
        (1, "Today’s list of papers is incomplete: 1 is missing."),
        (40, "Today’s list of papers is incomplete: 40 are missing."),
    ],
)
def test_a_short_list_says_how_many_papers_are_missing_if_known(missing: int, note: str) -> None:
    assert figures_in_words.short_list_note(missing) == note


@pytest.mark.parametrize(
    ("sources", "note"),
    [
        (["folder"], "Today’s list had not arrived when we wrote this."),
        (["hf-daily"], "Today’s list from Hugging Face had not arrived when we wrote this."),
        (
            ["arxiv:cs.LG", "https://lists.example.org/papers.csv"],
            "Today’s lists from arXiv and lists.example.org had not arrived when we wrote this.",
        ),
        (["our-own"], "Today’s list from our-own had not arrived when we wrote this."),
    ],
)
def test_late_lists_are_named_as_readers_know_them(sources: list[str], note: str) -> None:
    assert figures_in_words.missing_lists_note(sources) == note


@pytest.mark.parametrize(
    ("kind", "detail", "text"),
    [
        ("withdrawn", "", "Withdrawn by its authors"),
        ("withdrawn", "Lemma 2 is wrong", "Withdrawn by its authors: “Lemma 2 is wrong”"),
        ("published", "J. Gravel 12 (2026)", "Published: J. Gravel 12 (2026)"),
        ("rewritten", "", "A new version changes most of the abstract"),
        ("rewritten", "Cups", "Rewritten; the old title was “Cups”"),
    ],
)
def test_an_update_says_what_became_of_the_paper(kind: str, detail: str, text: str) -> None:
    assert figures_in_words.followup_text(kind, detail) == text


def test_a_last_word_that_is_longer_than_a_line_keeps_a_line_of_its_own() -> None:
    link = "https://digest.example.org/" + "x" * 80

    assert line_wrapping.wrap(f"Read it here: {link}") == f"Read it here:\n{link}"


@pytest.mark.parametrize(
    ("cadence", "words"),
    [
        (Cadence.DAILY, "Every day at 07:30, New York"),
        (Cadence.WEEKDAYS, "Monday to Friday at 07:30, New York"),
        (Cadence.WEEKLY, "Every Friday at 07:30, New York"),
        (Cadence.MONTHLY, "The first of every month at 07:30, New York"),
    ],
)
def test_a_schedule_is_one_phrase(cadence: Cadence, words: str) -> None:
    schedule = Schedule(cadence=cadence, at=time(7, 30), timezone="America/New_York", weekday=4)

    assert figures_in_words.schedule_in_words(schedule) == words


@pytest.mark.parametrize(
    ("cadence", "topics", "words"),
    [
        (Cadence.DAILY, (), "a daily digest of trending papers"),
        (Cadence.WEEKDAYS, ("diffusion", "robots"), "a weekday digest of papers on “diffusion” and “robots”"),
        (Cadence.WEEKLY, ("robots",), "a weekly digest of papers on “robots”"),
        (Cadence.MONTHLY, tuple("abcdefg"), "a monthly digest of papers on “a”, “b”, “c” and 4 more topics"),
        (Cadence.DAILY, ("@", "+1 800 555 0199"), "a daily digest of papers on 2 topics"),
        (Cadence.DAILY, ("...", "robots"), "a daily digest of papers on “robots” and 1 more topic"),
    ],
)
def test_a_request_names_a_few_topics_shortly_and_without_links(
    cadence: Cadence, topics: tuple[str, ...], words: str
) -> None:
    assert figures_in_words.requested_digest(cadence, topics) == words


def test_our_own_names_stay_whole() -> None:
    words = figures_in_words.requested_digest(Cadence.DAILY, ["lab/nlp@3", "lab/vision"], own={"lab/nlp@3"})

    assert words == "a daily digest of papers on lab/nlp@3 and “lab vision”"


def test_a_remark_on_a_strangers_line_keeps_its_sentence_and_no_link() -> None:
    for written, shown in {
        "3 of the last 243 papers; the latest: Kites.": "3 of the last 243 papers; the latest: Kites.",
        "Did you mean cat:cs.CL? No cs.CL.win or cs.CLICK or xcat:cs.CL/x, but cs.SY.": "Did you mean cat:cs.CL? No cs CL win or cs CLICK or xcat cs CL x, but cs.SY.",
        "I cannot read 'evil.example/x' or +1 (800) 555 0199.": "I cannot read 'evil example x' or + .",
    }.items():
        assert " ".join(figures_in_words.unlinkable(written).split()) == shown


def test_a_strangers_words_can_neither_link_nor_dial() -> None:
    for written, shown in {
        "evil.example": "“evil example”",
        "https://evil.example/a?b=1": "“https evil example a b 1”",
        "mail eve@evil.example": "“mail eve evil example”",
        "evil。example ｅｖｉｌ．ｃｏｍ": "“evil example ｅｖｉｌ ｃｏｍ”",
        "call +1 (800) 555-0199 now": "“call now”",
        "call 1-8-0-0-5-5-5": "“call”",
        "call ١٢٣٤٥": "“call”",
        "in 2026 GPT-4": "“in 2026 GPT-4”",
        "Parkinson's self-supervised": "“Parkinson's self-supervised”",
        "हिन्दी C++": "“हिन्दी C”",
        "e\u200bvil\u202e.com": "“evil com”",
        "win money now " * 6: "“win money now win money now win money now win money now win…”",
        "12345": "",
        "?!": "",
    }.items():
        assert figures_in_words.quoted_words(written) == shown, written
        assert len(figures_in_words.quoted_words(written)) <= 62


@pytest.mark.parametrize(
    ("papers", "is_on_topics", "is_from_today", "words"),
    [
        (3, True, True, "Until then, you can read three papers from today on your topics."),
        (1, True, False, "Until then, you can read one paper from the past week on your topics."),
        (2, False, True, "Until then, you can read two papers from today’s trending list."),
        (3, False, False, "Until then, you can read three papers from the past week’s trending list."),
    ],
)
def test_a_welcome_says_what_its_papers_are(
    papers: int, is_on_topics: bool, is_from_today: bool, words: str
) -> None:
    said = figures_in_words.welcome_papers_sentence(
        papers, is_on_topics=is_on_topics, is_from_today=is_from_today
    )

    assert said == words


def test_papers_a_day_are_whole_numbers_with_one_wording() -> None:
    said = [figures_in_words.papers_a_day(usual, most) for usual, most in [(0, 0), (0, 3), (1, 2), (4, 9)]]

    assert said == [
        "no papers so far", "fewer than one paper a day", "about 1 paper a day", "about 4 papers a day",
    ]  # fmt: skip
