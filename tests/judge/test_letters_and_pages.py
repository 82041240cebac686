"""Independent judges look at letters and pages. Each is first shown a defect that it must catch."""

from __future__ import annotations

import json
import os
import re
import subprocess
import urllib.request
from email import message_from_bytes, policy
from pathlib import Path

import pytest

from tests.judge.browser import WIDTHS, Sight, look, photograph
from tests.judge.conftest import Exhibits
from tests.judge.programs import OURS

PAGES = ["/", "/papers/1"]

#: Outlook draws tables by attributes that the standard calls obsolete, and hides by a property of its own.
FOR_OUTLOOK = re.compile(
    r"The “(?:align|bgcolor|border|cellpadding|cellspacing|height|valign|width)” attribute on the "
    r"“(?:table|tr|td)” element is obsolete|CSS: “mso-"
)


# ── HTML: the Nu checker ────────────────────────────────────────────────────────────────────────


def complaints(checker: list[str], html: bytes) -> list[str]:
    """Return the errors and warnings of the Nu checker."""
    done = subprocess.run(
        [*checker, "--format", "json", "--stdout", "--exit-zero-always", "-"],
        input=html,
        capture_output=True,
        timeout=120,
        check=True,
    )
    return [
        message["message"] for message in json.loads(done.stdout)["messages"] if message["type"] == "error"
    ]


def test_the_html_checker_sees_a_missing_alternative(html_checker: list[str]) -> None:
    planted = b'<!doctype html><html lang="en"><title>x</title><p><img src="x.png"></p></html>'

    assert any("alt" in complaint for complaint in complaints(html_checker, planted))


def test_the_html_checker_finds_nothing_in_the_digest_but_what_outlook_needs(
    html_checker: list[str], exhibits: Exhibits
) -> None:
    found = complaints(html_checker, exhibits.digest_html.read_bytes())

    assert [complaint for complaint in found if not FOR_OUTLOOK.match(complaint)] == []


def test_the_html_checker_finds_nothing_in_the_other_letters(
    html_checker: list[str], exhibits: Exhibits
) -> None:
    assert exhibits.letters
    for message in exhibits.letters:
        found = complaints(html_checker, html_of(message))
        assert [complaint for complaint in found if not FOR_OUTLOOK.match(complaint)] == [], message


@pytest.mark.parametrize("path", PAGES)
def test_the_html_checker_finds_nothing_in_a_page(
    html_checker: list[str], exhibits: Exhibits, path: str
) -> None:
    with urllib.request.urlopen(exhibits.site + path) as answer:  # noqa: S310  (our own server)
        assert complaints(html_checker, answer.read()) == []


def html_of(message: bytes) -> bytes:
    body = message_from_bytes(message, policy=policy.default).get_body(("html",))
    assert body is not None
    return body.get_content().encode()


# ── spam: SpamAssassin ──────────────────────────────────────────────────────────────────────────


def score(spamassassin: str, message: bytes, home: Path) -> tuple[float, str]:
    """Return SpamAssassin's score without the network, and the rules that made it."""
    done = subprocess.run(
        [spamassassin, "--local", "--test-mode"],
        input=message, capture_output=True, timeout=120, check=True, env=os.environ | {"HOME": str(home)},
    )  # fmt: skip
    report = done.stdout.decode(errors="replace")
    found = re.search(r"Content analysis details:\s+\((-?[\d.]+) points", report)
    assert found, report
    return float(found[1]), report[found.start() :]


def test_the_spam_filter_sees_a_boast_without_a_date(spamassassin: str, tmp_path: Path) -> None:
    planted = (
        b"From: a@example.org\r\nTo: b@example.org\r\nSubject: 100% GUARANTEED\r\n\r\n100% GUARANTEED\r\n"
    )

    assert score(spamassassin, planted, tmp_path)[0] > 2


def test_the_spam_filter_finds_nothing_in_the_digest(
    spamassassin: str, exhibits: Exhibits, tmp_path: Path
) -> None:
    points, rules = score(spamassassin, exhibits.digest_eml.read_bytes(), tmp_path)

    assert points <= 0, rules


def test_the_spam_filter_finds_nothing_in_the_other_letters(
    spamassassin: str, exhibits: Exhibits, tmp_path: Path
) -> None:
    for message in exhibits.letters:
        points, rules = score(spamassassin, message, tmp_path)
        assert points <= 0, rules


# ── looks: Chromium ─────────────────────────────────────────────────────────────────────────────


def test_the_browser_sees_what_sticks_out_and_what_is_too_faint(chromium: str) -> None:
    planted = (
        b'<!doctype html><title>x</title><div style="width:700px">wide</div><p style="color:#bbb">faint</p>'
    )

    sights = look(chromium, page=planted)

    assert [(sight.width, sight.is_dark) for sight in sights] == [
        (width, is_dark) for is_dark in (False, True) for width in WIDTHS
    ]
    assert all(sight.overflow > 0 and sight.sticking_out == ("wide",) for sight in sights)
    assert all(sight.faint == ("faint",) for sight in sights)


def test_the_digest_fits_every_screen_and_can_be_read_day_and_night(
    chromium: str, exhibits: Exhibits
) -> None:
    sights = look(chromium, page=exhibits.digest_html.read_bytes())

    assert_fits_and_reads(sights)


@pytest.mark.parametrize("path", PAGES)
def test_a_page_fits_every_screen_and_can_be_read_day_and_night(
    chromium: str, exhibits: Exhibits, path: str
) -> None:
    sights = look(chromium, path=path, upstream=exhibits.site)

    assert_fits_and_reads(sights)


def assert_fits_and_reads(sights: list[Sight]) -> None:
    assert len(sights) == 2 * len(WIDTHS)
    assert min(sight.words for sight in sights) > 20
    assert [sight for sight in sights if sight.overflow or sight.sticking_out] == []
    assert [(sight.width, sight.is_dark, sight.faint) for sight in sights if sight.faint] == []


def test_the_digest_is_photographed_for_people_to_look_at(
    chromium: str, exhibits: Exhibits, is_full: bool
) -> None:
    if not is_full:
        pytest.skip("for people, not for machines: JUDGE=full make judge")
    OURS.mkdir(exist_ok=True)
    for width in (500, 640):  # narrower windows a browser without a screen does not make
        for is_dark in (False, True):
            picture = OURS / f"digest-{width}-{'dark' if is_dark else 'light'}.png"
            photograph(chromium, exhibits.digest_html, picture, width=width, is_dark=is_dark)
            assert picture.stat().st_size > 10_000
