"""Read the time zone that somebody typed: a zone's name, an offset from UTC, or a city.

The names of cities are in `cities.txt`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta, timezone, tzinfo
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from unicodedata import combining, normalize
from zoneinfo import ZoneInfo, available_timezones

from digest.errors import BadField

#: `GMT+2` is two hours ahead of UTC, as people mean it; the zone database means the opposite by `Etc/GMT+2`.
OFFSET = re.compile(r"(?P<etc>etc/)?(?:utc|gmt|z)?(?P<sign>[+-])(?P<hours>\d{1,2}):?(?P<minutes>[0-5]\d)?")
MAX_OFFSET = timedelta(hours=14)  #: no zone is further from UTC
CONTINENTS = frozenset(
    [
        "Africa",
        "America",
        "Antarctica",
        "Arctic",
        "Asia",
        "Atlantic",
        "Australia",
        "Europe",
        "Indian",
        "Pacific",
    ]
)
#: Abbreviations that are no names in the zone database, or that mean a zone without summer time there.
ABBREVIATIONS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(["z", "gmt"], ("UTC",)),
    **dict.fromkeys(["et", "edt"], ("America/New_York",)),
    **dict.fromkeys(["ct", "cdt"], ("America/Chicago",)),
    **dict.fromkeys(["mt", "mdt"], ("America/Denver",)),
    **dict.fromkeys(["pt", "pst", "pdt"], ("America/Los_Angeles",)),
    **dict.fromkeys(["cest", "mez", "mesz"], ("Europe/Berlin",)),
    "eest": ("EET",),
    "est": ("America/New_York", "UTC-5"),
    "mst": ("America/Denver", "America/Phoenix"),
    "cst": ("America/Chicago", "Asia/Shanghai"),
    "ist": ("Asia/Kolkata", "Asia/Jerusalem", "Europe/Dublin"),
    "bst": ("Europe/London", "Asia/Dhaka"),
    "jst": ("Asia/Tokyo",),
    "kst": ("Asia/Seoul",),
    **dict.fromkeys(["aest", "aedt"], ("Australia/Sydney", "Australia/Brisbane")),
    **dict.fromkeys(["nzst", "nzdt"], ("Pacific/Auckland",)),
}
#: Letters that Unicode does not decompose into a plain letter and an accent.
_LETTERS = str.maketrans({"ø": "o", "ł": "l", "đ": "d", "ı": "i", "æ": "ae", "œ": "oe"})


def parse_zone(text: str) -> str:
    """Return the name of the time zone that somebody typed, as `zone_of` takes it.

    Raises BadField with the zones to choose from if the text may mean several, or with a suggestion.
    """
    found = zones_named(text)
    if len(found) == 1:
        return found[0]
    if found:
        choices = f"{', '.join(found[:-1])} or {found[-1]}"
        raise BadField("timezone", f"{text.strip()!r} may mean several time zones. Write {choices}.")
    closest = closest_zone(fold(text))
    hint = f"Did you mean {closest}?" if closest else "Write one such as Europe/Oslo, a large city, or UTC+2."
    raise BadField("timezone", f"{text.strip()!r} is not a time zone. {hint}")


def zones_named(text: str) -> tuple[str, ...]:
    """Return the time zones that a text may mean: none, one, or several if it is ambiguous."""
    offset = offset_of(text)
    if offset is not None:
        return (offset_name(offset),) if abs(offset) <= MAX_OFFSET else ()
    name = fold(text)
    if found := ABBREVIATIONS.get(name):
        return found
    zone = zones_by_folded_name().get(name)
    return (zone,) if zone else zones_by_city().get(name, ())


def offset_of(text: str) -> timedelta | None:
    """Return the offset from UTC in a text such as `GMT+2`, `UTC-3:30` or `+0530`; None for any other text."""
    found = OFFSET.fullmatch("".join(text.casefold().replace("−", "-").split()))
    if found is None:
        return None
    offset = timedelta(hours=int(found["hours"]), minutes=int(found["minutes"] or 0))
    return -offset if (found["sign"] == "-") != bool(found["etc"]) else offset


def offset_name(offset: timedelta) -> str:
    """Return the name of a zone with a fixed offset, such as `UTC+5:30`."""
    hours, minutes = divmod(abs(offset) // timedelta(minutes=1), 60)
    sign = "-" if offset < timedelta() else "+"
    return f"UTC{sign}{hours}" + (f":{minutes:02d}" if minutes else "") if offset else "UTC"


def fold(text: str) -> str:
    """Return the words of a name without capitals, accents and punctuation."""
    letters = normalize("NFKD", text.casefold()).translate(_LETTERS)
    return " ".join(re.sub(r"[\W_]+", " ", "".join(each for each in letters if not combining(each))).split())


@lru_cache(maxsize=1024)  # an import of subscribers repeats a few mistyped names
def closest_zone(folded: str) -> str | None:
    """Return the time zone whose name or own city is most similar to a folded text, or None."""
    known = {**zones_by_own_city(), **zones_by_folded_name()}
    close = get_close_matches(folded, known, n=1, cutoff=0.75)
    return known[close[0]] if close else None


@lru_cache(maxsize=1024)  # large enough for all time zones
def zone_of(name: str) -> tzinfo:
    """Return the time zone with a name that `parse_zone` returned; raise BadField if there is none."""
    if name in zone_names():
        return ZoneInfo(name)
    offset = offset_of(parse_zone(name))
    return timezone(offset) if offset is not None else ZoneInfo(parse_zone(name))


@lru_cache(maxsize=1)  # one entry, for the only time zone database
def zone_names() -> frozenset[str]:
    """Return the names in the time zone database, without those that `UTC+2` replaces."""
    return frozenset(name for name in available_timezones() if offset_of(name) is None)


@lru_cache(maxsize=1)  # one entry, for the only time zone database
def zones_by_folded_name() -> Mapping[str, str]:
    """Return the time zones by their folded names."""
    return {fold(name): name for name in sorted(zone_names())}


@lru_cache(maxsize=1)  # one entry, for the only table
def zones_by_city() -> Mapping[str, tuple[str, ...]]:
    """Return the time zones that each folded name of a city may mean."""
    found: dict[str, tuple[str, ...]] = {}
    for line in Path(__file__).with_name("cities.txt").read_text(encoding="utf-8").splitlines():
        zone, *cities = line.split()
        for city in cities if zone != "#" else ():
            name = city.replace("_", " ")
            found[name] = (*found.get(name, ()), zone)
    return {name: (zone,) for name, zone in zones_by_own_city().items()} | found


@lru_cache(maxsize=1)  # one entry, for the only time zone database
def zones_by_own_city() -> Mapping[str, str]:
    """Return the time zones by the folded name of the city after which they are named."""
    names = sorted(name for name in zone_names() if name.split("/")[0] in CONTINENTS)
    return {fold(name.rpartition("/")[2]): name for name in names}
