"""Test the tools of the benchmarks: comparison, counting and profiling."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from email.message import EmailMessage
from pathlib import Path

import pytest

from digest.letters.press.press_value import make_press
from digest.letters.templates import Templates
from digest.papers.paper_record import Paper
from digest.papers.trending import Ranked
from digest.site.site_profile import Site
from digest.topics import filter_parser
from digest.topics.paper_index import PaperIndex
from tests.bench import competent_rival, naive_rival, process_usage, sink
from tests.bench.compare_letters import Letters, compare
from tests.bench.world import NOW, World
from tests.support.ranked_matches import rank_matches


def letters(**details: str) -> Letters:
    """Sixty letters that differ only in their recipients."""
    return {str(number): letter(number, **details) for number in range(60)}


def letter(
    number: int, *, style: str = "color: #FFF", text: str = "Hello", href: str = "https://x/1"
) -> bytes:
    message = EmailMessage()
    message["Subject"], message["To"] = "Papers", f"reader{number}@example.org"
    message.set_content("Hello\n")
    page = f'<html><body><p style="{style}"><a href="{href}">{text}</a> there</p></body></html>'
    message.add_alternative(page, subtype="html")
    return message.as_bytes()


@pytest.mark.parametrize("change", [{"style": "color: #FFE"}, {"text": "Hallo"}, {"href": "https://x/2"}])
def test_different_letters_are_found_different(change: dict[str, str]) -> None:
    with pytest.raises(AssertionError, match="with them"):
        compare(letters(), letters(**change))


def test_letters_with_differently_spelled_styles_are_equal() -> None:
    compare(letters(style="color: #FFF; margin: 0"), letters(style="margin:0;color:#ffffff;"))


def test_a_letter_that_only_one_program_wrote_is_found_missing() -> None:
    with pytest.raises(AssertionError):
        compare(letters(), letters() | {"60": letter(60)})


@pytest.fixture(scope="module")
def morning(templates: Templates) -> naive_rival.Morning:
    papers = [
        Paper(id=number, title=title, abstract=abstract, first_seen_at=NOW)
        for number, (title, abstract) in enumerate(World(papers=60).texts, start=1)
    ]
    ranked = [Ranked(paper=paper, score=-float(place), reasons=()) for place, paper in enumerate(papers)]
    press = make_press(ranked, as_of=NOW)
    return naive_rival.Morning(
        site=Site(), press=press, index=PaperIndex(papers), templates=templates, port=0, now=NOW
    )


def test_the_compared_programs_match_the_same_papers(morning: naive_rival.Morning, tmp_path: Path) -> None:
    with sink.keeping_sink(tmp_path) as opened:
        state = competent_rival.make_state(replace(morning, port=opened.port))
        with state.server, closing(state.papers):
            for number, text in enumerate(World(papers=60, filters=120).interests):
                asked = filter_parser.parse(text)
                matches = morning.index.matches(asked)
                relevance = morning.index.relevance(asked, matches) if matches else {}
                ours = rank_matches(matches, morning.press.scores, relevance)
                assert naive_rival.matching_papers(morning, morning.press.papers, asked.canonical) == ours, (
                    text
                )
                assert competent_rival.matching_papers(state, number, asked.canonical) == ours, text


def test_processor_time_includes_ended_child_processes() -> None:
    busy = "import time\nwhile time.process_time() < 0.3: pass"
    parent = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {busy!r}])\nprint(flush=True)\ninput()"
    with subprocess.Popen(
        [sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout
        process.stdout.readline()
        used = process_usage.seconds(process.pid)
        process.communicate(b"\n")
    assert used >= 0.25
    assert process_usage.seconds(process.pid) == 0
