"""Use the site as visitors do, in a real Chromium: with and without script, on phones and desktops."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.judge import invented_week
from tests.judge.conftest import answers
from tests.judge.installed_programs import npm_package
from tests.support.product_processes import installation
from tests.support.real_servers import free_port

JOURNEYS = ("chips", "papers", "library", "filter", "corrections", "sample")
#: (journey, device, color scheme, has script): in the short form each journey once, and each setting at least once.
SHORT = (
    ("chips", "phone", "light", True),
    ("papers", "desktop", "dark", True),
    ("library", "desktop", "light", False),
    ("filter", "phone", "dark", True),
    ("filter", "desktop", "light", False),
    ("corrections", "phone", "light", False),
    ("sample", "desktop", "light", True),
)
FULL = tuple(product(JOURNEYS, ("phone", "desktop"), ("light", "dark"), (True, False)))
SUBSCRIBES = frozenset({"chips", "papers", "library", "filter"})
TOPICS = {
    "chips": "Diffusion, Robots",
    "papers": "Flow",
    "library": "Flow",
    "filter": "robot* ANDNOT weather",
}


@dataclass(frozen=True, kw_only=True)
class RunningSite:
    """The whole service with invented papers, and the programs that use it."""

    url: str
    node: str
    chromium: str
    axe: Path
    library: Path

    def walk(
        self, journey: str, device: str, scheme: str, *, has_script: bool, pictures: str = ""
    ) -> dict[str, Any]:
        """Make a journey, and return what was seen."""
        options = {
            "journey": journey, "site": self.url, "chromium": self.chromium, "device": device, "scheme": scheme,
            "hasScript": has_script, "axe": str(self.axe), "library": str(self.library), "pictures": pictures,
        }  # fmt: skip
        script = Path(__file__).with_name("journeys.mjs")
        done = subprocess.run(
            [self.node, str(script), str(npm_package("playwright-core")), json.dumps(options)],
            capture_output=True, text=True, timeout=180, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        seen: dict[str, Any] = json.loads(done.stdout)
        return seen


@pytest.fixture(scope="session")
def running_site(
    tmp_path_factory: pytest.TempPathFactory, node: str, chromium: str, axe: Path
) -> Iterator[RunningSite]:
    folder = tmp_path_factory.mktemp("journeys")
    with running(folder, node=node, chromium=chromium, axe=axe) as site:
        yield site


@contextmanager
def running(folder: Path, *, node: str, chromium: str, axe: Path) -> Iterator[RunningSite]:
    """Yield the whole service with six days of invented papers."""
    port = free_port()
    settings = {"PORT": str(port), "BASE_URL": f"http://127.0.0.1:{port}", "SITE_NAME": "Oslo Vision Lab"}
    library = folder / "library.bib"
    library.write_text(invented_week.library())
    with installation(folder / "home", settings=settings) as ours:
        ours.run("init")
        invented_week.load(ours, folder)
        ours.open()
        ours.wait_until("the site", lambda: answers(f"{settings['BASE_URL']}/healthz"))
        yield RunningSite(url=settings["BASE_URL"], node=node, chromium=chromium, axe=axe, library=library)
        ours.stop()


@pytest.mark.parametrize(("journey", "device", "scheme", "has_script"), FULL)
def test_a_visitor_reaches_the_end_of_the_journey(
    running_site: RunningSite, is_full: bool, journey: str, device: str, scheme: str, has_script: bool
) -> None:
    if not is_full and (journey, device, scheme, has_script) not in SHORT:
        pytest.skip("every journey in every setting: JUDGE=full make judge")

    seen = running_site.walk(journey, device, scheme, has_script=has_script)

    assert seen["violations"] == []
    assert [one for one in seen["errors"] if "422" not in one] == []
    assert all(url.startswith(running_site.url) for url in seen["requests"])
    if journey in SUBSCRIBES:
        zone = "Oslo" if has_script else "UTC"
        assert "papers a day" in seen["preview"] or "paper a day" in seen["preview"]
        assert TOPICS[journey] in seen["steps"]["confirm"]
        assert f"Every day at 08:00, {zone}." in seen["steps"]["confirm"]
        assert f"08:00, {zone}" in seen["steps"]["confirmed"]
        assert seen["steps"]["confirm"].count("arxiv") + seen["steps"]["confirm"].count("PDF") >= 3
        assert seen["steps"]["confirmed"].count("PDF") == 3
    elif journey == "corrections":
        assert (seen["filter"], seen["robots"]) == ("robot* AND (arm", True)
        assert seen["changed"]["filter"] == "robot* AND arm"
        assert seen["changed"]["robots"] is True
        assert seen["changed"]["email"].startswith("corrections-")
    else:
        assert "Robots" in seen["letter"]
