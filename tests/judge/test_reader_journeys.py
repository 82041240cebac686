"""Use the pages of a reader in a real Chromium: with and without script, on phones and desktops."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from sqlalchemy.orm import Session

from digest import links, subscribers
from digest.app_context import AppContext
from digest.db.tables import DumpRow, DumpState, Subscriber, SubscriberState
from digest.papers import Record, catalog
from digest.settings import load_settings
from digest.web import create_app
from tests.judge.installed_programs import npm_package
from tests.support.real_servers import free_port

NOW = datetime(2026, 11, 20, 8, tzinfo=UTC)
JOURNEYS = ("settings", "undo", "less", "pause", "unsubscribe", "account", "why")
#: (journey, device, color scheme, has script): in the short form each journey once, and each setting at least once.
SHORT = (
    ("settings", "phone", "light", True),
    ("undo", "desktop", "light", False),
    ("less", "phone", "dark", True),
    ("pause", "desktop", "dark", False),
    ("unsubscribe", "phone", "light", True),
    ("account", "desktop", "dark", True),
    ("why", "phone", "light", True),
)
FULL = tuple(product(JOURNEYS, ("phone", "desktop"), ("light", "dark"), (True, False)))
TITLES = (
    "Flow Matching in Twelve Lines", "Borrowed Light: Relighting Rooms with Diffusion", "Diffusion for Knee Tomography",
    "Diffusion Maps of Cartilage Tomography", "Low-Dose Tomography by Diffusion", "Score-Based Diffusion on Graphs",
    "Fast Diffusion Sampling", "Video Diffusion with Memory", "Diffusion, Distilled", "Diffusion at the Edge",
    "When Should a Robot Ask? The Price of a Question", "Grasping Without Looking: A Robot in the Dark",
    "Robots That Fold Laundry", "Language Models Forget Politely", "Parsing with Few Examples",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ReaderSite:
    """The site on this machine, and the programs that use it."""

    context: AppContext
    node: str
    chromium: str
    axe: Path

    def add_reader(self, email: str) -> Subscriber:
        """Add a reader with two topics."""
        with Session(self.context.engine.execution_options(writing=True), expire_on_commit=False) as session:
            reader = subscribers.add(
                session, email, state=SubscriberState.ACTIVE, consent="asked", now=NOW,
                topics={"Diffusion": 'diffusion OR "flow matching"', "Robots": "robot*"},
            )  # fmt: skip
            session.commit()
            return reader

    def urls_of(self, reader: Subscriber) -> dict[str, str]:
        """Return the addresses of a reader's pages."""
        site, who = self.context.site, (reader.id, reader.link_version)
        with Session(self.context.engine) as session:
            paper = catalog.find(session, "Diffusion for Knee Tomography").id
        settings = links.manage_url(site, *who)
        return {
            "settings": settings,
            "why": f"{settings}/why",
            "less": links.less_url(links.feedback_url(site, *who), paper),
            "leave": links.unsubscribe_url(site, *who),
            "account": links.account_url(site, *who, int(NOW.timestamp())),
        }

    def walk(
        self, journey: str, device: str, scheme: str, *, has_script: bool, pictures: str = ""
    ) -> dict[str, Any]:
        """Make a journey as a new reader, and return what was seen."""
        script = "script" if has_script else "plain"
        reader = self.add_reader(f"{journey}-{device}-{scheme}-{script}@example.org")
        options = {
            "journey": journey, "urls": self.urls_of(reader), "chromium": self.chromium, "device": device,
            "scheme": scheme, "hasScript": has_script, "axe": str(self.axe), "pictures": pictures,
        }  # fmt: skip
        path = Path(__file__).with_name("reader_journeys.mjs")
        done = subprocess.run(
            [self.node, str(path), str(npm_package("playwright-core")), json.dumps(options)],
            capture_output=True, text=True, timeout=180, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        seen: dict[str, Any] = json.loads(done.stdout)
        return seen


@pytest.fixture(scope="session")
def reader_site(
    tmp_path_factory: pytest.TempPathFactory, node: str, chromium: str, axe: Path
) -> Iterator[ReaderSite]:
    """Serve the site with papers of twelve days, on a clock that stands still."""
    port = free_port()
    settings = load_settings(
        {"data_dir": tmp_path_factory.mktemp("readers"), "port": port, "site_name": "Oslo Vision Lab"}
    )
    app = create_app(settings, clock=lambda: NOW)
    context: AppContext = app.state.context
    add_papers(context)
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    yield ReaderSite(context=context, node=node, chromium=chromium, axe=axe)
    server.should_exit = True
    thread.join()


def add_papers(context: AppContext) -> None:
    """Store a list of invented papers for each of twelve days."""
    with Session(context.engine.execution_options(writing=True)) as session:
        for back in range(11, -1, -1):
            at = NOW - timedelta(days=back)
            dump = DumpRow(
                sha256=f"{back:064d}", path=f"{at.date()}.txt", state=DumpState.LOADED, observed_at=at,
                read_at=at, date=at.date(),
            )  # fmt: skip
            session.add(dump)
            session.flush()
            catalog.add(session, list(papers_of(back)), dump=dump)
        session.commit()


def papers_of(back: int) -> Iterator[Record]:
    """Yield the papers of one day; those of today have the plain titles."""
    for place, title in enumerate(TITLES):
        yield Record(
            title=f"{title}, Part {back}" if back else title,
            abstract=f"We measure number {place * 31 + back}.",
            authors=("Yuki Ito", "Ada Okafor"),
            categories=("cs.CV" if "omography" in title else "cs.LG",),
            position=place + 1,
            signals={"upvotes": 90.0 - place},
        )


@pytest.mark.parametrize(("journey", "device", "scheme", "has_script"), FULL)
def test_a_reader_reaches_the_end_of_the_journey(
    reader_site: ReaderSite, is_full: bool, journey: str, device: str, scheme: str, has_script: bool
) -> None:
    if not is_full and (journey, device, scheme, has_script) not in SHORT:
        pytest.skip("every journey in every setting: JUDGE=full make judge")

    seen = reader_site.walk(journey, device, scheme, has_script=has_script)

    assert seen["violations"] == []
    assert [one for one in seen["errors"] if "422" not in one] == []
    assert all(url.startswith(reader_site.context.site.url) for url in seen["requests"])
    steps = seen["steps"]
    match journey:
        case "settings":
            assert "Diffusion about 10 a day" in steps["settings"]
            assert "Added the topic “Memory” (forget*)." in steps["settings-added"]
            assert "“Forgetting”" in steps["settings-muted"]
        case "less":
            assert "Drops 12 of 120 papers of the last 12 days" in steps["less"]
            assert "Saved. “Diffusion” is now" in steps["less-applied"]
        case "why":
            assert "Language Models Forget Politely" in steps["why"]
