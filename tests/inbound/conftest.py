"""What the tests of incoming mail share: a site that receives mail, and the answers that it sends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from email.message import EmailMessage

import pytest
from sqlalchemy.orm import Session

from digest import subscribers
from digest.db.tables import Subscriber, SubscriberState
from digest.letters import Templates
from digest.site_profile import Site
from tests.inbound.signed_replies import ADA
from tests.support.delivered_mail import deliver_due

Deliver = Callable[[], list[EmailMessage]]


@pytest.fixture
def site(site: Site) -> Site:
    return replace(site, inbound_domain="example.org")


@pytest.fixture
def ada(session: Session, now: datetime) -> Subscriber:
    """A reader with one topic."""
    row = subscribers.add(
        session, ADA, state=SubscriberState.ACTIVE, consent="a test", now=now, topics={"Flows": "flow matching"}
    )  # fmt: skip
    session.commit()
    return row


@pytest.fixture
def deliver(session: Session, site: Site, templates: Templates, now: datetime) -> Deliver:
    """Return a function that delivers what is due and returns the messages."""
    return lambda: deliver_due(session, site=site, templates=templates, now=now)
