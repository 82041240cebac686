"""Define the choices in the sign-up form's sentence, such as "Every day at 08:00, at most 10 papers"."""

from __future__ import annotations

from digest.editions import schedule

CADENCES = (
    ("daily", "Every day"), ("weekdays", "Monday to Friday"),
    *((f"weekly-{day[:3]}" if day != "monday" else "weekly", f"Every {day.title()}") for day in schedule.WEEKDAYS),
    ("monthly", "The first of the month"),
)  # fmt: skip
ABSTRACTS = (("titles", "titles only"), ("short", "short abstracts"), ("full", "full abstracts"))
PAPERS = ("3", "5", "10", "15", "20", "30")
