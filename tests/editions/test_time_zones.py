"""A time zone may be typed as its name, as an offset from UTC or as a city."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given
from hypothesis import strategies as st

from digest.editions import time_zones
from digest.editions.time_zones import parse_zone, zone_of, zones_named
from digest.errors import BadField
from tests.conftest import ROOT
from tests.editions import city_table

READ_AS = {
    "Europe/Oslo": "Europe/Oslo | europe/oslo | EUROPE OSLO | Oslo | oslo | Bergen | Tromsø",
    "Europe/Berlin": "Munich | München | Muenchen | Hamburg | Köln | CEST",
    "America/New_York": "new york | New_York | Boston | NYC | Princeton | Washington, DC | EDT",
    "America/Los_Angeles": "LA | San Francisco | Palo Alto | PST",
    "America/Sao_Paulo": "Rio | Rio de Janeiro | São Paulo",
    "Asia/Shanghai": "Beijing | Peking",
    "Asia/Kolkata": "Mumbai | Bombay | Bengaluru | Kolkata",
    "Europe/London": "London | Oxford",
    "America/Argentina/Cordoba": "America/Argentina/Cordoba | Córdoba",
    "Indian/Kerguelen": "Kerguelen",  # a zone named after a place without a city
    "UTC": "UTC | gmt | Z | GMT+0 | UTC-00:00",
    "UTC+2": "GMT+2 | gmt +2 | UTC+02:00 | +0200 | +2 | UTC+2 | Etc/GMT-2",
    "UTC-3:30": "UTC-3:30 | GMT − 03:30 | -0330",
}
MAY_MEAN_SEVERAL = {
    "Cambridge": "America/New_York, America/Toronto or Europe/London",
    "San José": "America/Costa_Rica, America/Los_Angeles or Asia/Manila",
    "Portland": "America/Los_Angeles or America/New_York",
    "IST": "Asia/Kolkata, Asia/Jerusalem or Europe/Dublin",
    "EST": "America/New_York or UTC-5",
}
NOT_ZONES = {
    "Europe/Olso": "Did you mean Europe/Oslo?",
    "Katmandoo": "Did you mean Asia/Katmandu?",
    "somewhere far away": "Write one such as Europe/Oslo, a large city, or UTC+2.",
    "UTC+15": "Write one such as Europe/Oslo, a large city, or UTC+2.",
    "": "Write one such as Europe/Oslo, a large city, or UTC+2.",
}


def test_a_zone_is_read_from_its_name_an_offset_or_a_city():
    for zone, texts in READ_AS.items():
        for text in texts.split("|"):
            assert (text, parse_zone(text)) == (text, zone)


def test_a_name_with_several_meanings_is_asked_with_the_zones_to_choose_from():
    for text, choices in MAY_MEAN_SEVERAL.items():
        with pytest.raises(BadField) as refused:
            parse_zone(text)
        assert str(refused.value).endswith(f"{text!r} may mean several time zones. Write {choices}.")


def test_an_unknown_zone_is_refused_with_the_closest_name():
    for text, hint in NOT_ZONES.items():
        with pytest.raises(BadField) as refused:
            parse_zone(text)
        assert refused.value.field == "timezone"
        assert str(refused.value).endswith(f"{text!r} is not a time zone. {hint}")


@given(minutes=st.integers(-14 * 60, 14 * 60), name=st.sampled_from(["GMT", "utc", "UTC ", ""]))
def test_an_offset_means_that_many_hours_ahead_of_utc(minutes: int, name: str):
    hours, rest = divmod(abs(minutes), 60)
    zone = parse_zone(f"{name}{'-' if minutes < 0 else '+'}{hours}:{rest:02d}")

    assert zone_of(zone).utcoffset(datetime(2026, 7, 1, tzinfo=UTC)) == timedelta(minutes=minutes)
    assert parse_zone(zone) == zone


def test_every_zone_of_the_database_is_known_and_keeps_its_clock():
    summer, winter = datetime(2026, 7, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)
    for name in available_timezones() - {"EST", "MST", "localtime"}:
        zone, expected = zone_of(parse_zone(name)), ZoneInfo(name)
        for moment in (summer, winter):
            assert (name, moment.astimezone(zone).utcoffset()) == (
                name,
                moment.astimezone(expected).utcoffset(),
            )


def test_every_city_of_the_table_is_found_in_zones_that_exist():
    table = time_zones.zones_by_city()

    assert len(table) > 30_000
    assert {zone for zones in table.values() for zone in zones} <= available_timezones()
    assert all(zones_named(city) for city in table)


def test_the_table_of_cities_keeps_its_licence():
    path = Path(time_zones.__file__).with_name("cities.txt")

    assert path.read_text(encoding="utf-8").startswith(city_table.HEADER)
    for page in ("NOTICE", "README.md", "docs/licences.md"):
        assert "digest/editions/cities.txt" in (ROOT / page).read_text(encoding="utf-8"), page
