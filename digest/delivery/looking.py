"""Looking closely: each letter of a window is held against all that may speak against it.

What must not go ends here, what must wait is queued again, and the rest is left to be intended. So it is on
SQLite, and on PostgreSQL with every window that is not ordinary.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from msgspec.structs import replace
from sqlalchemy.orm import Session

from digest import bounces, outbox
from digest.delivery.gates import Gate
from digest.delivery.settling import end, put_back
from digest.delivery.writing import Written
from digest.links import Site
from digest.model import DeliveryState
from digest.outbox import Claimed
from digest.rates import Wait


@dataclass(kw_only=True)
class Look:
    """What becomes of a window before it goes out."""

    session: Session
    site: Site
    gate: Gate
    lease: str
    now: datetime
    tally: Counter[str] = field(default_factory=Counter)  #: what it comes to

    def at(self, window: Sequence[tuple[Claimed, Written | None]]) -> dict[int, Written]:
        """Ask who of these may be written to, end or put back the others, and return the letters that may go."""
        readers = outbox.readers(self.session, (delivery.subscriber_id for delivery, _ in window))
        addresses = [delivery.email for delivery, _ in window if delivery.email]
        suppressed = bounces.suppressed(self.session, self.site, addresses)
        going = {}
        for delivery, written in window:
            reader = readers.get(delivery.subscriber_id or 0)
            ending = outbox.refusal(
                delivery, reader, is_suppressed=delivery.email in suppressed, now=self.now
            ) or spoilt(delivery, written)
            if ending:
                self.tally[ending[0]] += end(
                    self.session, delivery, *ending, was=DeliveryState.CLAIMED, now=self.now
                )
            elif written and written.reader != reader:  # what the letter says of them has changed meanwhile
                self.write_anew(delivery)
            elif written:
                going[delivery.id] = written
        return self.let_go(going)

    def write_anew(self, delivery: Claimed) -> None:
        """Queue one letter again, to be written for its reader as they are by then."""
        put_back(self.session, delivery, "", was=DeliveryState.CLAIMED, due_at=self.now, is_tried=False)

    def let_go(self, going: Mapping[int, Written]) -> dict[int, Written]:
        """Queue again those that may not go yet, and return the others, paid for. An alarm waits for nothing."""
        emails = {
            number: each.delivery.email or ""
            for number, each in going.items()
            if each.delivery.letter != "alarm"
        }
        held = self.gate.held(emails, lease=self.lease, now=self.now)
        put_off(self.session, held.late, lease=self.lease)
        self.tally["deferred"] += len(held.late)
        left = {number: each for number, each in going.items() if number not in held.late}
        dealt = {
            number: replace(left[number], message=replace(left[number].message, server=server))
            for number, server in held.servers.items()
        }
        return left | dealt


def put_off(session: Session, late: Mapping[int, Wait], *, lease: str) -> None:
    """Queue again what must wait; no attempt is burnt, and what waits for the same goes together."""
    together: dict[Wait, list[int]] = {}
    for number, wait in late.items():
        together.setdefault(wait, []).append(number)
    for wait, numbers in together.items():
        outbox.put_back(
            session,
            numbers,
            wait.reason,
            was=DeliveryState.CLAIMED,
            lease=lease,
            due_at=wait.until,
            is_tried=False,
        )


def spoilt(delivery: Claimed, written: Written | None) -> tuple[DeliveryState, str] | None:
    """Return why a person must look at a letter before it goes out, or None."""
    if written is None:
        return DeliveryState.STUCK, "it cannot be written; the log of the worker says why"
    if delivery.in_doubt and delivery.content_hash != written.intent.content_hash:
        return DeliveryState.STUCK, "it is in doubt, and would no longer be the same bytes"
    return None
