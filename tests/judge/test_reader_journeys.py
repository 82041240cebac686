"""Use the pages of a reader in a real Chromium: with and without script, on phones and desktops."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import uvicorn
from sqlalchemy.orm import Session

from digest.app_context import AppContext, open_context
from digest.db.tables.dumps import DumpRow, DumpState
from digest.db.tables.subscribers import Subscriber, SubscriberState
from digest.papers.catalog import hidden_papers, match_or_add_records, queries
from digest.papers.paper_record import Record
from digest.settings import load_settings
from digest.site import links
from digest.subscribers import subscriber_rows
from digest.web.app import create_app
from tests.judge import journey_walks
from tests.judge.journey_walks import BrowserPrograms, Setting
from tests.support.real_servers import free_port

NOW = datetime(2026, 11, 20, 8, tzinfo=UTC)
JOURNEYS = (
    "settings", "undo", "less", "save", "pause", "unsubscribe", "account", "why", "letter-links", "archive", "problems",
)  # fmt: skip
#: (journey, device, color scheme, has script): the short suite has each journey once and each setting at least once.
SHORT = (
    ("settings", "phone", "light", True),
    ("undo", "desktop", "light", False),
    ("less", "phone", "dark", True),
    ("pause", "desktop", "dark", False),
    ("unsubscribe", "phone", "light", True),
    ("account", "desktop", "dark", True),
    ("why", "phone", "light", True),
    ("save", "phone", "dark", False),
    ("letter-links", "phone", "light", True),
    ("archive", "phone", "dark", True),
    ("problems", "desktop", "light", True),
)
#: What some steps of the journeys show.
EXPECTED = {
    "settings": (
        ("settings", "Diffusion about 10 papers a day"), ("settings-added", "Added the topic “Memory” (forget*)."),
        ("settings-muted", "“Forgetting”"),
    ),
    "less": (
        ("less", "Drops 108 of 120 papers of the last 12 days"), ("less-applied", "Saved. “Diffusion” is now"),
    ),
    "save": (("save-saved", "Saved to your list."), ("saved", "Diffusion for Knee Tomography")),
    "account": (("new-address", "when you confirm"), ("erased", "Your data is erased.")),
    "why": (("why", "Language Models Forget Politely"),),
    "letter-links": (
        ("letter-links-paused", "Paused until 27 November 2026."), ("new-address-done", "Your address was changed."),
    ),
    "archive": (("day", "19 November"), ("paper", "On the list")),
    "problems": (("removed", "This paper was removed"), ("cut-error", "is not a valid email address")),
}  # fmt: skip
HIDDEN = "Parsing with Few Examples"  #: a paper that the operator hides
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
    programs: BrowserPrograms

    def add_reader(self, email: str) -> Subscriber:
        """Add a reader with two topics."""
        with Session(self.context.engine.execution_options(writing=True), expire_on_commit=False) as session:
            reader = subscriber_rows.add(
                session, email, state=SubscriberState.ACTIVE, consent="asked", now=NOW,
                topics={"Diffusion": 'diffusion OR "flow matching"', "Robots": "robot*"},
            )  # fmt: skip
            session.commit()
            return reader

    def urls_of(self, reader: Subscriber) -> dict[str, str]:
        """Return the addresses of a reader's pages."""
        site, who = self.context.site, (reader.id, reader.link_version)
        with Session(self.context.engine) as session:
            paper, hidden = (
                queries.find(session, title).id for title in ("Diffusion for Knee Tomography", HIDDEN)
            )
        settings = links.manage_url(site, *who)
        return {
            "settings": settings,
            "why": f"{settings}/why",
            "less": links.less_url(links.feedback_url(site, *who), paper),
            "leave": links.unsubscribe_url(site, *who),
            "account": links.account_url(site, *who, int(NOW.timestamp())),
            "newAddress": links.new_address_url(
                site, *who, f"new-{reader.id}@example.org", int(NOW.timestamp())
            ),
            "save": links.save_url(site, *who, paper),
            "saved": f"{settings}/saved",
            "topicLinks": links.topic_links_url(site, *who),
            "paper": links.paper_url(site, paper),
            "hidden": links.save_url(site, *who, hidden),
            "days": f"{site.url}/days",
            "nowhere": f"{site.url}/nowhere",
            "cut": settings[:-2],
        }

    def walk(self, setting: Setting, **options: Any) -> dict[str, Any]:
        """Walk a journey as a new reader, and return what was seen."""
        journey, device, scheme, has_script = setting
        reader = self.add_reader(f"{journey}-{device}-{scheme}-{has_script}@example.org")
        own = {"urls": self.urls_of(reader)}
        return journey_walks.walk(self.programs, "reader_journeys.mjs", setting, own | options)


@pytest.fixture(scope="session")
def reader_site(
    tmp_path_factory: pytest.TempPathFactory, browser_programs: BrowserPrograms
) -> Iterator[ReaderSite]:
    """Serve the site with papers of twelve days, on a clock that stands still."""
    port = free_port()
    settings = load_settings(
        {
            "data_dir": tmp_path_factory.mktemp("readers"),
            "listen": f"127.0.0.1:{port}",
            "site_name": "Oslo Vision Lab",
        }
    )
    app = create_app(open_context(settings, clock=lambda: NOW))
    context: AppContext = app.state.context
    add_papers(context)
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    yield ReaderSite(context=context, programs=browser_programs)
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
            match_or_add_records.add(session, list(papers_of(back)), dump=dump)
        hidden_papers.hide(session, HIDDEN, now=NOW)
        session.commit()


def papers_of(back: int) -> Iterator[Record]:
    """Yield the papers of one day; those of today have the plain titles."""
    for place, title in enumerate(TITLES):
        yield Record(
            title=f"{title}, Part {back}" if back else title,
            abstract=f"We measure number {place * 31 + back}.",
            authors=("Yuki Ito", "Ada Okafor"),
            categories=("cs.CV" if "omography" in title else "cs.LG",),
            signals={"upvotes": 90.0 - place},
        )


@pytest.mark.parametrize("setting", journey_walks.every_setting(JOURNEYS))
def test_a_reader_reaches_the_end_of_the_journey(
    reader_site: ReaderSite, is_full: bool, setting: Setting
) -> None:
    if not is_full and setting not in SHORT:
        pytest.skip("every journey in every setting: JUDGE=full make judge")

    seen = reader_site.walk(setting)

    journey_walks.check_what_was_seen(seen, reader_site.context.site.url)
    for step, words in EXPECTED.get(setting[0], ()):
        assert words in seen["steps"][step]
