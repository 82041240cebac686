"""premailer's known mistakes do not affect our mails; each has a test here."""

from __future__ import annotations

import re
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from digest.letters.css_inlining import inline
from digest.letters.templates import Templates

SHEETS = sorted((Path(__file__).parents[2] / "templates" / "letters").rglob("*.css"))
PAGES = sorted((Path(__file__).parents[2] / "templates").rglob("*.html"))
MAILED = [path for path in PAGES if "web" not in path.parts]


def page(head: str, body: str) -> str:
    return f'<!DOCTYPE html>\n<html lang="en"><head><title>x</title>{head}</head><body>{body}</body></html>'


def test_important_is_kept_inside_media_queries() -> None:
    sheet = "<style>p { color: #000 } @media (prefers-color-scheme: dark) { p { color: #FFF !important } }</style>"

    made = inline(page(sheet, "<p>x</p>"))

    assert re.search(r"@media[^{]*\{\s*p\s*\{\s*color: ?#FFF !important", made, re.IGNORECASE)
    assert re.search(r'<p style="color: ?#000">', made)


@pytest.mark.parametrize("name", ["width", "height", "text-align", "vertical-align", "background-color"])
def test_styles_are_not_converted_to_attributes(name: str) -> None:
    value = {"width": "50px", "height": "9px", "text-align": "center", "vertical-align": "top"}.get(
        name, "#ABC"
    )

    made = inline(page(f"<style>p {{ {name}: {value} !important }}</style>", "<p>x</p>"))

    assert re.search(rf'<p style="{name}: ?{value}[^"]*">', made, re.IGNORECASE)


def test_an_attribute_written_by_hand_stays_as_it_is() -> None:
    made = inline(
        page(
            "<style>td { width: 20px !important }</style>", '<table width="100%"><tr><td>x</td></tr></table>'
        )
    )

    assert '<table width="100%">' in made
    assert not re.search(r'(?<!-)\bwidth="[^"]*!important', made)


def test_inlining_fetches_no_style_sheet_or_image() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.1)
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        sheets = f'<link rel="stylesheet" href="{address}/x.css"><style>p {{ color: #000 }}</style>'

        made = inline(page(sheets, f'<p>x</p><img src="{address}/x.png" alt="">'))

        with pytest.raises(TimeoutError):
            server.accept()
    assert '<p style="color:#000">' in made


def test_a_page_keeps_its_doctype() -> None:
    assert inline(page("", "<p>x</p>")).startswith("<!DOCTYPE html>\n<html")


@pytest.mark.parametrize("path", MAILED, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_letters_contain_nothing_that_premailer_breaks(path: Path) -> None:
    """Cases in which premailer changes the meaning of a page."""
    source = path.read_text()
    outside = re.sub(r"<!--\[if.*?<!\[endif\]-->", "", source, flags=re.DOTALL)

    assert "style=" not in outside
    assert "<!doctype" not in source
    assert not re.search(r"<!\[if", outside)
    assert all("{{" not in sheet for sheet in re.findall(r"<style.*?</style>", source, flags=re.DOTALL))


@pytest.mark.parametrize("path", SHEETS, ids=lambda path: path.name)
def test_style_sheets_contain_nothing_that_premailer_drops(path: Path) -> None:
    sheet = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)

    assert not re.search(r"@(supports|font-face|import)|\b(rgb|hsl)a?\([^)]*/|url\(", sheet)
    for block in re.findall(r"\{([^{}]*)\}", sheet):
        names = [one.partition(":")[0].strip() for one in block.split(";") if ":" in one]
        assert len(names) == len(set(names)), block


def test_every_rule_for_small_and_dark_screens_is_in_the_letter(templates: Templates) -> None:
    shell = (SHEETS[0].parent / "letter.html").read_text()
    assert 'data-premailer="ignore"' in shell
    small = (SHEETS[0].parent / "small.css").read_text()

    made = inline(page(f'<style data-premailer="ignore">{small}</style>', '<p class="soft">x</p>'))

    assert small.count("@media") == made.count("@media") > 1
    assert all(
        re.sub(r"([{};:,]) ", r"\1", line).replace(" {", "{").replace(" }", "}") in made
        for line in small.splitlines()
        if "!important" in line
    )


def test_links_of_cards_are_styled_outside_media_queries_which_thunderbird_ignores() -> None:
    small = (SHEETS[0].parent / "small.css").read_text()

    everywhere = re.sub(r"@media[^{]*\{(?:[^{}]*\{[^{}]*\})*\s*\}", "", small)

    assert re.findall(r"^[^{]+(?= \{)", everywhere, re.MULTILINE) == [".title", ".links a"]


def test_links_within_the_letter_and_addresses_stay_as_they_are() -> None:
    ways = '<a href="#t1">x</a><a href="https://example.org/?a=1&amp;b=%20#c">y</a>'

    assert ways in inline(page("<style>b { color: #000 }</style>", ways))


def test_inlining_in_threads_gives_the_same_bytes() -> None:
    sheet = "<style>p { color: #123; margin: 0 } .a { color: #456 } b.c { font-weight: bold }</style>"
    pages = [page(sheet, f'<p class="a">{number}</p><p><b class="c">x</b></p>' * 3) for number in range(24)]
    alone = [inline(one) for one in pages]

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(inline, pages)) == alone


def test_an_invalid_style_sheet_prints_no_warning(capfd: pytest.CaptureFixture[str]) -> None:
    inline(
        page("<style>p { -odd-thing: what; colour: 7 } p:bogus(3) { color: #000 } @@ }}</style>", "<p>x</p>")
    )

    assert capfd.readouterr() == ("", "")
