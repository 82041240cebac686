"""The web door's second eye on the house: who watches must not depend on what is watched.

The scheduler looks for troubles, too, but cannot tell of its own end. So this door looks every
minute, and where worker or scheduler have stopped it sends the letter to the operator by itself.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from threading import Event, Thread

from digest import delivery, watching
from digest.house import House
from digest.model import Lane
from digest.watching import Trouble
from digest.web import health

log = logging.getLogger(__name__)

SECONDS = 60.0
#: Then nobody else would deliver, or nobody would be told that there is something to deliver.
UNTOLD = frozenset({"silent-worker", "silent-scheduler", "broker"})
MOST_LETTERS = 20


def start(house: House) -> Event:
    """Look after the house in a thread of its own until the event that is returned is set."""
    stop = Event()
    Thread(target=keep_watch, args=(house, stop), name="watch", daemon=True).start()
    return stop


def keep_watch(house: House, stop: Event) -> None:
    """Look every minute; what goes wrong with looking is logged."""
    known: set[str] = set()
    stop.wait(watching.SILENCE.total_seconds())  # all roles start together, some of them slowly
    while not stop.wait(SECONDS):
        try:
            known = tell(look(house), known)
        except Exception:
            log.exception("could not look after the house")


def tell(found: Iterable[Trouble], known: set[str]) -> set[str]:
    """Log the troubles that are new, and return all causes."""
    now = {trouble.cause: trouble for trouble in found}
    for cause in now.keys() - known:
        log.error("%s. %s", now[cause].wrong, now[cause].mend)
    return set(now)


def look(house: House) -> list[Trouble]:
    """Look once: write to the operator about what is wrong, and deliver that if nobody else does."""
    now = house.clock()
    with house.reading() as session:
        found = watching.troubles(session, now=now)
    found += health.unanswered(house)
    if not found or not house.settings.operator_email:
        return found
    with house.writing() as session:
        watching.write_to_operator(
            session, found, site=house.site, operator=house.settings.operator_email, now=now
        )
    if any(trouble.cause in UNTOLD for trouble in found):
        deliver(house)
    return found


def deliver(house: House) -> None:
    """Deliver the letters people wait for: nobody else does."""
    with house.writing() as session, house.transport() as transport:
        delivery.deliver(
            session,
            site=house.site,
            templates=house.templates,
            transport=transport,
            clock=house.clock,
            signers=house.signers,
            limits=house.settings.limits,
            window=house.settings.window,
            lane=Lane.PROMPT,
            limit=MOST_LETTERS,
        )
