"""Presses are cached in memory and read once from the database."""

from __future__ import annotations

import pytest
from sqlalchemy.orm import Session

from digest.letters import Templates, press, press_store
from digest.site_profile import Site
from tests.letters.invented_papers import NOW
from tests.support.shared_caches import CACHES

pytestmark = pytest.mark.postgresql


def test_the_most_recently_read_presses_stay_in_memory(
    session: Session, site: Site, templates: Templates
) -> None:
    names = []
    for number in range(press.MAX_PRESSES + 1):
        made = press.make_press(
            (), site=site, templates=templates, caches=CACHES, as_of=NOW, note=f"Morning {number}."
        )
        press_store.store_press(session, made, key=str(number), now=NOW)
        names.append(made.name)
    first, second, *others, last = names
    CACHES.clear("press")
    read = {name: press_store.load_press(session, name, CACHES) for name in (first, second, *others)}

    assert press_store.load_press(session, first, CACHES) is read[first]  # asked for again, it is the newest
    press_store.load_press(session, last, CACHES)

    assert press_store.load_press(session, first, CACHES) is read[first]
    assert press_store.load_press(session, second, CACHES) is not read[second]
    assert CACHES.sizes()["press"] == press.MAX_PRESSES
