"""Presses in memory: read once, whoever asks; the database has them all."""

from __future__ import annotations

from sqlalchemy.orm import Session

from digest import press, presses
from digest.links import Site
from digest.rendering import Templates
from tests.rendering.cast import NOW


def test_of_many_presses_those_read_lately_stay_in_memory(
    session: Session, site: Site, templates: Templates
) -> None:
    names = []
    for number in range(presses.AT_ONCE + 1):
        made = press.make((), site=site, templates=templates, as_of=NOW, note=f"Morning {number}.")
        presses.keep(session, made, key=str(number), now=NOW)
        names.append(made.name)
    first, second, *others, last = names
    presses.RECENT.clear()
    read = {name: presses.load(session, name) for name in (first, second, *others)}

    assert presses.load(session, first) is read[first]  # asked for again, it is the newest
    presses.load(session, last)

    assert presses.load(session, first) is read[first]
    assert presses.load(session, second) is not read[second]
    assert len(presses.RECENT) == presses.AT_ONCE
