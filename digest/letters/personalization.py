"""Compute the personal values of one copy of a digest, for previews and real runs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from functools import lru_cache

from digest.editions import schedule as edition_schedule
from digest.editions.schedule import Schedule
from digest.letters.letter_rendering import Personalization
from digest.site import links
from digest.site.site_profile import Site


def personalize(  # noqa: PLR0913  (the values are columns of a subscriber, passed by keyword)
    site: Site,
    *,
    delivery_id: int,
    subscriber_id: int,
    link_version: int,
    email: str,
    edition: str,
    dated_at: datetime,
    schedule: Schedule,
    key_id: str,
    filters: Mapping[int, str],
    message_id: str | None = None,
    is_group: bool = False,
) -> Personalization:
    """Return the personal values of one subscriber's copy of an edition.

    A copy for a group has no links or addresses with which a member could change or end the subscription.

    `filters` maps ids to canonical filters and includes all filters of the digest. `message_id` is the id
    used by an earlier attempt, if any. A signing key that is no longer configured is replaced by the newest
    key.
    """
    key = key_id if key_id in site.ring else None
    identity = f"{subscriber_id}|{edition}"
    reader = subscriber_id, link_version
    day, next_due_at = day_and_next_due(schedule, dated_at, edition)
    return Personalization(
        delivery_id=delivery_id,
        recipient=email,
        edition=edition,
        day=day,
        dated_at=dated_at,
        message_id=message_id or links.message_id(site, identity),
        next_due_at=next_due_at,
        timezone=schedule.timezone,
        browser_url=links.view_url(site, *reader, edition, key=key),
        filters=filters,
        is_group=is_group,
        unsubscribe_url="" if is_group else links.unsubscribe_url(site, *reader, key=key),
        unsubscribe_address="" if is_group else links.unsubscribe_address(site, *reader, key=key),
        reply_address="" if is_group else links.reply_address(site, *reader, edition, key=key),
        manage_url="" if is_group else links.topic_links_url(site, *reader, key=key),
        paper_token="" if is_group else links.paper_token(site, *reader, key=key),
    )


@lru_cache(maxsize=4096)  # one run has one datetime and a few hundred distinct schedules
def day_and_next_due(schedule: Schedule, moment: datetime, edition: str) -> tuple[date, datetime]:
    """Return the date of `moment` in the schedule's time zone, and when the edition after this one is due."""
    status = edition_schedule.schedule_status(schedule, moment, decided={edition})
    return edition_schedule.local_day(schedule, moment), status.upcoming.due_at
