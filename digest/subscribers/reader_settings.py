"""Describe each setting of a reader once, for forms, commands, mail, files, letters and undo.

A setting is written as a text such as `weekly-fri`, which forms, files, and stored requests and changes contain.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from msgspec import Struct, json

from digest import plurals
from digest.editions import schedule, time_zones
from digest.editions.compose import MAX_PAPERS
from digest.editions.schedule import Cadence, Schedule
from digest.errors import BadField
from digest.letters import figures_in_words

Texts = Mapping[str, str]  #: settings as texts, keyed by name
NO_TEXTS: Texts = MappingProxyType({})
Remark = tuple[str, str]  #: a line of a mail, and what it gave


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Setting:
    """A setting: how it is read, written, stored, offered and described."""

    name: str  #: in forms, files, options and JSON
    columns: tuple[str, ...]  #: the columns of a subscriber that store it
    read: Callable[[str], tuple[Any, ...]]  #: returns the values of the columns; raises BadField
    write: Callable[..., str] = str  #: returns the text for the values of the columns
    default: str
    label: str  #: of its field in a form
    option: str  #: as in the help of a command
    help: str
    choices: Mapping[str, str] | None = None  #: {text: words} of what forms offer; None for any text
    spoken: Callable[[str], str] = str  #: returns the words of a text that is no choice
    field: str = ""  #: the attributes of its field in a form without choices
    is_flag: bool = False  #: whether it is `yes` or `no`
    is_at_sign_up: bool = True  #: whether the sign-up form offers it
    before: str = " · "  #: what stands before its words in a sentence about all settings

    def words(self, text: str) -> str:
        """Return a text as people read it."""
        return (self.choices or {}).get(text) or self.spoken(text)

    def text_of(self, row: Any) -> str:
        """Return the text of the setting that a row of subscribers stores."""
        return self.write(*[getattr(row, column) for column in self.columns])

    def value_of(self, row: Any) -> Any:
        """Return the setting as a JSON value: a number or flag as such, everything else as text."""
        value = getattr(row, self.columns[0])
        return value if isinstance(value, int) else self.text_of(row)


def read_cadence(text: str) -> tuple[str, int]:
    """Return the cadence and the weekday in a text."""
    cadence, weekday = schedule.parse_cadence(text)
    return str(cadence), weekday


def write_cadence(cadence: str, weekday: int) -> str:
    """Return the text of a cadence on a weekday."""
    return schedule.cadence_text(Schedule(cadence=Cadence(cadence), weekday=weekday))


def number_reader(name: str, highest: int) -> Callable[[str], tuple[int]]:
    """Return a function that reads a whole number from 1 to `highest`."""

    def read(text: str) -> tuple[int]:
        if not (text.isascii() and text.isdigit() and len(text) < 9 and 1 <= int(text) <= highest):
            raise BadField(name, f"{text!r} is not a number from 1 to {highest}.")
        return (int(text),)

    return read


def choice_reader(name: str, choices: Mapping[str, str]) -> Callable[[str], tuple[str]]:
    """Return a function that reads one of the choices."""

    def read(text: str) -> tuple[str]:
        choice = text.strip().lower()
        if choice not in choices:
            raise BadField(name, f"{text!r} is not one of {', '.join(choices)}.")
        return (choice,)

    return read


FLAGS = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}


def flag_reader(name: str) -> Callable[[str], tuple[bool]]:
    """Return a function that reads `yes`, `true` or `1`, and `no`, `false` or `0`."""

    def read(text: str) -> tuple[bool]:
        if text.lower() not in FLAGS:
            raise BadField(name, f"{text!r} is not yes or no.")
        return (FLAGS[text.lower()],)

    return read


CADENCES = {
    "daily": "Every day",
    "weekdays": "Monday to Friday",
    **{write_cadence("weekly", number): f"Every {day}" for number, day in enumerate(figures_in_words.DAYS)},
    "monthly": "The first of every month",
}
PAPERS = {str(number): f"at most {plurals.count(number, 'paper')}" for number in range(1, MAX_PAPERS + 1)}
ABSTRACTS = {"titles": "titles only", "short": "short abstracts", "full": "whole abstracts"}

#: The settings by name, in the order of forms, files and sentences.
SETTINGS = {
    setting.name: setting
    for setting in (
        Setting(
            name="cadence",
            columns=("cadence", "weekday"),
            read=read_cadence,
            write=write_cadence,
            default="daily",
            label="How often",
            option="--cadence CADENCE",
            help="How often: daily, weekdays, weekly, weekly-fri, monthly.",
            choices=CADENCES,
            before="",
        ),
        Setting(
            name="at",
            columns=("at",),
            read=lambda text: (schedule.parse_time(text),),
            write="{:%H:%M}".format,
            default="08:00",
            label="Time of day",
            option="--at HH:MM",
            help="Local time of the digests.",
            field='type="time" required',
            before=" at ",
        ),
        Setting(
            name="timezone",
            columns=("timezone",),
            read=lambda text: (time_zones.parse_zone(text),),
            spoken=figures_in_words.place_in_words,
            default="UTC",
            label="Time zone or city",
            option="--timezone ZONE",
            help="A time zone: Europe/Oslo, a large city, or UTC+2.",
            field='list="zones" autocomplete="off" spellcheck="false" maxlength="80"',
            before=", ",
        ),
        Setting(
            name="max_papers",
            columns=("max_papers",),
            read=number_reader("max_papers", MAX_PAPERS),
            default="10",
            label="Maximum papers per digest",
            option="--max-papers N",
            help=f"Maximum number of papers in a digest, 1 to {MAX_PAPERS}. Default: 10.",
            choices=PAPERS,
        ),
        Setting(
            name="abstracts",
            columns=("abstracts",),
            read=choice_reader("abstracts", ABSTRACTS),
            default="short",
            label="Abstracts",
            option="--abstracts LENGTH",
            help="Length of abstracts: titles, short (one or two sentences), full. Default: short.",
            choices=ABSTRACTS,
        ),
        Setting(
            name="nothing_today",
            columns=("wants_nothing_today_letters",),
            read=flag_reader("nothing_today"),
            write=lambda wants: "yes" if wants else "no",
            default="no",
            label="Write to me when there is nothing on my topics",
            option="--nothing-today/--no-nothing-today",
            help="Send a short letter on every day without a match; otherwise only after 14 days without mail.",
            is_flag=True,
            is_at_sign_up=False,
        ),
    )
}
SCHEDULE = ("cadence", "at", "timezone")  #: the settings that make a schedule


class ReaderSettings(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The topics and settings of a reader, or those that somebody gives; what is left out stays as it is."""

    topics: Mapping[str, str] | None = None  #: filters by name, in the order of the digest's sections
    muted: tuple[str, ...] | None = (
        None  #: names of muted topics; None leaves those muted that keep their name
    )
    texts: Mapping[str, str] = {}
    remarks: tuple[Remark, ...] = ()  #: for the confirmation letter: what the lines of a sign-up by mail gave

    @property
    def columns(self) -> dict[str, Any]:
        """Return the columns of a subscriber with these settings, and the defaults of those that are left out."""
        return columns_of({**defaults(), **self.texts})

    def to_json(self) -> str:
        """Return the JSON that is stored with a sign-up, a confirmation or a change."""
        return json.encode(self).decode()

    @classmethod
    def from_json(cls, text: str) -> ReaderSettings:
        """Return the settings from JSON that `to_json` wrote."""
        return json.decode(text, type=cls)


NOTHING_GIVEN = ReaderSettings()


@lru_cache(maxsize=4096)  # a file has few distinct texts
def columns_of_setting(setting: Setting, text: str) -> tuple[tuple[str, Any], ...]:
    """Return the columns that store a setting, with their values."""
    return tuple(zip(setting.columns, setting.read(text), strict=True))


def columns_of(texts: Texts) -> dict[str, Any]:
    """Return the columns that store these settings, with their values; raise BadField for an invalid one."""
    return dict(pair for name, text in texts.items() for pair in columns_of_setting(SETTINGS[name], text))


def are_scheduling(columns: Collection[str]) -> bool:
    """Return whether one of these columns stores a part of the schedule."""
    return any(column in columns for name in SCHEDULE for column in SETTINGS[name].columns)


def check_text(name: str, text: str) -> str:
    """Return a setting as `texts_of` writes it: `08:00` for `8:00`; raise BadField if it is invalid."""
    return SETTINGS[name].write(*SETTINGS[name].read(text))


def texts_of(row: Any) -> dict[str, str]:
    """Return the settings that a row of subscribers stores."""
    return {name: setting.text_of(row) for name, setting in SETTINGS.items()}


def defaults() -> dict[str, str]:
    """Return the settings of somebody who chose nothing."""
    return {name: setting.default for name, setting in SETTINGS.items()}


def schedule_in(texts: Texts) -> Schedule:
    """Return the schedule in these settings, with the defaults of those that are left out."""
    return schedule.parse_schedule(**{name: texts[name] for name in SCHEDULE if name in texts})


# ── in words ────────────────────────────────────────────────────────────────────────────────────


def in_words(texts: Texts) -> str:
    """Return the settings as one line: `Every day at 08:00, UTC · at most 10 papers · short abstracts`."""
    said = [one for one in SETTINGS.values() if not one.is_flag]
    return "".join(f"{one.before}{one.words(texts[one.name])}" for one in said)


def describe(texts: Texts) -> Iterator[str]:
    """Yield a sentence for each of these settings."""
    for name, text in texts.items():
        yield f"{SETTINGS[name].label}: {SETTINGS[name].words(text)}."


def describe_change(before: Texts, after: Texts) -> Iterator[str]:
    """Yield a sentence for each changed setting, with its value before."""
    for name, setting in SETTINGS.items():
        if before[name] != after[name]:
            now, then = setting.words(after[name]), setting.words(before[name])
            yield f"{setting.label}: {now}. Before: {then}."
