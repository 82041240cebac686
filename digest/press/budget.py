"""What fits into a letter: Gmail clips HTML near 102 KB, and the unsubscribe link with it.

Where a digest is too long, cards are shortened from the end of every topic at once, so that no
topic pays for another: first to two sentences, then to the title line, then to `+37 more`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from digest.composition import Digest
from digest.rendering.cards import Form

HTML_BYTES = 90_000

#: Bytes of HTML that a card takes, by (paper id, canonical filter, form).
Measure = Callable[[int, str | None, Form], int]


class Planned(NamedTuple):
    """One section as it will be set."""

    topic: str
    canonical: str | None
    papers: tuple[int, ...]
    forms: tuple[Form, ...]  #: of each paper's card
    more: int


def whole(digest: Digest, filters: Mapping[int, str]) -> list[Planned]:
    """Return the plan of a digest with every card in full."""
    return [
        Planned(
            section.topic,
            None if section.filter_id is None else filters.get(section.filter_id),
            section.papers,
            (Form.FULL,) * len(section.papers),
            section.more,
        )
        for section in digest.sections
    ]


def shortened(
    plan: Sequence[Planned], *, room: int, measure: Measure, frame: Callable[[str], int], rest: int
) -> list[Planned]:
    """Return the plan with cards shortened until they fit into `room`.

    `frame` is what a topic's section adds, `rest` what the line does that counts what it has left out.
    A section that loses its last card goes as well, and the one before it counts what it had.
    """
    forms: list[list[Form | None]] = [[Form.FULL] * len(section.papers) for section in plan]
    counts = [one.more > 0 for one in plan]
    taken = rest * sum(counts) + sum(
        frame(one.topic) + sum(measure(paper, one.canonical, Form.FULL) for paper in one.papers)
        for one in plan
    )
    lowest_first = sorted(
        ((row, place) for place, section in enumerate(plan) for row in range(len(section.papers))),
        reverse=True,
    )
    for shorter in (Form.BRIEF, Form.LINE, None):
        for row, place in lowest_first:
            if taken <= room:
                break
            section, present = plan[place], forms[place][row]
            paper = section.papers[row]
            taken -= measure(paper, section.canonical, present or Form.LINE)
            if shorter:
                taken += measure(paper, section.canonical, shorter)
            else:
                taken -= (frame(section.topic) + rest * counts[place]) * (row == 0)
                counting = place if row else place - 1  # what a section had that went is counted before it
                if counting >= 0 and not counts[counting]:
                    taken += rest
                    counts[counting] = True
            forms[place][row] = shorter
    made = rebuilt(plan, forms)
    if not any(None in section for section in forms):
        return made
    # the last paper that went left more room than was wanted: the first cards grow into it again
    return shortened(made, room=room, measure=measure, frame=frame, rest=rest)


def rebuilt(plan: Sequence[Planned], forms: Sequence[Sequence[Form | None]]) -> list[Planned]:
    """Return the plan with each card in its form; None leaves it out, counted."""
    made: list[Planned] = []
    homeless = 0
    for section, kept in zip(plan, forms, strict=True):
        papers = tuple([paper for paper, form in zip(section.papers, kept, strict=True) if form])
        more = section.more + len(section.papers) - len(papers)
        if papers:
            made.append(section._replace(papers=papers, forms=tuple(filter(None, kept)), more=more))
        else:
            homeless += more
    if made and homeless:
        made[-1] = made[-1]._replace(more=made[-1].more + homeless)
    return made
