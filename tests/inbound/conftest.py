"""What the tests of incoming mail share: a site that receives mail, and the answers that it sends."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from email.message import EmailMessage
from typing import TypeVar

import pytest
from sqlalchemy import Engine, delete
from sqlalchemy.orm import Session

from digest.db import Base
from digest.db.tables.subscribers import Subscriber, SubscriberState
from digest.letters.templates import Templates
from digest.site.site_profile import Site
from digest.subscribers import subscriber_rows
from tests.inbound.signed_replies import ADA
from tests.support.delivered_mail import deliver_due

Deliver = Callable[[], list[EmailMessage]]
Case = TypeVar("Case")


@pytest.fixture
def engine(sqlite_engine: Engine) -> Engine:
    """SQLite alone: what is read and answered does not depend on the database."""
    return sqlite_engine


def empty(session: Session) -> None:
    """Delete all rows, so that the next case of a corpus meets an empty database."""
    for table in reversed(Base.metadata.sorted_tables):
        session.execute(delete(table))
    session.commit()
    session.expunge_all()


def failing(cases: Iterable[Case], check: Callable[[Case], object]) -> str:
    """Return a line for each case that `check` finds wrong; it finds nothing if a case passes."""
    return "\n".join(f"{case}: {wrong}" for case in cases if (wrong := check(case)))


@pytest.fixture
def site(site: Site) -> Site:
    return replace(site, inbound_domain="example.org")


@pytest.fixture
def ada(session: Session, now: datetime) -> Subscriber:
    """A reader with one topic."""
    row = subscriber_rows.add(
        session, ADA, state=SubscriberState.ACTIVE, consent="a test", now=now, topics={"Flows": "flow matching"}
    )  # fmt: skip
    session.commit()
    return row


@pytest.fixture
def deliver(session: Session, site: Site, templates: Templates, now: datetime) -> Deliver:
    """Return a function that delivers what is due and returns the messages."""
    return lambda: deliver_due(session, site=site, templates=templates, now=now)
