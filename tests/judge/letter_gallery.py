"""Write a page that shows every letter in every form: `make letters`; with --pictures, those in the docs, too."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from shutil import which

from digest.letters.mime import RenderedLetter
from tests.judge.browser import WIDTHS, lighten
from tests.judge.letter_screenshots import all_cases, digest_eml, of_letters
from tests.judge.letter_variants import letter_variants
from tests.judge.thunderbird import Thunderbird
from tests.support.product_processes import ROOT

GALLERY = ROOT / "build" / "letters.html"
PICTURES = ROOT / "docs" / "pictures"
DARK_MODE = "(prefers-color-scheme: dark)"
NO_IMAGES = """<head><meta http-equiv="Content-Security-Policy" content="img-src 'none'">"""
#: Every form of a letter: its caption, its width, whether it is dark and whether images are shown.
FORMS = (
    *((f"{width} px, {'dark' if dark else 'light'}", width, dark, True) for dark in (False, True) for width in WIDTHS),
    (f"{WIDTHS[1]} px, images off", WIDTHS[1], False, False),
)  # fmt: skip
STYLE = """
body { margin: 0; padding: 24px; background: #8a8a8a; font: 15px/1.4 system-ui, sans-serif }
nav, h2 { max-width: 1200px } nav a { margin-right: 16px; color: #000; line-height: 2 }
section > div { display: flex; gap: 16px; overflow-x: auto; align-items: flex-start }
figure { flex: none; margin: 0 } figcaption { padding: 4px 0 } iframe { border: 0; display: block; background: #fff }
pre { margin: 0; padding: 16px; width: 82ch; background: #fff; font: 13px/1.4 monospace; white-space: pre-wrap }
"""
#: Fills each frame with its letter, and makes it as high as the letter.
SCRIPT = """
for (const frame of document.querySelectorAll("iframe")) {
  frame.onload = () => { frame.height = frame.contentDocument.documentElement.scrollHeight };
  frame.srcdoc = LETTERS[frame.dataset.letter][frame.dataset.form];
}
"""


def gallery_page(letters: Mapping[str, RenderedLetter]) -> str:
    """Return the page of these letters, by name; it needs no server and no other file."""
    forms = {
        name: [html_in_form(letter.html, *form[2:]) for form in FORMS] for name, letter in letters.items()
    }
    stored = json.dumps(forms).replace("</", "<\\/")
    links = "".join(f'<a href="#{escape(name)}">{escape(name)}</a>' for name in letters)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>All letters</title><style>{STYLE}</style>'
        f"<nav>{links}</nav>{''.join(map(''.join, map(section, letters.items())))}"
        f"<script>const LETTERS = {stored};{SCRIPT}</script></html>"
    )


def html_in_form(html: str, is_dark: bool, has_images: bool) -> str:
    """Return a letter that looks as in dark or light mode on any screen, and with or without images."""
    fixed = html.replace(DARK_MODE, "all" if is_dark else "not all")
    return fixed if has_images else fixed.replace("<head>", NO_IMAGES, 1)


def section(named: tuple[str, RenderedLetter]) -> Iterator[str]:
    """Yield the parts of the section of one letter."""
    name, letter = named
    yield f'<section id="{escape(name)}"><h2>{escape(name)}: {escape(letter.subject)}</h2><div>'
    for place, (caption, width, *_) in enumerate(FORMS):
        frame = f'<iframe data-letter="{escape(name)}" data-form="{place}" width="{width}" title="{caption}"></iframe>'
        yield f"<figure><figcaption>{caption}</figcaption>{frame}</figure>"
    yield f"<figure><figcaption>plain text</figcaption><pre>{escape(letter.text)}</pre></figure></div></section>"


def write_gallery(page: Path) -> None:
    """Write the gallery of every letter."""
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(gallery_page({**all_cases(), **letter_variants()}), encoding="utf-8")
    print(page.relative_to(ROOT))


def take_pictures() -> None:
    """Take the pictures in the docs again, with a small palette; those of Thunderbird only where it is installed."""
    programs = {name: which(name) or "" for name in ("chromium", "convert", "thunderbird", "Xvfb", "import")}
    if not (programs["chromium"] and programs["convert"]):
        raise SystemExit("The pictures take Chromium and ImageMagick: apt-get install chromium imagemagick")
    made = list(of_letters(programs["chromium"], PICTURES))
    if all(programs.values()):
        made += in_thunderbird(programs)
    for picture in made:
        lighten(programs["convert"], picture)
        print(f"{picture.relative_to(ROOT)}  {picture.stat().st_size // 1024} KB")


def in_thunderbird(programs: Mapping[str, str]) -> Iterator[Path]:
    """Yield screenshots of the digest in Thunderbird, in light and dark mode."""
    window = Thunderbird(
        thunderbird=programs["thunderbird"],
        screen=programs["Xvfb"],
        camera=programs["import"],
        counter=programs["convert"],
    )
    mail = PICTURES / "digest.eml"
    mail.write_bytes(digest_eml())
    for is_dark in (False, True):
        picture = PICTURES / f"thunderbird-{'dark' if is_dark else 'light'}.png"
        yield window.photograph(mail, picture, is_dark=is_dark)
    mail.unlink()


if __name__ == "__main__":
    write_gallery(GALLERY)
    if "--pictures" in sys.argv[1:]:
        take_pictures()
