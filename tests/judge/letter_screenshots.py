"""Take screenshots of every letter: `python -m tests.judge.letter_screenshots` takes those in the docs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path
from shutil import which
from typing import Any

from digest.editions.compose import Digest
from digest.inbound import command_handlers
from digest.letters import (
    RenderedLetter,
    Templates,
    build_message,
    list_headers,
    make_card,
    press,
    render_letter,
    reply_headers,
)
from digest.letters.letter_templates import REQUIRED_CONTEXT
from digest.papers import Paper
from digest.site_profile import Site
from tests.judge.browser import WIDTHS, lighten, photograph
from tests.judge.thunderbird import Thunderbird
from tests.letters.invented_papers import (
    ATTENTION,
    BARE,
    FLOW,
    NOW,
    PAPERS,
    ROBOTS,
    by_topic,
    copy_for,
    pressed,
    trending,
)
from tests.support.mail_bodies import body_of
from tests.support.product_processes import ROOT

PICTURES = ROOT / "docs" / "pictures"
PHONE = 375
SITE = Site(
    name="Example Digest",
    url="https://digest.example.org",
    sender_name="Example Digest",
    sender_address="digest@example.org",
    postal_address="Example Lab, 1 Example Street, 0150 Oslo, Norway",
    keys=(b"the key of the pictures",),
    inbound_domain="example.org",
)
VIEW = "https://digest.example.org/v/2b4b1c.7-0-daily-2026-11-20.QxM3Yk9wT1pVbGFzZGZnaGpr"
WAYS = {
    name: f"https://digest.example.org/{place}/2b4b1c.7-0.QxM3Yk9wT1pVbGFzZGZnaGpr"
    for name, place in {
        "confirm_url": "c",
        "manage_url": "m",
        "unsubscribe_url": "u",
        "undo_url": "u",
    }.items()
}
#: The values of the letters besides the digest, from an invented lab.
LETTER_VALUES: Mapping[str, Any] = WAYS | {
    "dated_at": NOW,
    "next_due_at": "2026-11-23T07:00:00+00:00",
    "timezone": "Europe/Oslo",
    "invited_by": "Anna at Example Lab",
    "until": "6 January",
    "checked": 412,
    "nearest": {"title": "Robots that ask first", "href": "https://digest.example.org/papers/12", "lacked": "'diffusion'"},
    "cards": [
        make_card(paper, page=f"https://digest.example.org/papers/{paper.id}", why=("42 upvotes since yesterday",)).to_json()
        for paper in (FLOW, ROBOTS, ATTENTION)
    ],
    "answered_subject": "topics",
    "outcomes": [
        {"command": "add flows: flow matching OR diffusion", "result": command_handlers.SAVE_ON_PAGE},
        {"command": "pause 2 weeks", "result": "Paused until 4 December 2026. We keep reading; you'll get one catch-up. Write \"resume\" to come back sooner."},
    ],
    "prefilled": "name=flows&filter=flow+matching+OR+diffusion",
    "commands": command_handlers.help_lines(),
    "message": "No dump has come for three days",
    "fix": "Look into the dumps folder, or run: digest doctor",
    "since": "Tuesday 08:00",
    "facts": ["Last dump: trending-2026-11-17.txt", "Waiting: 214 readers"],
}  # fmt: skip
TOPICS = [{"name": "Flows", "filter": '"flow matching" OR diffusion'}, {"name": "Robots", "filter": "robot*"}]

#: Papers as nobody wishes for them: what they hold must stay text, and their cards must stay cards.
HOSTILE = (
    replace(
        FLOW,
        id=21,
        title='<script>alert("x")</script><img src=x onerror=alert(1)> & <b>bold</b> {{ 7*7 }}',
        abstract="</p></td></table><style>*{display:none}</style> javascript:alert(1) <cup, on, table> &amp; &lt;",
        urls=("javascript:alert(1)", "data:text/html,x"),
        ids={},
    ),
    replace(ROBOTS, id=22, title="Reversed \u202eevil\u202c and \u2066isolated\u2069 \u200bzero\u200bwidth\ufeff words"),
    replace(ROBOTS, id=23, title="Z\u0351\u036b\u0343a\u0369\u0363\u0366l\u036d\u0350\u0348g\u0356\u0353\u0323o" * 3 + " comes"),
    replace(ROBOTS, id=24, title="A title that does not end " * 40_000, abstract="Without" + "aspace" * 60),
    replace(ROBOTS, id=25, title="視覚言語モデルのための流れの照合と十二行の実装について", abstract="本論文では、流れの照合を十二行で実装できることを示す。" * 6),
    replace(ROBOTS, id=26, title="مطابقة التدفق في اثني عشر سطرا", abstract="نبين أن اثني عشر سطرا من الشفرة تكفي. " * 4),
    replace(ROBOTS, id=27, title=r"$\mathcal{O}(n^2)$ bounds for $\ell_1$ and \emph{na\"ive} $\frac{a}{b}$ {\em x} \foo{", abstract=r"We prove $x_i \leq \sum_{j=1}^{n} y_j^2$ and $M_\odot$."),
    replace(ATTENTION, id=28, title="Emoji 🤖🔥 and a family 👩‍👩‍👧 =?utf-8?q?=0ABcc:_x?=\r\nBcc: x@example.com", authors=tuple(f"Author, Number {n}" for n in range(300)), n_authors=300),
    replace(BARE, id=29, title="?", published=date(1, 1, 1)),
)  # fmt: skip


def templates() -> Templates:
    """Return our own templates."""
    return Templates(ROOT / "templates")


def digest_eml(papers: Sequence[Paper] = PAPERS, digest: Digest | None = None, **filters: str) -> bytes:
    """Return a digest as it is mailed."""
    made = pressed(SITE, templates(), papers, p11="42 upvotes since yesterday", p12="third day on the list")
    usual = by_topic(("Flows", 1, (11,)), ("Robots", 2, (12,)), ("Trending", None, (13, 14)))
    copy = copy_for(browser_url=VIEW, filters={1: '"flow matching" OR steps', 2: "robot*"})
    return press.LetterAssembler(made, SITE).message(digest or usual, copy)


def with_much_on_top() -> bytes:
    """Return a digest with the longest possible header: a sample with long topic names."""
    sample = [replace(paper, is_sample=True) for paper in PAPERS]
    topics = ("Language models and agents", "Reinforcement learning", "Robots", "Trending")
    sections = ((topic, None, (paper.id,)) for topic, paper in zip(topics, sample, strict=True))
    return html_of(digest_eml(sample, by_topic(*sections)))


def digest_of(papers: int, *, dated_at: datetime) -> bytes:
    """Return the mail of a digest of so many papers, some of them without links."""
    kinds = (ATTENTION, FLOW, ROBOTS, BARE)
    batch = [
        replace(kinds[number % 4], id=number + 1, title=f"{kinds[number % 4].title}, part {number + 1}")
        for number in range(papers)
    ]
    made, copy = pressed(SITE, templates(), batch), copy_for(dated_at=dated_at, browser_url=VIEW)
    return press.LetterAssembler(made, SITE).message(trending(*(paper.id for paper in batch)), copy)


def mails(*, dated_at: datetime) -> dict[str, bytes]:
    """Return the mail of every letter besides the digest, by kind."""
    made = {}
    for kind, letter in written().items():
        is_listed = kind in {"nothing_today", "invite", "changed"}
        about = (
            list_headers(SITE, WAYS["unsubscribe_url"], campaign=kind)
            if is_listed
            else reply_headers(answered_id="<question@example.edu>" if kind == "reply" else "")
        )
        made[kind] = build_message(
            letter, site=SITE, recipient="alice@example.edu", message_id=f"<{kind}@example.org>", dated_at=dated_at,
            headers=about,
        )  # fmt: skip
    return made


def html_of(raw: bytes) -> bytes:
    """Return the HTML of a message."""
    return body_of(raw, "html").encode()


def letters() -> dict[str, bytes]:
    """Return the HTML of every letter besides the digest, by kind."""
    return {kind: letter.html.encode() for kind, letter in written().items()}


def written() -> dict[str, RenderedLetter]:
    """Return every letter besides the digest, by kind."""
    made = {}
    for kind in REQUIRED_CONTEXT:
        topics = [topic["name"] for topic in TOPICS] if kind == "invite" else TOPICS
        made[kind] = render_letter(templates(), kind, {**LETTER_VALUES, "site": SITE, "topics": topics})
    return made


def hostile() -> bytes:
    """Return a digest of hostile papers."""
    ids = tuple(paper.id for paper in HOSTILE)
    return html_of(
        digest_eml(HOSTILE, by_topic(("<b>Topic</b> \u202eevil", 2, ids[:5]), ("Trending", None, ids[5:])))
    )


def of_letters(chromium: str, folder: Path) -> Iterator[Path]:
    """Yield screenshots of all letters: in light and dark mode, at every width, and without images."""
    digest, others = html_of(digest_eml()), list(letters().values())
    half = len(others) // 2
    walls = {f"digest-{width}": ([digest], width) for width in WIDTHS}
    walls |= {"letters-1": (others[:half], PHONE), "letters-2": (others[half:], PHONE)}
    walls |= {"hostile": ([hostile()], PHONE)}
    for name, (pages, width) in walls.items():
        for is_dark in (False, True):
            picture = folder / f"{name}-{'dark' if is_dark else 'light'}.png"
            photograph(chromium, pages, picture, width=width, is_dark=is_dark)
            yield picture
    picture = folder / "digest-375-without-images.png"
    photograph(chromium, [digest], picture, width=PHONE, has_images=False)
    yield picture


def main() -> None:
    """Take the screenshots in the docs again, with a small palette."""
    missing = [
        name for name in ("chromium", "thunderbird", "Xvfb", "import", "convert") if which(name) is None
    ]
    if missing:
        raise SystemExit(f"These pictures take {', '.join(missing)}, which this machine lacks.")
    program = {name: str(which(name)) for name in ("thunderbird", "Xvfb", "import", "convert")}
    window = Thunderbird(
        thunderbird=program["thunderbird"],
        screen=program["Xvfb"],
        camera=program["import"],
        counter=program["convert"],
    )
    mail = PICTURES / "digest.eml"
    mail.write_bytes(digest_eml())
    made = list(of_letters(str(which("chromium")), PICTURES))
    for is_dark in (False, True):
        picture = PICTURES / f"thunderbird-{'dark' if is_dark else 'light'}.png"
        made.append(window.photograph(mail, picture, is_dark=is_dark))
    mail.unlink()
    for picture in made:
        lighten(program["convert"], picture)
        print(f"{picture.relative_to(ROOT)}  {picture.stat().st_size // 1024} KB")


if __name__ == "__main__":
    main()
