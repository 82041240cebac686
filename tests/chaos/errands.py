"""A morning's errands: a dump is taken in, digests are published, a bounce comes back; each may end at any instant."""

from __future__ import annotations

import logging
import signal
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Engine, func, select

from digest import db, failpoints, inbox, intake, lifeline, links, publishing
from digest.composition import Digest
from digest.model import BounceRow, Delivery, DeliveryState, DumpRow, MailIn, PaperRow, Shown
from digest.rendering import Templates
from digest.settings import templates_dir
from tests import mails
from tests.chaos.worker import SITE
from tests.conftest import ROOT

#: In this order each is come by, whatever an earlier one has left undone.
FAILPOINTS = (
    "records-stored", "dump-stored", "dump-kept",
    "digests-written", "chunk-written", "chunk-published",
    "mail-kept", "mail-understood", "mail-let-go",
)  # fmt: skip
HOME = replace(SITE, inbound_domain="in.example.org")
CHUNK = 5  #: readers that are published together


@dataclass(frozen=True, kw_only=True)
class Errand:
    """What a process is told."""

    database: str
    failpoint: str = ""  #: where it dies


def run(told: Errand) -> None:
    """Do all of it, or die on the way; what an earlier process has done is found done."""
    lifeline.tie(signal.SIGKILL)
    logging.basicConfig(level=logging.CRITICAL)
    publishing.CHUNK = CHUNK
    if told.failpoint:
        failpoints.armed[told.failpoint] = 0
    engine, now = db.connect(told.database), datetime.now(UTC)
    with db.writing(engine) as session:
        inbox.look_through(session, site=HOME, now=now)  # as the inbound door does when it opens
        for path in (ROOT / "digest" / "sample").glob("*.txt"):
            intake.load(session, path, now=now)
        publishing.publish(session, site=HOME, templates=Templates(templates_dir()), now=now)
        returned = links.bounce_address(HOME, session.scalars(select(func.min(Delivery.id))).one())
        session.commit()
        (number,) = inbox.keep(session, sender="", recipients=[returned], content=mails.dsn(), now=now)
        inbox.look(session, site=HOME, number=number, now=now)
    engine.dispose()


def faults(engine: Engine, *, readers: int, mails: int) -> list[str]:
    """Return what is not as it would be if nobody had died; a mail was sent again where its yes was not heard."""
    with db.reading(engine) as session:
        dumps = [(row.state, row.new == row.papers) for row in session.scalars(select(DumpRow))]
        papers, told = counted(session, PaperRow.id), session.scalars(select(DumpRow.papers)).all()
        found: dict[str, tuple[Any, Any]] = {
            "dumps": (dumps, [("loaded", True)]),
            "papers": (papers, sum(told)),
            "digests": (counted(session, Delivery.id), readers),
            "papers shown": (counted(session, Shown.paper_id), sum(map(shown_in, session.scalars(select(Delivery))))),
            "mails not understood": (counted(session, MailIn.id), 0),
            "bounces": (counted(session, BounceRow.id), mails),
        }  # fmt: skip
    return [f"I8 {what}: {is_} instead of {ought}" for what, (is_, ought) in found.items() if is_ != ought]


def counted(session: Any, column: Any) -> int:
    return int(session.scalar(select(func.count(column))))


def shown_in(delivery: Delivery) -> int:
    """Return how many papers a delivery has shown to its reader."""
    if delivery.state != DeliveryState.SENT:
        return 0
    return sum(len(section.papers) for section in Digest.from_json(delivery.decision).sections)
