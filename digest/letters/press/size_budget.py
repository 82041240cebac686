"""Shorten a digest until its letter fits, because Gmail clips HTML at about 102 KB.

The unsubscribe link would be in the clipped part. If a digest is too long, the lowest-ranked cards of all
topics are shortened first: from the whole abstract to an excerpt, to one sentence, and to the title line.
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
FORMS = (CardForm.WHOLE, CardForm.FULL, CardForm.BRIEF, CardForm.LINE)
FIRST_FORMS = {"titles": CardForm.LINE, "short": CardForm.FULL, "full": CardForm.WHOLE}


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
    return [
        SectionPlan(
            section.topic,
            None if section.filter_id is None else filters.get(section.filter_id),
            section.papers,
            (form,) * len(section.papers),
            section.more,
            0 if section.filter_id is None else len(section.papers) + section.more,
        )
        for section in digest.sections
    ]


def shorten_plan(plan: Plan, fits: Callable[[Plan], bool]) -> Plan:
    """Return the plan with as few of the lowest-ranked cards shortened as are needed to fit."""
    lowest_first = sorted(
        [(row, place) for place, section in enumerate(plan) for row in range(len(section.papers))],
        reverse=True,
    )
    chosen = plan[0].forms[0]
    steps = [(form, card) for form in FORMS[FORMS.index(chosen) + 1 :] for card in lowest_first]

    def after(number: int) -> Plan:
        forms = {card: form for form, card in steps[:number]}
        return [
            replace(
                section,
                forms=tuple([forms.get((row, place), chosen) for row in range(len(section.papers))]),
            )
            for place, section in enumerate(plan)
        ]

    return after(bisect_left(range(len(steps)), True, key=lambda number: fits(after(number))))  # noqa: FBT003
