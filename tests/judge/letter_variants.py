"""Render letters in unusual cases and digests of unusual papers or days, for the gallery."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from typing import Any

from msgspec import structs

from digest.editions.compose import Digest, FollowUp, Section
from digest.letters import figures_in_words
from digest.letters.mime import RenderedLetter
from digest.papers.paper_record import Organization, Paper
from tests.judge.letter_screenshots import (
    PACK,
    PAPER_TOKEN,
    SITE,
    SUBJECTS,
    TRENDING_ANYWAY,
    VIEW,
    templates,
    write,
)
from tests.letters.invented_papers import (
    ATTENTION,
    BARE,
    FLOW,
    PAPERS,
    ROBOTS,
    by_topic,
    copy_for,
    letters_of,
    pressed,
    trending,
)

WEEKLY, MONTHLY = "weekly-2026-W47", "monthly-2026-11"
LONG_ABSTRACT = (
    "Maps of the sea floor are made by ships that pass once in a decade. This paper introduces a drifting "
    "sensor that maps while it sleeps, and a schedule that wakes it only above unknown ground. In a trial of "
    "six months, forty sensors mapped an area of 1,200 square kilometres with 3% of the energy of one ship. "
    "We also describe two failures, both caused by barnacles, and how a new coating prevents them."
)
#: Papers with names, titles and abstracts that are hard to print.
UNUSUAL = (
    replace(
        FLOW, id=41, title="قياس التدفق في الأنهار الموسمية بكاميرا هاتف واحدة",
        abstract="نقدم طريقة لقياس التدفق في الأنهار الموسمية. نبين أن كاميرا هاتف واحدة تكفي.",
        authors=("محمد بن سلمان الحربي", "ليلى حداد", "יעל כהן"), n_authors=5, urls=(),
        organization=Organization(handle="riyadh", name="جامعة الرياض المخترعة"),
    ),
    replace(ROBOTS, id=42, authors=("Nguyễn Văn An", "de la Cruz Ortega, María", "van der Berg, J. P."), n_authors=3),
    replace(
        ROBOTS, id=43, title="A lamp that learns when to be dark", abstract="The lamp learns from two weeks of switching. It is wrong once a night.",
        summary_by="Hugging Face", authors=("The LUMEN Collaboration",), n_authors=None, urls=("https://github.com/example/lamp",),
    ),
    replace(FLOW, id=44, title="Sleeping sensors map the sea floor", abstract=LONG_ABSTRACT, categories=("physics.ao-ph",), authors=("李小龙", "田中さくら"), n_authors=2),
    replace(ATTENTION, id=45, published=date(1998, 3, 1), authors=("Lind, Per",), n_authors=1),
    replace(BARE, id=46, title="Untitled"),
    replace(
        FLOW, id=47, abstract="We bound $\\|x_t\\|_2 \\le e^{-\\lambda t}$ -- see~\\cite{a} -- for all $t>0$.",
        title="On the Convergence of Second-Order Methods for Non-Convex Problems with Heavy-Tailed Noise and Delayed, Partially Observed Gradients: A Tutorial, a Survey and Three New Results",
    ),
)  # fmt: skip
FIGURES = {
    "p11": "214 upvotes, 42 of them since yesterday",
    "p12": "listed three days running",
    "p13": "97 upvotes",
    "p41": "1 upvote",
    "p44": "1,204 upvotes, 310 of them since yesterday",
}
LONG_TOPICS = (
    "Retrieval-augmented generation for long clinical documents in low-resource languages",
    "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft",
    "papers.example.org/lists",
    "Mara Lindqvist", "Small models", "機械学習", "تعلم الآلة", "Vision", "Robots",
)  # fmt: skip
NEWS = (
    FollowUp(11, "withdrawn", FLOW.title, "The proof of Lemma 3 is wrong"),
    FollowUp(12, "withdrawn", ROBOTS.title, ""),
    FollowUp(13, "published", ATTENTION.title, "Journal of Invented Results 12 (2026)"),
    FollowUp(14, "rewritten", "A paper of which we now know more", BARE.title),
    FollowUp(15, "rewritten", "Grasping without looking", ""),
)


def letter_variants() -> dict[str, RenderedLetter]:
    """Return letters in unusual cases, and digests of unusual papers or days, by name."""
    restored = {"name": "Flows", "filter": "use:lab/flows", "days": 1, "gained": 0, "lost": 1}
    return {
        "changed, a restored pack": write("changed", pack={**PACK, "puts_back": 10}, next_due_at=None, topics=[restored]),
        "nothing today, after two silent weeks": write("nothing_today", is_wanted=False, has_topics=False, nearest=TRENDING_ANYWAY),
        "reminder, to a group": write("reminder", owner="kari@uni.example"),
        "no command, passed on": write("no_command", is_passed_on=True),
        **digest_variants(),
    }  # fmt: skip


def digest_variants() -> dict[str, RenderedLetter]:
    """Return digests of unusual papers or days, by name."""
    usual = by_topic(("Flows", 1, (11,)), ("Robots that ask", 2, (12,)), ("Trending", None, (13, 14)))
    short_list = figures_in_words.short_list_note(40)
    missing = figures_in_words.missing_lists_note(("hf-daily", "arxiv:cs.LG"))
    sixty, hundred = batch_of(60), batch_of(100)
    return {
        "digest, of unusual papers": letter(UNUSUAL, trending(*(one.id for one in UNUSUAL))),
        "digest, one unusual paper": letter(UNUSUAL, by_topic(("Rivers", 1, (41,)))),
        "digest, one bare paper": letter(digest=trending(14, checked=1)),
        "digest, of a short list": letter(digest=usual, note=short_list),
        "digest, of a late list": letter(digest=trending(11, 12), note=missing),
        "digest, without figures or links": letter(digest=usual, has_figures=False, browser_url="", paper_token=""),
        "digest, with updates": letter(digest=structs.replace(usual, news=NEWS)),
        "digest, still reading": letter(digest=structs.replace(trending(11), asks_still_reading=True)),
        "digest, of long topics": letter(PAPERS, by_topic(*((name, 1, (11 + place % 4,)) for place, name in enumerate(LONG_TOPICS)))),
        "digest, titles only": letter(digest=structs.replace(usual, abstracts="titles")),
        "digest, whole abstracts": letter(UNUSUAL, structs.replace(trending(44, 43), abstracts="full")),
        "digest, ten trending": letter((*PAPERS, *UNUSUAL), trending(11, 12, 13, 14, 41, 42, 43, 44, 45, 47)),
        "digest, sixty papers weekly": letter(sixty, by_topic(("Flows", 1, ids(sixty[:35])), ("Robots that ask", 2, ids(sixty[35:]))), edition=WEEKLY),
        "digest, a hundred papers daily": letter(hundred, trending(*ids(hundred), more=31)),
        "digest, monthly of one": letter(digest=trending(11), edition=MONTHLY),
        "digest, weekly of two": letter(digest=by_topic(("Flows", 1, (11,)), ("Robots", 2, (12,))), edition=WEEKLY),
        "digest, catch-up of one": letter(digest=structs.replace(trending(11), is_catch_up=True, matched=40)),
        "digest, catch-up of all": letter(digest=structs.replace(usual, is_catch_up=True, matched=4)),
        "digest, sample": letter([replace(one, is_sample=True) for one in PAPERS], trending(11, 12)),
    }  # fmt: skip


def letter(
    papers: Sequence[Paper] = PAPERS,
    digest: Digest | None = None,
    *,
    note: str = "",
    has_figures: bool = True,
    **changes: Any,
) -> RenderedLetter:
    """Return a digest of these papers as its reader gets it."""
    made = pressed(papers, **(FIGURES if has_figures else {}))
    values = {"filters": {1: '"flow matching" OR steps OR river', 2: "robot*"}, "paper_token": PAPER_TOKEN}
    copy = copy_for(**{**values, "browser_url": VIEW, **changes})
    return letters_of(replace(made, note=note), SITE, templates()).letter(digest or trending(11), copy)


def cut_topics() -> Digest:
    """Return a digest of topics with more matches than it shows."""
    return Digest(
        sections=(
            Section(topic="Flows", filter_id=1, papers=(11,), more=1),
            Section(topic="Robots that ask", filter_id=2, papers=(12, 13), more=28),
        ),
        checked=412,
    )


def batch_of(count: int) -> list[Paper]:
    """Return this many papers with different titles."""
    does = (
        "ask first",
        "wait",
        "forget",
        "explain themselves",
        "need no labels",
        "run on a watch",
        "never sleep",
    )
    kinds = (FLOW, ROBOTS, ATTENTION, BARE)
    return [
        replace(kinds[number % 4], id=100 + number, title=f"{SUBJECTS[number % 6]} that {does[number % 7]}, part {number + 1}")
        for number in range(count)
    ]  # fmt: skip


def ids(papers: Sequence[Paper]) -> tuple[int, ...]:
    """Return the ids of these papers."""
    return tuple(paper.id for paper in papers)
