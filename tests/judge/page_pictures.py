"""Take the pictures of the pages in the docs again: `make pages`."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from shutil import which

from tests.judge import test_journeys
from tests.judge.browser import lighten
from tests.judge.installed_programs import npm_package
from tests.judge.journey_walks import BrowserPrograms
from tests.support.product_processes import ROOT

PICTURES = ROOT / "docs" / "pictures"
HEIGHTS = {"phone": 1700, "desktop": 1300}  #: pixels of the upper part of a page
#: Names of the pictures, with the journey, its step, its device and its color scheme.
SHOWN = {
    "page-topics-desktop-light": ("chips", "preview-chips", "desktop", "light"),
    "page-confirm-desktop-light": ("chips", "confirm", "desktop", "light"),
    "page-confirmed-desktop-light": ("chips", "confirmed", "desktop", "light"),
    "page-papers-phone-light": ("papers", "preview-papers", "phone", "light"),
    "page-papers-phone-dark": ("papers", "preview-papers", "phone", "dark"),
}


def main() -> None:
    """Walk the journeys and keep the pictures, with a small palette where ImageMagick is installed."""
    node, chromium = which("node"), which("chromium")
    if node is None or chromium is None:
        raise SystemExit("The pictures take Chromium and Node.js: apt-get install chromium nodejs")
    axe = npm_package("axe-core") / "axe.min.js"
    with tempfile.TemporaryDirectory(prefix="digest-pages-") as name:
        folder = Path(name)
        programs = BrowserPrograms(node=node, chromium=chromium, axe=axe)
        with test_journeys.running(folder, programs) as site:
            for journey, device, scheme in sorted({(one[0], one[2], one[3]) for one in SHOWN.values()}):
                site.walk((journey, device, scheme, True), pictures=str(folder), most=HEIGHTS[device])
        for picture, (_, step, device, scheme) in SHOWN.items():
            keep(folder / f"{step}-{device}-{scheme}.png", PICTURES / f"{picture}.png")


def keep(taken: Path, picture: Path) -> None:
    """Copy a picture to the docs."""
    shutil.copyfile(taken, picture)
    if convert := which("convert"):
        with suppress(subprocess.CalledProcessError):
            lighten(convert, picture)
    print(f"{picture.relative_to(ROOT)}  {picture.stat().st_size // 1024} KB")


if __name__ == "__main__":
    main()
