"""Presses are cached in memory and read once from the database."""

from __future__ import annotations

import pytest
from sqlalchemy.orm import Session

from digest.delivery import press_store
from digest.letters.press.press_value import MAX_PRESSES, make_press
from tests.letters.invented_papers import NOW
from tests.support.shared_caches import CACHES

pytestmark = pytest.mark.postgresql


def test_the_most_recently_read_presses_stay_in_memory(session: Session) -> None:
    names = []
    for number in range(MAX_PRESSES + 1):
        made = make_press((), as_of=NOW, note=f"Morning {number}.")
        press_store.store_press(session, made, key=str(number), now=NOW)
        names.append(made.name)
    first, second, *others, last = names
    CACHES.clear("press")
    read = {name: press_store.load_press(session, name, CACHES) for name in (first, second, *others)}

    assert press_store.load_press(session, first, CACHES) is read[first]  # asked for again, it is the newest
    press_store.load_press(session, last, CACHES)

    assert press_store.load_press(session, first, CACHES) is read[first]
    assert press_store.load_press(session, second, CACHES) is not read[second]
    assert CACHES.sizes()["press"] == MAX_PRESSES
