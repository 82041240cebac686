"""Render every letter from the real templates with invented data, and take screenshots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path
from typing import Any

from msgspec import structs

from digest.editions.compose import Digest, Section
from digest.editions.schedule import Cadence, Schedule
from digest.inbound import mail_commands, reader_commands
from digest.letters import figures_in_words
from digest.letters.cards import make_card
from digest.letters.headers import list_headers, reply_headers
from digest.letters.letter_rendering import Personalization, render_letter
from digest.letters.mime import RenderedLetter, build_message
from digest.letters.press.digest_letters import DigestLetters
from digest.letters.reason_lines import ReasonLine
from digest.letters.templates import Templates
from digest.monitoring import operator_letters
from digest.monitoring.activity import Activity, Series
from digest.papers.paper_record import Paper
from digest.site.site_profile import Site
from tests.judge.browser import WIDTHS, photograph
from tests.letters.invented_papers import (
    ATTENTION,
    BARE,
    FLOW,
    NOW,
    PAPERS,
    ROBOTS,
    by_topic,
    copy_for,
    letters_of,
    pressed,
    trending,
)
from tests.support.letter_kinds import REQUIRED_CONTEXT
from tests.support.mail_bodies import body_of
from tests.support.product_processes import ROOT

PHONE = 375
WALL_LENGTH = 8  #: letters side by side in one picture
SITE = Site(
    name="Example Digest",
    url="https://digest.example.org",
    sender_name="Example Digest",
    sender_address="digest@example.org",
    postal_address="Example Lab, 1 Example Street, 0150 Oslo, Norway",
    keys=(b"the key of the pictures",),
    inbound_domain="example.org",
)
SUBJECTS = (
    "Robots", "Vector fields", "Long-context language models", "Telescopes", "Graph networks for protein folding",
    "Small models",
)  # fmt: skip
VIEW = "https://digest.example.org/v/2b4b1c.7-0-daily-2026-11-20.QxM3Yk9wT1pVbGFzZGZnaGpr"
PAPER_TOKEN = "2b4b1c.7-0.QxM3Yk9wT1pVbGFzZGZnaGpr"
WAYS = {
    name: f"https://digest.example.org/{place}/2b4b1c.7-0.QxM3Yk9wT1pVbGFzZGZnaGpr"
    for name, place in {
        "confirm_url": "c",
        "manage_url": "m",
        "unsubscribe_url": "u",
        "undo_url": "u",
        "account_url": "d",
        "new_address_url": "e",
    }.items()
}
IN_THREAD = frozenset(
    {"reply", "no_command", "how_to_subscribe"}
)  #: letters in the thread of a reader's mail


def stored_cards(*whys: str) -> list[dict[str, Any]]:
    """Return three cards with these reasons, as a decision stores them."""
    papers = (FLOW, ROBOTS, replace(ATTENTION, published=date(2026, 11, 18), categories=("cs.CL",)))
    return [
        make_card(
            paper, page=f"https://digest.example.org/papers/{paper.id}", why=ReasonLine(before=why)
        ).to_json()
        for paper, why in zip(papers, whys, strict=True)
    ]


#: The weekly report of a service that grows.
WEEK = operator_letters.letter_values(
    Activity(
        days=tuple(date(2026, 11, day) for day in range(9, 16)),
        series=(
            Series(name="dumps loaded", per_day=(1, 1, 1, 1, 1, 0, 0), before=5),
            Series(name="new papers", per_day=(312, 287, 344, 301, 298, 0, 0), before=1489),
            Series(name="digests sent", per_day=(1204, 1206, 1207, 1211, 1213, 0, 0), before=5790),
            Series(name="digests without papers", per_day=(12, 9, 11, 14, 10, 0, 0), before=61),
            Series(name="bounces", per_day=(2, 0, 1, 0, 0, 0, 0), before=9),
            Series(name="sign-ups", per_day=(4, 2, 6, 3, 5, 1, 0), before=0),
        ),
        active=1231,
        doubts=1,
    )
)
#: The values of the letters besides the digest, from an invented lab.
LETTER_VALUES: Mapping[str, Any] = WAYS | {
    "dated_at": NOW,
    "next_due_at": "2026-11-23T07:00:00+00:00",
    "timezone": "Europe/Oslo",
    "email": "ada@uni.example",
    "moved_to": "a•••@new.example",
    "requested": figures_in_words.requested_digest(Cadence.WEEKDAYS, ["Flows", "Robots that ask"]),
    "schedule": figures_in_words.schedule_in_words(Schedule(cadence=Cadence.WEEKDAYS, timezone="Europe/Oslo")),
    "invited_by": "Anna at Example Lab",
    "until": "6 January 2027",
    "checked": 412,
    "nearest": {"title": "Robots that ask first", "href": "https://digest.example.org/papers/12", "lacked": "diffusion", "is_text": True},
    "until_then": figures_in_words.welcome_papers_sentence(3, is_on_topics=True, is_from_today=True),
    "is_on_topics": True,
    "cards": stored_cards("42 upvotes since yesterday", "17 upvotes since yesterday", "Listed three days running"),
    "answered_subject": "topics",
    "outcomes": [
        {"command": "add flows: flow matching OR diffusion", "result": "Open the link below and press Save to confirm."},
        {"command": "pause 2 weeks", "result": "Paused until 4 December 2026. The digest after that will include the best papers you missed. Write “resume” to end the pause sooner."},
    ],
    "prefilled": "name=flows&filter=flow+matching+OR+diffusion",
    "state": ["Your digest: Monday to Friday at 08:00, Oslo, on Flows and Robots that ask."],
    **reader_commands.help_values(),
    "examples": reader_commands.help_lines(mail_commands.EXAMPLE_KINDS),
    "word": mail_commands.Subscribe.words[0],
    "example": mail_commands.Subscribe.usage,
    "writer": "ada@uni.example",
    "mail_subject": "Who chooses the papers?",
    "lines": ["Hello,", "who chooses the papers, and may I use your lists in a study?", "Kind regards", "Ada"],
    "address": "lab@lists.example",
    "problem": "",
    "message": "No dump has come for three days",
    "fix": "See what arrived last: digest dumps list, digest sources list. Poll a source now: digest sources poll SOURCE.",
    "since": "2026-11-17 08:00 UTC",
    "facts": ["Last dump: trending-2026-11-17.txt", "Waiting: 214 readers"],
    **WEEK,
}  # fmt: skip
TOPICS = [
    {"name": "Flows", "filter": '"flow matching" OR diffusion'},
    {"name": "Robots that ask", "filter": "robot* AND ask*"},
]
TRENDING_ANYWAY = {
    "title": "Attention that forgets",
    "href": "https://digest.example.org/papers/13",
    "lacked": "",
    "is_text": False,
}
NEWS = [
    {
        "title": "Flow matching in twelve lines",
        "href": "https://digest.example.org/papers/11",
        "text": figures_in_words.followup_text("published", "Journal of Invented Results 12 (2026)"),
    }
]
PACK = {"name": "lab", "version": 12, "puts_back": None}
#: Letters with different sentences in other cases, as (name, kind, values that differ).
OTHER_CASES: Sequence[tuple[str, str, Mapping[str, Any]]] = (
    (
        "welcome, without topics",
        "welcome",
        {
            "has_topics": False,
            "is_on_topics": False,
            "until_then": figures_in_words.welcome_papers_sentence(3, is_on_topics=False, is_from_today=True),
            "cards": stored_cards(
                "214 upvotes, 42 of them since yesterday", "97 upvotes", "Listed three days running"
            ),
        },
    ),
    ("nothing today, trending anyway", "nothing_today", {"nearest": TRENDING_ANYWAY}),
    ("nothing today, with updates", "nothing_today", {"nearest": TRENDING_ANYWAY, "news": NEWS}),
    ("updates alone", "nothing_today", {"checked": 0, "nearest": None, "news": NEWS}),
    ("changed, to none", "changed", {"topics": ()}),
    (
        "changed, a pack",
        "changed",
        {
            "pack": PACK,
            "next_due_at": None,
            "topics": [{"name": "Flows", "filter": "use:lab/flows", "days": 30, "gained": 12, "lost": 3}],
        },
    ),
    ("paused, until resumed", "paused", {"until": ""}),
    (
        "reply, to an unclear request",
        "reply",
        {
            "outcomes": [
                {
                    "command": "please stop",
                    "result": "Do you want to unsubscribe? Then use the link below. Nothing has changed yet.",
                }
            ],
            "asks_to_unsubscribe": True,
            "prefilled": "",
            "state": [
                "Your digest: Monday to Friday at 08:00, Oslo, on Flows and Robots that ask.",
                "It is paused until 4 December 2026. To end the pause sooner, write “resume”.",
            ],
        },
    ),
    (
        "reply, to a confirmed sender",
        "reply",
        {
            "outcomes": [{"command": "add flows: flow matching", "result": "Added: flows."}],
            "prefilled": "",
            "is_changed": True,
            "state": [
                "Your digest: Monday to Friday at 08:00, Oslo, on flows.",
                "Next digest: Monday 08:00, Oslo.",
            ],
        },
    ),
    ("confirm, after a reply without yes", "confirm", {"is_answer": True}),
    ("weekly report, of a quiet week", "weekly_report", {"rows": [], "summary": "0 active subscribers now."}),
    ("confirm, by the owner of a group", "confirm", {"group": "lab@lists.example"}),
    ("settings link, of a group", "settings_link", {"group": "lab@lists.example"}),
)

GROUP_DIGEST = "digest, for a group"
#: The names of the letters that every judge reads, besides a reader's digest.
JUDGED = (
    *REQUIRED_CONTEXT, GROUP_DIGEST, "confirm, by the owner of a group",
    "settings link, of a group",
)  # fmt: skip

#: Six answers to mail, by the names of their cases.
ANSWERS = (
    "reply, to a confirmed sender",
    "help",
    "no command",
    "how to subscribe",
    "passed on",
    "confirm, after a reply without yes",
)

#: Hostile papers, which must be shown as plain text and must not break their cards.
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


def digest_eml(papers: Sequence[Paper] = PAPERS, digest: Digest | None = None) -> bytes:
    """Return a digest as it is mailed."""
    letters, content, copy = parts_of_digest(papers, digest)
    return letters.message(content, copy)


def parts_of_digest(
    papers: Sequence[Paper] = PAPERS, digest: Digest | None = None, **changes: Any
) -> tuple[DigestLetters, Digest, Personalization]:
    """Return the values from which a digest is assembled."""
    made = pressed(papers, p11="42 upvotes since yesterday", p12="listed three days running")
    usual = by_topic(("Flows", 1, (11,)), ("Robots that ask", 2, (12,)), ("Trending", None, (13, 14)))
    values = {"filters": {1: '"flow matching" OR steps', 2: "robot*"}, "paper_token": PAPER_TOKEN, **changes}
    copy = copy_for(browser_url=VIEW, **values)
    return letters_of(made, SITE, templates()), digest or usual, copy


def digest_letter(*content: Any, **changes: Any) -> RenderedLetter:
    """Return a digest as one letter among the others."""
    letters, digest, copy = parts_of_digest(*content, **changes)
    return letters.letter(digest, copy)


def digest_of(papers: int, *, dated_at: datetime) -> bytes:
    """Return the message for a digest of this many papers, some of them without links."""
    kinds = (ATTENTION, FLOW, ROBOTS, BARE)
    batch = [
        replace(kinds[number % 4], id=number + 1, title=f"{kinds[number % 4].title}, part {number + 1}")
        for number in range(papers)
    ]
    made, copy = (
        pressed(batch),
        copy_for(dated_at=dated_at, browser_url=VIEW, paper_token=PAPER_TOKEN),
    )
    return letters_of(made, SITE, templates()).message(trending(*(paper.id for paper in batch)), copy)


def mails(*, dated_at: datetime) -> dict[str, bytes]:
    """Return the message of every judged letter, by kind."""
    made = {}
    for kind, letter in judged().items():
        is_listed = kind in {"nothing_today", "invite", "changed"}
        about = (
            list_headers(SITE, WAYS["unsubscribe_url"], campaign=kind)
            if is_listed
            else reply_headers(answered_id="<question@example.edu>" if kind in IN_THREAD else "")
        )
        made[kind] = build_message(
            letter, site=SITE, recipient="alice@example.edu", message_id=f"<{kind.replace(',', '').replace(' ', '-')}@example.org>", dated_at=dated_at,
            headers=about,
        )  # fmt: skip
    return {**made, GROUP_DIGEST: group_digest(dated_at=dated_at)[1]}


def html_of(raw: bytes) -> bytes:
    """Return the HTML of a message."""
    return body_of(raw, "html").encode()


def letters() -> dict[str, bytes]:
    """Return the HTML of every judged letter, by kind."""
    return {kind: letter.html.encode() for kind, letter in judged().items()}


def judged() -> dict[str, RenderedLetter]:
    """Return every letter besides a reader's digest by kind, and the letters of groups."""
    of_groups = {name: write(kind, **changes) for name, kind, changes in OTHER_CASES if name in JUDGED}
    return {**written(), **of_groups, GROUP_DIGEST: group_digest()[0]}


def written() -> dict[str, RenderedLetter]:
    """Return every letter besides the digest, by kind."""
    return {kind: write(kind) for kind in REQUIRED_CONTEXT}


def write(kind: str, **changes: Any) -> RenderedLetter:
    """Return one letter."""
    topics = [topic["name"] for topic in TOPICS] if kind == "invite" else TOPICS
    return render_letter(templates(), kind, {**LETTER_VALUES, "site": SITE, "topics": topics, **changes})


def all_cases() -> dict[str, RenderedLetter]:
    """Return digests and every other letter, in each case in which their sentences differ, by name."""
    catch_up = structs.replace(trending(11, 12, 13), is_catch_up=True, matched=212)
    hostile_papers = HOSTILE, digest_of_hostile()
    return {
        "digest": digest_letter(),
        "digest, one topic": digest_letter(digest=one_topic()),
        "digest, one paper": digest_letter(digest=by_topic(("Flows", 1, (11,)))),
        "digest, weekly": digest_letter(edition="weekly-2026-W47"),
        "digest, long weekly": digest_letter(*long_week(), edition="weekly-2026-W47"),
        "digest, catch-up": digest_letter(digest=catch_up),
        GROUP_DIGEST: group_digest()[0],
        **{kind.replace("_", " "): letter for kind, letter in written().items()},
        **{name: write(kind, **changes) for name, kind, changes in OTHER_CASES},
        "digest of hostile papers": digest_letter(*hostile_papers),
    }


def group_digest(**changes: Any) -> tuple[RenderedLetter, bytes]:
    """Return a digest for a mailing list, and its message."""
    letters, digest, copy = parts_of_digest(**changes)
    shared = structs.replace(
        copy,
        recipient="lab@lists.example", is_group=True, unsubscribe_url="", manage_url="", paper_token="",
    )  # fmt: skip
    return letters.letter(digest, shared), letters.message(digest, shared)


def one_topic() -> Digest:
    """Return a digest of one topic of which not all matches are shown."""
    return Digest(sections=(Section(topic="Flows", filter_id=1, papers=(11, 12, 13), more=9),), checked=412)


def long_week() -> tuple[list[Paper], Digest]:
    """Return more papers than fit on a screen, and their digest."""
    titles = [f"{subject} that {does}" for does in ("ask first", "wait", "forget") for subject in SUBJECTS]
    batch = [replace(PAPERS[number % 3], id=31 + number, title=title) for number, title in enumerate(titles)]
    ids = [paper.id for paper in batch]
    return batch, by_topic(("Flows", 1, tuple(ids[:10])), ("Robots that ask", 2, tuple(ids[10:])))


def hostile() -> bytes:
    """Return a digest of hostile papers."""
    return html_of(digest_eml(HOSTILE, digest_of_hostile()))


def digest_of_hostile() -> Digest:
    """Return the content of a digest of hostile papers."""
    ids = tuple(paper.id for paper in HOSTILE)
    return by_topic(("<b>Topic</b> \u202eevil", 2, ids[:5]), ("Trending", None, ids[5:]))


def of_letters(chromium: str, folder: Path) -> Iterator[Path]:
    """Yield screenshots of all letters: in light and dark mode, at every width, and without images."""
    pages = {name: letter.html.encode() for name, letter in all_cases().items()}
    others = [page for name, page in pages.items() if not name.startswith("digest")]
    walls = {f"digest-{width}": ([pages["digest"]], width) for width in WIDTHS}
    walls |= {
        f"letters-{place}": (others[start : start + WALL_LENGTH], PHONE)
        for place, start in enumerate(range(0, len(others), WALL_LENGTH), start=1)
    }
    walls |= {"answers": ([pages[name] for name in ANSWERS], PHONE)}
    walls |= {"hostile": ([pages["digest of hostile papers"]], PHONE)}
    for name, (shown, width) in walls.items():
        for is_dark in (False, True):
            picture = folder / f"{name}-{'dark' if is_dark else 'light'}.png"
            photograph(chromium, shown, picture, width=width, is_dark=is_dark)
            yield picture
    picture = folder / "digest-375-without-images.png"
    photograph(chromium, [pages["digest"]], picture, width=PHONE, has_images=False)
    yield picture
