"""Shorten a digest until its letter fits, because Gmail clips HTML at about 102 KB.

The unsubscribe link would be in the clipped part. If a digest is too long, the lowest-ranked cards of all
topics are shortened first: from the whole abstract to an excerpt, to one sentence, to the title line, and to the title alone.
A digest has at most 50 papers, so that their title lines always fit.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from digest.editions.compose import Digest
from digest.letters.cards import CardForm

HTML_BYTES = 90_000

#: The forms of a card, longest first; and the form of unshortened cards, keyed by the reader's setting.
FORMS = (CardForm.WHOLE, CardForm.CUT, CardForm.FULL, CardForm.BRIEF, CardForm.LINE, CardForm.TITLE)
MAX_WHOLE = 3  #: maximum number of whole abstracts; the other cards link to theirs
FIRST_FORMS = {"titles": CardForm.LINE, "short": CardForm.FULL, "full": CardForm.CUT}


class SectionPlan(Struct, frozen=True):
    """One section as it will be rendered."""

    topic: str
    canonical: str | None
    papers: tuple[int, ...]
    forms: tuple[CardForm, ...]  #: the form of each paper's card
    more: int  #: number of papers left out
    matches: int = 0  #: number of papers that match the topic and are in no other section; 0 without a filter


Plan = Sequence[SectionPlan]


def full_plan(digest: Digest, filters: Mapping[int, str]) -> Plan:
    """Return the plan of a digest with every card in the length that the reader chose."""
    form = FIRST_FORMS[digest.abstracts]
    plan, before = [], 0
    for section in digest.sections:
        papers = len(section.papers)
        whole = max(0, min(papers, MAX_WHOLE - before)) if form is CardForm.CUT else 0
        plan.append(
            SectionPlan(
                section.topic,
                None if section.filter_id is None else filters.get(section.filter_id),
                section.papers,
                (CardForm.WHOLE,) * whole + (form,) * (papers - whole),
                section.more,
                0 if section.filter_id is None else papers + section.more,
            )
        )
        before += papers
    return plan


def shorten_plan(plan: Plan, fits: Callable[[Plan], bool]) -> Plan:
    """Return the plan with as few of the lowest-ranked cards shortened as are needed to fit."""
    chosen = {
        (row, place): form for place, section in enumerate(plan) for row, form in enumerate(section.forms)
    }
    steps = [
        (card, form)
        for form in FORMS
        for card in sorted(chosen, reverse=True)
        if FORMS.index(form) > FORMS.index(chosen[card])
    ]

    def after(number: int) -> Plan:
        forms = chosen | dict(steps[:number])
        return [
            shortened(section, tuple([forms[row, place] for row in range(len(section.papers))]))
            for place, section in enumerate(plan)
        ]

    return after(bisect_left(range(len(steps)), True, key=lambda number: fits(after(number))))  # noqa: FBT003


def shortened(section: SectionPlan, forms: tuple[CardForm, ...]) -> SectionPlan:
    """Return the section with its cards in these forms; one of bare titles has no link to the other papers."""
    return replace(section, forms=forms, more=0 if set(forms) == {CardForm.TITLE} else section.more)
