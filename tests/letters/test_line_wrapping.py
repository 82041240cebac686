"""Figures in HTML letters stay on one line with their units; the text part keeps plain spaces."""

from __future__ import annotations

import pytest

from digest.letters.line_wrapping import LINE_WIDTH, keep_figures, wrap
from digest.letters.templates import Templates
from digest.site.site_profile import Site
from tests.letters.invented_papers import copy_for, letters_of, pressed, trending


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Matches “steps” · 42 upvotes since yesterday", "Matches “steps” · 42~upvotes since yesterday"),
        ("214 upvotes, 40 of them since yesterday", "214~upvotes, 40~of them since yesterday"),
        ("Matches “llama 3 models” · third day on the list", "Matches “llama 3 models” · third day on the list"),
        ("cs.LG · 19 Nov 2026", "cs.LG · 19~Nov~2026"),
        ("Paused until 6 January 2027.", "Paused until 6~January~2027."),
        ("20 November 2026, 07:12 UTC", "20~November~2026, 07:12~UTC"),
        ("Ito, Okafor, Lind + 4 · Example Lab", "Ito, Okafor, Lind +~4 · Example Lab"),
        ("Today’s list of papers is incomplete: 40 are missing.", "Today’s list of papers is incomplete: 40~are missing."),
        ("", ""),
    ],
)  # fmt: skip
def test_a_figure_stays_with_its_unit(text: str, kept: str) -> None:
    assert keep_figures(text) == kept.replace("~", "\N{NO-BREAK SPACE}")


@pytest.mark.parametrize(
    "text", ["robot" * 16, f"on {'robot' * 16} and  cups, as always", f"机器人 {'robot' * 16}"]
)
def test_a_long_word_is_broken_but_not_a_long_url(text: str) -> None:
    url = f"https://example.org/{'robot' * 20}"

    lines = wrap(f"{text} {url}").split("\n")

    assert lines[-1] == url
    assert max(map(len, lines[:-1])) <= LINE_WIDTH
    assert "".join("".join(lines).split()) == "".join(f"{text}{url}".split())


def test_only_the_html_part_has_no_break_spaces_in_reason_lines(site: Site, templates: Templates) -> None:
    made = pressed(p11="42 upvotes since yesterday")

    letter = letters_of(made, site, templates).letter(trending(11), copy_for())

    assert "42\N{NO-BREAK SPACE}upvotes since yesterday" in letter.html
    assert "\n42 upvotes since yesterday\n" in letter.text
