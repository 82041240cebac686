"""Walk journeys through pages in a real Chromium: with and without script, on phones and desktops, light and dark."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from tests.judge.installed_programs import npm_package

Setting = tuple[str, str, str, bool]  #: journey, device, color scheme, has script


@dataclass(frozen=True, kw_only=True)
class BrowserPrograms:
    """The programs that walk a journey."""

    node: str
    chromium: str
    axe: Path


def every_setting(journeys: Iterable[str]) -> tuple[Setting, ...]:
    """Return every journey in every setting."""
    return tuple(product(journeys, ("phone", "desktop"), ("light", "dark"), (True, False)))


def walk(
    programs: BrowserPrograms, script: str, setting: Setting, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Walk a journey of a script in this folder, and return what was seen."""
    journey, device, scheme, has_script = setting
    given = {
        "journey": journey, "device": device, "scheme": scheme, "hasScript": has_script,
        "chromium": programs.chromium, "axe": str(programs.axe), **options,
    }  # fmt: skip
    path = Path(__file__).with_name(script)
    done = subprocess.run(
        [programs.node, str(path), str(npm_package("playwright-core")), json.dumps(given)],
        capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen


def check_what_was_seen(seen: Mapping[str, Any], site: str) -> None:
    """Check that no page broke a rule of accessibility, failed, or loaded anything from elsewhere."""
    assert seen["violations"] == []
    expected = ("422", "404", "410")  # pages that show an error are journeys, too
    assert [one for one in seen["errors"] if not any(status in one for status in expected)] == []
    assert all(url.startswith(site) for url in seen["requests"])
