"""Sources are polled correctly on both databases, however the server misbehaves."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from sqlalchemy import Engine, func, select
from sqlalchemy.orm import Session

from digest import db
from digest.db.tables.dumps import DumpRow, DumpState, HostRow, SourceRow
from digest.db.tables.papers import PaperRow, SignalRow
from digest.dumps.sources import polling, stored_sources
from digest.dumps.sources.http_fetch import Fetcher
from digest.dumps.sources.polling import PollContext
from digest.errors import BadField, NotFound
from digest.monitoring import problems
from digest.site.site_profile import Site
from tests.conftest import NOW
from tests.dumps import abstract
from tests.dumps.sources.paper_server import Papers, breaks_off, refuses, says, sends_on
from tests.support.clock import Clock
from tests.support.waiting import current_time

TODAY = NOW.date()


@dataclass
class PollingWorld:
    """A database, a server and a clock."""

    session: Session
    papers: Papers
    folder: Path
    clock: Clock

    def context(self, **choices: Any) -> PollContext:
        given: dict[str, Any] = {
            "session": self.session,
            "fetcher": Fetcher(agent="paper-digest/0 (+https://digest.example.org)", loopback=True),
            "folder": self.folder,
            "now": self.clock.now,
            "clock": self.clock,
            "wait": self.clock.wait,
        }
        return PollContext(**given | choices)

    def add(self, name: str, **choices: Any) -> None:
        stored_sources.add(self.session, name, now=self.clock.now, url=self.papers.url, **choices)
        self.session.commit()

    def poll(self, *names: str, **choices: Any) -> list[polling.PollResult]:
        return polling.poll(self.context(**choices), names=names or None)

    def row(self, name: str) -> SourceRow:
        return stored_sources.get(self.session, name)

    def titles(self) -> list[str]:
        return sorted(self.session.scalars(select(PaperRow.title)))


@pytest.fixture
def world(session: Session, papers: Papers, tmp_path: Path) -> PollingWorld:
    return PollingWorld(session=session, papers=papers, folder=tmp_path / "sources", clock=Clock(NOW))


def hf(*titles: str, votes: int = 7, day: str = "2026-11-20") -> str:
    """A day's page of Hugging Face, with invented papers."""
    return json.dumps(
        [
            {
                "paper": {
                    "id": f"2611.{number:05d}",
                    "authors": [{"name": "Ada Okafor"}],
                    "title": title,
                    "summary": abstract(title.casefold()),
                    "publishedAt": f"{day}T00:00:00.000Z",
                    "submittedOnDailyAt": f"{day}T01:00:00.000Z",
                    "upvotes": votes,
                    "discussionId": "x",
                },
                "numComments": 1,
            }
            for number, title in enumerate(titles, start=hash_of(titles))
        ]
    )


def hash_of(titles: tuple[str, ...]) -> int:
    return crc32("".join(titles).encode()) % 90_000


def hf_path(day: int) -> str:
    return f"/?date=2026-11-{day:02d}&limit=100"


def atom(*titles: str) -> str:
    """An arXiv announcement."""
    entries = "".join(
        f"<entry><id>oai:arXiv.org:2611.{number:05d}v1</id><title>{title}</title>"
        f'<link href="https://arxiv.org/abs/2611.{number:05d}"/>'
        f"<summary>arXiv:2611.{number:05d}v1 Announce Type: new\nAbstract: {abstract(title)}</summary>"
        "<arxiv:announce_type>new</arxiv:announce_type><dc:creator>Ada Okafor</dc:creator>"
        "<published>2026-11-20T00:00:00-05:00</published></entry>"
        for number, title in enumerate(titles, start=500)
    )
    return (
        '<?xml version="1.0"?><feed xmlns="http://www.w3.org/2005/Atom" xmlns:arxiv="http://arxiv.org/schemas/atom"'
        f' xmlns:dc="http://purl.org/dc/elements/1.1/"><title>cs.CL</title>{entries}</feed>'
    )


def rxiv(*titles: str, total: int | None = None) -> str:
    """A page of bioRxiv's API."""
    found = [
        {
            "doi": f"10.1101/{crc32(title.encode())}",
            "title": title,
            "authors": "Okafor, A.; Ito, K.",
            "author_corresponding": "Ada Okafor",
            "date": "2026-11-20",
            "version": "1",
            "type": "new results",
            "category": "ecology",
            "abstract": abstract(title),
            "server": "bioRxiv",
        }
        for title in titles
    ]
    reported_total = len(titles) if total is None else total
    return json.dumps(
        {
            "messages": [{"status": "ok", "count": len(titles), "total": str(reported_total)}],
            "collection": found,
        }
    )


# ── what is fetched is read ─────────────────────────────────────────────────────────────────────


def test_a_fetched_list_is_news_with_its_figures_and_its_source(world: PollingWorld) -> None:
    world.papers.answers[hf_path(20)] = says(hf("Kites That Steer", votes=12))
    world.papers.answers[hf_path(19)] = world.papers.answers[hf_path(18)] = says("[]")
    world.add("hf-daily")

    (polled,) = world.poll()

    assert (polled.state, polled.result, polled.requests) == ("loaded", "1 paper, 1 new", 3)
    paper, dump = world.session.scalars(select(PaperRow)).one(), world.session.scalars(select(DumpRow)).one()
    assert (paper.title, paper.first_seen_at, paper.is_history) == ("Kites That Steer", NOW, False)
    assert (dump.source, dump.format, Path(dump.path).exists()) == ("hf-daily", "hf-json", True)
    assert dict(world.session.execute(select(SignalRow.name, SignalRow.value)).all()) == {
        "upvotes": 12,
        "comments": 1,
    }
    row = world.row("hf-daily")
    assert (row.failures, row.polled_at, row.next_poll_at) == (0, NOW, NOW + timedelta(hours=3))


def test_a_later_poll_stores_the_new_votes(world: PollingWorld) -> None:
    quiet = says("[]")
    world.papers.answers = {hf_path(day): quiet for day in (18, 19)} | {
        hf_path(20): says(hf("Kites", votes=5))
    }
    world.add("hf-daily")
    world.poll()
    world.papers.answers[hf_path(20)] = says(hf("Kites", votes=50))
    world.clock.now = NOW + timedelta(hours=4)

    (polled,) = world.poll()

    votes = select(SignalRow.value).where(SignalRow.name == "upvotes").order_by(SignalRow.observed_at)
    assert (polled.new, world.session.scalars(votes).all()) == (0, [5, 50])


def test_nothing_is_polled_before_it_is_due_nor_what_was_never_turned_on(world: PollingWorld) -> None:
    assert world.poll() == []
    world.papers.answers["/cs.CL"] = says(atom("Kites"), kind="application/atom+xml")
    world.add("arxiv:cs.CL")
    world.poll()

    assert world.poll() == []
    assert len(world.poll("arxiv:cs.CL")) == 1
    world.clock.now += timedelta(hours=1)
    assert len(world.poll()) == 1
    assert len(world.papers.requests) == 3


def test_an_unchanged_list_is_not_fetched_again(world: PollingWorld) -> None:
    world.papers.answers["/cs.CL"] = says(
        atom("Kites", "Owls"), kind="application/atom+xml", ETag='"monday"', Last_Modified="Fri, 20 Nov 2026 05:00:00 GMT"
    )  # fmt: skip
    world.add("arxiv:cs.CL")

    first, second = world.poll()[0], world.poll("arxiv:cs.CL")[0]

    assert (first.state, second.state, world.titles()) == ("loaded", "unchanged", ["Kites", "Owls"])
    assert "If-None-Match" not in world.papers.requests[0][1]
    assert world.papers.requests[1][1]["If-None-Match"] == '"monday"'
    assert world.papers.requests[1][1]["If-Modified-Since"] == "Fri, 20 Nov 2026 05:00:00 GMT"


def test_the_same_bytes_again_change_nothing_and_are_kept_once(world: PollingWorld) -> None:
    world.papers.answers["/cs.CL"] = says(atom("Kites"), kind="application/atom+xml")
    world.add("arxiv:cs.CL")
    world.poll()
    world.clock.now += timedelta(hours=2)

    (again,) = world.poll()

    assert (again.state, len([*world.folder.glob("*/*")])) == ("unchanged", 1)


@pytest.mark.parametrize(
    ("name", "path", "answer"),
    [
        ("arxiv:cs.CL", "/cs.CL", says(atom(), kind="application/atom+xml")),
        ("biorxiv", "/2026-11-20/2026-11-20/0/json", says(rxiv())),
        ("biorxiv", "/2026-11-20/2026-11-20/0/json", says('{"messages":[{"status":"no posts found"}],"collection":[]}')),
        ("https://papers.example.org/x", "", says("")),
    ],
    ids=["arxiv", "biorxiv", "no posts", "nothing"],
)  # fmt: skip
def test_an_empty_answer_is_not_an_error_and_stores_no_dump(
    world: PollingWorld, name: str, path: str, answer: Any
) -> None:
    world.papers.answers[path or "/"] = answer
    world.add(name)

    (polled,) = world.poll()

    assert (polled.state, polled.is_fine, polled.dumps) == ("unchanged", True, ())
    assert world.session.scalar(select(func.count()).select_from(DumpRow)) == 0
    assert [*world.folder.glob("*/*")] == []


def test_a_day_that_has_not_begun_at_hugging_face_is_not_an_error(world: PollingWorld) -> None:
    world.papers.answers = {
        hf_path(20): refuses(400),
        hf_path(19): says(hf("Kites")),
        hf_path(18): says("[]"),
    }
    world.add("hf-daily")

    (polled,) = world.poll()

    assert (polled.is_fine, world.titles()) == (True, ["Kites"])


def test_pages_are_followed_to_the_end(world: PollingWorld) -> None:
    titles = [f"Owls of Valley {number:03d}" for number in range(150)]
    start = "/2026-11-20/2026-11-20"
    world.papers.answers = {
        f"{start}/0/json": says(rxiv(*titles[:100], total=150)),
        f"{start}/100/json": says(rxiv(*titles[100:], total=150)),
    }
    world.add("biorxiv")

    (polled,) = world.poll()

    assert (polled.requests, polled.new, len(world.titles())) == (2, 150, 150)


def test_the_real_samples_are_read_as_a_server_would_send_them(world: PollingWorld, shared: Path) -> None:
    samples = shared / "samples"
    quiet = {hf_path(day): says("[]") for day in (18, 19)}
    world.papers.answers = quiet | {
        hf_path(20): says((samples / "hf_daily_papers" / "daily_papers.json").read_bytes()),
        "/math.OC": says((samples / "arxiv_rss" / "math.OC.atom").read_bytes(), kind="application/atom+xml"),
        "/2026-11-20/2026-11-20/0/json": says((samples / "biorxiv" / "details.json").read_bytes()),
        "/2026-11-20/2026-11-20/2/json": says(rxiv()),  # the sample says there are more
        "/": says((samples / "arxiv_email" / "q-fin.new.txt").read_bytes(), kind="text/plain"),
    }
    for name in ("hf-daily", "arxiv:math.OC", "biorxiv", "https://papers.example.org/q-fin"):
        world.add(name)

    found = {polled.source: polled for polled in world.poll()}

    assert {name: polled.state for name, polled in found.items()} == dict.fromkeys(found, "loaded")
    assert len(found) == 4
    assert all(polled.new for polled in found.values())


# ── the past ────────────────────────────────────────────────────────────────────────────────────


def test_the_past_is_fetched_as_history_seen_on_its_days_with_votes_of_today(world: PollingWorld) -> None:
    days = {day: says(hf(f"Kites of the {day}th", votes=day, day=f"2026-11-{day}")) for day in (17, 18, 19)}
    world.papers.answers = {hf_path(day): answer for day, answer in days.items()}
    world.add("hf-daily")
    progress: list[int] = []

    polled = polling.back_fill(world.context(), "hf-daily", days=3, progress=progress.append)

    assert (polled.state, polled.requests, polled.new, progress) == ("loaded", 3, 3, [1, 2, 3])
    rows = world.session.execute(
        select(PaperRow.first_seen_at, PaperRow.is_history).order_by(PaperRow.id)
    ).all()
    assert [tuple(row) for row in rows] == [
        (datetime(2026, 11, day, tzinfo=UTC), True) for day in (17, 18, 19)
    ]
    assert set(world.session.scalars(select(SignalRow.observed_at))) == {NOW}
    assert world.session.scalars(select(DumpRow.date).order_by(DumpRow.id)).all() == [
        date(2026, 11, day) for day in (17, 18, 19)
    ]


def test_the_past_is_fetched_politely_and_once(world: PollingWorld) -> None:
    world.papers.answers = {hf_path(day): says(hf(f"Kites {day}")) for day in range(10, 20)}
    world.add("hf-daily")

    polling.back_fill(world.context(), "hf-daily", days=10)
    again = polling.back_fill(world.context(), "hf-daily", days=10)

    assert (again.state, again.new) == ("unchanged", 0)
    assert (world.clock.now - NOW).total_seconds() >= 19  # a second between any two of twenty


def test_interrupted_history_keeps_the_loaded_days(world: PollingWorld) -> None:
    world.papers.answers = {hf_path(17): says(hf("Kites")), hf_path(18): refuses(500)}
    world.add("hf-daily")

    polled = polling.back_fill(world.context(), "hf-daily", days=3)

    assert (polled.state, polled.requests, world.titles()) == ("failed", 2, ["Kites"])
    assert polled.result == "The server returned 500 Internal Server Error."


# ── politeness ──────────────────────────────────────────────────────────────────────────────────


def test_arxiv_gets_one_request_in_three_seconds_from_all_sources(world: PollingWorld) -> None:
    for name in ("cs.CL", "cs.LG", "math.OC"):
        world.papers.answers[f"/{name}"] = says(atom(name), kind="application/atom+xml")
        world.add(f"arxiv:{name}")
    requested_at: list[datetime] = []

    class Noting(Fetcher):
        def fetch(self, *arguments: Any, **choices: Any) -> Any:
            requested_at.append(world.clock.now)
            return super().fetch(*arguments, **choices)

    world.poll(fetcher=Noting(agent="x", loopback=True))

    assert [(later - before).total_seconds() for before, later in pairwise(requested_at)] == [
        3,
        3,
    ]


def test_two_pollers_never_request_from_a_server_at_once(engine: Engine, papers: Papers) -> None:
    with db.write_session(engine) as one, db.write_session(engine) as other:
        until = NOW + timedelta(minutes=4)
        assert stored_sources.reserve_host(one, "arxiv.org", now=NOW, until=until) is None
        one.commit()
        assert stored_sources.reserve_host(other, "arxiv.org", now=NOW, until=until) == until
        other.commit()
        stored_sources.release_host(one, "arxiv.org", until=NOW + timedelta(seconds=3))
        one.commit()
        assert (
            stored_sources.reserve_host(other, "arxiv.org", now=NOW + timedelta(seconds=3), until=until)
            is None
        )


def test_a_source_is_polled_by_one_at_a_time(engine: Engine) -> None:
    with db.write_session(engine) as one, db.write_session(engine) as other:
        stored_sources.add(one, "biorxiv", now=NOW)
        one.commit()

        mine = stored_sources.claim(one, "biorxiv", now=NOW, is_forced=False)
        one.commit()
        yours = stored_sources.claim(other, "biorxiv", now=NOW, is_forced=False)
        other.commit()

        assert (mine is not None, yours) == (True, None)
        assert (
            stored_sources.claim(other, "biorxiv", now=NOW + stored_sources.CLAIM_TIME, is_forced=False)
            is not None
        )


def test_retry_after_holds_for_every_source_of_a_server(world: PollingWorld) -> None:
    world.papers.answers = {"/cs.CL": refuses(429, Retry_After="7200")}
    world.add("arxiv:cs.CL")
    world.clock.now += timedelta(seconds=1)
    world.add("arxiv:cs.LG")

    first, second = world.poll()

    assert (first.state, first.result) == ("failed", "The server returned 429 Too Many Requests.")
    assert first.next_poll_at == NOW + timedelta(seconds=1, hours=2)
    assert "accepts no requests until 2026-11-20 10:00 UTC" in second.result
    assert second.next_poll_at is not None
    assert second.next_poll_at >= NOW + timedelta(hours=2)
    assert world.papers.paths == ["/cs.CL"]


def test_the_backoff_doubles_with_each_failure_and_resets_with_success(world: PollingWorld) -> None:
    world.papers.answers["/cs.CL"] = refuses(503)
    world.add("arxiv:cs.CL")
    waits = []
    for _ in range(3):
        before = world.clock.now
        (polled,) = world.poll()
        assert polled.next_poll_at is not None
        waits.append((polled.next_poll_at - before).total_seconds() / 60)
        world.clock.now = polled.next_poll_at
    world.papers.answers["/cs.CL"] = says(atom("Kites"), kind="application/atom+xml")

    world.poll()

    assert waits == [5, 10, 20]
    assert (world.row("arxiv:cs.CL").failures, world.titles()) == (0, ["Kites"])


# ── misfortune ──────────────────────────────────────────────────────────────────────────────────

ATOM = "application/atom+xml"
MISFORTUNES: dict[str, tuple[Any, str]] = {
    "gone": (refuses(410), "returned 410"),
    "page": (
        says("<html>Please log in</html>", kind="text/html"),
        "returned 'text/html', which cannot contain papers",
    ),
    "json": (says("[]", kind="application/json"), "cannot contain papers"),
    "short": (breaks_off(atom("Kites").encode(), after=200), "The request to "),
    "plain http": (sends_on("http://93.184.216.34/"), "not an https URL"),
    "ftp": (sends_on("ftp://arxiv.example/"), "not an https URL"),
}


@pytest.mark.parametrize("misfortune", MISFORTUNES)
def test_a_failed_poll_is_reported_and_retried_later(
    world: PollingWorld, misfortune: str, caplog: pytest.LogCaptureFixture
) -> None:
    world.papers.answers["/cs.CL"], reason = MISFORTUNES[misfortune]
    world.add("arxiv:cs.CL")

    class Outside(Fetcher):
        """The first address is the test's own; beyond it the rules of the open internet hold."""

        @property
        def schemes(self) -> tuple[str, ...]:
            return ("https", "http") if not self.requested_hosts else ("https",)

    (polled,) = world.poll(fetcher=Outside(agent="x", loopback=True))

    assert (polled.state, polled.dumps, world.row("arxiv:cs.CL").failures) == ("failed", (), 1)
    assert reason in polled.result
    assert polled.next_poll_at == NOW + timedelta(minutes=5)
    assert [*world.folder.glob("*/*")] == []
    assert "source arxiv:cs.CL" in caplog.text


def test_a_list_that_breaks_off_inside_is_held_or_sent_as_the_operator_says(world: PollingWorld) -> None:
    whole = hf("Kites", "Owls")
    world.papers.answers["/"] = says(whole[: len(whole) - 300], ETag='"x"')
    world.add("https://papers.example.org/list")

    (held,) = world.poll()
    (sent,) = world.poll("https://papers.example.org/list", incomplete_ok=True)

    assert (held.state, held.is_fine, sent.state) == ("held", False, "loaded")
    assert held.result.startswith("The dump is incomplete: the file ends in the middle of its list")
    assert "If-None-Match" not in world.papers.requests[1][1]  # it may be whole the next time
    assert world.titles() == ["Kites"]
    assert world.session.scalars(select(DumpRow.state)).all() == [DumpState.LOADED]


def test_an_answer_without_papers_is_rejected_and_its_file_kept(world: PollingWorld) -> None:
    world.papers.answers["/"] = says("Come back tomorrow.", kind="text/plain")
    world.add("https://papers.example.org/list")

    (polled,) = world.poll()

    assert (polled.state, len([*world.folder.glob("*/*")])) == ("rejected", 1)
    assert world.session.scalars(select(DumpRow.state)).all() == [DumpState.REJECTED]


def test_a_source_that_fails_for_hours_is_reported_to_the_operator(world: PollingWorld) -> None:
    world.add("arxiv:cs.CL")
    before = []
    for _ in range(problems.FAILING_AFTER):
        before.append(problems.find_problems(world.session, now=world.clock.now))
        (polled,) = world.poll("arxiv:cs.CL")
        world.clock.now = polled.next_poll_at or NOW

    (problem,) = problems.find_problems(world.session, now=world.clock.now)

    assert before == [[]] * problems.FAILING_AFTER
    assert problem.facts == ("arxiv:cs.CL: The server returned 404 Not Found. (6 times)",)


def test_one_source_that_fails_does_not_keep_others_waiting(world: PollingWorld) -> None:
    world.papers.answers["/cs.LG"] = says(atom("Kites"), kind=ATOM)
    world.add("arxiv:cs.CL")
    world.add("arxiv:cs.LG")

    assert [polled.state for polled in world.poll()] == ["failed", "loaded"]


# ── the register ────────────────────────────────────────────────────────────────────────────────


def test_adding_a_source_again_updates_it(world: PollingWorld) -> None:
    world.add("hf-daily", interval=timedelta(hours=1))
    world.row("hf-daily").since = date(2026, 1, 1)
    world.add("hf-daily", order="ranked")

    (row,) = stored_sources.list_sources(world.session)
    assert (row.interval_seconds, row.order, row.since) == (3600, "ranked", date(2026, 1, 1))


def test_a_source_that_is_removed_is_polled_no_more_and_its_papers_stay(world: PollingWorld) -> None:
    world.papers.answers["/cs.CL"] = says(atom("Kites"), kind=ATOM)
    world.add("arxiv:cs.CL")
    world.poll()

    stored_sources.remove(world.session, "arxiv:cs.CL")

    assert (stored_sources.list_sources(world.session), world.titles()) == ([], ["Kites"])
    with pytest.raises(NotFound):
        world.poll("arxiv:cs.CL")


@pytest.mark.parametrize("interval", [timedelta(minutes=1), timedelta(days=8)])
def test_an_interval_outside_the_limits_is_refused(world: PollingWorld, interval: timedelta) -> None:
    with pytest.raises(BadField):
        world.add("hf-daily", interval=interval)


def test_fetched_files_are_kept_for_a_month(world: PollingWorld) -> None:
    world.papers.answers["/cs.CL"] = says(atom("Kites"), kind=ATOM)
    world.add("arxiv:cs.CL")
    world.poll()

    assert polling.delete_old_files(world.folder, current_time() + timedelta(days=29)) == 0
    assert polling.delete_old_files(world.folder, current_time() + timedelta(days=32)) == 1


@pytest.mark.parametrize(
    "name", ["arxiv:cs.CL+cs.LG", "https://papers.example.org/../../etc/passwd?x=1", "hf-daily"]
)
def test_no_source_name_leads_out_of_its_folder(name: str) -> None:
    made = polling.folder_name(name)

    assert Path(made).name == made
    assert not made.startswith(".")


def test_the_user_agent_names_the_site_and_its_address(site: Site) -> None:
    agent = polling.fetcher_of(site, "1.2").agent

    assert agent == "paper-digest/1.2 (+https://digest.example.org; digest@example.org)"


def test_no_setting_allows_private_networks(site: Site) -> None:
    assert polling.fetcher_of(site, "1.2").loopback is False


def test_hosts_are_remembered_by_name_only(world: PollingWorld) -> None:
    world.papers.answers["/cs.CL"] = says(atom("Kites"), kind=ATOM)
    world.add("arxiv:cs.CL")
    world.poll()

    assert world.session.scalars(select(HostRow.name)).all() == ["127.0.0.1"]
