"""Deliver what is due into memory, and read the messages as mail programs do."""

from __future__ import annotations

from datetime import datetime
from email import message_from_bytes, policy
from email.message import EmailMessage

from sqlalchemy.orm import Session

from digest.delivery import delivery_run
from digest.delivery.transports.memory import MemoryTransport
from digest.letters.templates import Templates
from digest.site.site_profile import Site
from tests.support.shared_caches import CACHES


def deliver_due(session: Session, *, site: Site, templates: Templates, now: datetime) -> list[EmailMessage]:
    """Deliver what is due and return the messages."""
    memory = MemoryTransport()
    delivery_run.deliver(
        session, site=site, templates=templates, caches=CACHES, transport=memory, clock=lambda: now
    )
    return [message_from_bytes(one.content, policy=policy.default) for one in memory.messages]
