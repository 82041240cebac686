"""Presses are cached in memory and read once from the database."""

from __future__ import annotations

from sqlalchemy.orm import Session

from digest.letters import Templates, press, press_store
from digest.site_profile import Site
from tests.letters.invented_papers import NOW


def test_the_most_recently_read_presses_stay_in_memory(
    session: Session, site: Site, templates: Templates
) -> None:
    names = []
    for number in range(press_store.MAX_RECENT_PRESSES + 1):
        made = press.make_press((), site=site, templates=templates, as_of=NOW, note=f"Morning {number}.")
        press_store.store_press(session, made, key=str(number), now=NOW)
        names.append(made.name)
    first, second, *others, last = names
    press_store.RECENT_PRESSES.clear()
    read = {name: press_store.load_press(session, name) for name in (first, second, *others)}

    assert press_store.load_press(session, first) is read[first]  # asked for again, it is the newest
    press_store.load_press(session, last)

    assert press_store.load_press(session, first) is read[first]
    assert press_store.load_press(session, second) is not read[second]
    assert len(press_store.RECENT_PRESSES) == press_store.MAX_RECENT_PRESSES
