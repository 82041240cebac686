"""List the choices in the sentence of the sign-up form: "Every day at 08:00, Oslo, at most 10 papers, short abstracts"."""

from __future__ import annotations

from digest.editions import schedule

CADENCES = (
    ("daily", "Every day"), ("weekdays", "Monday to Friday"),
    *((f"weekly-{day[:3]}" if day != "monday" else "weekly", f"Every {day.title()}") for day in schedule.WEEKDAYS),
    ("monthly", "The first of the month"),
)  # fmt: skip
ABSTRACTS = (("titles", "titles only"), ("short", "short abstracts"), ("full", "full abstracts"))
PAPERS = ("3", "5", "10", "15", "20", "30")
