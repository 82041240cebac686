"""Take the picture in the README, a digest of the sample papers: `make picture`."""

from __future__ import annotations

import tempfile
from pathlib import Path
from shutil import which

from tests.judge.browser import lighten, photograph
from tests.support.product_processes import ROOT, installation

PICTURE = ROOT / "docs" / "pictures" / "digest.png"
SAMPLE = ROOT / "digest" / "dumps" / "sample" / "invented-papers.txt"
WIDTH, HEIGHT = 640, 942  #: pixels: the upper part of the digest, down to the end of a section
TOPICS = (
    'Language models="language model*"',
    "The living world=forest OR coral OR protein* OR crop*",
)
CONSENT = ("--confirmed", "--consent", "asked at the group meeting")
FEW = ("--max-papers", "4")  #: so that the picture shows a whole section


def digest_of_the_sample(folder: Path) -> bytes:
    """Return the HTML of the digest that a reader of two topics gets from the sample on a Friday."""
    chosen = [part for topic in TOPICS for part in ("--topic", topic)]
    with installation(folder / "home") as ours:
        ours.run("intake", str(SAMPLE), "--date", "2026-11-20", "--now", "2026-11-20T06:00:00Z")
        ours.run("subscribers", "add", "ada@example.org", *chosen, *CONSENT, "--now", "2026-11-20T05:00:00Z")
        ours.run("subscribers", "edit", "ada@example.org", *FEW)
        ours.run("preview", "ada@example.org", "--out", str(folder), "--now", "2026-11-20T08:30:00Z")
    return (folder / "digest.html").read_bytes()


def take(chromium: str, picture: Path) -> None:
    """Take the picture."""
    with tempfile.TemporaryDirectory(prefix="digest-readme-") as folder:
        photograph(chromium, [digest_of_the_sample(Path(folder))], picture, width=WIDTH, at_most=HEIGHT)


def main() -> None:
    """Take the picture of the README again."""
    chromium = which("chromium")
    if chromium is None:
        raise SystemExit("The picture takes Chromium, which this machine lacks: apt-get install chromium")
    take(chromium, PICTURE)
    if convert := which("convert"):
        lighten(convert, PICTURE)
    print(f"{PICTURE.relative_to(ROOT)}  {PICTURE.stat().st_size // 1024} KB")


if __name__ == "__main__":
    main()
