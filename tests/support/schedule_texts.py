"""Write a schedule as the settings that make it."""

from __future__ import annotations

from digest.editions.schedule import Schedule
from digest.subscribers.reader_settings import SCHEDULE, SETTINGS


def schedule_texts(chosen: Schedule) -> dict[str, str]:
    return {name: SETTINGS[name].text_of(chosen) for name in SCHEDULE}
