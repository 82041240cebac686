"""Write docs/licences.md: the licence of every package that is installed with Digest. Standard library only.

.venv/bin/python requirements/licences.py docs/licences.md
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import Any

LOCK = Path(__file__).resolve().parent / "base.txt"
PIN = re.compile(r"^([a-z0-9.-]+)(?:\[[a-z,]+\])?==([^ ]+)", re.MULTILINE)
ELSEWHERE = "not installed where this page was made"
CLASSIFIER = "License :: "
UNNAMED = ("OSI Approved", "DFSG approved")  #: classifiers that name no licence
MAX_LENGTH = 60  #: characters; a longer field is the text of a licence, not its name
INTRODUCTION = """# Licences of dependencies

This page is made from the packages themselves by `make licences`, and a test checks that it is current. Digest uses these packages
unchanged and does not contain them. It contains one table with another licence than its own, credited in `NOTICE`:
`digest/editions/cities.txt` (from GeoNames, CC BY 4.0).

| package | version | licence |
|---|---|---|
"""


def licences_page() -> str:
    """Return the page."""
    return INTRODUCTION + "".join(f"| {' | '.join(row)} |\n" for row in rows())


def rows() -> Iterator[tuple[str, str, str]]:
    """Yield the name, version and licence of every package in the lock."""
    for name, version in PIN.findall(LOCK.read_text(encoding="utf-8")):
        try:
            yield name, version, licence(metadata(name))
        except PackageNotFoundError:
            yield name, version, ELSEWHERE


def licence(fields: Any) -> str:
    """Return a package's licence: as an SPDX expression, from its classifiers, or in its own words."""
    if expression := fields.get("License-Expression"):
        return str(expression)
    classifiers = [str(one) for one in fields.get_all("Classifier", []) if one.startswith(CLASSIFIER)]
    named = [name for one in classifiers if (name := one.rpartition(" :: ")[2]) not in UNNAMED]
    own = str(fields.get("License", "")).strip()
    return ", ".join(named) or (
        own if own and len(own) <= MAX_LENGTH and "\n" not in own else "see the package"
    )


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(licences_page(), encoding="utf-8")
