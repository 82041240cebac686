"""Use the site as visitors do, in a real Chromium: with and without script, on phones and desktops."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.judge import invented_week, journey_walks
from tests.judge.conftest import answers
from tests.judge.journey_walks import BrowserPrograms, Setting
from tests.support.product_processes import installation
from tests.support.real_servers import free_port

JOURNEYS = ("chips", "papers", "library", "filter", "corrections", "sample")
#: (journey, device, color scheme, has script): the short suite has each journey once and each setting at least once.
SHORT = (
    ("chips", "phone", "light", True),
    ("papers", "desktop", "dark", True),
    ("library", "desktop", "light", False),
    ("filter", "phone", "dark", True),
    ("filter", "desktop", "light", False),
    ("corrections", "phone", "light", False),
    ("sample", "desktop", "light", True),
)
SUBSCRIBES = frozenset({"chips", "papers", "library", "filter"})
TOPICS = {
    "chips": "Diffusion and Robots",
    "papers": "Flow",
    "library": "Flow",
    "filter": "robot* ANDNOT weather",
}


@dataclass(frozen=True, kw_only=True)
class RunningSite:
    """The whole service with invented papers, and the programs that use it."""

    url: str
    programs: BrowserPrograms
    library: Path

    def walk(self, setting: Setting, **options: Any) -> dict[str, Any]:
        """Walk a journey, and return what was seen."""
        own = {"site": self.url, "library": str(self.library)}
        return journey_walks.walk(self.programs, "journeys.mjs", setting, own | options)


@pytest.fixture(scope="session")
def running_site(
    tmp_path_factory: pytest.TempPathFactory, browser_programs: BrowserPrograms
) -> Iterator[RunningSite]:
    with running(tmp_path_factory.mktemp("journeys"), browser_programs) as site:
        yield site


@contextmanager
def running(folder: Path, programs: BrowserPrograms) -> Iterator[RunningSite]:
    """Yield the whole service with six days of invented papers."""
    port = free_port()
    settings = {
        "LISTEN": f"127.0.0.1:{port}",
        "BASE_URL": f"http://127.0.0.1:{port}",
        "SITE_NAME": "Oslo Vision Lab",
    }
    library = folder / "library.bib"
    library.write_text(invented_week.library())
    with installation(folder / "home", settings=settings) as ours:
        ours.run("init")
        invented_week.load(ours, folder)
        ours.open()
        ours.wait_until("the site", lambda: answers(f"{settings['BASE_URL']}/healthz"))
        yield RunningSite(url=settings["BASE_URL"], programs=programs, library=library)
        ours.stop()


@pytest.mark.parametrize("setting", journey_walks.every_setting(JOURNEYS))
def test_a_visitor_reaches_the_end_of_the_journey(
    running_site: RunningSite, is_full: bool, setting: Setting
) -> None:
    if not is_full and setting not in SHORT:
        pytest.skip("every journey in every setting: JUDGE=full make judge")
    journey, _device, _scheme, has_script = setting

    seen = running_site.walk(setting)

    journey_walks.check_what_was_seen(seen, running_site.url)
    if journey in SUBSCRIBES:
        zone = "Oslo" if has_script else "UTC"
        assert any(words in seen["preview"] for words in ("papers a day", "paper a day", "No papers so far"))
        assert TOPICS[journey] in seen["steps"]["confirm"]
        assert f"Every day at 08:00, {zone} · " in seen["steps"]["confirm"]
        assert f"08:00, {zone}" in seen["steps"]["confirmed"]
        if journey != "library":  # the papers of a library are not sent
            assert seen["steps"]["confirm"].count("arxiv") + seen["steps"]["confirm"].count("PDF") >= 3
            assert seen["steps"]["confirmed"].count("PDF") == 3
    elif journey == "corrections":
        assert (seen["filter"], seen["robots"]) == ("robot* AND (arm", True)
        assert seen["changed"]["filter"] == "robot* AND arm"
        assert seen["changed"]["robots"] is True
        assert seen["changed"]["email"].startswith("corrections-")
    else:
        assert "Robots" in seen["letter"]
