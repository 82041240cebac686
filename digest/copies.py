"""Copies: what is personal about a letter. A preview and the real run ask here, so they agree."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from functools import lru_cache

from digest import editions, links
from digest.editions import Schedule
from digest.links import Site
from digest.rendering import Copy


def digest_copy(
    site: Site,
    *,
    delivery_id: int,
    subscriber_id: int,
    epoch: int,
    email: str,
    edition: str,
    dated_at: datetime,
    schedule: Schedule,
    key_id: str,
    filters: Mapping[int, str],
    message_id: str | None = None,
) -> Copy:
    """Return one subscriber's copy of an edition; `filters` names at least those of the digest by id.

    `message_id` is that of an earlier attempt. A signing key that has left the ring since is replaced
    by the newest.
    """
    key = key_id if key_id in site.ring else None
    identity = f"{subscriber_id}|{edition}"
    return Copy(
        delivery_id=delivery_id,
        recipient=email,
        edition=edition,
        day=day_of(schedule, dated_at),
        dated_at=dated_at,
        message_id=message_id or links.message_id(site, identity),
        next_due_at=next_due_at(schedule, dated_at),
        timezone=schedule.timezone,
        unsubscribe_url=links.unsubscribe_url(site, subscriber_id, epoch, key=key),
        leave_address=links.leave_address(site, subscriber_id, epoch, key=key),
        manage_url=links.ask_url(site, subscriber_id, epoch, key=key),
        browser_url=links.view_url(site, subscriber_id, epoch, edition, key=key),
        filters=filters,
    )


@lru_cache(maxsize=4096)
def day_of(schedule: Schedule, moment: datetime) -> date:
    """Return the local day of a moment."""
    return moment.astimezone(editions.zone_of(schedule.timezone)).date()


@lru_cache(maxsize=4096)
def next_due_at(schedule: Schedule, moment: datetime) -> datetime:
    """Return when the edition after that moment falls due."""
    return editions.edition_after(schedule, moment).due_at
