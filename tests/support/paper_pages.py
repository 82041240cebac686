"""Write web pages of invented papers in the layouts of real pages, and convert them to text with many tools.

Tools that are not installed are skipped. `python -m tests.support.paper_pages` made the committed copies in
`tests/dumps/flattenings`.
"""

from __future__ import annotations

import html
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from tests.support.firefox_text import saved_by_firefox

FOLDER = Path(__file__).parents[1] / "dumps" / "flattenings"
PAGE_DAY = date(2026, 11, 19)
SITE = "https://huggingface.co"

SUBJECTS = ("gravel", "kites", "owls", "fog", "bells", "moss", "tides", "looms", "lanterns", "snow")
TITLES = (
    "Tidal Sorting of Loose {0} on Beaches That Face the Wind and on Those That Do Not",
    "{0}Bench: A Benchmark for Steering {0} without a Pilot",
    "What Do {0} Hear in the Rain?",
    "Less {0} Is More: Self-Supervised Estimates from 3 Photographs",
    "On the Number of {0} in a Tower (and Why It Is Odd)",
    "{0}-VLA: Vision-Language-Action Models for the Care of {0}",
    "2nd Place Report: Forecasting {0} with $k$ Nearest Harbours",
    "A Field Study of {0}",
    "Towards \"Quiet\" {0}: Sound-Aware Minimization",
    "{0}, Weather and Other Models",
)  # fmt: skip
SENTENCES = (
    "We study {0} in a setting that earlier work left open, with fewer than 5% of the usual labels.",
    "Our method needs no tuning, and it carries over to {0} at a larger scale without a change of a single constant.",
    "On four collections that we gathered for this purpose it halves the error of the strongest rival (3.2 < 6.5).",
    "An ablation shows which of its three state-of-the-art parts deserves the credit for that.",
    "We also describe where it fails -- in fog, at night -- and why we believe that no cross-domain method can do better.",
    "Code and the {0} data are available at https://example.org/lab/{0}-{1}.",
    "The pre- and post-processing of {0} takes less than a second on a single processor.",
)
ORGANIZATIONS = (
    ("gravelworks", "Gravel Works"),
    ("tidal-lab", "Tidal Lab"),
    ("harbour", "University of the Harbour"),
)
VOTES = (88, 101, 7, 0, 19, 1, 42, 2, 1204, 3)
COMMENTS = (6, None, 2, 1, None, None, 12, 3, None, 1)
STARS = ((3290, "3.29k"), None, (15, "15"), None, (110_000, "110k"))
AUTHORS = (12, 1, 5, 671, 2, 31, 8, 4, 3)
NAMES = ("ada", "Kenji Ito", "lind99", "per_van")


@dataclass(frozen=True, kw_only=True, slots=True)
class InventedPaper:
    """A paper as a page shows it."""

    number: int
    title: str
    abstract: str
    published: date
    upvotes: int
    comments: int | None
    stars: tuple[int, str] | None
    n_authors: int | None
    organization: tuple[str, str] | None
    submitter: str

    @property
    def arxiv(self) -> str:
        """Return the arXiv id in the paper's address."""
        return f"{self.published:%y%m}.{10_000 + self.number:05}"

    @property
    def day(self) -> str:
        """Return the paper's date as the page prints it: without the year, if it is the page's own year."""
        year = "" if self.published.year == PAGE_DAY.year else f", {self.published.year}"
        return f"{self.published:%b} {self.published.day}{year}"


def invented_papers(count: int) -> list[InventedPaper]:
    """Return invented papers, each with its own title and abstract."""
    return [invented_paper(number) for number in range(count)]


def invented_paper(number: int) -> InventedPaper:
    """Return the paper with this number."""
    subject = SUBJECTS[(number * 7 + number // 10) % 10]
    series = f" {number // 10 + 1}" if number >= 10 else ""
    chosen = [SENTENCES[(number + step) % len(SENTENCES)] for step in range(4 + number % 4)]
    is_company = number % 7 == 3
    return InventedPaper(
        number=number,
        title=TITLES[number % 10].format(subject.capitalize()) + series,
        abstract=" ".join(sentence.format(subject, number) for sentence in chosen),
        published=date(2026 - number % 3, number % 10 + 1, number % 28 + 1),
        upvotes=VOTES[number % 10],
        comments=COMMENTS[number % 9],
        stars=STARS[number % 5],
        n_authors=None if is_company else AUTHORS[number % 9],
        organization=ORGANIZATIONS[number % 3] if is_company else None,
        submitter=NAMES[number % 4],
    )


# ── pages ───────────────────────────────────────────────────────────────────────────────────────

TOP = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Daily Papers</title></head><body><header>
<a href="/"><img alt="Hugging Face's logo" src="/logo.svg"> <span>Hugging Face</span></a>
<input type="text" placeholder="Search models" name="s"><nav><ul><li><a href="/models">Models</a></li>
<li><a href="/datasets">Datasets</a></li><li><a href="/spaces">Spaces</a></li><li><a href="/storage">Buckets <span>new</span></a></li>
<li><a href="/docs">Docs</a></li><li><a href="/pricing">Pricing</a></li><li><hr></li><li><a href="/login">Log In</a></li>
<li><a href="/join">Sign Up</a></li></ul></nav></header><main><section><div><div>new</div>
<h2>Get trending papers in your email inbox once a day!</h2><p>Get trending papers in your email inbox!</p>
<a href="/login?next=%2Fpapers">Subscribe</a></div><div><h1><a href="/papers">Daily Papers</a></h1>
<h2>by<a href="/akhaliq"><img alt="" src="/papers-by.png">AK</a> and the research community</h2></div>
<div><ul><li><a href="/papers/date/2026-11-19">Daily</a></li><li><a href="/papers/week/2026-W47">Weekly</a></li>
<li><a href="/papers/month/2026-11">Monthly</a></li></ul><a href="/papers/trending">Trending Papers</a><div>Nov 19</div></div>
"""
BOTTOM = """</section><nav><ul><li><a href="/papers/date/2026-11-18">Previous</a></li><li><a href="/papers?p=0">1</a></li>
<li><a href="/papers?p=1">2</a></li><li>...</li><li><a href="/papers?p=99">100</a></li><li><a href="/papers?p=1">Next</a></li></ul></nav></main>
<footer><div>System theme</div><div>Company</div><a href="/terms">TOS</a><a href="/privacy">Privacy</a><a href="/about">About</a>
<a href="/careers">Careers</a><div>Website</div><a href="/models">Models</a><a href="/datasets">Datasets</a><a href="/spaces">Spaces</a>
<a href="/pricing">Pricing</a><a href="/docs">Docs</a></footer></body></html>"""


def page(shape: str, papers: Iterable[InventedPaper]) -> str:
    """Return the page of these papers in HTML."""
    cards = "".join(CARDS[shape](paper) for paper in papers)
    return re.sub(r'(href|src)="/', rf'\1="{SITE}/', TOP + cards + BOTTOM)


def votes_of(paper: InventedPaper) -> str:
    """Return the button that shows a paper's upvotes."""
    return (
        f'<div><a href="/login?next=%2Fpapers%2F{paper.arxiv}"><div><input type="checkbox" disabled> <svg></svg> '
        f"<div>{paper.upvotes or '-'}</div></div></a></div>"
    )


def byline_of(paper: InventedPaper) -> str:
    """Return the organisation or the pictures and the number of the authors."""
    if paper.organization is not None:
        handle, name = paper.organization
        return f'<a href="/{handle}"><img alt="{handle}" src="/{handle}.png"> <span>{name}</span></a>'
    pictures = "".join(f'<li><img alt="" src="/{n}.svg"></li>' for n in range(min(3, paper.n_authors or 0)))
    return f'<a href="/papers/{paper.arxiv}"><ul>{pictures}<li><div>{paper.n_authors} authors</div></li></ul></a>'


def comments_of(paper: InventedPaper) -> str:
    """Return the link to the comments with their number."""
    shown = f'<a href="/papers/{paper.arxiv}#community"><svg></svg> {paper.comments}</a>'
    return shown if paper.comments else ""


def stars_of(paper: InventedPaper) -> str:
    """Return the link to the repository with its stars."""
    address = f"https://github.com/lab/code-{paper.number}"
    return f'<a href="{address}"><span>GitHub</span> <span>{paper.stars[1]}</span></a>' if paper.stars else ""


def result_card(paper: InventedPaper) -> str:
    """Return the card of a paper among search results."""
    address = f"/papers/{paper.arxiv}"
    return (
        f'<article><div>{votes_of(paper)}<div><h3><a href="{address}">{html.escape(paper.title)}</a></h3>\n'
        f'<p><a href="{address}">{html.escape(paper.abstract)}</a></p><div>{byline_of(paper)} <div>·</div> '
        f"<div><time>{paper.day}</time>{comments_of(paper)}</div></div></div></div></article>\n"
    )


def picture_card(paper: InventedPaper) -> str:
    """Return the card of a paper with a picture, the person who submitted it, and stars."""
    address = f"/papers/{paper.arxiv}"
    return (
        f'<article><a href="{address}"><img alt="thumbnail" src="/thumbnails/{paper.arxiv}.png"></a>\n'
        f'<div><img alt="" src="/avatars/s.svg"> Submitted by <div>{paper.submitter}</div></div>\n<div>{votes_of(paper)}'
        f'<div><h3><a href="{address}">{html.escape(paper.title)}</a></h3><p><a href="{address}">{html.escape(paper.abstract)}</a>'
        f"</p>\n<div>{byline_of(paper)} <div>·</div> <div>{paper.day}</div>{comments_of(paper)} {stars_of(paper)}</div></div></div></article>\n"
    )


def line_card(paper: InventedPaper) -> str:
    """Return the card of a paper on another site: the figures on one line between title and abstract."""
    handle, name = paper.organization or ("", "")
    byline = (
        f'<a href="/{handle}"><img alt="{handle}" src="/{handle}.png"> {name}</a>'
        if name
        else f"<span>{paper.n_authors} authors</span>"
    )
    comments = f" · 💬 {paper.comments}" if paper.comments else ""
    return (
        f'<div><div><a href="https://arxiv.org/abs/{paper.arxiv}"><b>{html.escape(paper.title)}</b></a></div>'
        f"<div>{byline} · {paper.day} · <span>▲ {paper.upvotes}</span>{comments}</div><div>{html.escape(paper.abstract)}</div></div>\n"
    )


CARDS: dict[str, Callable[[InventedPaper], str]] = {
    "results": result_card,
    "pictures": picture_card,
    "lines": line_card,
}
SHAPES_WITH_STARS = frozenset(["pictures"])

# ── tools ───────────────────────────────────────────────────────────────────────────────────────

UTF8 = ("-assume_charset=utf-8", "-display_charset=utf-8")
COMMANDS: dict[str, tuple[str, ...]] = {
    "lynx": ("lynx", "-dump", *UTF8),
    "lynx-nolist": ("lynx", "-dump", "-nolist", *UTF8),
    "w3m": ("w3m", "-dump", "-I", "UTF-8", "-O", "UTF-8", "-T", "text/html"),
    "w3m-links": ("w3m", "-dump", "-o", "display_link_number=1", "-I", "UTF-8", "-O", "UTF-8", "-T", "text/html"),
    "elinks": ("elinks", "-dump", "-dump-charset", "utf-8"),
    "elinks-nolist": ("elinks", "-dump", "-no-references", "-no-numbering", "-dump-charset", "utf-8"),
    "pandoc-plain": ("pandoc", "-f", "html", "-t", "plain"),
    "pandoc-gfm": ("pandoc", "-f", "html", "-t", "gfm"),
    "pandoc-markdown": ("pandoc", "-f", "html", "-t", "markdown"),
}  # fmt: skip
#: Tools written in Python: the module that must be installed, and the code that prints the text of `page`.
SCRIPTS: dict[str, tuple[str, str]] = {
    "html2text": ("html2text", "print(html2text.html2text(page))"),
    "html2text-nolinks": (
        "html2text",
        "h = html2text.HTML2Text(); h.ignore_links = h.ignore_images = True; print(h.handle(page))",
    ),
    "inscriptis": ("inscriptis", "print(inscriptis.get_text(page))"),
    "inscriptis-links": (
        "inscriptis",
        "from inscriptis.model.config import ParserConfig\n"
        "print(inscriptis.get_text(page, ParserConfig(display_links=True)))",
    ),
    "beautifulsoup": ("bs4", "print(bs4.BeautifulSoup(page, 'lxml').get_text('\\n', strip=True))"),
    "markdownify": ("markdownify", "print(markdownify.markdownify(page))"),
    "html-text": ("html_text", "print(html_text.extract_text(page))"),
    "trafilatura": ("trafilatura", "print(trafilatura.extract(page, favor_recall=True) or '')"),
    "readability": (
        "readability",
        "import html_text; print(html_text.extract_text(readability.Document(page).summary()))",
    ),
}
TOOLS = (*COMMANDS, *SCRIPTS)
#: Other settings of these tools, which only the benchmark measures.
MORE_COMMANDS: dict[str, tuple[str, ...]] = {
    "pandoc-nowrap": ("pandoc", "-f", "html", "-t", "gfm-raw_html", "--wrap=none"),
}
MORE_SCRIPTS: dict[str, tuple[str, str]] = {
    "html2text-nowrap": ("html2text", "h = html2text.HTML2Text(); h.body_width = 0; print(h.handle(page))"),
    "beautifulsoup-plain": ("bs4", "print(bs4.BeautifulSoup(page, 'lxml').get_text())"),
    "markdownify-atx": ("markdownify", "print(markdownify.markdownify(page, heading_style='ATX'))"),
    "trafilatura-markdown": (
        "trafilatura",
        "print(trafilatura.extract(page, output_format='markdown', include_links=True, favor_recall=True) or '')",
    ),
    "readability-markdown": (
        "readability",
        "import markdownify; print(markdownify.markdownify(readability.Document(page).summary(), heading_style='ATX'))",
    ),
}
#: What a browser copies when everything is selected: the page replaces itself with its own visible text.
BROWSER = "browser"
BROWSER_SCRIPT = """<script>window.onload = () => { const text = document.body.innerText;
document.documentElement.innerHTML = '<body><pre id="copy"></pre></body>';
document.getElementById('copy').textContent = text; }</script></body>"""
FIREFOX = "firefox"  #: what Firefox saves as text
COPIED = (*TOOLS, FIREFOX)  #: tools whose copies are committed
ALL_TOOLS = (*COMMANDS, *MORE_COMMANDS, *SCRIPTS, *MORE_SCRIPTS, BROWSER, FIREFOX)


def copied(tool: str, content: str, *, python: str = sys.executable) -> str | None:
    """Return what a tool or a browser makes of a page, or None if it is not installed."""
    if tool == BROWSER:
        return copied_by_browser(content)
    return saved_by_firefox(content) if tool == FIREFOX else flattened(tool, content, python=python)


def copied_by_browser(content: str) -> str | None:
    """Return the text that Chromium shows for a page, or None if it is not installed."""
    if shutil.which("chromium") is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "page.html")
        path.write_text(content.replace("</body>", BROWSER_SCRIPT))
        command = [
            "chromium",
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            f"--user-data-dir={folder}/profile",
        ]
        command += ["--virtual-time-budget=5000", "--dump-dom", path.as_uri()]
        done = subprocess.run(command, capture_output=True, timeout=300, check=False)
    found = re.search(r'<pre id="copy">(.*)</pre>', done.stdout.decode(errors="replace"), re.DOTALL)
    return html.unescape(found[1]) if found else None


def flattened(tool: str, content: str, *, python: str = sys.executable) -> str | None:
    """Return the text that a tool makes of a page, or None if the tool is not installed."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "page.html")
        path.write_text(content)
        if tool in COMMANDS | MORE_COMMANDS:
            command: Sequence[str] = (*(COMMANDS | MORE_COMMANDS)[tool], str(path))
            if shutil.which(command[0]) is None:
                return None
        else:
            module, script = (SCRIPTS | MORE_SCRIPTS)[tool]
            program = f"import sys, {module}\npage = open(sys.argv[1]).read()\n{script}"
            command = (python, "-c", program, str(path))
        done = subprocess.run(command, capture_output=True, timeout=300, check=False)
    text = done.stdout.decode(errors="replace").replace(f"file://{folder}", "")
    return text if done.returncode == 0 else None


def write_copies(python: str) -> None:
    """Write the committed copies of pages with ten papers."""
    for shape in CARDS:
        content = page(shape, invented_papers(10))
        for tool in COPIED:
            text = copied(tool, content, python=python)
            if text is not None:
                target = FOLDER / shape / f"{tool}.txt"
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(text)


if __name__ == "__main__":
    write_copies(*sys.argv[1:2] or (sys.executable,))
