"""Shorten a digest until its letter fits, because Gmail clips HTML at about 102 KB.

The unsubscribe link would be in the clipped part. If a digest is too long, the lowest-ranked cards of all
topics are shortened first: from the whole abstract to an excerpt, to one sentence, and to the title line.
After that, cards are replaced by `See 37 more matches`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import repeat

from msgspec import Struct
from msgspec.structs import replace

from digest.editions.compose import Digest
from digest.letters.cards import CardForm

HTML_BYTES = 90_000

#: The forms of a card, longest first; and the form of unshortened cards, keyed by the reader's setting.
FORMS = (CardForm.WHOLE, CardForm.FULL, CardForm.BRIEF, CardForm.LINE)
FIRST_FORMS = {"titles": CardForm.LINE, "short": CardForm.FULL, "full": CardForm.WHOLE}

#: Returns the HTML size of a card in bytes, given (paper id, canonical filter, form).
Measure = Callable[[int, str | None, CardForm], int]


class SectionPlan(Struct, frozen=True):
    """One section as it will be rendered."""

    topic: str
    canonical: str | None
    papers: tuple[int, ...]
    forms: tuple[CardForm, ...]  #: the form of each paper's card
    more: int  #: number of papers left out, including those of later sections that were left out
    matches: int = 0  #: number of papers that match the topic and are in no other section; 0 without a filter


def full_plan(digest: Digest, filters: Mapping[int, str]) -> list[SectionPlan]:
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


def shorten_plan(
    plan: Sequence[SectionPlan],
    *,
    max_bytes: int,
    measure: Measure,
    section_size: Callable[[str], int],
    overflow_size: int,
) -> list[SectionPlan]:
    """Return the plan with cards shortened or left out until the sections take at most `max_bytes` of HTML.

    `section_size` gives the bytes of a section without its cards; `overflow_size` is the size of the
    line that counts the papers left out. A section without cards is left out, and its papers are counted
    in the section before it.
    """
    forms: list[list[CardForm | None]] = [list(section.forms) for section in plan]
    counts = [one.more > 0 for one in plan]
    used = overflow_size * sum(counts) + sum(
        section_size(one.topic) + sum(map(measure, one.papers, repeat(one.canonical), one.forms))
        for one in plan
    )
    lowest_first = sorted(
        ((row, place) for place, section in enumerate(plan) for row in range(len(section.papers))),
        reverse=True,
    )
    for shorter in (*FORMS[1:], None):
        for row, place in lowest_first:
            if used <= max_bytes:
                break
            section, present = plan[place], forms[place][row]
            if shorter and present in FORMS[FORMS.index(shorter) :]:
                continue
            paper = section.papers[row]
            used -= measure(paper, section.canonical, present or CardForm.LINE)
            if shorter:
                used += measure(paper, section.canonical, shorter)
            else:
                used -= (section_size(section.topic) + overflow_size * counts[place]) * (row == 0)
                counting = (
                    place if row else place - 1
                )  # the section before counts the papers of a removed section
                if counting >= 0 and not counts[counting]:
                    used += overflow_size
                    counts[counting] = True
            forms[place][row] = shorter
    made = apply_forms(plan, forms)
    if not any(None in section for section in forms):
        return made
    # dropping a card may free more bytes than needed, so lengthen the remaining cards again
    longest = [replace(one, forms=plan[0].forms[:1] * len(one.papers)) for one in made]
    return shorten_plan(
        longest, max_bytes=max_bytes, measure=measure, section_size=section_size, overflow_size=overflow_size
    )


def apply_forms(plan: Sequence[SectionPlan], forms: Sequence[Sequence[CardForm | None]]) -> list[SectionPlan]:
    """Return the plan with each card in its form; a card whose form is None is left out and counted."""
    made: list[SectionPlan] = []
    uncounted = 0
    for section, kept in zip(plan, forms, strict=True):
        papers = tuple([paper for paper, form in zip(section.papers, kept, strict=True) if form])
        more = section.more + len(section.papers) - len(papers)
        if papers:
            made.append(replace(section, papers=papers, forms=tuple(filter(None, kept)), more=more))
        else:
            uncounted += more
    if made and uncounted:
        made[-1] = replace(made[-1], more=made[-1].more + uncounted)
    return made
