"""An excerpt says what the paper did: on labelled abstracts, and rule by rule on invented ones."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from digest.dumps.formats import recognition
from digest.letters.excerpts import MAX_EXCERPT_LENGTH, excerpt
from digest.letters.sentence_ends import sentence_ends, to_sentence_end
from digest.papers.display_text import display
from digest.papers.paper_record import Record
from tests.dumps import DAY
from tests.support.growth import assert_proportional

LABELS = Path(__file__).parent / "labelled_abstracts.jsonl"
MIN_SHARE = 0.9
HALVES = ("tune", "report", "tune 2", "report 2")
#: Starts that refer to earlier text, and ends in the middle of a phrase.
BAD_START = re.compile(
    r"[^\w\"'“‘$(\[]|[a-z]|(?:(?:This|These|Those|Such) (?!paper|work|article|study|survey|review|report|letter|note|thesis)"
    r"|(?:It|Its|They|Their|Here|However|Moreover|Thus|In (?:this|our) (?:paper|work))\b)"
)
BAD_END = re.compile(r"(?:\b(?:such|about|the|of|and|is)…|\s\(?\d\.\)?|\([^)]*…)$")

# ── labelled abstracts ──────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class LabelledAbstract:
    """An abstract on one line, and the sentences in it that were labelled before the code was written."""

    text: str
    starts: dict[int, int]  #: number to start of each sentence that says what was done or found
    best: int | None  #: None where none was labelled as the best

    def first_shown(self) -> int | None:
        """Return the number of the labelled sentence with which the excerpt begins, if it is one."""
        shown = excerpt(display(self.text))[1:60].rstrip("…")  # its first letter may be a capital
        for number, start in self.starts.items():
            rest = display(self.text[start:])
            end = next(iter(sentence_ends(rest)), len(rest))
            if 0 <= rest.find(shown) < end - len(shown) // 2:
                return number
        return None


def labelled(shared: Path, half: str) -> list[LabelledAbstract]:
    """Return the abstracts of one half in which a sentence says what was done or found."""
    labels = [json.loads(line) for line in LABELS.read_text().splitlines()]
    chosen = [label for label in labels if label["half"] == half]
    abstracts = {name: dict(abstracts_in(shared / name)) for name in {label["file"] for label in chosen}}
    return [
        LabelledAbstract(
            text=" ".join(abstracts[label["file"]][label["id"].casefold()].split()),
            starts={int(number): start for number, start in label["contribution"].items()},
            best=label["best"],
        )
        for label in chosen
        if label["contribution"]
    ]


def abstracts_in(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the id and the abstract of each paper in a file; of the graph of papers also the cited ones."""
    if path.name.endswith(".truth.jsonl"):
        for found in map(json.loads, path.read_text().splitlines()):
            yield f"{path.name.removesuffix('.truth.jsonl')}:{found['line']}", found["abstract"]
    elif path.parent.name == "semantic_scholar":
        yield from graph_abstracts(json.loads(path.read_text()))
    else:
        with path.open("rb") as stream:
            for record in recognition.read(stream, name=path.name, observed_on=DAY).records:
                if isinstance(record, Record):
                    yield from ((value.casefold(), record.abstract) for value in record.ids.values())


def graph_abstracts(node: Any) -> Iterator[tuple[str, str]]:
    """Yield the ids and abstracts of a paper and of the papers around it."""
    if isinstance(node, dict):
        for value in (node.get("externalIds") or {}).values():
            yield str(value).casefold(), node.get("abstract") or ""
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from graph_abstracts(child)


@pytest.mark.parametrize("half", HALVES)
def test_most_excerpts_begin_with_a_sentence_that_says_what_was_done(
    shared: Path, half: str, capsys: pytest.CaptureFixture[str]
) -> None:
    abstracts = labelled(shared, half)
    shown = [abstract.first_shown() for abstract in abstracts]
    any_share = sum(number is not None for number in shown) / len(abstracts)
    pairs = [(number, one.best) for number, one in zip(shown, abstracts, strict=True) if one.best is not None]
    best_share = sum(number == best for number, best in pairs) / max(len(pairs), 1)

    with capsys.disabled():
        print(
            f"\n{half}: of {len(abstracts)} excerpts {any_share:.1%} begin with what was done or found, "
            f"{best_share:.1%} of {len(pairs)} with the sentence labelled best"
        )
    assert any_share >= MIN_SHARE


def test_no_excerpt_of_a_labelled_abstract_begins_or_ends_in_the_middle_of_a_thought(shared: Path) -> None:
    shown = [excerpt(display(one.text)) for half in HALVES for one in labelled(shared, half)]

    assert [text for text in shown if BAD_START.match(text) or BAD_END.search(text)] == []


# ── what is shown ───────────────────────────────────────────────────────────────────────────────

OPENING = "Tides have moved gravel for as long as there was gravel. Nobody has asked the gravel."


@pytest.mark.parametrize(
    "sentence",
    [
        "We propose a ferry that crosses only at low water.",
        "We show that round stones travel further than flat ones.",
        "This article introduces a calendar of stones.",
        "The paper proves that every beach has a largest stone.",
        "Our experiments reveal two regimes of drift.",
        "A new bound on the drift of stones is presented.",
        "Surprisingly, we find that flat stones rarely move at all.",
    ],
)
def test_the_sentence_that_says_what_was_done_is_shown_in_place_of_the_opening(sentence: str) -> None:
    assert excerpt(f"{OPENING} {sentence}") == f"{sentence}"


def test_an_excerpt_begins_without_here_and_the_sign_of_a_comment() -> None:
    assert excerpt(f"{OPENING} Here, we show that stones move.") == "We show that stones move."
    assert excerpt("%We show that stones move. They do.") == "We show that stones move. They do."


def test_the_next_sentence_is_shown_if_there_is_room() -> None:
    first, second = "We propose a slow ferry.", "It needs half the fuel of a fast one."
    long = "It needs " + "very " * 60 + "little fuel."

    assert excerpt(f"{OPENING} {first} {second} The end.") == f"{first} {second}"
    assert excerpt(f"{OPENING} {first} {long}") == f"{first}"
    assert excerpt(f"{OPENING} {first} {second}", max_sentences=1) == f"{first}"


def test_an_abstract_that_begins_with_what_was_done_is_shown_from_its_beginning() -> None:
    text = "We propose a slow ferry. It needs half the fuel of a fast one. Ferries are old."

    assert excerpt(text) == "We propose a slow ferry. It needs half the fuel of a fast one."


def test_without_a_sentence_about_the_paper_its_first_sentences_are_shown() -> None:
    assert excerpt(OPENING + " Gravel is quiet.") == OPENING
    assert excerpt("第一句。第二句。第三句。") == "第一句。第二句。"
    assert excerpt("No end") == "No end"
    assert excerpt("") == ""


@pytest.mark.parametrize(
    ("sentence", "shown"),
    [
        ("However, we show that stones sink.", "We show that stones sink."),
        ("In this paper, we show that stones sink.", "We show that stones sink."),
        ("To address this issue, we propose a slow ferry.", "We propose a slow ferry."),
        ("Hence, motivated by these tides, this paper presents a ferry.", "This paper presents a ferry."),
        ("Instead of fast ones, we propose a slow ferry.", "Instead of fast ones, we propose a slow ferry."),
        ("RESULTS: Stones sank twice as fast in March.", "Stones sank twice as fast in March."),
        ("To save fuel, we propose a slow ferry.", "To save fuel, we propose a slow ferry."),
    ],
)
def test_a_beginning_that_refers_back_is_left_out(sentence: str, shown: str) -> None:
    assert excerpt(f"{OPENING} {sentence}") == f"{shown}"


@pytest.mark.parametrize(
    "unclear",
    [
        "This shows what our results suggest about tides.",
        "These are the stones that we propose to follow.",
        "They improve on what we present below by 40%.",
        "It is shown in our experiments.",
    ],
)
def test_a_sentence_whose_subject_refers_back_is_not_chosen(unclear: str) -> None:
    clear = "We measure the drift of forty stones."

    assert excerpt(f"{OPENING} {unclear} {clear}") == f"{clear}"


def test_no_excerpt_begins_with_these_or_with_letters_that_an_earlier_sentence_spells_out() -> None:
    clear = "We measure the drift of forty stones."

    for unclear in ("These tides lead us to propose a slow ferry.", "SDF shows what we propose to follow."):
        assert excerpt(f"{OPENING} {unclear} {clear}", max_sentences=1) == clear, unclear


def test_a_long_sentence_is_not_cut_inside_a_bracket_nor_after_the_number_of_a_list() -> None:
    start = f"We propose a ferry that is {'slow and ' * 30}old"

    assert excerpt(f"{start} (as its {'slow ' * 20}builder says).").endswith("old…")
    assert excerpt("We show two things: 1.) stones sink, and 2.) stones stay.", max_sentences=1).endswith(
        "stay."
    )


@pytest.mark.parametrize(
    "other",
    [
        "We hope that ferries provide more evidence.",
        "We release our code at https://example.org/ferry and more.",
        "Can we show that stones sink in March?",
        "Many recent works show that the results suggest drift.",
    ],
)
def test_hopes_links_questions_and_earlier_work_are_not_what_was_done(other: str) -> None:
    clear = "We measure the drift of forty stones."

    assert excerpt(f"{OPENING} {other} {clear}") == f"{clear}"


def test_news_of_code_does_not_follow_what_was_done() -> None:
    text = f"{OPENING} We propose a slow ferry. Code is available at https://example.org/ferry."

    assert excerpt(text) == "We propose a slow ferry."


def test_a_finding_comes_before_a_study_and_figures_decide_between_findings() -> None:
    study, finding = "We study stones on forty beaches.", "We find that flat stones rarely move at all."
    figures = "We find that 40% of the stones never move."

    assert excerpt(f"{OPENING} {study} {finding}", max_sentences=1) == f"{finding}"
    assert excerpt(f"{OPENING} {finding} {figures}", max_sentences=1) == f"{figures}"


def test_among_equal_sentences_the_first_is_shown() -> None:
    first, second = "We propose a slow ferry.", "We propose a slow barge."

    assert excerpt(f"{OPENING} {first} {second}", max_sentences=1) == f"{first}"


def test_a_sentence_too_long_for_a_card_is_cut_at_a_word() -> None:
    shown = excerpt(f"{OPENING} We propose a ferry that is {'slow and ' * 60}old.")

    assert shown.startswith("We propose a ferry that is slow")
    assert shown.endswith("slow…")
    assert len(shown) <= MAX_EXCERPT_LENGTH


PIECES = ["We show", "however,", "this", "Sentence.", "e.g.", "中文。", "x" * 400, "?", "…", "To address this, we find", "Results:"]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=120).map(" ".join), st.sampled_from([1, 2]))
def test_an_excerpt_is_short_and_never_cut_without_an_ellipsis(text: str, max_sentences: int) -> None:
    shown = excerpt(text, max_sentences=max_sentences)

    assert len(shown) <= MAX_EXCERPT_LENGTH
    assert shown[1:].removesuffix("…") in text  # the first letter may be a capital
    assert shown.endswith("…") or len(shown) in sentence_ends(shown) or text.endswith(shown[1:])


def test_the_time_for_an_excerpt_grows_with_the_length_of_the_abstract_and_no_faster() -> None:
    for words in ("to this ", "However, ", "We show. ", "xxxxxxxx"):
        assert_proportional(lambda size, words=words: excerpt(words * size), 30_000)  # type: ignore[misc]


# ── sentences ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One. Two. Three.", 3),
        ("As e.g. Lind et al. said, i.e. nothing. Two.", 2),
        ("We reach 3.14 and 85.7%. Yes!", 2),
        ('He said "stop." Then he went.', 2),
        ("Is it? It is! Good.", 3),
        ("A. B. Lind wrote it.", 1),
        ("第一句。第二句。", 2),
        ("No end", 0),
    ],
)
def test_sentence_ends_are_recognised(text: str, sentences: int) -> None:
    assert len(sentence_ends(text)) == sentences


@given(st.text(max_size=400), st.integers(20, 360))
def test_a_text_cut_at_a_sentence_never_exceeds_its_limit(text: str, room: int) -> None:
    assert len(to_sentence_end(text, room)) <= room
