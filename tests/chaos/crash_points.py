"""Load a dump, publish digests and receive a bounce, in a process that may be killed at any instant."""

from __future__ import annotations

import logging
import signal
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Engine, func, select

from digest import db
from digest.db.tables.deliveries import Delivery, DeliveryState, Shown
from digest.db.tables.dumps import DumpRow
from digest.db.tables.inbound_mail import BounceRow, InboundMail
from digest.db.tables.papers import PaperRow
from digest.dumps.intake import load_dump
from digest.editions.compose import Digest
from digest.inbound import classification, stored_mail
from digest.letters.templates import Templates
from digest.process import child_processes, failpoints
from digest.publishing import publish_due
from digest.publishing.publication import Publication
from digest.settings import templates_dir
from digest.site import links
from tests.chaos.worker import SITE
from tests.conftest import ROOT
from tests.support import sample_mails
from tests.support.shared_caches import CACHES

#: The failpoints in the order in which a process reaches them, even after an earlier process was killed.
FAILPOINTS = (
    "records-stored", "dump-stored", "dump-committed",
    "digests-written", "chunk-written", "chunk-published",
    "mail-stored", "mail-processed", "mail-committed",
)  # fmt: skip
HOME = replace(SITE, inbound_domain="in.example.org")
CHUNK = 5  #: readers in one chunk of publishing


@dataclass(frozen=True, kw_only=True)
class Errand:
    """The instructions for a process."""

    database: str
    failpoint: str = ""  #: the failpoint at which the process is killed


def run(errand: Errand) -> None:
    """Do all steps, or be killed at a failpoint; steps that an earlier process has completed are skipped."""
    child_processes.end_with_parent(signal.SIGKILL)
    logging.basicConfig(level=logging.CRITICAL)
    publish_due.CHUNK_SUBSCRIBERS = CHUNK
    if errand.failpoint:
        failpoints.armed_failpoints[errand.failpoint] = 0
    engine, now = db.make_engine(errand.database), datetime.now(UTC)
    with db.write_session(engine) as session:
        classification.process_stored_mails(
            session, site=HOME, now=now
        )  # as the inbound server does when it starts
        for path in (ROOT / "digest" / "dumps" / "sample").glob("*.txt"):
            load_dump.load(session, path, now=now)
        publish_due.publish(
            Publication(session, site=HOME, templates=Templates(templates_dir()), caches=CACHES, now=now)
        )
        returned = links.bounce_address(HOME, session.scalars(select(func.min(Delivery.id))).one())
        session.commit()
        (number,) = stored_mail.store_mail(
            session, sender="", recipients=[returned], content=sample_mails.dsn(), now=now
        )
        classification.process_mail(session, site=HOME, number=number, now=now)
    engine.dispose()


def faults(engine: Engine, *, readers: int, mails: int) -> list[str]:
    """Return the differences from a run without a crash; a message whose reply was lost may have been sent twice."""
    with db.read_session(engine) as session:
        dumps = [(row.state, row.new == row.papers) for row in session.scalars(select(DumpRow))]
        papers, loaded = counted(session, PaperRow.id), session.scalars(select(DumpRow.papers)).all()
        found: dict[str, tuple[Any, Any]] = {
            "dumps": (dumps, [("loaded", True)]),
            "papers": (papers, sum(loaded)),
            "digests": (counted(session, Delivery.id), readers),
            "papers shown": (counted(session, Shown.paper_id), sum(map(shown_in, session.scalars(select(Delivery))))),
            "mails not processed": (counted(session, InboundMail.id), 0),
            "bounces": (counted(session, BounceRow.id), mails),
        }  # fmt: skip
    return [
        f"I8 {what}: {actual} instead of {expected}"
        for what, (actual, expected) in found.items()
        if actual != expected
    ]


def counted(session: Any, column: Any) -> int:
    return int(session.scalar(select(func.count(column))))


def shown_in(delivery: Delivery) -> int:
    """Return how many papers a delivery has shown to its reader."""
    if delivery.state != DeliveryState.SENT:
        return 0
    return sum(len(section.papers) for section in Digest.from_json(delivery.decision).sections)
