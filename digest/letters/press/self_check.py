"""Check that letters joined from template pieces equal letters rendered by Jinja and premailer.

If a customized template cannot be split into pieces, a worker exits with an error when it starts, before any
reader gets a broken letter.
"""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import UTC, date, datetime
from difflib import ndiff
from itertools import chain

from msgspec import structs

from digest.editions.compose import TRENDING_TOPIC, Digest, FollowUp, Section
from digest.errors import SetupMismatch
from digest.letters import Personalization, RenderedLetter, Templates
from digest.letters.css_inlining import inline
from digest.letters.letter_rendering import FILLER
from digest.letters.piece_templates import PieceTemplate
from digest.letters.press.letter_assembler import LetterAssembler
from digest.letters.press.press_value import Press
from digest.papers import Paper
from digest.site_profile import Site

SAMPLE_MOMENT = datetime(2026, 11, 20, 8, tzinfo=UTC)
FULL_PAPER = Paper(
    id=1,
    title="Full & <complete>",
    abstract="Every part of a card is here. It is whole.",
    ids={"arxiv": "2611.00001"},
    authors=("Ito, Aki",),
    published=date(2026, 11, 19),
    categories=("cs.LG",),
    urls=("https://github.com/example/whole",),
    first_seen_at=SAMPLE_MOMENT,
    is_sample=True,
)
MINIMAL_PAPER = Paper(id=2, title="Bare", comment="A & a whole note", first_seen_at=SAMPLE_MOMENT)
SAMPLE_DIGESTS = (
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
        asks_still_reading=True,
    ),
    Digest(sections=(Section(topic=TRENDING_TOPIC, filter_id=None, papers=(2,)),), checked=1),
    Digest(sections=(Section(topic="First & foremost", filter_id=1, papers=(1, 2) * 8),), checked=400),
)
SAMPLE_PERSONALIZATION = Personalization(
    recipient="alice@example.edu",
    edition="daily-2026-11-20",
    day=date(2026, 11, 20),
    dated_at=SAMPLE_MOMENT,
    next_due_at=SAMPLE_MOMENT,
    unsubscribe_url="https://digest.example.org/u/a",
    manage_url="https://digest.example.org/m/a",
    browser_url="https://digest.example.org/b/a",
    paper_token="key.a",  # noqa: S106 (an invented token)
    filters={1: "whole"},
)
SAMPLE_PERSONALIZATIONS = (
    SAMPLE_PERSONALIZATION,
    structs.replace(
        SAMPLE_PERSONALIZATION,
        next_due_at=None,
        is_group=True,
        manage_url="",
        unsubscribe_url="",
        browser_url="",
        paper_token="",
    ),
    structs.replace(SAMPLE_PERSONALIZATION, edition="weekly-2026-W47"),
)


def check_templates(templates: Templates, html: PieceTemplate, text: PieceTemplate, site: Site) -> None:
    """Raise SetupMismatch if a letter joined from these pieces differs from the letter that Jinja renders."""
    plain = Press(
        as_of=SAMPLE_MOMENT,
        papers=(FULL_PAPER, MINIMAL_PAPER, replace(FULL_PAPER, id=3), replace(MINIMAL_PAPER, id=4)),
        scores=(0.0,) * 4,
        reasons=(("+42 votes",), (), (), ()),
        html=html,
        text=text,
    )
    noted = replace(plain, note="A list is incomplete.")
    presses = noted, plain, plain
    for trial, digest, copy in zip(presses, SAMPLE_DIGESTS, SAMPLE_PERSONALIZATIONS, strict=True):
        made, wanted = (
            LetterAssembler(trial, site).letter(digest, copy),
            reference_rendering(templates, trial, site, digest, copy),
        )
        if made != wanted:
            raise SetupMismatch(
                "The digest letter's templates cannot be split into parts: the text around a part must not "
                f"depend on its content. {first_difference(made, wanted)}"
            )


def reference_rendering(
    templates: Templates, press: Press, site: Site, digest: Digest, copy: Personalization
) -> RenderedLetter:
    """Render the whole page with Jinja and premailer, which is slower than joining pieces."""
    shown = LetterAssembler(press, site).page(digest, copy)
    context = {field.name: getattr(shown, field.name) for field in fields(shown)}
    context |= {"site": site, "filler": FILLER}
    return RenderedLetter(
        subject=shown.subject,
        text=templates.text.get_template("letters/digest/body.txt").render(context),
        html=inline(templates.html.get_template("letters/digest/body.html").render(context)),
    )


def first_difference(made: RenderedLetter, expected: RenderedLetter) -> str:
    """Return a sentence with the first line that differs between the two letters."""
    both = ((made.html, expected.html), (made.text, expected.text))
    differences = chain.from_iterable(ndiff(one.splitlines(), other.splitlines()) for one, other in both)
    line = next((line for line in differences if line[:2] in {"- ", "+ "}), "  the subject")
    return f"First difference: {line[2:].strip()[:200]}"
