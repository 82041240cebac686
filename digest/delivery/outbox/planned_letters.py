"""Define every letter but the digest: its kind, what it must contain, and what makes it the same letter.

A letter is queued once: a second letter of the same class with the same identity is not written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import date, datetime
from typing import Any, ClassVar


@dataclass(frozen=True, kw_only=True)
class PlannedLetter:
    """A letter; the fields of a subclass are its identity."""

    kind: ClassVar[str]  #: the name of its templates
    contents: Mapping[str, Any] = field(default_factory=dict, compare=False)  #: what the letter must contain

    @property
    def key(self) -> str:
        """Return the key that the same letter always has."""
        identity = (getattr(self, one.name) for one in fields(self) if one.compare)
        return "-".join(map(str, (type(self).__name__, *identity)))

    def columns(self) -> dict[str, str]:
        """Return the columns of the outbox that depend on the letter alone."""
        decision = json.dumps(self.contents, separators=(",", ":"))
        return {"letter": self.kind, "decision": decision, "dedupe_key": self.key}


@dataclass(frozen=True, kw_only=True)
class ConfirmLetter(PlannedLetter):
    """Asks to confirm a sign-up, or again after a reply that was no confirmation."""

    kind = "confirm"
    confirmation_id: int
    reply: str = ""  #: the hash of the reply


@dataclass(frozen=True, kw_only=True)
class ReminderLetter(PlannedLetter):
    """Reminds a subscriber once to confirm."""

    kind = "reminder"
    subscriber_id: int


@dataclass(frozen=True, kw_only=True)
class InviteLetter(PlannedLetter):
    """Invites an address once to confirm that it wants digests."""

    kind = "invite"
    address_hash: str


@dataclass(frozen=True, kw_only=True)
class WelcomeLetter(PlannedLetter):
    """Welcomes a subscriber who confirmed."""

    kind = "welcome"
    confirmation_id: int


@dataclass(frozen=True, kw_only=True)
class SettingsLetter(PlannedLetter):
    """Gives the settings link to somebody who signed up again, at most once a day."""

    kind = "settings"
    subscriber_id: int
    link_version: int
    day: date


@dataclass(frozen=True, kw_only=True)
class SettingsLinkLetter(PlannedLetter):
    """Gives a new settings link, a few times a day."""

    kind = "settings_link"
    subscriber_id: int
    link_version: int
    day: date
    number: int


@dataclass(frozen=True, kw_only=True)
class AccountLinkLetter(PlannedLetter):
    """Gives a link to the subscriber's data, at most once an hour."""

    kind = "account_link"
    subscriber_id: int
    hour: str


@dataclass(frozen=True, kw_only=True)
class NewAddressLetter(PlannedLetter):
    """Asks the owner of a new address to confirm it."""

    kind = "new_address"
    subscriber_id: int
    at: datetime
    number: int


@dataclass(frozen=True, kw_only=True)
class AddressChangedLetter(PlannedLetter):
    """Reports to the former address that it was replaced."""

    kind = "address_changed"
    subscriber_id: int
    link_version: int


@dataclass(frozen=True, kw_only=True)
class GoodbyeLetter(PlannedLetter):
    """Confirms an unsubscribe, at most once a day."""

    kind = "goodbye"
    subscriber_id: int
    day: date


@dataclass(frozen=True, kw_only=True)
class PausedLetter(PlannedLetter):
    """Confirms a pause, at most once a day for the same end."""

    kind = "paused"
    subscriber_id: int
    until: date | None
    day: date


@dataclass(frozen=True, kw_only=True)
class ChangedLetter(PlannedLetter):
    """Confirms a change of settings."""

    kind = "changed"
    subscriber_id: int
    at: datetime


@dataclass(frozen=True, kw_only=True)
class PackLetter(PlannedLetter):
    """Reports the new version of a pack to a subscriber who uses it."""

    kind = "changed"
    pack: str
    version: int
    subscriber_id: int


@dataclass(frozen=True, kw_only=True)
class StillReadingLetter(PlannedLetter):
    """Asks an inactive reader whether they still read their digests."""

    kind = "still_reading"
    subscriber_id: int
    day: date


@dataclass(frozen=True, kw_only=True)
class NothingTodayLetter(PlannedLetter):
    """Reports an edition without papers."""

    kind = "nothing_today"
    subscriber_id: int
    edition: str


@dataclass(frozen=True, kw_only=True)
class AnswerLetter(PlannedLetter):
    """Answers a mail; its kind depends on the mail."""

    kind: str = field(compare=False)  # type: ignore[misc]
    address_hash: str
    mail: str  #: what distinguishes the mail from others of this address
    is_proven: bool = False  #: whether the writer of the mail is proven


@dataclass(frozen=True, kw_only=True)
class PassedOnLetter(PlannedLetter):
    """Passes a person's mail on to the operator."""

    kind = "passed_on"
    writer: str
    day: date
    number: int


@dataclass(frozen=True, kw_only=True)
class AlarmLetter(PlannedLetter):
    """Reports a problem to the operator, once a day for each cause."""

    kind = "alarm"
    cause: str
    day: date


@dataclass(frozen=True, kw_only=True)
class WeeklyReportLetter(PlannedLetter):
    """Reports a week's figures to the operator."""

    kind = "weekly_report"
    monday: date
