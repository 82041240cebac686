"""The proof: before stencils are used, a letter of theirs is held against what Jinja and premailer make of it.

So an operator's own template that cannot be cut into parts is told of when the worker starts, not
by a reader.
"""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import UTC, date, datetime
from difflib import ndiff
from itertools import chain

from msgspec import structs

from digest.composition import TRENDING, Digest, FollowUp, Offer, Section
from digest.errors import Misfit
from digest.links import Site
from digest.papers import Paper
from digest.press.presses import Press
from digest.press.setting import digest_letter, page
from digest.rendering import Copy, Letter, Templates
from digest.rendering.inlining import inline
from digest.rendering.letters import FILLER
from digest.rendering.stencils import Stencil

MOMENT = datetime(2026, 11, 20, 8, tzinfo=UTC)
WHOLE = Paper(
    id=1,
    title="Whole & <complete>",
    abstract="Every part of a card is here. It is whole.",
    ids={"arxiv": "2611.00001"},
    authors=("Ito, Aki",),
    published=date(2026, 11, 19),
    categories=("cs.LG",),
    urls=("https://github.com/example/whole",),
    first_seen_at=MOMENT,
    is_sample=True,
)
BARE = Paper(id=2, title="Bare", first_seen_at=MOMENT)
DIGESTS = (
    Digest(
        sections=(
            Section(topic="First & foremost", filter_id=1, papers=(1, 2), more=3),
            Section(topic="Second", filter_id=None, papers=(3, 4), more=2),
        ),
        checked=400,
        news=(
            FollowUp(5, "withdrawn", "Taken & given", "An error in <Lemma 2>"),
            FollowUp(6, "rewritten", "Anew", ""),
        ),
        offer=Offer("First & foremost", 1, '"whole parts"', 31.0, 3.0),
    ),
    Digest(sections=(Section(topic=TRENDING, filter_id=None, papers=(2,)),), checked=1),
)
COPY = Copy(
    recipient="alice@example.edu",
    edition="daily-2026-11-20",
    day=date(2026, 11, 20),
    dated_at=MOMENT,
    next_due_at=MOMENT,
    unsubscribe_url="https://digest.example.org/u/a",
    manage_url="https://digest.example.org/m/a",
    browser_url="https://digest.example.org/b/a",
    filters={1: "whole"},
)
COPIES = (COPY, structs.replace(COPY, next_due_at=None, browser_url=""))


def check(templates: Templates, html: Stencil, text: Stencil, site: Site) -> None:
    """Raise Misfit if a letter of these stencils is not what the templates say."""
    trial = Press(
        as_of=MOMENT,
        papers=(WHOLE, BARE, replace(WHOLE, id=3), replace(BARE, id=4)),
        scores=(0.0,) * 4,
        reasons=(("+42 votes",), (), (), ()),
        html=html,
        text=text,
    )
    trials = replace(trial, note="A list came short."), replace(trial, note="")
    for trial, digest, copy in zip(trials, DIGESTS, COPIES, strict=True):
        made, wanted = (
            digest_letter(trial, site, digest, copy),
            by_the_book(templates, trial, site, digest, copy),
        )
        if made != wanted:
            raise Misfit(
                "The digest letter's templates cannot be cut into parts: what stands around a part must not "
                f"depend on what is in it. {first_difference(made, wanted)}"
            )


def by_the_book(templates: Templates, press: Press, site: Site, digest: Digest, copy: Copy) -> Letter:
    """Return the letter as Jinja and premailer make it of the whole page: slow, and the authority."""
    shown = page(press, site, digest, copy)
    context = {field.name: getattr(shown, field.name) for field in fields(shown)}
    context |= {"site": site, "filler": FILLER}
    return Letter(
        subject=shown.subject,
        text=templates.text.get_template("letters/digest/body.txt").render(context),
        html=inline(templates.html.get_template("letters/digest/body.html").render(context)),
    )


def first_difference(made: Letter, wanted: Letter) -> str:
    """Return the first line that differs."""
    both = ((made.html, wanted.html), (made.text, wanted.text))
    differences = chain.from_iterable(ndiff(one.splitlines(), other.splitlines()) for one, other in both)
    line = next((line for line in differences if line[:2] in {"- ", "+ "}), "  the subject")
    return f"First difference: {line[2:].strip()[:200]}"
