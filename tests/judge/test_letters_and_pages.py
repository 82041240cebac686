"""Check letters and pages with independent judges. Each first gets a defect that it must detect."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from digest.web.page_rendering import letter_page
from tests.judge import letter_screenshots, readme_picture
from tests.judge.browser import WIDTHS, Sight, look, photograph, violations
from tests.judge.conftest import PAGES, Exhibits
from tests.judge.installed_programs import OURS, npm_package
from tests.judge.spam import Rspamd
from tests.judge.thunderbird import Thunderbird
from tests.support.mail_bodies import body_of

HIGHEST_TITLE, BELOW_CONTENTS = 240, 260  #: pixels below the top at 375 px width
PHONE = 375

#: Outlook formats tables by attributes that the standard calls obsolete, and hides elements by its own property.
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


def test_the_html_checker_detects_a_missing_alternative_text(html_checker: list[str]) -> None:
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
    for message in exhibits.letters.values():
        found = complaints(html_checker, html_of(message))
        assert [complaint for complaint in found if not FOR_OUTLOOK.match(complaint)] == [], message


@pytest.mark.parametrize("kind", letter_screenshots.JUDGED)
def test_the_html_checker_finds_nothing_in_a_letter_of_any_kind(
    html_checker: list[str], kind: str, is_full: bool
) -> None:
    if not is_full:
        pytest.skip("every letter in turn: JUDGE=full make judge")
    found = complaints(html_checker, letter_screenshots.letters()[kind])

    assert [complaint for complaint in found if not FOR_OUTLOOK.match(complaint)] == []


@pytest.mark.parametrize("name", PAGES)
def test_the_html_checker_finds_nothing_in_a_page(
    html_checker: list[str], exhibits: Exhibits, name: str
) -> None:
    found = complaints(html_checker, exhibits.html(name))

    is_letter = name in {"mail of today", "digest"}
    assert [one for one in found if not (is_letter and FOR_OUTLOOK.match(one))] == []


def html_of(message: bytes) -> bytes:
    return body_of(message, "html").encode()


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


def test_the_spam_filter_detects_an_advertisement_without_a_date(spamassassin: str, tmp_path: Path) -> None:
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
    spamassassin: str, exhibits: Exhibits, is_full: bool, tmp_path: Path
) -> None:
    if not is_full:
        pytest.skip("every letter in turn: JUDGE=full make judge")
    for message in exhibits.letters.values():
        points, rules = score(spamassassin, message, tmp_path)
        assert points <= 0, rules


@pytest.mark.parametrize("kind", letter_screenshots.JUDGED)
def test_the_spam_filter_finds_nothing_in_a_letter_of_any_kind(
    spamassassin: str, kind: str, is_full: bool, tmp_path: Path
) -> None:
    if not is_full:
        pytest.skip("every letter in turn: JUDGE=full make judge")
    mail = letter_screenshots.mails(dated_at=datetime.now(UTC))[kind]

    points, rules = score(spamassassin, mail, tmp_path)

    assert points <= 0, rules


# ── spam: rspamd ────────────────────────────────────────────────────────────────────────────────


def test_rspamd_detects_a_forged_sender_and_a_misleading_link(rspamd: Rspamd) -> None:
    planted = (
        b'From: "a@bank.example" <b@example.org>\r\nTo: b@example.org\r\nSubject: pay now\r\n'
        b"MIME-Version: 1.0\r\nContent-Type: text/html\r\n\r\n"
        b'<a href="http://127.0.0.1/x">https://bank.example.com/</a>\r\n'
    )

    assert sum(rspamd.symbols(planted).values()) > 2


def test_rspamd_counts_links_and_detects_one_that_is_in_one_part_only(rspamd: Rspamd) -> None:
    honest = letter_screenshots.digest_of(1, dated_at=datetime.now(UTC))
    planted = honest.replace(b"</h1>", b'</h1><a href=3D"https://doi.org/10.5555/forgetting">again</a>')
    assert planted != honest

    assert rspamd.symbols(planted).get("URI_COUNT_ODD") == 1


@pytest.mark.parametrize("papers", [1, 2, 9, 10])
def test_rspamd_finds_nothing_in_a_digest_of_any_length(rspamd: Rspamd, papers: int) -> None:
    symbols = rspamd.symbols(letter_screenshots.digest_of(papers, dated_at=datetime.now(UTC)))

    assert sum(symbols.values()) <= 0, symbols


@pytest.mark.parametrize("kind", letter_screenshots.JUDGED)
def test_rspamd_finds_nothing_in_a_letter_of_any_kind(rspamd: Rspamd, kind: str) -> None:
    symbols = rspamd.symbols(letter_screenshots.mails(dated_at=datetime.now(UTC))[kind])

    assert sum(symbols.values()) <= 0, symbols


def test_rspamd_finds_nothing_in_mails_of_the_running_service(rspamd: Rspamd, exhibits: Exhibits) -> None:
    assert exhibits.letters
    for message in exhibits.letters.values():
        symbols = rspamd.symbols(message)
        assert sum(symbols.values()) <= 0, symbols


# ── signatures: mailauth ────────────────────────────────────────────────────────────────────────


def signatures(node: str, message: bytes, records: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return (algorithm, verdict) of each signature, as mailauth sees it."""
    script = str(Path(__file__).with_name("signatures.mjs"))
    done = subprocess.run(
        [node, script, str(npm_package("mailauth")), json.dumps(records)],
        input=message, capture_output=True, timeout=60, check=True,
    )  # fmt: skip
    return [(one["algo"], one["result"]) for one in json.loads(done.stdout)]


TAMPERED = {
    "a word": (b"papers", b"puppets"),
    "the way out": (b"List-Unsubscribe: <https://digest", b"List-Unsubscribe: <https://dogest"),
    "the one-click header": (b"List-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n", b""),
    "a second sender": (b"To: ", b"From: mallory@example.net\r\nTo: "),
}


@pytest.mark.parametrize(("old", "new"), TAMPERED.values(), ids=TAMPERED)
def test_mailauth_detects_tampering(node: str, exhibits: Exhibits, old: bytes, new: bytes) -> None:
    digest = exhibits.letters["alice@example.org"]
    changed = digest.replace(old, new, 1)

    assert changed != digest
    assert "pass" not in dict(signatures(node, changed, exhibits.records)).values()


def test_mailauth_verifies_both_signatures_of_every_letter(node: str, exhibits: Exhibits) -> None:
    for message in exhibits.letters.values():
        assert signatures(node, message, exhibits.records) == [
            ("rsa-sha256", "pass"),
            ("ed25519-sha256", "pass"),
        ]


# ── mail programs: caniemail ────────────────────────────────────────────────────────────────────

#: Features that some mail programs lack according to caniemail, and why a letter does not need them.
ACCEPTED = {
    "@media": "narrow phones and the night: without it the letter is read as by day, at any width",
    "<style> element": "holds @media and the look of links; all else stands on the elements",
    "Class selector": "of the colour and distance of links, which Thunderbird takes only from here; see <style>",
    "Descendant combinator": "of the same links",
    "Type selector": "of the same links",
    "display:none": "the preheader: where it shows, it says what comes next",
    "overflow": "of the preheader, which has no height either",
    "text-decoration-color": "the accent under titles: elsewhere the line is of ink",
    "text-decoration-thickness": "the same line, thicker",
    "text-underline-offset": "the same line, nearer to the title",
    "aria-label attribute": "a longer name for `PDF`: elsewhere the link says `PDF`",
    "role attribute": "`presentation` of tables, for screen readers",
    "<body> element": "its margin and ground are repeated on the table inside",
    "height property": "of gaps, which have a line height as well",
    "Local anchors": "the ways to the topics: elsewhere they are names with counts",
    "max-width": "of the one column; Outlook gets a table of 640",
    "border-radius": "of the button: elsewhere its corners are square",
    "display:inline-block": "of the links' height; elsewhere they are as high as their text",
    "word-break": "of words without an end, and of long addresses",
    "float": "of the day beside the name of the site: Word's engine, which lacks it, gets a cell of its own",
    "white-space": "of the day, which keeps to one line: elsewhere its words may stand on two",
}


def unsupported(node: str, html: bytes) -> dict[str, list[str]]:
    """Return the features that some mail programs lack, with their names."""
    script = str(Path(__file__).with_name("clients.mjs"))
    done = subprocess.run(
        [node, script, str(npm_package("caniemail"))], input=html, capture_output=True, timeout=60, check=True
    )
    unsupported: dict[str, list[str]] = json.loads(done.stdout)
    return unsupported


def test_caniemail_detects_what_mail_programs_do_not_support(node: str) -> None:
    planted = b'<!doctype html><body><div style="position: fixed; display: grid">x</div><form></form></body>'

    assert {"position", "display:grid"} & unsupported(node, planted).keys()


def test_the_digest_uses_only_features_that_mail_programs_support(node: str, exhibits: Exhibits) -> None:
    for message in exhibits.letters.values():
        found = unsupported(node, html_of(message))
        assert {name: clients for name, clients in found.items() if name not in ACCEPTED} == {}


def test_letters_of_every_kind_use_only_features_that_mail_programs_support(node: str) -> None:
    for kind, page in letter_screenshots.letters().items():
        found = unsupported(node, page)
        assert {name: clients for name, clients in found.items() if name not in ACCEPTED} == {}, kind


# ── everybody: axe-core ─────────────────────────────────────────────────────────────────────────


def test_axe_detects_a_picture_without_alt_text_and_a_page_without_a_language(
    chromium: str, axe: Path
) -> None:
    planted = b"<!doctype html><title>x</title><main><h1>x</h1><img src=x.png></main>"

    found = violations(chromium, axe, page=planted)

    assert {one.partition(":")[0] for one in found} >= {"image-alt", "html-has-lang"}


@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing_in_a_page(chromium: str, axe: Path, exhibits: Exhibits, name: str) -> None:
    assert violations(chromium, axe, page=exhibits.html(name), upstream=exhibits.site) == []


@pytest.mark.parametrize("kind", letter_screenshots.JUDGED)
def test_axe_finds_nothing_in_a_letter_of_any_kind(
    chromium: str, axe: Path, kind: str, is_full: bool
) -> None:
    if not is_full:
        pytest.skip("every letter in turn: JUDGE=full make judge")
    """Within a mail program a letter is an article, and the program has the one main part; as a page, it has that."""
    page = letter_page(letter_screenshots.letters()[kind].decode()).encode()

    assert violations(chromium, axe, page=page) == []


# ── looks: Chromium ─────────────────────────────────────────────────────────────────────────────


def test_the_browser_detects_overflow_and_low_contrast(chromium: str) -> None:
    planted = (
        b'<!doctype html><title>x</title><div style="width:700px">wide</div><p style="color:#bbb">faint</p>'
    )

    sights = look(chromium, page=planted)

    assert [(sight.width, sight.is_dark) for sight in sights] == [
        (width, is_dark) for is_dark in (False, True) for width in WIDTHS
    ]
    assert all(sight.overflow > 0 and sight.sticking_out == ("wide",) for sight in sights)
    assert all(sight.faint == ("faint",) for sight in sights)


def test_the_digest_fits_every_screen_and_is_legible_in_light_and_dark_mode(
    chromium: str, exhibits: Exhibits
) -> None:
    sights = look(chromium, page=exhibits.digest_html.read_bytes())

    assert_fits_and_reads(sights)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_every_screen_and_is_legible_in_light_and_dark_mode(
    chromium: str, exhibits: Exhibits, name: str
) -> None:
    sights = look(chromium, path=exhibits.pages[name], upstream=exhibits.site)

    assert_fits_and_reads(sights)


def assert_fits_and_reads(sights: list[Sight]) -> None:
    assert len(sights) == 2 * len(WIDTHS)
    assert min(sight.words for sight in sights) > 20
    assert [sight for sight in sights if sight.overflow or sight.sticking_out] == []
    assert [(sight.width, sight.is_dark, sight.faint) for sight in sights if sight.faint] == []


def test_hostile_papers_do_not_break_the_layout(chromium: str) -> None:
    assert_fits_and_reads(look(chromium, page=letter_screenshots.hostile()))


@pytest.mark.parametrize("kind", letter_screenshots.JUDGED)
def test_every_letter_fits_every_screen_and_is_legible_in_light_and_dark_mode(
    chromium: str, kind: str, is_full: bool
) -> None:
    if not is_full:
        pytest.skip("every letter in turn: JUDGE=full make judge")
    assert_fits_and_reads(look(chromium, page=letter_screenshots.letters()[kind]))


def test_a_letter_without_images_loses_nothing(chromium: str, tmp_path: Path) -> None:
    planted = b"<!doctype html><title>x</title><img alt=\"\" src=\"data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' width='99' height='99'%3E%3Crect width='99' height='99'/%3E%3C/svg%3E\">"
    digest = letter_screenshots.html_of(letter_screenshots.digest_eml())

    def pictures(page: bytes) -> tuple[bytes, bytes]:
        made = []
        for has_images in (True, False):
            photograph(chromium, [page], tmp_path / "one.png", width=375, has_images=has_images)
            made.append((tmp_path / "one.png").read_bytes())
        return made[0], made[1]

    with_image, without_image = pictures(planted)
    shown, switched_off = pictures(digest)

    assert with_image != without_image
    assert shown == switched_off


def test_the_first_title_is_in_the_upper_third_of_a_phone_screen(chromium: str, exhibits: Exhibits) -> None:
    pushed_down = b"<!doctype html><title>x</title><div style=height:500px></div><h3>late</h3>"

    def lowest_title(page: bytes) -> int:
        return max(sight.first_title for sight in look(chromium, page=page) if sight.width >= PHONE)

    assert lowest_title(pushed_down) > BELOW_CONTENTS
    assert 0 < lowest_title(exhibits.digest_html.read_bytes()) <= HIGHEST_TITLE
    assert 0 < lowest_title(letter_screenshots.html_of(letter_screenshots.digest_eml())) <= BELOW_CONTENTS


def test_screenshots_of_the_letters_are_taken_for_people(chromium: str, is_full: bool) -> None:
    if not is_full:
        pytest.skip("for people, not for machines: JUDGE=full make judge")
    OURS.mkdir(exist_ok=True)

    for picture in letter_screenshots.of_letters(chromium, OURS):
        assert picture.stat().st_size > 10_000


def test_the_picture_of_the_readme_can_be_taken_again(chromium: str, tmp_path: Path, is_full: bool) -> None:
    if not is_full:
        pytest.skip("for people, not for machines: JUDGE=full make judge")

    readme_picture.take(chromium, tmp_path / "digest.png")

    assert (
        size_of(tmp_path / "digest.png")
        == size_of(readme_picture.PICTURE)
        == (readme_picture.WIDTH, readme_picture.HEIGHT)
    )


def size_of(picture: Path) -> tuple[int, int]:
    """Return the width and height in a PNG's header."""
    width, height = struct.unpack(">II", picture.read_bytes()[16:24])
    return width, height


# ── looks: Thunderbird ──────────────────────────────────────────────────────────────────────────

PAGE_GROUND = "#F3F1EC"  #: the background around a letter in light mode
BRIGHT = 0.8  #: minimum share of the full brightness


def brightness(colours: Mapping[str, int]) -> float:
    """Return the share of a picture that is nearly white."""
    bright = sum(
        count
        for colour, count in colours.items()
        if min(int(colour[place : place + 2], 16) for place in (1, 3, 5)) > BRIGHT * 255
    )
    return bright / sum(colours.values())


def test_thunderbird_shows_the_digest_in_light_and_dark_mode(
    thunderbird: Thunderbird, exhibits: Exhibits, tmp_path: Path, is_full: bool
) -> None:
    """In dark mode it drops every @media rule and adapts our colours itself: nothing may stay too bright."""
    if not is_full:
        pytest.skip("takes a minute and a mail program: JUDGE=full make judge")
    OURS.mkdir(exist_ok=True)
    planted = tmp_path / "planted.eml"
    planted.write_bytes(
        b"From: a@example.org\r\nSubject: x\r\nContent-Type: text/html\r\n\r\n<p>no ground</p>\r\n"
    )

    empty = thunderbird.colours(thunderbird.photograph(planted, tmp_path / "planted.png"))
    day = thunderbird.colours(thunderbird.photograph(exhibits.digest_eml, OURS / "thunderbird-light.png"))
    night = thunderbird.colours(
        thunderbird.photograph(exhibits.digest_eml, OURS / "thunderbird-dark.png", is_dark=True)
    )

    assert empty[PAGE_GROUND] == 0
    assert day[PAGE_GROUND] > 500
    assert brightness(night) < 0.1 < 0.5 < brightness(day)
