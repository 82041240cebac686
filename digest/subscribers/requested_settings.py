"""Store the settings that somebody requests with a sign-up until the address is confirmed."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy.orm import Session

from digest.db.tables import Subscriber
from digest.editions import schedule as edition_schedule
from digest.editions.schedule import Schedule
from digest.errors import BadFilter
from digest.subscribers import preferences, subscriber_rows, subscriber_topics
from digest.topics import Filter
from digest.topics.filter_registry import FilterRegistry

log = logging.getLogger(__name__)


Remark = tuple[str, str]  #: a line of a mail, and what it gave


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestedSettings:
    """The requested settings; None or an empty value leaves a setting unchanged."""

    topics: Mapping[str, str] = field(default_factory=dict)  #: filters by name
    schedule: Schedule | None = None
    max_papers: int | None = None
    abstracts: str | None = None
    remarks: tuple[Remark, ...] = ()  #: for the confirmation letter: what the lines of a sign-up by mail gave

    def to_json(self) -> str:
        """Return the JSON that is stored with a sign-up and with a confirmation."""
        values: dict[str, Any] = {}
        if self.topics:
            values["topics"] = dict(self.topics)
        if self.schedule is not None:
            values["cadence"] = edition_schedule.cadence_text(self.schedule)
            values["at"] = f"{self.schedule.at:%H:%M}"
            values["timezone"] = self.schedule.timezone
        if self.max_papers is not None:
            values["max_papers"] = self.max_papers
        if self.abstracts is not None:
            values["abstracts"] = self.abstracts
        if self.remarks:
            values["remarks"] = self.remarks
        return json.dumps(values, separators=(",", ":"), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> RequestedSettings:
        """Return the settings from JSON that `to_json` wrote."""
        values = json.loads(text)
        schedule = None
        if "cadence" in values:
            schedule = edition_schedule.parse_schedule(
                cadence=values["cadence"], at=values["at"], timezone=values["timezone"]
            )
        return cls(
            topics=values.get("topics", {}),
            schedule=schedule,
            max_papers=values.get("max_papers"),
            abstracts=values.get("abstracts"),
            remarks=tuple((line, result) for line, result in values.get("remarks", ())),
        )


NOTHING_REQUESTED = RequestedSettings()


def check(session: Session, requested: RequestedSettings) -> None:
    """Raise BadField or BadFilter if a requested setting is invalid."""
    subscriber_topics.check_topics(requested.topics, FilterRegistry(session))
    if requested.max_papers is not None:
        preferences.check_max_papers(requested.max_papers)
    if requested.abstracts is not None:
        preferences.check_abstracts(requested.abstracts)


def apply(session: Session, subscriber: Subscriber, requested: RequestedSettings) -> None:
    """Apply the requested settings to the subscriber."""
    if requested.schedule is not None:
        for column, value in subscriber_rows.schedule_columns(requested.schedule).items():
            setattr(subscriber, column, value)
    if requested.max_papers is not None:
        subscriber.max_papers = requested.max_papers
    if requested.abstracts is not None:
        subscriber.abstracts = preferences.check_abstracts(requested.abstracts)
    if requested.topics:
        topics = readable_topics(session, requested.topics)
        subscriber_topics.replace_topics(session, subscriber.id, topics)


def readable_topics(session: Session, topics: Mapping[str, str]) -> dict[str, str]:
    """Return the requested topics whose filters are still valid.

    A filter is no longer valid if a pack that it uses has been removed.
    """
    return {name: topics[name] for name in resolved_filters(session, topics)}


def resolved_filters(session: Session, topics: Mapping[str, str]) -> dict[str, Filter]:
    """Return the resolved filters of the topics that are still valid, keyed by topic name."""
    registry, found = FilterRegistry(session), {}
    for name, text in topics.items():
        try:
            found[name] = registry.resolve_text(text)
        except BadFilter as error:
            log.warning("a requested topic is no longer valid and is left out: %s", error)
    return found
